// What a stress test gets from its environment: the seed of its random choices, and how long it may
// run.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace locksley::testing {

// The seed of this process's stress tests: LOCKSLEY_SEED, or a new one. Printed when first asked
// for, so that the log of a failure says how to repeat its choices (the interleaving stays the
// machine's).
inline std::uint64_t stress_seed() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("LOCKSLEY_SEED");
    const std::uint64_t value =
        given != nullptr ? std::strtoull(given, nullptr, 10) : std::uint64_t{std::random_device{}()};
    std::printf("LOCKSLEY_SEED=%llu\n", static_cast<unsigned long long>(value));
    std::fflush(stdout);
    return value;
  }();
  return seed;
}

// A generator of its own for each `stream` (a thread's number, say) of a stress test.
inline std::mt19937_64 stress_random(std::uint64_t stream) {
  std::seed_seq sequence{stress_seed(), stream};
  return std::mt19937_64(sequence);
}

// How long one stress test runs: 300 ms times LOCKSLEY_STRESS, which is 1 unless given. 300 ms: a
// guess that keeps the whole set below ten seconds.
inline std::chrono::milliseconds stress_time() {
  static const double scale = [] {
    const char* given = std::getenv("LOCKSLEY_STRESS");
    return given != nullptr ? std::strtod(given, nullptr) : 1.0;
  }();
  return std::chrono::milliseconds(static_cast<std::int64_t>(300 * scale));
}

}  // namespace locksley::testing
