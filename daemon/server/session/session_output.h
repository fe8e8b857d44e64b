#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/state/held_replies.h"
#include "daemon/store/write/ticket.h"
#include "proto/output_buffer.h"
#include "proto/reply_writer.h"

namespace locksley::daemon {

// The replies of one connection in their order: first those that may be sent, then those that are
// held until the store has written what they report, with all replies after them. The store may
// refuse an earlier write and take a later one; so each held reply has the outcome of the writes
// that it reports, and of no others. The messages of its subscriptions are put in between.
//
// A member of a Session. The I/O thread only. Nothing blocks. take_all() comes before the
// HeldReplies queue ends.
class SessionOutput {
 public:
  // Numbers a run of consecutive held replies that report the same writes; very many are several
  // runs. The connection's first run has 0.
  using HeldNumber = std::uint64_t;
  using Settled = std::function<void(HeldNumber held, const std::string& error)>;

  // What one release() replaces by errors at most, but for the last reply. Guess: some 50 us.
  static constexpr std::size_t kMostMarked = 512;
  static constexpr std::size_t kMostBytes = 64 * 1024;

  // `queue`: of all connections. `settled`: called once for each ticket of each HeldNumber, in the
  // order of the tickets; it must call release() for `held`, with the text of the error reply.
  SessionOutput(HeldReplies& queue, Settled settled) : queue_(queue), settled_(std::move(settled)) {}
  SessionOutput(const SessionOutput&) = delete;
  SessionOutput& operator=(const SessionOutput&) = delete;

  // Replies and messages that may be sent now.
  proto::OutputBuffer& sendable() { return sendable_; }
  const proto::OutputBuffer& sendable() const { return sendable_; }
  // Where the next reply goes.
  proto::OutputBuffer& end() { return held_.empty() ? sendable_ : held_.back().bytes; }
  // Where the next message of a subscription goes: to sendable(), since it reports no write, unless
  // messages_follow() says otherwise. Never inside a whole reply.
  proto::OutputBuffer& messages() {
    if (messages_follow_reply_ <= sent_) return sendable_;
    set_apart(messages_follow_reply_ - 1);
    return entry(messages_follow_reply_ - 1).bytes;
  }
  // The messages from now on come after every reply that was written so far.
  // Needs: no whole reply is under way.
  void messages_follow();
  // Takes one reply that the client does not want.
  proto::OutputBuffer& muted() {
    muted_ = std::make_unique<proto::OutputBuffer>();
    return *muted_;
  }

  // Takes that reply, to free it once its command is over; null: there is none.
  std::unique_ptr<proto::OutputBuffer> take_muted() { return std::move(muted_); }

  bool is_held() const { return !held_.empty(); }
  bool empty() const { return sendable_.empty() && held_.empty(); }
  // Bytes that were written and not sent. O(1): asked for every command, and very many replies may
  // be held, each with a write of its own.
  std::size_t size() const;
  std::size_t memory_bytes() const;

  // Replies that are written from now on wait for this ticket, and go out after the replies before
  // them. `earlier`: the ticket of an earlier write that they report, too; 0: there is none.
  // Needs: no outcome has covered the tickets.
  void hold(Ticket ticket, Ticket earlier = 0) LOCKSLEY_REQUIRES(kIoThread);
  // What was written between `begin` and `end` of end() since hold() is a reply that turns into an
  // error if the store fails.
  void mark(std::size_t begin, std::size_t end);
  // A ticket of these replies has its outcome. If `error` is not empty, it stands in place of each
  // of them that was marked. Returns how many errors that made. What waits for nothing any more
  // becomes sendable.
  std::size_t release(HeldNumber held, std::string_view error, proto::Protocol protocol);
  // The store's writer may send the held replies to this socket, if they are small, and no others
  // are held, and few connections wait (EarlyReplies). Until take_back_early() the socket must be
  // left alone.
  void offer_early(int socket) LOCKSLEY_REQUIRES(kIoThread);
  // Ends that, and returns how many bytes were sent. Before anything else is sent, and before
  // release().
  std::size_t take_back_early();
  // The replies that are written between these two calls are the parts of one reply. It becomes
  // sendable as a whole: after end_whole(), and after the store has settled every ticket that a
  // part waits for. A part that reports a failed write turns into an error by itself. There is one
  // such reply at a time.
  void begin_whole();
  void end_whole();
  // Bytes of the parts that the reply under way has; 0: there is none.
  std::size_t whole_bytes() const;
  // Forgets everything, and waits for nothing any more. Returns what was not sent, for the caller
  // to free.
  proto::OutputBuffer take_all() LOCKSLEY_REQUIRES(kIoThread);

 private:
  struct Held {
    struct Part {
      std::size_t begin;
      std::size_t end;
    };
    using Place = std::optional<HeldReplies::Place>;

    Ticket ticket;
    Ticket earlier;       // 0: none
    Place place;          // none: the ticket has its outcome, or this is the beginning of a whole reply
    Place earlier_place;  // likewise
    proto::OutputBuffer bytes = {};
    std::vector<Part> parts = {};  // of `bytes`: the marked replies
    // Of the beginning of a whole reply: how many entries after it belong to it, and how many of
    // them wait for the store.
    bool is_whole = false;
    std::size_t members = 0;
    std::size_t unsettled = 0;
    std::optional<HeldNumber> whole = {};  // of an entry that belongs to a whole reply: that beginning
    std::optional<EarlyReplies::Place> early = {};  // only of the first
  };

  Held& entry(HeldNumber number) { return held_.at(number - sent_); }
  const Held& entry(HeldNumber number) const { return held_.at(number - sent_); }
  void push(Held held);
  // Of all held replies but the last, which grows.
  struct Sums {
    std::size_t bytes = 0;
    std::size_t memory = 0;
    void add(const Held& held) {
      bytes += held.bytes.size();
      memory += held.bytes.memory_bytes();
    }
    void subtract(const Held& held) {
      bytes -= held.bytes.size();
      memory -= held.bytes.memory_bytes();
    }
  };
  const Sums& sums() const;
  // The entry is about to change: it is no part of sums_ until sums() is called.
  void set_apart(HeldNumber number);
  // The entry that is added next has a place in the queue for this ticket.
  HeldReplies::Place place_for(Ticket ticket) LOCKSLEY_REQUIRES(kIoThread);
  // The error comes in place of each marked reply. What follows the last of them is not copied.
  static void replace_marked(Held& held, std::string_view error, proto::Protocol protocol);
  // The first entries that wait for nothing become sendable.
  void send_settled();

  static constexpr std::size_t kHeldBytes = 320;  // of a Held and its node in HeldReplies; about

  HeldReplies& queue_;
  const Settled settled_;
  proto::OutputBuffer sendable_;
  std::deque<Held> held_;
  mutable Sums sums_;
  mutable bool are_sums_old_ = false;           // other replies than the last have changed
  mutable std::optional<HeldNumber> apart_;     // set_apart(); not the last
  std::size_t whole_before_ = 0;                // bytes of the whole reply under way, without its last part
  HeldNumber sent_ = 0;                         // the number of held_.front(): how many were before it
  std::optional<HeldNumber> under_way_;         // the whole reply between begin_whole() and end_whole()
  HeldNumber messages_follow_reply_ = 0;        // the next message comes after all replies with lower numbers
  std::vector<Held::Part> spare_parts_;         // empty: memory for the parts of the next reply
  std::unique_ptr<proto::OutputBuffer> muted_;  // the last reply that was not wanted
};

}  // namespace locksley::daemon
