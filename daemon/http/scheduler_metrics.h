// Metrics of workers, lanes, tenants and handlers.
#pragma once

#include <cstddef>
#include <vector>

#include "core/handler.h"
#include "core/lane.h"
#include "core/pool.h"
#include "daemon/http/metric_family.h"
#include "daemon/http/tenant_labels.h"

namespace locksley::daemon {

// Reads snapshots of the scheduler when it is asked, and counts nothing itself: an idle daemon does nothing
// for its metrics.
//
// Owned by main(); the pool, the lane and the handlers outlive it. read() is called by one thread at a time,
// takes the ring's mutex once (O(batches that are queued)) and the pool's once, and does not block otherwise.
class SchedulerMetrics {
 public:
  struct Limits {
    std::size_t deepest_batches = 10;  // of metrics.deepest_batches
    std::size_t tenants = 50;          // of metrics.tenants
  };

  SchedulerMetrics(const Pool& pool, const Lane& lane, std::vector<const Handler*> handlers, Limits limits);

  void read(Families& families);

 private:
  void read_lane(const RingSnapshot& ring, const std::vector<WorkerSnapshot>& workers,
                 Families& families) const;
  void read_tenants(const RingSnapshot& ring, Families& families);
  void read_handlers(Families& families) const;

  const Pool& pool_;
  const Lane& lane_;
  const std::vector<const Handler*> handlers_;
  const Limits limits_;
  TenantLabels tenant_labels_;
};

}  // namespace locksley::daemon
