#include "daemon/base/send_now.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>

#include "daemon/base/socket_error.h"

namespace locksley::daemon {

std::optional<std::size_t> send_now(int socket, std::span<const std::string_view> views) {
  std::array<iovec, 32> parts;
  const std::size_t used = std::min(views.size(), parts.size());
  // sendmsg() only reads.
  for (std::size_t i = 0; i < used; ++i) parts[i] = {const_cast<char*>(views[i].data()), views[i].size()};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = used;
  const ssize_t sent = ::sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  return is_only_busy() ? std::optional<std::size_t>(0) : std::nullopt;
}

}  // namespace locksley::daemon
