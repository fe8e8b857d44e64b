#include "daemon/metrics/scheduler_metrics.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "core/lane/lane_view.h"

namespace locksley::daemon {
namespace {

// A metric of each worker.
struct WorkerMetric {
  const char* name;
  const char* help;
  bool is_counter;
  double (*value)(const WorkerSnapshot&);
};

template <auto member>
double count_of(const WorkerSnapshot& worker) {
  return static_cast<double>(worker.*member);
}

constexpr WorkerMetric kOfWorkers[] = {
    {"locksley_worker_queue_depth",
     "Jobs of the worker's claim that have not started, and sub-jobs in its deque.", false,
     count_of<&WorkerSnapshot::queue_depth>},
    {"locksley_worker_jobs_total", "Jobs that the worker ran.", true, count_of<&WorkerSnapshot::jobs>},
    {"locksley_worker_steals_total", "Steals that succeeded.", true, count_of<&WorkerSnapshot::steals>},
    {"locksley_worker_steal_attempts_total", "Attempts of the worker to steal from a victim.", true,
     count_of<&WorkerSnapshot::steal_attempts>},
    {"locksley_worker_stolen_jobs_total", "Jobs and sub-jobs that the worker has stolen.", true,
     count_of<&WorkerSnapshot::stolen>},
    {"locksley_worker_parks_total", "Times that the worker parked.", true, count_of<&WorkerSnapshot::parks>},
    {"locksley_worker_empty_wakes_total", "Times that the worker was unparked and found no work.", true,
     count_of<&WorkerSnapshot::empty_wakes>},
    {"locksley_worker_busy_seconds_total", "Time that the worker spent on jobs.", true,
     [](const WorkerSnapshot& worker) { return seconds_of(worker.busy_ns); }},
};

// The sum over all workers of the pool.
DurationHistogram::Snapshot total_ring_wait(const std::vector<WorkerSnapshot>& workers) {
  DurationHistogram::Snapshot total;
  for (const WorkerSnapshot& worker : workers) {
    for (std::size_t i = 0; i < total.counts.size(); ++i) total.counts[i] += worker.ring_wait.counts[i];
    total.sum_seconds += worker.ring_wait.sum_seconds;
  }
  return total;
}

template <std::size_t count>
void move_all(std::array<Family, count>& from, Families& families) {
  for (Family& family : from) std::move(family).move_to(families);
}

}  // namespace

// Reads some series at a time: those of workers, lanes, tenants and handlers, in this order.
class SchedulerMetrics::Reading {
 public:
  explicit Reading(SchedulerMetrics& metrics)
      : metrics_(metrics),
        shown_(metrics.shown_()),
        workers_(metrics.pool_.snapshot()),
        deepest_(metrics.limits_.deepest_batches) {}

  bool go_on(Families& families, Instant until) {
    return (read_workers(families, until) && read_lanes(families, until) && read_tenants(families, until) &&
            read_handlers(families, until));
  }

 private:
  // ---- The parts. True: all series of the part are in the families ----

  bool read_workers(Families& families, Instant until);
  bool read_lanes(Families& families, Instant until);
  bool read_tenants(Families& families, Instant until);
  bool read_handlers(Families& families, Instant until);

  void add(const Lane& lane);
  void add_next_tenants(const Lane& lane);
  void add(const Handler& handler);

  SchedulerMetrics& metrics_;
  const Shown shown_;
  const std::vector<WorkerSnapshot> workers_;
  const std::size_t deepest_;  // ranks

  // Where the next call goes on.
  std::size_t worker_metric_ = 0;
  std::size_t lane_ = 0;
  std::size_t tenants_of_ = 0;        // number of the lane whose tenants are read
  std::optional<std::string> after_;  // its last tenant that was read
  std::string label_;                 // the last label whose series are in of_tenants_
  std::size_t handler_ = 0;

