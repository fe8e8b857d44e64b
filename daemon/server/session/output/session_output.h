// The replies of one connection in their order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/session/output/held_segments.h"
#include "daemon/server/state/held_replies.h"
#include "daemon/store/write/ticket.h"
#include "proto/output_buffer.h"
#include "proto/reply_writer.h"

namespace locksley::daemon {

// The replies of one connection in their order: first those that may be sent, then those that
// report writes and are held until the store has made these, with all replies after them. The store
// may refuse an earlier write and take a later one; so each held reply has the outcome of the
// writes that it reports, and of no others (HeldSegments). The messages of its subscriptions are
// put in between.
//
// A member of a Session. The I/O thread only. Nothing blocks. take_all() comes before the
// HeldReplies queue ends.
class SessionOutput {
 public:
  // The number of a segment: consecutive held replies that report the same writes. Very many such
  // replies take several segments.
  using HeldNumber = HeldSegments::Number;
  using Settled = std::function<void(HeldNumber held, const std::string& error)>;

  // How many replies and bytes one release() replaces by errors at most, without the last reply.
  // Guess: some 50 us.
  static constexpr std::size_t kMostMarked = 512;
  static constexpr std::size_t kMostBytes = 64 * 1024;

  // `queue` is shared by all connections. `settled` is called once for each ticket of each
  // HeldNumber, in the order of the tickets; it must call release() for `held`, with the text of
  // the error reply.
  SessionOutput(HeldReplies& queue, Settled settled) : queue_(queue), settled_(std::move(settled)) {}
  SessionOutput(const SessionOutput&) = delete;
  SessionOutput& operator=(const SessionOutput&) = delete;

  // Replies and messages that may be sent now.
  proto::OutputBuffer& sendable() { return sendable_; }
  const proto::OutputBuffer& sendable() const { return sendable_; }
  // Where the next reply goes.
  proto::OutputBuffer& end() { return held_.empty() ? sendable_ : held_.last().bytes; }
  // Where the next message of a subscription goes: to sendable(), since it reports no write, unless
  // messages_follow() says otherwise. Never inside a whole reply.
  proto::OutputBuffer& messages() {
    if (messages_follow_ <= held_.first_number()) return sendable_;
    return held_.to_change(messages_follow_ - 1).bytes;
  }
  // The messages from now on come after every reply that was written so far.
  // Needs: no whole reply is under way.
  void messages_follow();
  // A buffer for one reply that the client does not want.
  proto::OutputBuffer& muted() {
    muted_ = std::make_unique<proto::OutputBuffer>();
    return *muted_;
  }

  // Hands over that reply, for the caller to free after its command; null: there is none.
  std::unique_ptr<proto::OutputBuffer> take_muted() { return std::move(muted_); }

  bool is_held() const { return !held_.empty(); }
  bool empty() const { return sendable_.empty() && held_.empty(); }
  // Bytes that were written and not sent. O(1): every command asks, and very many replies may be
  // held, each with a write of its own.
  std::size_t size() const;
  std::size_t memory_bytes() const;

  // Replies that are written from now on wait for this ticket, and go out after the replies before
  // them. `earlier`: the ticket of an earlier write that they report, too; 0: there is none.
  // Needs: no outcome has covered the tickets.
  void hold(Ticket ticket, Ticket earlier = 0) LOCKSLEY_REQUIRES(kIoThread);
  // What was written between `begin` and `end` of end() since hold() is a reply that turns into an
  // error if the store fails.
  void mark(std::size_t begin, std::size_t end);
  // A ticket of these replies has its outcome. If `error` is not empty, it replaces each marked
  // reply. Returns how many it replaced. Replies that wait for nothing more become sendable.
  std::size_t release(HeldNumber held, std::string_view error, proto::Protocol protocol);
  // The store's writer may send the held replies to this socket, if they are small, and no others
  // are held, and few connections wait (EarlyReplies). Until take_back_early() the socket must be
  // left alone.
  void offer_early(int socket) LOCKSLEY_REQUIRES(kIoThread);
  // Ends the offer, and returns how many bytes were sent. Call it before anything else is sent, and
  // before release().
  std::size_t take_back_early();
  // The replies that are written between these two calls are the parts of one reply. It becomes
  // sendable as a whole: after end_whole(), and after the store has settled every ticket that a
  // part waits for. A part that reports a failed write turns into an error by itself. There is one
  // such reply at a time.
  void begin_whole();
  void end_whole();
  // Bytes of the parts written so far of the whole reply under way; 0: there is none.
  std::size_t whole_bytes() const;
  // Drops all replies, and no longer waits for any write. Returns the unsent bytes, for the caller
  // to free.
  proto::OutputBuffer take_all() LOCKSLEY_REQUIRES(kIoThread);

 private:
  void add(HeldSegment segment);
  // The segment that is added next has a place in the queue for this ticket.
  HeldReplies::Place place_for(Ticket ticket) LOCKSLEY_REQUIRES(kIoThread);
  // The first segments that wait for nothing become sendable.
  void send_settled();

  static constexpr std::size_t kHeldBytes = 320;  // of a HeldSegment and its node in HeldReplies; about

  HeldReplies& queue_;
  const Settled settled_;
  proto::OutputBuffer sendable_;
  HeldSegments held_;
  std::optional<HeldNumber> under_way_;  // the whole reply between begin_whole() and end_whole()
  std::size_t whole_before_ = 0;         // its bytes, without those of its last segment
  HeldNumber messages_follow_ = 0;       // the next message comes after all segments with lower numbers
  std::unique_ptr<proto::OutputBuffer> muted_;  // the last reply that was not wanted
};

}  // namespace locksley::daemon
