// Starts a program: from vfork() to exec().
#pragma once

#include <sys/types.h>

#include <array>
#include <climits>
#include <span>
#include <string_view>

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
// calling thread. Blocks until the program runs or could not be started. That takes usually less
// than a millisecond, whatever the size of the calling process, because the child borrows its
// memory; but on a slow file system, as long as the kernel takes to open the folder and the
// program's file. `confinement`: the rules of make_confinement(); -1: none. The caller still owns
// all descriptors.
Started start_program(const SpawnRequest& request, std::span<const int> descriptors, int confinement = -1);

// The files that the request's program name may mean, in the order in which they are tried. One
// buffer holds one file name after the other, so neither a long PATH nor a long name takes memory.
// One thread; nothing allocates or blocks, so it may be used after vfork().
class ProgramFiles {
 public:
  // Borrows the request.
  explicit ProgramFiles(const SpawnRequest& request);

  // Whether no folder can have a file of this name, so that there are none.
  bool has_too_long_name() const;
  // Valid until the next call; null: there are no more. A folder is left out if the file's name
  // would be longer with it than the kernel takes.
  const char* next();

 private:
  bool set(std::string_view folder, std::string_view slash);

  std::string_view name_;
  std::string_view folders_;  // that have not been tried, as in PATH
  bool has_folder_;           // the name has a slash, and is tried as it is
  bool is_over_ = false;
  std::array<char, PATH_MAX> file_;
};

}  // namespace locksley::daemon
