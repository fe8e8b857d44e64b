#include "daemon/metrics/scheduler_metrics.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/lane/lane_view.h"

namespace locksley::daemon {
namespace {

void read_workers(const std::vector<WorkerSnapshot>& workers, Families& families) {
  struct Metric {
    const char* name;
    const char* help;
    std::uint64_t WorkerSnapshot::* value;
  };
  static constexpr Metric kCounters[] = {
      {"locksley_worker_jobs_total", "Jobs that the worker ran.", &WorkerSnapshot::jobs},
      {"locksley_worker_steals_total", "Steals that succeeded.", &WorkerSnapshot::steals},
      {"locksley_worker_steal_attempts_total", "Attempts of the worker to steal from a victim.",
       &WorkerSnapshot::steal_attempts},
      {"locksley_worker_stolen_jobs_total", "Jobs and sub-jobs that the worker has stolen.",
       &WorkerSnapshot::stolen},
      {"locksley_worker_parks_total", "Times that the worker parked.", &WorkerSnapshot::parks},
      {"locksley_worker_empty_wakes_total", "Times that the worker was unparked and found no work.",
       &WorkerSnapshot::empty_wakes},
  };

  Family depth =
      Family::gauge("locksley_worker_queue_depth",
                    "Jobs of the worker's claim that have not started, and sub-jobs in its deque.");
  for (const WorkerSnapshot& worker : workers) {
    depth.add({{"worker", std::to_string(worker.worker)}}, worker.queue_depth);
  }
  std::move(depth).move_to(families);

  for (const Metric& metric : kCounters) {
    Family family = Family::counter(metric.name, metric.help);
    for (const WorkerSnapshot& worker : workers) {
      family.add({{"worker", std::to_string(worker.worker)}}, worker.*metric.value);
    }
    std::move(family).move_to(families);
  }

  Family busy = Family::counter("locksley_worker_busy_seconds_total", "Time that the worker spent on jobs.");
  for (const WorkerSnapshot& worker : workers) {
    busy.add({{"worker", std::to_string(worker.worker)}}, seconds_of(worker.busy_ns));
  }
  std::move(busy).move_to(families);
}

// Sums over all workers of a lane.
DurationHistogram::Snapshot total_ring_wait(const std::vector<WorkerSnapshot>& workers) {
  DurationHistogram::Snapshot total;
  for (const WorkerSnapshot& worker : workers) {
    for (std::size_t i = 0; i < total.counts.size(); ++i) total.counts[i] += worker.ring_wait.counts[i];
    total.sum_seconds += worker.ring_wait.sum_seconds;
  }
  return total;
}

void read_durations(const std::vector<const Handler*>& handlers, std::string name, std::string help,
                    DurationHistogram HandlerStats::* which, Families& families) {
  Family family = Family::histogram(std::move(name), std::move(help));
  for (const Handler* handler : handlers) {
    family.add({{"handler", handler->name()}}, (handler->stats.*which).snapshot());
  }
  std::move(family).move_to(families);
}

}  // namespace

SchedulerMetrics::SchedulerMetrics(const Pool& pool, const Lane& lane, std::vector<const Handler*> handlers,
                                   Limits limits)
    : pool_(pool),
      lane_(lane),
      handlers_(std::move(handlers)),
      limits_(limits),
      tenant_labels_(limits.tenants) {}

void SchedulerMetrics::add_lane(const Lane& lane) {
  if (&lane != &lane_ && std::ranges::find(others_, &lane) == others_.end()) others_.push_back(&lane);
}

void SchedulerMetrics::add_handler(const Handler& handler) {
  if (std::ranges::find(handlers_, &handler) == handlers_.end()) handlers_.push_back(&handler);
}

void SchedulerMetrics::set_limits(Limits limits) {
  limits_ = limits;
  tenant_labels_.set_limit(limits.tenants);
}

void SchedulerMetrics::read(Families& families) {
  const std::vector<WorkerSnapshot> workers = pool_.snapshot();
  const std::size_t deepest = limits_.deepest_batches;
  std::vector<LaneNumbers> lanes;
  lanes.push_back({lane_.name(), pool_.workers(), lane_.view().snapshot(deepest), total_ring_wait(workers)});
  for (const Lane* const other : others_) {
    lanes.push_back({other->name(), other->parallelism(), other->view().snapshot(deepest),
                     other->external_wait.snapshot()});
  }
  read_workers(workers, families);
  read_lanes(lanes, families);
  read_tenants(lanes, families);
  read_handlers(families);
}

void SchedulerMetrics::read_lanes(const std::vector<LaneNumbers>& lanes, Families& families) const {
  const auto each = [&](Family family, const auto& value) {
    for (const LaneNumbers& lane : lanes) family.add({{"lane", lane.name}}, value(lane));
    std::move(family).move_to(families);
  };
  each(Family::gauge("locksley_lane_queued_jobs", "Jobs that are not claimed yet."),
       [](const LaneNumbers& lane) { return lane.ring.queued; });
  each(Family::gauge("locksley_lane_running_jobs",
                     "Executors at work on the lane's batches, each on one job at a time."),
       [](const LaneNumbers& lane) { return std::uint64_t{lane.ring.executors}; });
  each(Family::gauge("locksley_lane_active_batches", "Batches with jobs queued or running."),
       [](const LaneNumbers& lane) { return lane.ring.active_queues; });
  each(Family::gauge("locksley_lane_slots", "Jobs that the lane can run at once."),
       [](const LaneNumbers& lane) { return lane.slots; });

  // Ranks without a batch are 0, so that no series appears and disappears.
  Family depth = Family::gauge("locksley_batch_queue_depth",
                               "Queued jobs of the deepest batch queues; rank 1 is the deepest.");
  for (const LaneNumbers& lane : lanes) {
    for (std::size_t rank = 1; rank <= limits_.deepest_batches; ++rank) {
      depth.add({{"lane", lane.name}, {"rank", std::to_string(rank)}},
                rank <= lane.ring.deepest.size() ? lane.ring.deepest[rank - 1] : 0);
    }
  }
  std::move(depth).move_to(families);

  each(Family::counter("locksley_ring_claims_total", "Claims that executors made from the lane's ring."),
       [](const LaneNumbers& lane) { return lane.ring.claims_total; });
  each(Family::histogram("locksley_ring_wait_seconds",
                         "Time that a batch's queue with jobs waited for a claim."),
       [](const LaneNumbers& lane) { return lane.wait; });
}

void SchedulerMetrics::read_tenants(const std::vector<LaneNumbers>& lanes, Families& families) {
  std::vector<TenantView> tenants;
  for (const LaneNumbers& lane : lanes) {
    tenants.insert(tenants.end(), lane.ring.tenants.begin(), lane.ring.tenants.end());
  }
  Family queued = Family::gauge("locksley_tenant_queued_jobs", "The tenant's jobs that are not claimed yet.");
  Family ratio = Family::gauge("locksley_tenant_share_ratio",
                               "Worker time that the tenant received, divided by the time due to it, over "
                               "the recent time in which something was due; 1 while nothing is due.");
  Family busy =
      Family::counter("locksley_tenant_busy_seconds_total", "Worker time that the tenant's jobs used.");
  for (const auto& [tenant, numbers] : tenant_labels_.read(tenants)) {
    queued.add({{"tenant", tenant}}, numbers.queued);
    ratio.add({{"tenant", tenant}},
              numbers.share > 0 && numbers.due > 0 ? numbers.received / numbers.due : 1.0);
    busy.add({{"tenant", tenant}}, numbers.busy_seconds);
  }
  std::move(queued).move_to(families);
  std::move(ratio).move_to(families);
  std::move(busy).move_to(families);
}

void SchedulerMetrics::read_handlers(Families& families) const {
  Family jobs = Family::counter("locksley_jobs_total", "Jobs that ended, by their status.");
  for (const Handler* handler : handlers_) {
    for (std::size_t status = 0; status < kJobStatuses; ++status) {
      // [handler-stats] relaxed: for display only; nothing follows from a stale value.
      const std::uint64_t count = handler->stats.jobs[status].load(std::memory_order_relaxed);
      jobs.add(
          {{"handler", handler->name()}, {"status", std::string(to_string(static_cast<JobStatus>(status)))}},
          count);
    }
  }
  std::move(jobs).move_to(families);

  read_durations(handlers_, "locksley_job_duration_seconds",
                 "Run time of jobs; for tiny jobs, the mean of the few that were timed together.",
                 &HandlerStats::job_duration, families);
  read_durations(handlers_, "locksley_batch_wait_seconds", "From a batch's submission to its first start.",
                 &HandlerStats::batch_wait, families);
  read_durations(handlers_, "locksley_batch_duration_seconds", "From a batch's submission to its end.",
                 &HandlerStats::batch_duration, families);
}

}  // namespace locksley::daemon
