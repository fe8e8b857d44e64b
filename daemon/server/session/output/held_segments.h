// The replies of a connection that the store holds up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/server/state/held_replies.h"
#include "daemon/store/write/ticket.h"
#include "proto/output_buffer.h"
#include "proto/reply_writer.h"

namespace locksley::daemon {

// A run of consecutive replies of one connection that wait for the same writes, and what was
// written after them without a write of its own.
struct HeldSegment {
  // A reply that reports the writes: a part of `bytes`.
  struct Reply {
    std::size_t begin;
    std::size_t end;
  };
  using Place = std::optional<HeldReplies::Place>;

  Ticket ticket;
  Ticket earlier;       // 0: none
  Place place;          // none: the ticket has its outcome, or this is the beginning of a whole reply
  Place earlier_place;  // likewise
  proto::OutputBuffer bytes = {};
  std::vector<Reply> marked = {};
  // For the beginning of a whole reply: how many later segments belong to the reply, and how many
  // of these wait for the store.
  bool is_whole = false;
  std::size_t members = 0;
  std::size_t unsettled = 0;
  std::optional<std::uint64_t> whole = {};  // of a segment that belongs to a whole reply: that beginning
  std::optional<EarlyReplies::Place> early = {};  // of the first segment, if the store's writer may send it

  // Replaces each marked reply by the error. The bytes after the last marked reply are not copied.
  void fail_marked(std::string_view error, proto::Protocol protocol);
};

// The segments of one connection's output that are held for the store, in their order. Each segment
// has a number, which does not change when earlier segments leave. The sums of bytes and of memory
// take O(1), however many segments there are: every command asks for them.
//
// A member of a SessionOutput, which decides when a segment is added and when it leaves. One
// thread. Nothing blocks or fails.
class HeldSegments {
 public:
  // The first segment of the connection has 0.
  using Number = std::uint64_t;

  HeldSegments() = default;
  HeldSegments(const HeldSegments&) = delete;
  HeldSegments& operator=(const HeldSegments&) = delete;

  bool empty() const { return segments_.empty(); }
  std::size_t size() const { return segments_.size(); }
  // That of first(): how many have left.
  Number first_number() const { return left_; }
  // That of the segment that is added next.
  Number next_number() const { return left_ + segments_.size(); }

  // Needs, here and below: there is such a segment. The `bytes` of the last one may be changed,
  // those of another one only by to_change().
  HeldSegment& at(Number number) { return segments_.at(number - left_); }
  HeldSegment& first() { return segments_.front(); }
  HeldSegment& last() { return segments_.back(); }
  const HeldSegment& last() const { return segments_.back(); }
  // Its `bytes` may be changed until the next call of another function.
  HeldSegment& to_change(Number number);

  void add(HeldSegment segment);
  // The first segment leaves. Its bytes are appended to `output`.
  void send_first(proto::OutputBuffer& output);
  // The last one is taken out again, and the next has its number.
  HeldSegment take_last();
  // For the `marked` of the next segment: empty, perhaps with memory of one that has left.
  std::vector<HeldSegment::Reply> take_spare() { return std::exchange(spare_, {}); }

  std::size_t bytes() const { return empty() ? 0 : sums().bytes + last().bytes.size(); }
  std::size_t memory_bytes() const { return empty() ? 0 : sums().memory + last().bytes.memory_bytes(); }

 private:
  // The sums over all segments without the last, which grows.
  struct Sums {
    std::size_t bytes = 0;
    std::size_t memory = 0;
    void add(const HeldSegment& segment) {
      bytes += segment.bytes.size();
      memory += segment.bytes.memory_bytes();
    }
    void subtract(const HeldSegment& segment) {
      bytes -= segment.bytes.size();
      memory -= segment.bytes.memory_bytes();
    }
  };
  const Sums& sums() const;

  std::deque<HeldSegment> segments_;
  Number left_ = 0;
  mutable Sums sums_;                      // without the segment that is set apart
  mutable std::optional<Number> apart_;    // to_change() was called for it; never the last
  std::vector<HeldSegment::Reply> spare_;  // for take_spare()
};

}  // namespace locksley::daemon
