// Metrics of workers, lanes, tenants and handlers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "core/batch/handler.h"
#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "daemon/metrics/metric_family.h"
#include "daemon/metrics/tenant_labels.h"

namespace locksley::daemon {

// Takes snapshots of the scheduler when it is read. It counts nothing itself, so an idle daemon
// does no work for its metrics.
//
// Owned by HttpPort; the pool, the lanes and the handlers outlive it. One thread at a time. read()
// takes each ring's mutex, which executors need, for some 10 us at a time: once to visit at most
// 1,024 batches, and once for each 128 tenants. It takes the pool's mutex once, and does not block
// otherwise.
class SchedulerMetrics {
 public:
  struct Limits {
    std::size_t deepest_batches = 10;  // of metrics.deepest_batches
    std::size_t tenants = 50;          // of metrics.tenants
  };

  SchedulerMetrics(const Pool& pool, const Lane& lane, std::vector<const Handler*> handlers, Limits limits);

  // Adds a lane, which must outlive this object. Does nothing if it is known.
  void add_lane(const Lane& lane);
  // Adds a handler, which must outlive this object. Does nothing if it is known.
  void add_handler(const Handler& handler);
  void set_limits(Limits limits);

  void read(Families& families);
  // The tenants that have labels of their own since the last read().
  const std::set<std::string>& labelled_tenants() const { return tenant_labels_.labelled(); }

 private:
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
  std::vector<const Lane*> others_;
  std::vector<const Handler*> handlers_;
  Limits limits_;
  TenantLabels tenant_labels_;
};

}  // namespace locksley::daemon
