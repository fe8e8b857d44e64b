#include "daemon/http/login_metrics.h"

#include <utility>

namespace locksley::daemon {

void read_login_metrics(const Authenticator& authenticator, Families& families) {
  Family failures =
      Family::counter("locksley_authentication_failures_total",
                      "Logins that were refused: wrong password or token, no such user. Both ports.");
  failures.add({}, authenticator.failures());
  std::move(failures).move_to(families);
}

}  // namespace locksley::daemon
