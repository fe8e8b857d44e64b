// A connection's TLS handshake, and what is said to peers that speak the other thing.
#include <spdlog/logger.h>

#include <optional>
#include <utility>

#include "daemon/log_line.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"

namespace locksley::daemon {

// False if there is nobody to talk to. Of a peer that failed, a last word is to be said: closing_.
Coroutine<bool> Session::shake_hands() {
  using Then = TlsChannel::Then;
  const Instant deadline = connected_at_ + server_.config().limits.login_timeout;
  std::optional<bool> is_tls;
  Then then = Then::kWantRead;
  bool is_first = true;
  while (then == Then::kWantRead || then == Then::kWantWrite) {
    if (then == Then::kWantRead) wait_readable();
    if (then == Then::kWantWrite) wait_writable();
    wait_until(deadline);
    if (!wakeup_.take()) co_await wakeup_.wait();
    if (!is_tls) is_tls = transport_.looks_like_tls();
    if (is_tls == false) {
      refuse_plain();
      co_return true;
    }
    if (is_tls && !dropped_ && !finishing_) {
      co_await server_.handshakes().turn(transport_.address(), kAwait);
    }
    if (dropped_ || finishing_) co_return false;
    // Later it may be one that has said all it had to say.
    if (std::exchange(is_first, !is_tls) && transport_.is_gone()) {
      server_.stats().tls_failures.add(1);
      co_return false;
    }
    if (std::chrono::steady_clock::now() >= deadline) {
      server_.stats().tls_failures.add(1);
      LogLine("TLS handshake unfinished after limits.login_timeout")
          .with("peer", peer_)
          .with("client", id_)
          .write(server_.log(), spdlog::level::debug);
      co_return false;
    }
    if (is_tls) then = transport_.handshake();
  }
  if (then != Then::kDone) {
    server_.stats().tls_failures.add(1);
    server_.warn_sometimes(Warning::kHandshake, peer_,
                           LogLine("TLS handshake failed").with("reason", transport_.tls().error()));
    transport_.become_plain();
    closing_ = true;
    co_return true;
  }
  server_.stats().tls_handshakes.add(1);
  timer_.cancel();
  timer_at_ = kNever;
  // What came with the last of it, the socket does not tell of again.
  readable_ = true;
  co_return true;
}

void Session::refuse_plain() {
  server_.stats().tls_failures.add(1);
  server_.warn_sometimes(Warning::kWrongPort, peer_,
                         "a client that does not speak TLS came to a port that does");
  transport_.become_plain();
  fail("ERR this port speaks TLS: use rediss:// in place of redis://, or redis-cli --tls");
  closing_ = true;
}

void Session::refuse_tls() {
  server_.warn_sometimes(Warning::kWrongPort, peer_, "a client that speaks TLS came to a port that does not");
  fail("ERR this port does not speak TLS: use redis:// in place of rediss://, or set listen.tls");
  closing_ = true;
}

}  // namespace locksley::daemon
