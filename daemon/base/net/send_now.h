// A send that does not wait.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

namespace locksley::daemon {

// Sends as much of the first 32 views as the socket, which has no TLS, takes without waiting, by
// one system call. Returns how many bytes it took, 0 if it is not ready; none if the connection is
// broken. Any thread; does not block.
std::optional<std::size_t> send_now(int socket, std::span<const std::string_view> views);

}  // namespace locksley::daemon
