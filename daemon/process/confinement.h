// What a process may reach, held by the kernel: Landlock (landlock(7)).
#pragma once

#include <expected>
#include <string>
#include <vector>

#include "daemon/process/process_pipes.h"

namespace locksley::daemon {

// Files and folders with all that is in them. A process that is confined reaches nothing else: neither to
// read or run, nor to write.
struct Confinement {
  std::vector<std::string> read;   // may be read, listed and run
  std::vector<std::string> write;  // likewise, and written, made and removed
  bool confines_files = false;     // the lists count
  bool denies_network = false;     // no TCP, neither to connect nor to listen

  bool is_needed() const { return confines_files || denies_network; }
  bool operator==(const Confinement&) const = default;
};

// The rules, as a descriptor for enter_confinement(); processes that were confined keep them. The error is a
// sentence: the kernel has no Landlock, or none that can do what is asked, or there is no such file.
std::expected<Descriptor, std::string> make_confinement(const Confinement& confinement);

// Confines the calling process, for good, and all that it starts. Needs "no new privileges" to be set. System
// calls only, so that it may come between vfork() and exec(). False: errno says why.
bool enter_confinement(int rules);

}  // namespace locksley::daemon
