#include "daemon/workers/remote_metrics.h"

#include <string>
#include <utility>

namespace locksley::daemon {

void read_remote_metrics(const MachinesView& view, const std::map<std::string, std::uint64_t>& queued,
                         Families& families) {
  if (!view.is_open) return;
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
    slots.add({{"lane", lane}}, numbers.slots);
    leases.add({{"lane", lane}}, numbers.leases);
    claims.add({{"lane", lane}}, numbers.claims);
  }
  for (Family* family : {&slots, &leases, &claims}) std::move(*family).move_to(families);
  Family waiting = Family::gauge(
      "locksley_remote_handler_queued_jobs",
      "Jobs of a handler that wait for remote workers; handlers that run here, too, have none.");
  for (const auto& [handler, jobs] : queued) waiting.add({{"handler", handler}}, jobs);
  std::move(waiting).move_to(families);
  Family of_handler =
      Family::gauge("locksley_remote_handler_workers", "Remote workers that serve a handler.");
  for (const auto& [handler, numbers] : view.handlers)
    of_handler.add({{"handler", handler}}, numbers.workers);
  std::move(of_handler).move_to(families);
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

}  // namespace locksley::daemon
