// Metrics of logins, on the wire and here.
#pragma once

#include "daemon/auth/authenticator.h"
#include "daemon/http/metric_family.h"

namespace locksley::daemon {

void read_login_metrics(const Authenticator& authenticator, Families& families);

}  // namespace locksley::daemon
