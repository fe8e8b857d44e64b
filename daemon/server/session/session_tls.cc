// The TLS handshake, and the error messages for peers that speak TLS to a plain port or the reverse.
#include <spdlog/logger.h>

#include <optional>
#include <utility>

#include "daemon/base/log_line.h"
#include "daemon/base/time.h"
#include "daemon/server/session/session.h"

namespace locksley::daemon {

Coroutine<bool> Session::shake_hands() {
  using Then = TlsChannel::Then;
  const Instant deadline = connected_at_ + state_.config().limits.login_timeout;
  std::optional<bool> is_tls;
  Then then = Then::kWantRead;
  bool is_first = true;
  while (then == Then::kWantRead || then == Then::kWantWrite) {
    if (then == Then::kWantRead) transport_.wait_readable(*this);
    if (then == Then::kWantWrite) transport_.wait_writable(*this);
    wake_at(deadline);
    if (!wakeup_.take()) co_await wakeup_.wait();
    if (!is_tls) is_tls = transport_.looks_like_tls();
    if (is_tls == false) {
      refuse_plain();
      co_return true;
    }
    if (is_tls && life_.now() == Life::kHandshake) {
      co_await state_.handshakes().wait_for_step(transport_.address(), kAwait);
    }
    if (life_.now() != Life::kHandshake) co_return false;
    // Asked only before the first step of the handshake: later a peer that has closed may have said all that it had to say.
    if (std::exchange(is_first, !is_tls) && transport_.is_gone()) {
      state_.stats().tls_failures.add(1);
      co_return false;
    }
    if (now() >= deadline) {
      state_.stats().tls_failures.add(1);
      LogLine("TLS handshake unfinished after limits.login_timeout")
          .with("peer", peer_)
          .with("client", id_)
          .write(state_.log(), spdlog::level::debug);
      co_return false;
    }
    if (is_tls) then = transport_.handshake();
  }
  if (then != Then::kDone) {
    state_.stats().tls_failures.add(1);
    state_.warnings().warn(Warning::kHandshake, peer_,
                           LogLine("TLS handshake failed").with("reason", transport_.tls_error()));
    transport_.become_plain();
    life_.go_to(Life::kLastReply);
    co_return true;
  }
  state_.stats().tls_handshakes.add(1);
  timer_.cancel();
  timer_at_ = kNever;
  transport_.expect_more();
  life_.go_to(is_logged_in() ? Life::kServing : Life::kStranger);
  log_in_by_certificate(transport_.peer_common_name());
  co_return true;
}

void Session::refuse_plain() {
  state_.stats().tls_failures.add(1);
  state_.warnings().warn(Warning::kWrongPort, peer_,
                         "a client that does not speak TLS came to a port that does");
  transport_.become_plain();
  fail("ERR this port speaks TLS: use rediss:// in place of redis://, or redis-cli --tls");
  life_.go_to(Life::kLastReply);
}

void Session::refuse_tls() {
  state_.warnings().warn(Warning::kWrongPort, peer_, "a client that speaks TLS came to a port that does not");
  fail("ERR this port does not speak TLS: use redis:// in place of rediss://, or set listen.tls");
  life_.go_to(Life::kLastReply);
}

}  // namespace locksley::daemon
