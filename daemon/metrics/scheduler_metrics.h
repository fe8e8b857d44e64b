// Metrics of workers, lanes, tenants and handlers.
#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "core/batch/handler.h"
#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "daemon/metrics/metrics_page.h"
#include "daemon/metrics/server_stats.h"
#include "daemon/metrics/tenant_labels.h"

namespace locksley::daemon {

// Takes snapshots of the scheduler when it is read. It counts nothing itself, so an idle daemon
// does no work for its metrics.
//
// Owned by HttpPort; the pool, the stats, all lanes and all handlers outlive it, and it outlives
// its readings. One thread at a time. A reading takes each ring's mutex, which executors need, for
// some 10 us at a time: once to visit at most 1,024 batches, and once for each 128 tenants. It
// takes the pool's mutex once, and does not block otherwise.
class SchedulerMetrics {
 public:
  struct Limits {
    std::size_t deepest_batches = 10;  // of metrics.deepest_batches
    std::size_t tenants = 50;          // of metrics.tenants
  };
  // The lanes and handlers that have series of their own.
  struct Shown {
    std::vector<const Lane*> lanes;  // the pool's first
    std::vector<const Handler*> handlers;
  };

  // `shown` is called for each reading.
  SchedulerMetrics(const Pool& pool, const ServerStats& stats, std::function<Shown()> shown, Limits limits);

  void set_limits(Limits limits);

  MetricsPage::Reading read();
  // The tenants that have labels of their own, as of the last reading.
  const std::set<std::string>& labelled_tenants() const { return tenant_labels_.labelled(); }

 private:
  class Reading;

  const Pool& pool_;
  const ServerStats& stats_;
  const std::function<Shown()> shown_;
  Limits limits_;
  TenantLabels tenant_labels_;
};

}  // namespace locksley::daemon
