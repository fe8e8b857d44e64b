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

#include "daemon/server/state/held_replies.h"
#include "daemon/store/ticket.h"
#include "proto/output_buffer.h"
#include "proto/reply_writer.h"

namespace locksley::daemon {

// The replies of one connection in their order: first those that may be sent, then those that are held until
// the store has written what they report, with all replies after them.
//
// A member of a Session. The I/O thread only. Nothing blocks. take_all() comes before the HeldReplies queue ends.
class SessionOutput {
 public:
  // `queue`: of all connections. `settled`: called once for each held ticket, in their order; it calls
  // release().
  SessionOutput(HeldReplies& queue, HeldReplies::Settled settled)
      : queue_(queue), settled_(std::move(settled)) {}
  SessionOutput(const SessionOutput&) = delete;
  SessionOutput& operator=(const SessionOutput&) = delete;

  // Replies that may be sent now. Messages of subscriptions go here, too: they wait for nothing.
  proto::OutputBuffer& sendable() { return sendable_; }
  const proto::OutputBuffer& sendable() const { return sendable_; }
  // Where the next reply goes.
  proto::OutputBuffer& end() { return held_.empty() ? sendable_ : held_.back().bytes; }
  // Takes one reply that the client does not want.
  proto::OutputBuffer& muted() {
    muted_ = std::make_unique<proto::OutputBuffer>();
    return *muted_;
  }

  // Takes that reply, to free it once its command is over; null: there is none.
  std::unique_ptr<proto::OutputBuffer> take_muted() { return std::move(muted_); }

  bool is_held() const { return !held_.empty(); }
  bool empty() const { return sendable_.empty() && held_.empty(); }
  // Bytes that were written and not sent.
  std::size_t size() const;
  std::size_t memory_bytes() const;

  // Replies that are written from now on wait for this ticket; if the replies before them wait for a later ticket, for
  // that one.
  // Needs: no outcome has covered the ticket.
  void hold(Ticket ticket);
  // What was written between `begin` and `end` of end() since hold() is a reply that turns into an error if
  // the store fails.
  void mark(std::size_t begin, std::size_t end);
  // The first held replies may be sent. If `error` is not empty, it stands in place of each reply that was
  // marked. Returns how many errors that made.
  std::size_t release(std::string_view error, proto::Protocol protocol);
  // The store's writer may send the held replies to this socket, if they are small, and no others are held, and few
  // connections wait (EarlyReplies). Until take_back_early() the socket must be left alone.
  void offer_early(int socket);
  // Ends that, and returns how many bytes were sent. Before anything else is sent, and before release().
  std::size_t take_back_early();
  // The replies that are written between these two calls are the parts of one reply. It becomes sendable as a whole:
  // after end_whole(), and after the store has settled every ticket that a part waits for. A part that reports a failed
  // write turns into an error by itself. There is one such reply at a time.
  void begin_whole();
  void end_whole();
  // Bytes of the parts that the reply under way has; 0: there is none.
  std::size_t whole_bytes() const;
  // Forgets everything, and waits for nothing any more. Returns what was not sent, for the caller to free.
  proto::OutputBuffer take_all();

 private:
  struct Held {
    struct Part {
      std::size_t begin;
      std::size_t end;
    };
    Ticket ticket;
    std::optional<HeldReplies::Place> place;  // none: it waits for the parts of a whole reply after it
    proto::OutputBuffer bytes;
    std::vector<Part> parts = {};  // of `bytes`: the marked replies
    // For a whole reply that has ended: the number of parts after it that the store has not settled.
    std::size_t unsettled = 0;
    std::optional<EarlyReplies::Place> early = {};  // only of the first

    bool is_whole() const { return !place.has_value(); }
  };

  // Its bytes, with the error in place of each marked reply.
  static void append_with_errors(proto::OutputBuffer& to, const Held& held, std::string_view error,
                                 proto::Protocol protocol);
  // The whole reply at that place, which has ended and waits for nothing, goes to the replies before it.
  void send_whole(std::size_t index);

  static constexpr std::size_t kHeldBytes = 256;  // of a Held and its node in HeldReplies; about

  HeldReplies& queue_;
  const HeldReplies::Settled settled_;
  proto::OutputBuffer sendable_;
  std::deque<Held> held_;                       // tickets ascend
  bool is_under_way_ = false;                   // begin_whole() was called, and end_whole() not yet
  std::size_t unsettled_ = 0;                   // of the reply that is under way: as Held::unsettled
  std::vector<Held::Part> spare_parts_;         // empty: memory for the parts of the next reply
  std::unique_ptr<proto::OutputBuffer> muted_;  // the last reply that was not wanted
};

}  // namespace locksley::daemon
