#include "daemon/server/session/output/held_segments.h"

#include <string>

namespace locksley::daemon {

void HeldSegment::fail_marked(std::string_view error, proto::Protocol protocol) {
  if (marked.empty()) return;
  const std::size_t end = marked.back().end;
  const std::string before = bytes.to_string(end);
  bytes.consume(end);
  proto::OutputBuffer rest = std::exchange(bytes, {});
  std::size_t at = 0;
  for (const Reply reply : marked) {
    bytes.append(std::string_view(before).substr(at, reply.begin - at));
    proto::ReplyWriter(bytes, protocol).error(error);
    at = reply.end;
  }
  bytes.append(std::move(rest));
  marked.clear();
}

HeldSegment& HeldSegments::to_change(Number number) {
  HeldSegment& segment = at(number);
  const bool is_last = number + 1 == next_number();
  if (is_last || apart_ == number) return segment;
  (void)sums();
  sums_.subtract(segment);
  apart_ = number;
  return segment;
}

void HeldSegments::add(HeldSegment segment) {
  if (!empty()) sums_.add(last());
  segments_.push_back(std::move(segment));
}

void HeldSegments::send_first(proto::OutputBuffer& output) {
  constexpr std::size_t kFew = 4;  // as with a client that waits for each reply; more would hold more memory
  HeldSegment& sent = first();
  if (apart_ == left_) {
    apart_.reset();
  } else if (segments_.size() > 1) {
    sums_.subtract(sent);
  }
  output.append(std::move(sent.bytes));
  if (sent.marked.capacity() <= kFew) {
    sent.marked.clear();
    spare_ = std::move(sent.marked);
  }
  segments_.pop_front();
  ++left_;
}

HeldSegment HeldSegments::take_last() {
  HeldSegment taken = std::move(last());
  segments_.pop_back();
  if (empty()) return taken;
  // The one before it is the last now.
  if (apart_ == next_number() - 1) {
    apart_.reset();
  } else {
    sums_.subtract(last());
  }
  return taken;
}

const HeldSegments::Sums& HeldSegments::sums() const {
  if (apart_) sums_.add(segments_.at(*std::exchange(apart_, std::nullopt) - left_));
  return sums_;
}

}  // namespace locksley::daemon
