// Runs a program that checks something, and returns its output.
#pragma once

#include <chrono>
#include <cstddef>
#include <expected>
#include <string>

#include "daemon/process/keeper/child.h"

namespace locksley::daemon {

// How the program of run_to_end() ended.
struct RunEnd {
  std::string output;          // the first kMostRunOutput bytes of its standard output
  bool has_timed_out = false;  // it was killed at the limit; ignore the other members
  bool has_exited = false;     // with status `status`; else signal `status` ended it
  int status = 0;
};
inline constexpr std::size_t kMostRunOutput = 64U << 10;

// Starts the program with an empty standard input and this process's standard error, waits for its
// end, and kills the rest of its process group. Processes that it leaves behind do not hold up the
// return, even if they have its standard output. Any thread, which must not end meanwhile; blocks
// for `limit` at most, in addition to start_program(). `confinement`: as in start_program(). The
// error: the program was not started, and at which step.
std::expected<RunEnd, Started> run_to_end(const SpawnRequest& request, int confinement,
                                          std::chrono::milliseconds limit);

}  // namespace locksley::daemon
