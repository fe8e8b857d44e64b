#include "tests/fuzz/peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "tests/fuzz/target.h"

namespace locksley::fuzz {

Peer::Peer(DaemonInProcess& daemon)
    : daemon_(daemon), ledger_(daemon.reader_limits()), fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(daemon.port());
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // The kernel accepts it, so this does not wait for the daemon.
  require(::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0, "one can connect");
  const int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Peer::~Peer() { reset(); }

void Peer::send(std::string_view bytes) {
  if (!is_open()) return;
  ledger_.sent(bytes);
  while (!bytes.empty() && is_open()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    const bool is_full = errno == EAGAIN || errno == EWOULDBLOCK;
    receive();
    if (!is_full) return;  // the daemon has closed: receive() has heard, or will
    daemon_.run_for(std::chrono::milliseconds(1));
  }
}

void Peer::half_close() {
  if (!is_open()) return;
  ledger_.half_closed();
  ::shutdown(fd_, SHUT_WR);
}

void Peer::reset() {
  if (!is_open()) return;
  // No waiting in the kernel, where a port would be taken for a minute.
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  close();
}

void Peer::close() {
  ::close(fd_);
  fd_ = -1;
}

void Peer::receive() {
  std::array<char, 64 * 1024> bytes;
  while (is_open()) {
    const ssize_t got = ::recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (got > 0) {
      ledger_.received({bytes.data(), static_cast<std::size_t>(got)});
      continue;
    }
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    ledger_.closed(may_be_cut);
    return close();
  }
}

proto::Reply Peer::ask(const std::string& command) {
  ledger_.take();
  send(command + "\r\n");
  std::vector<proto::Reply> replies;
  daemon_.run_until(
      [&] {
        receive();
        require(is_open(), "whoever behaves is not dropped");
        for (proto::Reply& reply : ledger_.take()) replies.push_back(std::move(reply));
        return !replies.empty();
      },
      "a command is answered");
  require(replies.size() == 1, "one command, one reply");
  return std::move(replies.front());
}

}  // namespace locksley::fuzz
