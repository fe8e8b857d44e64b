// The TLS handshake, and the error messages for peers that speak TLS to a plain port or the
// reverse.
#include <spdlog/logger.h>

#include <optional>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"
#include "daemon/server/session/session.h"

namespace locksley::daemon {

Coroutine<bool> Session::shake_hands() {
  using enum Connection::Handshake;
  const Instant deadline = connection_.connected_at() + state_.config().limits.login_timeout;
  const auto done = co_await connection_.shake_hands(*this, state_.handshakes(), deadline);
  switch (done) {
    case kDone:
      break;
    case kPlain:
      refuse_plain();
      co_return true;
    case kFailed:
      state_.stats().tls_failures.add(1);
      state_.warnings().warn(Warning::kHandshake, peer(),
                             LogLine("TLS handshake failed").with("reason", transport().tls_error()));
      transport().become_plain();
      life().go_to(Life::kLastReply);
      co_return true;
    case kLate:
      LogLine("TLS handshake unfinished after limits.login_timeout")
          .with("peer", peer())
          .with("client", id_)
          .write(state_.log(), spdlog::level::debug);
      [[fallthrough]];
    case kGone:
      state_.stats().tls_failures.add(1);
      co_return false;
    case kClosed:
      co_return false;
  }
  state_.stats().tls_handshakes.add(1);
  life().go_to(is_logged_in() ? Life::kServing : Life::kStranger);
  log_in_by_certificate(transport().peer_common_name());
  co_return true;
}

void Session::refuse_plain() {
  state_.stats().tls_failures.add(1);
  state_.warnings().warn(Warning::kWrongPort, peer(),
                         "a client that does not speak TLS came to a port that does");
  transport().become_plain();
  fail("ERR this port speaks TLS: use rediss:// in place of redis://, or redis-cli --tls");
  life().go_to(Life::kLastReply);
}

void Session::refuse_tls() {
  state_.warnings().warn(Warning::kWrongPort, peer(),
                         "a client that speaks TLS came to a port that does not");
  fail("ERR this port does not speak TLS: use redis:// in place of rediss://, or set listen.tls");
  life().go_to(Life::kLastReply);
}

}  // namespace locksley::daemon
