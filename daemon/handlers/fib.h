// The handler `fib`: recursion on the pool.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/context.h"

namespace locksley::daemon {

// Below this the recursion is an ordinary one: fib(15) is 1,973 calls and takes 2 us (measured, g++ 12 at
// -O2), many times what a spawn costs.
inline constexpr std::uint64_t kFibCutoff = 16;

// Writes the payload's Fibonacci number (0 to 50) in decimal, computed the wasteful way: fib(n) spawns fib(n
// - 1) as a sub-job, computes fib(n - 2) itself and waits. It is there to show and to load spawning and
// stealing.
void fib_job(JobContext& context, std::string_view payload);

}  // namespace locksley::daemon
