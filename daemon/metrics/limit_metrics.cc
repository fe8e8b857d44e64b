#include "daemon/metrics/limit_metrics.h"

#include <utility>

#include "config/validate.h"

namespace locksley::daemon {

void read_limit_metrics(const config::Config& config, Families& families) {
  const auto add = [&](const char* name, const char* help, std::uint64_t value) {
    Family family = Family::gauge(name, help);
    family.add({}, value);
    std::move(family).move_to(families);
  };
  add("locksley_max_clients", "Connections that may be open: limits.max_clients.", config.limits.max_clients);
  add("locksley_max_queued_jobs", "Jobs that may be accepted and not ended: limits.max_queued_jobs.",
      config.limits.max_queued_jobs);
  add("locksley_max_queued_bytes", "Payload bytes that may be queued: limits.max_queued_bytes.",
      config.limits.max_queued_bytes.count);
  add("locksley_max_log_bytes", "The most that locksley_log_bytes may be: limits.max_log_bytes.",
      config.limits.max_log_bytes.count);
  if (!config::has_store(config.store)) return;
  add("locksley_store_max_bytes", "The most that locksley_stored_bytes may be: store.max_bytes; 0: no limit.",
      config.store.max_bytes.count);
}

}  // namespace locksley::daemon
