// The way of a process from the keeper to its own program.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/process/spawn_request.h"

namespace locksley::daemon {

// What came of starting one.
struct Started {
  pid_t pid = -1;  // -1: it was not started, because of:
  KeeperReport::Step step = KeeperReport::Step::none;
  int error = 0;
};

// Starts the program in a process group of its own, with `descriptors` as its descriptors 0, 1, 2, … and no
// other; with no way to new privileges; and so that it dies when the thread that called this does. Signals
// are as a program expects to find them. The calling thread waits until the program runs or could not be
// started: 0.3 to 1 ms, whatever the size of the caller (the child borrows its memory). Retains
// nothing.
// `confinement`: of make_confinement(); -1: none.
Started start_program(const SpawnRequest& request, std::span<const int> descriptors, int confinement = -1);

// The files that may be meant by its program, in the order in which they are tried.
std::vector<std::string> programs_of(const SpawnRequest& request);

}  // namespace locksley::daemon
