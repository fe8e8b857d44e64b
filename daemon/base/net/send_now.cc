#include "daemon/base/net/send_now.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>

#include "daemon/base/net/socket_error.h"

namespace locksley::daemon {

namespace {

constexpr int kFlags = MSG_DONTWAIT | MSG_NOSIGNAL;

ssize_t send_parts(int socket, std::span<const std::string_view> views) {
  std::array<iovec, 32> parts;
  const std::size_t used = std::min(views.size(), parts.size());
  // sendmsg() does not change the bytes.
  for (std::size_t i = 0; i < used; ++i) parts[i] = {const_cast<char*>(views[i].data()), views[i].size()};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = used;
  return ::sendmsg(socket, &message, kFlags);
}

}  // namespace

std::optional<std::size_t> send_now(int socket, std::span<const std::string_view> views) {
  // With one part, such as a short reply, the kernel copies no list of parts, which would take a
  // twentieth of the call's time.
  const ssize_t sent = views.size() == 1 ? ::send(socket, views[0].data(), views[0].size(), kFlags)
                                         : send_parts(socket, views);
  if (sent >= 0) return static_cast<std::size_t>(sent);
  return is_only_busy() ? std::optional<std::size_t>(0) : std::nullopt;
}

}  // namespace locksley::daemon
