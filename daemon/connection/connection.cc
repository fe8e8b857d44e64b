#include "daemon/connection/connection.h"

namespace locksley::daemon {

Connection::Connection(Transport transport, std::string peer, Turns& turns, const IoExecutor& executor)
    : peer_(std::move(peer)),
      connected_at_(now()),
      transport_(std::move(transport)),
      life_(transport_.is_tls() ? Life::kHandshake : Life::kStranger),
      wakeup_(turns),
      timer_(executor) {}

std::string_view Connection::objection_of_authorities(const TlsContext* context,
                                                      bool is_logged_in_by_certificate) const {
  if (!transport_.is_tls()) return {};
  if (!transport_.is_established()) return "client_ca has changed during its handshake";
  const bool needs_certificate =
      is_logged_in_by_certificate || (context != nullptr && context->demands_certificates());
  if (!needs_certificate) return {};
  if (context != nullptr && transport_.has_certificate_of(*context)) return {};
  return "its certificate is of no authority in client_ca any more";
}

void Connection::forget_timer() {
  timer_.cancel();
  timer_at_ = kNever;
}

void Connection::close() {
  transport_.close();
  timer_.cancel();
  life_.go_to(Life::kEnded);
}

}  // namespace locksley::daemon
