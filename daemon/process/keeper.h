// The keeper: a small process beside the daemon, whose children all programs of commands and workers are.
#pragma once

#include <compare>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

namespace locksley::daemon {

// As whom a program may run.
struct KeeperUser {
  std::uint32_t user;
  std::uint32_t group;
  auto operator<=>(const KeeperUser&) const = default;
};

// The users as a word of the command line, and back: none if it is no such word.
std::string encode(const std::vector<KeeperUser>& users);
std::expected<std::vector<KeeperUser>, std::string> decode_keeper_users(std::string_view word);

// Starts programs, reports their ends, and sees to it that none is left: neither when its job is over, nor
// when the daemon is, in whatever way it ended. README.md has the reasons and the cases.
//
// `socket` leads to the daemon (KeeperOrder, KeeperReport). Runs until that is closed; then everything below
// is killed. Returns the exit code of the process. One thread.
//
// `users`: of encode(); if it is not empty, programs run as one of these or not at all, whatever the daemon
// asks for, which may have been taken over by somebody. So a keeper that stays root when the daemon does not
// gives nobody root.
int keep_processes(int socket, std::string_view users);

// The descriptor that is the socket, in a process that was started for it.
inline constexpr int kKeeperSocket = 3;

}  // namespace locksley::daemon