  TenantLabels::Sums tenants_;
  std::array<Family, 7> of_lanes_ = {
      Family::gauge("locksley_lane_queued_jobs", "Jobs that are not claimed yet."),
      Family::gauge(
          "locksley_lane_running_jobs",
          "Executors that have jobs of the lane's batches: workers, processes, and leases of remote workers, "
          "also those that wait there for their slot."),
      Family::gauge("locksley_lane_active_batches", "Batches with jobs queued or running."),
      Family::gauge(
          "locksley_lane_slots",
          "Jobs that the lane can run at once here; slots of remote workers are in locksley_remote_slots."),
      // Ranks without a batch are 0, so that no series appears and disappears.
      Family::gauge("locksley_batch_queue_depth",
                    "Queued jobs of the deepest batch queues; rank 1 is the deepest."),
      Family::counter("locksley_ring_claims_total", "Claims that executors made from the lane's ring."),
      Family::histogram("locksley_ring_wait_seconds",
                        "Time that a batch's queue with jobs waited for a claim.")};
  std::array<Family, 3> of_tenants_ = {
      Family::gauge("locksley_tenant_queued_jobs", "The tenant's jobs that are not claimed yet."),
      Family::gauge("locksley_tenant_share_ratio",
                    "Worker time that the tenant received, divided by the time due to it, over the recent "
                    "time in which something was due; 1 while nothing is due."),
      Family::counter("locksley_tenant_busy_seconds_total", "Worker time that the tenant's jobs used.")};
  std::array<Family, 6> of_handlers_ = {
      Family::counter("locksley_jobs_total", "Jobs that ended, by their status."),
      Family::histogram("locksley_job_duration_seconds",
                        "Run time of jobs; for tiny jobs, the mean of the few that were timed together."),
      Family::histogram("locksley_batch_wait_seconds", "From a batch's submission to its first start."),
      Family::histogram("locksley_batch_duration_seconds", "From a batch's submission to its end."),
      Family::counter("locksley_batches_total", "Events of batches, by handler."),
      Family::counter("locksley_handler_failed_starts_total",
                      "Worker programs that could not be started, or ended before they read a job.")};
};

bool SchedulerMetrics::Reading::read_workers(Families& families, Instant until) {
  for (; worker_metric_ < std::size(kOfWorkers); ++worker_metric_) {
    if (now() >= until) return false;
    const WorkerMetric& metric = kOfWorkers[worker_metric_];
    Family family = metric.is_counter ? Family::counter(metric.name, metric.help)
                                      : Family::gauge(metric.name, metric.help);
    for (const WorkerSnapshot& worker : workers_) {
      family.add({{"worker", std::to_string(worker.worker)}}, metric.value(worker));
    }
    std::move(family).move_to(families);
  }
  return true;
}

bool SchedulerMetrics::Reading::read_lanes(Families& families, Instant until) {
  if (lane_ > shown_.lanes.size()) return true;
  for (; lane_ < shown_.lanes.size(); ++lane_) {
    if (now() >= until) return false;
    add(*shown_.lanes[lane_]);
  }
  move_all(of_lanes_, families);
  ++lane_;
  return true;
}

void SchedulerMetrics::Reading::add(const Lane& lane) {
  auto& [queued, running, batches, slots, depth, claims, wait] = of_lanes_;
  const RingSnapshot ring = lane.view().summary(deepest_);
  const bool is_pools = lane_ == 0;
  const Labels label = {{"lane", lane.name()}};
  queued.add(label, ring.queued);
  running.add(label, std::uint64_t{ring.executors});
  batches.add(label, ring.active_queues);
  slots.add(label, std::uint64_t{is_pools ? metrics_.pool_.workers() : lane.parallelism()});
  for (std::size_t rank = 1; rank <= deepest_; ++rank) {
    depth.add({{"lane", lane.name()}, {"rank", std::to_string(rank)}},
              rank <= ring.deepest.size() ? ring.deepest[rank - 1] : 0);
  }
  claims.add(label, ring.claims_total);
  wait.add(label, is_pools ? total_ring_wait(workers_) : lane.external_wait.snapshot());
}

bool SchedulerMetrics::Reading::read_tenants(Families& families, Instant until) {
  while (tenants_of_ < shown_.lanes.size()) {
    if (now() >= until) return false;
    add_next_tenants(*shown_.lanes[tenants_of_]);
  }
  if (tenants_of_ > shown_.lanes.size()) return true;
  auto& [queued, ratio, busy] = of_tenants_;
  while (const std::string* const label = metrics_.tenant_labels_.label_after(label_)) {
    if (now() >= until) return false;
    label_ = *label;
    const TenantNumbers& numbers = tenants_[label_];
    queued.add({{"tenant", label_}}, numbers.queued);
    ratio.add({{"tenant", label_}},
              numbers.share > 0 && numbers.due > 0 ? numbers.received / numbers.due : 1.0);
    busy.add({{"tenant", label_}}, metrics_.tenant_labels_.busy_seconds(label_));
  }
  move_all(of_tenants_, families);
  ++tenants_of_;
  return true;
}

void SchedulerMetrics::Reading::add_next_tenants(const Lane& lane) {
  constexpr std::size_t kAtOnce = 128;  // some 10 us with the ring's mutex
  const std::string* const after = after_ ? &*after_ : nullptr;
  const std::vector<TenantView> page = lane.view().tenants(after, kAtOnce);
  const bool is_last = page.size() < kAtOnce;
  metrics_.tenant_labels_.add(lane.name(), after, page, is_last, tenants_);
  if (is_last) {
    after_.reset();
    ++tenants_of_;
  } else {
    after_ = page.back().tenant;
  }
}

bool SchedulerMetrics::Reading::read_handlers(Families& families, Instant until) {
  for (; handler_ < shown_.handlers.size(); ++handler_) {
    if (now() >= until) return false;
    add(*shown_.handlers[handler_]);
  }
  move_all(of_handlers_, families);
  return true;
}

void SchedulerMetrics::Reading::add(const Handler& handler) {
  auto& [jobs, durations, waits, batch_durations, batches, failed_starts] = of_handlers_;
  const Labels label = {{"handler", handler.name()}};
  for (std::size_t status = 0; status < kJobStatuses; ++status) {
    // [handler-stats] relaxed: for display only; nothing follows from a stale value.
    const std::uint64_t count = handler.stats.jobs[status].load(std::memory_order_relaxed);
    jobs.add(
        {{"handler", handler.name()}, {"status", std::string(to_string(static_cast<JobStatus>(status)))}},
        count);
  }
  durations.add(label, handler.stats.job_duration.snapshot());
  waits.add(label, handler.stats.batch_wait.snapshot());
  batch_durations.add(label, handler.stats.batch_duration.snapshot());
  // [handler-stats] relaxed: as above.
  failed_starts.add(label, handler.stats.failed_starts.load(std::memory_order_relaxed));
  const auto events = metrics_.stats_.batches.find(handler.name());
  if (events == metrics_.stats_.batches.end()) return;
  for (std::size_t event = 0; event < kBatchEvents; ++event) {
    batches.add({{"handler", handler.name()}, {"event", std::string(kBatchEventNames[event])}},
                events->second[event].get());
  }
}

SchedulerMetrics::SchedulerMetrics(const Pool& pool, const ServerStats& stats, std::function<Shown()> shown,
                                   Limits limits)
    : pool_(pool), stats_(stats), shown_(std::move(shown)), limits_(limits), tenant_labels_(limits.tenants) {}

void SchedulerMetrics::set_limits(Limits limits) {
  limits_ = limits;
  tenant_labels_.set_limit(limits.tenants);
}

MetricsPage::Reading SchedulerMetrics::read() {
  return [reading = std::make_unique<Reading>(*this)](Families& families, Instant until) {
    return reading->go_on(families, until);
  };
}

}  // namespace locksley::daemon
