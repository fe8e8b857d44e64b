// As whom the daemon runs: the way from root to an ordinary user, and what no process here may ever get.
#pragma once

#include <sys/types.h>

#include <expected>
#include <string>

#include "config/config.h"

namespace locksley::daemon {

// The calling process, and all that it starts, gets no privileges by starting a program (set-user-id files,
// file capabilities); and, unless core dumps are asked for, its memory is neither written to a file when it
// crashes nor read by other processes of its user. While there is one thread, which the others take after.
void forbid_new_privileges(config::CoreDumps core_dumps);

// From root to `process.user`, in steps: what belongs to the user is made and opened as the user, ports are
// bound as root, and then root is given up. Where there is nothing to give up, all of it does nothing.
//
// Owned by main(). Each step holds for all threads of the process, whoever calls it; no job and no byte from
// the network comes before drop().
class Privileges {
 public:
  // The error is a sentence: there is no such user, or it is root, or the process is neither root nor that
  // user.
  static std::expected<Privileges, std::string> make(const config::Process& settings);

  bool will_drop() const { return drops_; }
  uid_t user() const { return user_; }
  gid_t group() const { return group_; }

  // The folder, if it is not there: for the user alone. As root, since the user may not write in the folder
  // around it; it must be there. The error names the folder.
  std::expected<void, std::string> make_folder(const std::string& path) const;
  // What is opened from now on, is opened as the user; until raise().
  std::expected<void, std::string> lower() const;
  std::expected<void, std::string> raise() const;
  // For good: groups, group, user, in that order. An error also if root could be had back afterwards; then
  // the process must end.
  std::expected<void, std::string> drop() const;

 private:
  bool drops_ = false;
  config::CoreDumps core_dumps_ = config::CoreDumps::kNo;
  std::string name_;
  uid_t user_ = 0;
  gid_t group_ = 0;
};

}  // namespace locksley::daemon
