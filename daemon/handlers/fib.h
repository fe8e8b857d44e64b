// The handler `fib`: recursion on the pool. Any worker, many jobs at once.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/tasks/context.h"

namespace locksley::daemon {

// Below this the recursion spawns nothing: fib(15) is 1,973 calls and takes 2 us (measured, g++ 12
// at -O2), many times the cost of a spawn.
inline constexpr std::uint64_t kFibCutoff = 16;

// Writes the Fibonacci number of the payload (0 to 50) in decimal, by the naive recursion: fib(n)
// spawns fib(n - 1) as a sub-job, computes fib(n - 2) itself and waits. It demonstrates and loads
// spawning and stealing.
void fib_job(JobContext& context, std::string_view payload);

}  // namespace locksley::daemon
