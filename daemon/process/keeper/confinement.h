// Limits what a process can reach, by the kernel's Landlock (landlock(7)).
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "daemon/process/io/process_pipes.h"

namespace locksley::daemon {

// The files and folders, with everything in them, that a process can reach. It can neither read,
// run nor write any other.
struct Confinement {
  std::vector<std::string> read;   // may be read, listed and run
  std::vector<std::string> write;  // also written, created and removed
  bool confines_files = false;     // false: the lists are ignored
  bool denies_network = false;     // no TCP, neither to connect nor to listen

  bool is_needed() const { return confines_files || denies_network; }
  bool operator==(const Confinement&) const = default;
};

// Why there are no rules: the kernel has no Landlock, or its Landlock lacks a requested
// restriction, or a file cannot be looked up.
struct ConfinementError {
  std::string what;  // a sentence for the operator
  int code = 0;      // an errno
};

// Creates the rules, as a descriptor for enter_confinement(). Closing it does not affect processes
// that have entered. Any thread; looks the files up.
std::expected<Descriptor, ConfinementError> make_confinement(const Confinement& confinement);

// Confines the calling process, irrevocably, and all processes that it starts. Needs: "no new
// privileges" is set. Makes system calls only, so that it may run between vfork() and exec().
// False: errno says why.
bool enter_confinement(int rules);

}  // namespace locksley::daemon
