#include "daemon/upstream/upstream_metrics.h"

#include <utility>

namespace locksley::daemon {

UpstreamLaneView UpstreamLaneView::of(std::string lane, const UpstreamMeter& meter) {
  return {.lane = std::move(lane),
          .is_connected = meter.joined.get() != 0,
          .leases = meter.leases.get(),
          .kept_bytes = meter.kept_bytes.get(),
          .round_trip = std::chrono::microseconds(meter.round_trip_us.get()),
          .reconnects = meter.reconnects.get(),
          .jobs = meter.jobs.get(),
          .lost_leases = meter.lost_leases.get()};
}

void read_upstream_metrics(const std::vector<UpstreamLaneView>& lanes, Families& families) {
  const auto add = [&](Family family, auto value_of) {
    for (const UpstreamLaneView& lane : lanes) family.add({{"lane", lane.lane}}, value_of(lane));
    std::move(family).move_to(families);
  };
  add(Family::gauge("locksley_upstream_connected",
                    "Whether a lane has a connection on which it has joined the upstream daemon: 1 or 0."),
      [](const UpstreamLaneView& lane) { return std::uint64_t{lane.is_connected ? 1U : 0U}; });
  add(Family::counter("locksley_upstream_reconnects_total",
                      "Times that a lane has joined the upstream again after its connection was lost."),
      [](const UpstreamLaneView& lane) { return lane.reconnects; });
  add(Family::gauge("locksley_upstream_round_trip_seconds",
                    "Shortest round trip to the upstream in some minutes, by the system; 0 before the first "
                    "connection."),
      [](const UpstreamLaneView& lane) { return seconds_of(Nanoseconds(lane.round_trip)); });
  add(Family::gauge("locksley_upstream_leases", "Leases of the upstream that are ready or run here."),
      [](const UpstreamLaneView& lane) { return lane.leases; });
  add(Family::counter("locksley_upstream_jobs_total",
                      "Jobs that ran here, and of which the upstream has recorded the result."),
      [](const UpstreamLaneView& lane) { return lane.jobs; });
  add(Family::gauge("locksley_upstream_unacknowledged_result_bytes",
                    "Results that the upstream has not acknowledged, sent or not, in bytes."),
      [](const UpstreamLaneView& lane) { return lane.kept_bytes; });
  add(Family::counter(
          "locksley_upstream_lost_leases_total",
          "Leases that the upstream has taken back, or refuses, so that results of them no longer count."),
      [](const UpstreamLaneView& lane) { return lane.lost_leases; });
}

}  // namespace locksley::daemon
