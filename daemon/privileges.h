// The user as whom the daemon runs: the steps from root to an ordinary user.
#pragma once

#include <sys/types.h>

#include <expected>
#include <string>

#include "config/config.h"

namespace locksley::daemon {

// Keeps this process and its children from gaining privileges by starting a program (set-user-id
// files, file capabilities). Unless core dumps are configured, it also keeps the memory of the
// process from being written to a file in a crash and from being read by other processes of its
// user. To be called while there is one thread, from which the others inherit.
void forbid_new_privileges(config::CoreDumps core_dumps);

// From root to `process.user`: ports are bound and the store's folder is made as root, then root is
// given up; all else is made and opened as the user. Without `process.user` every step does
// nothing.
//
// Made on main's thread, by build_and_run() (main.cc) and by the programs of --repair and
// --migrate-to. Each step takes effect for all threads of the process. No job runs and no byte is
// read from the network before drop(). Nothing blocks. A step that fails says why; then the daemon
// must not start.
class Privileges {
 public:
  // The error is a sentence: there is no such user, or it is root, or the process is neither root
  // nor that user.
  static std::expected<Privileges, std::string> make(const config::Process& settings);

  bool will_drop() const { return drops_; }
  uid_t user() const { return user_; }
  gid_t group() const { return group_; }

  // Makes the folder for the user alone, unless it exists. As root, since the user may lack the
  // right to write in the parent folder, which must exist. The error names the folder.
  std::expected<void, std::string> make_folder(const std::string& path) const;
  // Gives root up for good: groups, group, user, in that order. Fails also if the process could
  // become root again; then it must end.
  std::expected<void, std::string> drop() const;

 private:
  bool drops_ = false;
  config::CoreDumps core_dumps_ = config::CoreDumps::kNo;
  std::string name_;
  uid_t user_ = 0;
  gid_t group_ = 0;
};

}  // namespace locksley::daemon
