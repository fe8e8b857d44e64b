// The expiry of certificates, for Prometheus.
#pragma once

#include "daemon/metrics/metric_family.h"
#include "daemon/tls/context.h"

namespace locksley::daemon {

// Adds the expiry of the certificates in use. Null: that side is plain and has no series. The I/O
// thread.
void read_tls_metrics(const TlsContext* listen, const TlsContext* http, const TlsContext* workers,
                      Families& families);

}  // namespace locksley::daemon
