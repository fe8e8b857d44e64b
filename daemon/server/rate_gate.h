#pragma once

#include <chrono>
#include <cstdint>

namespace locksley::daemon {

// Lets something through once in a period, and counts what it held back meanwhile: for log lines that a peer
// can cause at will. One thread.
class RateGate {
 public:
  using Instant = std::chrono::steady_clock::time_point;
  explicit RateGate(std::chrono::milliseconds period) : period_(period) {}

  // True if the line may be written now; held_back() then says how many were not since the last.
  bool open(Instant now) {
    if (now < next_) {
      ++waiting_;
      return false;
    }
    next_ = now + period_;
    held_back_ = waiting_;
    waiting_ = 0;
    return true;
  }
  std::uint64_t held_back() const { return held_back_; }

 private:
  const std::chrono::milliseconds period_;
  Instant next_{};
  std::uint64_t waiting_ = 0;
  std::uint64_t held_back_ = 0;
};

}  // namespace locksley::daemon
