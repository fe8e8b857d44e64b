#include "daemon/workers/state/out_lease.h"

#include <memory>

#include "core/base/job.h"

namespace locksley::daemon {
namespace {

std::optional<std::uint64_t> job_after(const IndexSet& held, std::uint64_t started) {
  if (held.size() <= started) return std::nullopt;
  return held.at(started);
}

}  // namespace

ShownJob* OutLease::shown_job(std::uint64_t index, std::string_view worker) {
  if (const auto found = shown.find(index); found != shown.end()) return found->second.get();
  if (shown.size() >= kMostShown) return nullptr;
  auto job = std::make_unique<ShownJob>(lease.lane().running());
  job->begin({.batch = lease.batch(),
              .index = index,
              .attempt = lease.attempt(),
              .since = steady_now(),
              .worker = worker});
  return shown.emplace(index, std::move(job)).first->second.get();
}

void OutLease::save_notes() {
  for (const auto& [index, job] : shown) {
    if (lease.held().contains(index)) job->save_note();
  }
}

bool OutLease::may_have_begun() const {
  if (untouched == Untouched::kUnasked) return false;
  // Before a lease begins, it shows the jobs of NOTEs only.
  return lease.has_begun() || reported.next() > lease.range().low || !shown.empty();
}

std::uint64_t OutLease::begun(std::uint32_t in_front) const {
  const std::uint64_t most = reported.is_complete() ? 0 : lease.held().size();
  return std::max(reported.begun(lease.held()), std::min<std::uint64_t>(in_front, most));
}

std::uint64_t OutLease::started() const {
  const bool may_run = lease.has_begun() && !reported.is_complete();
  return std::max<std::uint64_t>(may_run ? lease.width() : 0, reported.begun(lease.held()));
}

std::optional<std::uint64_t> OutLease::first_not_started() const {
  return job_after(lease.held(), started());
}

std::optional<std::uint64_t> OutLease::first_to_spare() const {
  return job_after(lease.held(), std::max<std::uint64_t>(lease.width(), started()));
}

std::optional<std::uint64_t> OutLease::middle() const {
  const IndexSet& held = lease.held();
  const std::uint64_t first = started();
  if (held.size() <= first) return std::nullopt;
  return held.at(first + (held.size() - first) / 2);
}

}  // namespace locksley::daemon
