#include "core/ring/state/ring_waits.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace locksley {
namespace {

// Modulo 2^32.
std::uint32_t milliseconds_of(Nanoseconds instant) {
  return static_cast<std::uint32_t>(std::chrono::duration_cast<std::chrono::milliseconds>(instant).count());
}

}  // namespace

void RingWaits::begin_backoff(RingQueue& queue, Backoff why, Nanoseconds began, Nanoseconds now,
                              Nanoseconds latest) {
  if (queue.cancelled_ || queue.backoff_end_.count() != 0) return;
  if (why == Backoff::kNoPayloads) {
    // After 50 days without an arrival one may seem to be recent: then one turn begins no back-off.
    const std::uint32_t latest_ms = milliseconds_of(latest);
    if (latest_ms - queue.payloads_arrived_ms_ <= latest_ms - milliseconds_of(began)) return;
  }
  Nanoseconds pause = kPayloadBackoff;
  if (why == Backoff::kBroken) {
    constexpr std::uint32_t kMostDoublings = 10;  // beyond kLongestBackoff
    pause = std::min(kLongestBackoff,
                     kFirstBackoff * (std::int64_t{1} << std::min(queue.breaks_, kMostDoublings)));
    ++queue.breaks_;
  }
  queue.backoff_ = why;
  queue.backoff_end_ = now + pause;
  backoffs_.emplace(queue.backoff_end_, &queue);
  note(queue.backoff_end_);
}

void RingWaits::end_backoff(RingQueue& queue) {
  if (queue.backoff_end_.count() == 0) return;
  backoffs_.erase({queue.backoff_end_, &queue});
  queue.backoff_end_ = Nanoseconds{0};
  queue.backoff_ = Backoff::kNone;
}

void RingWaits::note_arrival(RingQueue& queue, Nanoseconds now) {
  queue.payloads_arrived_ms_ = milliseconds_of(now);
}

}  // namespace locksley
