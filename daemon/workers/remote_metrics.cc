#include "daemon/workers/remote_metrics.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace locksley::daemon {

namespace {

// All metrics except those of handlers.
void read_numbers(const MachinesView& view, const std::set<std::string, std::less<>>& lanes,
                  Families& families) {
  const auto add = [&families](Family family, std::uint64_t value) {
    family.add({}, value);
    std::move(family).move_to(families);
  };
  const WorkerLinkStats& stats = view.stats;
  add(Family::gauge("locksley_remote_workers", "Remote workers that have joined."), stats.workers);
  Family slots = Family::gauge("locksley_remote_slots", "Slots of remote workers that serve a lane.");
  Family leases = Family::gauge("locksley_remote_leases", "Leases of a lane's jobs that are out.");
  Family claims = Family::counter("locksley_remote_claims_total", "Leases that were handed out.");
  for (const auto& [lane, numbers] : view.lanes) {
    if (!lanes.contains(lane)) continue;
    slots.add({{"lane", lane}}, numbers.slots);
    leases.add({{"lane", lane}}, numbers.leases);
    claims.add({{"lane", lane}}, numbers.claims);
  }
  for (Family* family : {&slots, &leases, &claims}) std::move(*family).move_to(families);
  add(Family::gauge("locksley_remote_leased_bytes", "Payloads that remote workers hold, in bytes."),
      stats.leased_bytes);
  Family lost = Family::counter("locksley_remote_lost_jobs_total",
                                "Jobs that may have run when their remote worker was lost, by the reason.");
  lost.add({{"reason", "disconnected"}}, stats.lost_by_disconnect);
  lost.add({{"reason", "silent"}}, stats.lost_by_silence);
  lost.add({{"reason", "timeout"}}, stats.timed_out);
  std::move(lost).move_to(families);
  add(Family::counter("locksley_remote_cut_jobs_total",
                      "Jobs that a remote worker gave back, as it was asked to or by itself."),
      stats.yielded_jobs);
  add(Family::counter(
          "locksley_remote_reclaimed_jobs_total",
          "Jobs that a remote worker has kept over a lost connection or a restart of the daemon."),
      stats.reclaimed_jobs);
  Family settled = Family::histogram("locksley_remote_settle_seconds",
                                     "From a result of a remote worker to the reply that it is written.");
  settled.add({}, view.settle_time);
  std::move(settled).move_to(families);
}

class OfHandlers {
 public:
  OfHandlers(MachinesBoard::View view, std::map<std::string, std::uint64_t> queued)
      : view_(std::move(view)), queued_(std::move(queued)) {}

  bool go_on(Families& families, Instant until) {
    for (; next_ != view_->handlers.end(); ++next_) {
      if (now() >= until) return false;
      const auto& [name, numbers] = *next_;
      workers_.add({{"handler", name}}, numbers.workers);
    }
    while (!queued_.empty()) {
      if (now() >= until) return false;
      const auto handler = queued_.extract(queued_.begin());
      waiting_.add({{"handler", handler.key()}}, handler.mapped());
    }
    std::move(waiting_).move_to(families);
    std::move(workers_).move_to(families);
    return true;
  }

 private:
  const MachinesBoard::View view_;
  std::map<std::string, std::uint64_t> queued_;  // those that are not in waiting_
  decltype(MachinesView::handlers)::const_iterator next_ = view_->handlers.begin();
  Family waiting_ = Family::gauge(
      "locksley_remote_handler_queued_jobs",
      "Jobs of a handler that wait for remote workers; handlers that run here, too, have none.");
  Family workers_ = Family::gauge("locksley_remote_handler_workers", "Remote workers that serve a handler.");
};

}  // namespace

MetricsPage::Reading read_remote_metrics(MachinesBoard::View view,
                                         const std::set<std::string, std::less<>>& lanes,
                                         std::map<std::string, std::uint64_t> queued) {
  if (!view->is_open) return [](Families&, Instant) { return true; };
  Families numbers;
  read_numbers(*view, lanes, numbers);
  return [numbers = std::move(numbers), handlers = OfHandlers(std::move(view), std::move(queued))](
             Families& families, Instant until) mutable {
    std::ranges::move(std::exchange(numbers, {}), std::back_inserter(families));
    return handlers.go_on(families, until);
  };
}

}  // namespace locksley::daemon
