#include "daemon/tls/tls_metrics.h"

#include <chrono>
#include <utility>

namespace locksley::daemon {

void read_tls_metrics(const TlsContext* listen, const TlsContext* http, const TlsContext* workers,
                      Families& families) {
  if (listen == nullptr && http == nullptr && workers == nullptr) return;
  Family family = Family::gauge("locksley_tls_certificate_expiry_timestamp_seconds",
                                "When the first certificate of the chain of a side expires.");
  const auto add = [&](const char* side, const TlsContext* context) {
    if (context == nullptr) return;
    const auto since_epoch = context->expires_at().time_since_epoch();
    family.add({{"side", side}}, std::chrono::duration<double>(since_epoch).count());
  };
  add("listen", listen);
  add("http", http);
  add("workers", workers);
  std::move(family).move_to(families);
}

}  // namespace locksley::daemon
