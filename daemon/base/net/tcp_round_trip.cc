#include "daemon/base/net/tcp_round_trip.h"

// Not netinet/tcp.h, whose tcp_info ends before this member.
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace locksley::daemon {

std::optional<std::chrono::microseconds> tcp_round_trip(int socket) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
  constexpr std::size_t kNeeded = offsetof(tcp_info, tcpi_min_rtt) + sizeof info.tcpi_min_rtt;
  constexpr std::uint32_t kUnknown = ~std::uint32_t{0};
  if (size < kNeeded || info.tcpi_min_rtt == kUnknown) return std::nullopt;
  return std::chrono::microseconds(std::max<std::uint32_t>(info.tcpi_min_rtt, 1));
}

}  // namespace locksley::daemon
