#include "daemon/workers/remote_worker.h"

namespace locksley::daemon {

std::vector<ServedLane> lanes_of(std::span<const ServedHandler> handlers) {
  std::vector<ServedLane> lanes;
  for (const ServedHandler& handler : handlers) {
    auto found = std::ranges::find(lanes, handler.place.lane, &ServedLane::lane);
    if (found == lanes.end()) found = lanes.insert(found, {.lane = handler.place.lane, .gates = {}});
    found->gates.add(handler.place.gate);
  }
  return lanes;
}

bool RemoteWorker::serves(std::string_view handler) const {
  return std::ranges::any_of(handlers, [&](const ServedHandler& served) { return served.name == handler; });
}

OutLease* RemoteWorker::find(std::uint64_t number) {
  const auto found = leases.find(number);
  return found == leases.end() ? nullptr : found->second.get();
}

Nanoseconds RemoteWorker::quantum() const {
  constexpr Nanoseconds kLeast = std::chrono::milliseconds(10);
  return std::clamp(20 * round_trip.mean(), kLeast, std::max(kLeast, lease_time / 10));
}

void RemoteWorker::begin_leases(Nanoseconds now) {
  for (const auto& [number, lease] : leases) {
    if (lease->lease.has_begun() || slots.in_front(lease->occupation) == 0) continue;
    lease->lease.begin();
    lease->progress = now;
  }
}

std::optional<Nanoseconds> RemoteWorker::time_to_go(const OutLease& lease, Nanoseconds now) const {
  Nanoseconds sum{0};
  for (const auto& [number, other] : leases) {
    const bool is_before = other.get() != &lease && other->occupation.first == lease.occupation.first &&
                           other->lease.has_begun();
    if (other.get() != &lease && !is_before) continue;
    const Nanoseconds used = slots.so_far(other->occupation, now);
    const std::uint64_t held = other->lease.held().size();
    const std::uint64_t ended = other->lease.range().size() - std::min(held, other->lease.range().size());
    // Of the lease that waits nothing is known: it takes as long as what is before it, at least.
    if (!other->lease.has_begun() || used.count() <= 0) continue;
    const auto each =
        static_cast<double>(used.count()) / static_cast<double>(std::max<std::uint64_t>(ended, 1));
    const double left = each * static_cast<double>(held) / other->lease.width();
    sum += Nanoseconds(static_cast<std::int64_t>(std::min(left, 1e17)));
  }
  if (sum.count() == 0) return std::nullopt;
  return sum;
}

namespace {

// How many of the jobs that the lease holds may have started.
std::uint64_t started_jobs(const OutLease& out) {
  // A lease in front has started at least one job for each slot.
  const std::uint64_t running = out.lease.has_begun() ? out.lease.width() : 0;
  return out.said_next ? std::max(running, out.lease.held().count_below(out.next)) : running;
}

}  // namespace

std::optional<std::uint64_t> RemoteWorker::first_not_started(const OutLease& out) {
  const IndexSet& held = out.lease.held();
  const std::uint64_t started = started_jobs(out);
  if (held.size() <= started) return std::nullopt;
  return held.at(started);
}

std::optional<std::uint64_t> RemoteWorker::middle(const OutLease& out) {
  const IndexSet& held = out.lease.held();
  const std::uint64_t started = started_jobs(out);
  if (held.size() < started + 2) return std::nullopt;
  return held.at(started + (held.size() - started) / 2);
}

}  // namespace locksley::daemon
