// The keeper: a small process beside the daemon, which is the parent of all commands and workers.
#pragma once

#include <compare>
#include <cstdint>
#include <expected>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace locksley::daemon {

// A user and group that programs may run as.
struct KeeperUser {
  std::uint32_t user;
  std::uint32_t group;
  auto operator<=>(const KeeperUser&) const = default;
};
using KeeperUsers = std::set<KeeperUser>;

// The users as an argument of the command line, and back. The error: `word` is not such an
// argument.
std::string encode(const std::vector<KeeperUser>& users);
std::expected<std::vector<KeeperUser>, std::string> decode_keeper_users(std::string_view word);

// Runs the keeper. It starts programs, reports their ends, and kills the processes that they leave
// behind, after each job and after the daemon's end, whatever its cause. README.md has the reasons
// and the cases.
//
// `socket` is connected to the daemon (KeeperOrder, KeeperReport). Returns, with the exit code of
// the process, when the socket is closed and all processes below have been killed. It is the
// process's only thread.
//
// `users`: a text that encode() has made. If it is not empty, programs run as one of these users or
// not at all, whatever the daemon orders: an attacker may control the daemon. So a keeper that
// stays root after the daemon has given root up never runs a program as root.
int keep_processes(int socket, std::string_view users);

// The descriptor of the socket in the keeper's process.
inline constexpr int kKeeperSocket = 3;

}  // namespace locksley::daemon
