#pragma once

#include <algorithm>
#include <chrono>
#include <random>

namespace locksley::client {

// How long to wait before the next try to connect: 10 ms, doubled each time up to 1 s, of which a random half
// is taken off, so that many clients of a daemon that restarts do not come back in the same instant.
class Backoff {
 public:
  explicit Backoff(std::uint64_t seed) : random_(seed) {}

  std::chrono::milliseconds next() {
    const auto whole = next_;
    next_ = std::min(next_ * 2, kLongest);
    std::uniform_int_distribution<std::chrono::milliseconds::rep> part(whole.count() / 2, whole.count());
    return std::chrono::milliseconds(part(random_));
  }

  void reset() { next_ = kFirst; }

 private:
  // Guesses: short enough not to be noticed by a person, long enough not to load a daemon that starts.
  static constexpr std::chrono::milliseconds kFirst{10};
  static constexpr std::chrono::milliseconds kLongest{1000};

  std::chrono::milliseconds next_ = kFirst;
  std::mt19937_64 random_;
};

}  // namespace locksley::client
