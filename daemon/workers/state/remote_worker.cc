#include "daemon/workers/state/remote_worker.h"

#include <limits>

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

std::uint64_t bytes_of_names(std::span<const std::string_view> handlers) {
  std::uint64_t bytes = 0;
  for (const std::string_view name : handlers) bytes += name.size() + kBytesOfName;
  return bytes;
}

OutLease* RemoteWorker::find(std::uint64_t number) {
  const auto found = leases.find(number);
  return found == leases.end() ? nullptr : found->second.get();
}

Nanoseconds RemoteWorker::quantum() const {
  constexpr Nanoseconds kLeast = std::chrono::milliseconds(10);
  return std::clamp(20 * round_trip.mean(), kLeast, std::max(kLeast, lease_time / 10));
}

bool RemoteWorker::is_overdue(const OutLease& out, Nanoseconds now) const {
  const auto width = static_cast<std::int64_t>(out.lease.width());
  return slots.so_far(out.occupation, now) > 2 * quantum() * width;
}

Nanoseconds RemoteWorker::answer_due(const OutLease& out) const {
  // A guess: how long a busy machine may take to run the thread that answers.
  constexpr Nanoseconds kLeast = std::chrono::milliseconds(100);
  // A worker without PUSH gets the order with its next BEAT. A guess: a live worker sends one by
  // then.
  constexpr Nanoseconds kLongestToBeat = std::chrono::seconds(5);
  const Nanoseconds told =
      out.orders.cut->told.value_or(out.orders.cut->planned + std::min(lease_time / 3, kLongestToBeat));
  return told + std::max(kLeast, time_of_cut());
}

std::vector<OutLease*> RemoteWorker::behind(const OutLease& out) {
  std::vector<OutLease*> others;
  for (std::uint32_t i = out.occupation.first; i < out.occupation.first + out.occupation.width; ++i) {
    const auto number = slots.behind(i);
    OutLease* const other = number ? find(*number) : nullptr;
    if (other == nullptr || other == &out) continue;
    if (others.empty() || others.back() != other) others.push_back(other);
  }
  return others;
}

void RemoteWorker::begin_leases(std::uint32_t first_slot, std::uint32_t width, Nanoseconds now) {
  for (std::uint32_t slot = first_slot; slot < first_slot + width; ++slot) {
    const auto number = slots.front(slot);
    OutLease* const out = number ? find(*number) : nullptr;
    if (out == nullptr || (out->lease.has_begun() && !out->timeout.is_displaced())) continue;
    go_on(*out, now);
  }
}

void RemoteWorker::go_on(OutLease& out, Nanoseconds now) const {
  out.lease.begin();
  out.timeout.came_to_front(now);
  out.reported.came_to_front();
  show_running(out);
}

void RemoteWorker::note_run(OutLease& out, Nanoseconds now) {
  out.reported.ran();
  held_up.reset();
  const auto displaced = slots.ran(out.occupation, now);
  if (!displaced) return;
  if (OutLease* const other = find(*displaced)) {
    const bool is_behind = slots.in_front(other->occupation) == 0;
    other->timeout.other_ran(is_behind, other->reported.has_running(other->lease.held()));
    show_running(*other);
  }
  go_on(out, now);
}

std::vector<std::uint64_t> RemoteWorker::begun_jobs(const OutLease& out) const {
  // Only jobs that the worker has begun, if it reports that.
  const std::uint64_t end =
      out.reported.has_next() ? out.reported.next() : std::numeric_limits<std::uint64_t>::max();
  std::vector<std::uint64_t> begun;
  for (const IndexRange& range : out.lease.held().ranges(slots.in_front(out.occupation))) {
    for (std::uint64_t index = range.low; index < std::min(range.high, end); ++index) begun.push_back(index);
  }
  return begun;
}

void RemoteWorker::show_running(OutLease& out) const {
  const std::vector<std::uint64_t> begun = begun_jobs(out);
  const IndexSet& held = out.lease.held();
  std::erase_if(out.shown, [&](const auto& job) {
    if (!held.contains(job.first)) return true;
    return !job.second->has_reports() && !std::ranges::binary_search(begun, job.first);
  });
  for (const std::uint64_t index : begun) (void)out.shown_job(index, name);
  count_shown(out);
}

void RemoteWorker::show_begun(OutLease& out) const {
  for (const std::uint64_t index : begun_jobs(out)) (void)out.shown_job(index, name);
  count_shown(out);
}

void RemoteWorker::count_shown(OutLease& out) const {
  const std::uint64_t before = std::exchange(out.counted_shown, out.shown.size());
  account.charge(&WorkerUse::shown, out.shown.size() - before);
}

void RemoteWorker::count_splits(OutLease& out) const {
  const std::size_t parts = out.lease.held().parts();
  const std::uint64_t splits = parts == 0 ? 0 : parts - 1;
  const std::uint64_t before = std::exchange(out.counted_splits, splits);
  account.charge(&WorkerUse::splits, splits - before);
}

std::vector<Nanoseconds> RemoteWorker::times_to_go(Nanoseconds now) const {
  std::vector<Nanoseconds> times(slots.size());
  for (const auto& [number, out] : leases) {
    // Nothing is known of a waiting lease: its slot needs at least the time of the lease before it.
    if (!out->lease.has_begun()) continue;
    const Nanoseconds used = slots.so_far(out->occupation, now);
    if (used.count() <= 0) continue;
    const std::uint64_t held = out->lease.held().size();
    const std::uint64_t ended = out->lease.range().size() - std::min(held, out->lease.range().size());
    const auto each =
        static_cast<double>(used.count()) / static_cast<double>(std::max<std::uint64_t>(ended, 1));
    const double left = each * static_cast<double>(held) / out->lease.width();
    times[out->occupation.first] += Nanoseconds(static_cast<std::int64_t>(std::min(left, 1e17)));
  }
  return times;
}

}  // namespace locksley::daemon
