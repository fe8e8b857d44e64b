// The keeper: a small process beside the daemon, whose children all programs of commands and workers are.
#pragma once

namespace locksley::daemon {

// Starts programs, reports their ends, and sees to it that none is left: neither when its job is over, nor
// when the daemon is, in whatever way it ended. README.md has the reasons and the cases.
//
// `socket` leads to the daemon (KeeperOrder, KeeperReport). Runs until that is closed; then everything below
// is killed. Returns the exit code of the process. One thread.
int keep_processes(int socket);

// The descriptor that is the socket, in a process that was started for it.
inline constexpr int kKeeperSocket = 3;

}  // namespace locksley::daemon
