// Metrics of workers, lanes, tenants and handlers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
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
// Owned by main(); the pool, the lane and the handlers outlive it. Everything is called by one thread at a
// time. read() takes each ring's mutex once (for a look at 1,024 batches at most) and the pool's once, and
// does not block otherwise.
class SchedulerMetrics {
 public:
  struct Limits {
    std::size_t deepest_batches = 10;  // of metrics.deepest_batches
    std::size_t tenants = 50;          // of metrics.tenants
  };

  SchedulerMetrics(const Pool& pool, const Lane& lane, std::vector<const Handler*> handlers, Limits limits);

  // Another lane, which outlives this, too, and whose executors are so many slots; or so many by now.
  void set_lane(const Lane& lane, std::uint32_t slots);
  // Another handler, which outlives this, too. A known one does no harm.
  void add_handler(const Handler& handler);
  void set_limits(Limits limits);

  void read(Families& families);

 private:
  struct Other {
    const Lane* lane;
    std::uint32_t slots;
  };
  struct LaneNumbers {
    std::string name;
    std::uint64_t slots;
    RingSnapshot ring;
    DurationHistogram::Snapshot wait;
  };

  void read_lanes(const std::vector<LaneNumbers>& lanes, Families& families) const;
  void read_tenants(const std::vector<LaneNumbers>& lanes, Families& families);
  void read_handlers(Families& families) const;

  const Pool& pool_;
  const Lane& lane_;  // the pool's
  std::vector<Other> others_;
  std::vector<const Handler*> handlers_;
  Limits limits_;
  TenantLabels tenant_labels_;
};

}  // namespace locksley::daemon
