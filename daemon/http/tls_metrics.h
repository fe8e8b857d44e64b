// When certificates expire, for Prometheus.
#pragma once

#include "daemon/http/metric_family.h"
#include "daemon/tls/context.h"

namespace locksley::daemon {

// The certificates in force; null where a side is plain, which has no series then.
void read_tls_metrics(const TlsContext* listen, const TlsContext* http, Families& families);

}  // namespace locksley::daemon
