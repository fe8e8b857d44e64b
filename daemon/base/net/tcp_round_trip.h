// The round trip of a connection, as the kernel knows it.
#pragma once

#include <chrono>
#include <optional>

namespace locksley::daemon {

// The shortest round trip of a connected TCP socket in about the last 5 minutes, as the kernel
// measured it (tcp(7), TCP_INFO; net.ipv4.tcp_min_rtt_wlen). Not the mean: a peer that has nothing
// to send acknowledges up to 40 ms late, which is no property of the link. None: nothing has been
// measured yet, or it is no TCP socket. Any thread; nothing blocks.
std::optional<std::chrono::microseconds> tcp_round_trip(int socket);

}  // namespace locksley::daemon
