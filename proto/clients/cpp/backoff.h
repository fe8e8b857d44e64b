// The pauses between a client's attempts to connect. A value that one thread uses; nothing blocks
// or fails.
#pragma once

#include <algorithm>
#include <chrono>
#include <random>

namespace locksley::client {

// The pauses between attempts to connect: `first`, doubled each time up to `longest` (by default 10
// ms and 1 s), minus a random part of up to half, so that the clients of a restarted daemon do not
// all reconnect in the same instant.
class Backoff {
 public:
  explicit Backoff(std::uint64_t seed) : Backoff(seed, kFirst, kLongest) {}
  Backoff(std::uint64_t seed, std::chrono::milliseconds first, std::chrono::milliseconds longest)
      : first_(first), longest_(longest), random_(seed) {}

  std::chrono::milliseconds next() {
    const auto whole = next_;
    next_ = std::min(next_ * 2, longest_);
    std::uniform_int_distribution<std::chrono::milliseconds::rep> part(whole.count() / 2, whole.count());
    return std::chrono::milliseconds(part(random_));
  }

  void reset() { next_ = first_; }

 private:
  // Guesses: too short for a person to notice, long enough not to load a daemon that starts.
  static constexpr std::chrono::milliseconds kFirst{10};
  static constexpr std::chrono::milliseconds kLongest{1000};

  const std::chrono::milliseconds first_;
  const std::chrono::milliseconds longest_;
  std::chrono::milliseconds next_ = first_;
  std::mt19937_64 random_;
};

}  // namespace locksley::client
