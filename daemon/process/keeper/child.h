// Starts a program: from vfork() to exec().
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/process/keeper/spawn_request.h"

namespace locksley::daemon {

// The outcome of start_program().
struct Started {
  pid_t pid = -1;  // -1: the program was not started; `step` failed with `error`
  KeeperReport::Step step = KeeperReport::Step::kNone;
  int error = 0;
};

// Starts the program in a process group of its own, with `descriptors` as its only descriptors 0,
// 1, 2, …, with "no new privileges", with default signal actions, and so that it dies with the
// calling thread. Blocks until the program runs or could not be started: usually less than a
// millisecond, whatever the size of the calling process, because the child borrows its memory; but
// as long as the folder and the program's file take to open. `confinement`: of make_confinement();
// -1: none. The caller still owns all descriptors.
Started start_program(const SpawnRequest& request, std::span<const int> descriptors, int confinement = -1);

// The files that the request's program name may mean, in the order in which they are tried.
std::vector<std::string> programs_of(const SpawnRequest& request);

}  // namespace locksley::daemon
