// A limit on how often a line is logged.
#pragma once

#include <chrono>
#include <cstdint>
#include <utility>

#include "daemon/base/time.h"

namespace locksley::daemon {

// Limits how often something is done in a period, once by default, and counts what it suppressed:
// for log lines that a peer or a program can cause at will. A value, one thread's; nothing blocks
// or fails.
class RateGate {
 public:
  explicit RateGate(std::chrono::milliseconds period, std::uint32_t most = 1)
      : period_(period), most_(most) {}

  // True if the line may be written now. held_back() is then the number of lines suppressed since
  // the last written one.
  bool open(Instant now) {
    if (now >= next_) {
      next_ = now + period_;
      opened_ = 0;
    }
    if (opened_ == most_) {
      ++waiting_;
      return false;
    }
    ++opened_;
    held_back_ = std::exchange(waiting_, 0);
    return true;
  }
  std::uint64_t held_back() const { return held_back_; }

 private:
  const std::chrono::milliseconds period_;
  const std::uint32_t most_;
  Instant next_{};            // end of the current period
  std::uint32_t opened_ = 0;  // in the current period
  std::uint64_t waiting_ = 0;
  std::uint64_t held_back_ = 0;
};

}  // namespace locksley::daemon
