#include "daemon/server/state/inspection.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "core/lane/lane_view.h"
#include "daemon/base/time.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {

namespace {

// Whether a handler's jobs run here, or a remote worker may get some now.
enum class Executors : std::uint8_t { kSome, kNone, kAllAtLimit };

std::string_view reason_of(const BatchStatus& status, const QueueView& view, bool is_over,
                           const HandlerDirectory::Entry* entry, Executors executors) {
  if (is_over) return "ended";
  if (status.running > 0) return "running";
  if (status.paused) return "paused";
  if (has(status.holds, Hold::kHandler)) return "handler-missing";
  if (has(status.holds, Hold::kBatches)) return "after-batch";
  if (has(status.holds, Hold::kDelay)) return "delayed";
  if (status.queued == 0) return "open-and-empty";
  if (status.waiting != 0 && status.waiting == status.queued) return "delayed";
  if (view.backoff == Backoff::kBroken) return "crash-backoff";
  if (view.backoff == Backoff::kNoPayloads) return "store-unreadable";
  if (entry != nullptr && entry->is_backing_off && entry->is_backing_off()) return "crash-backoff";
  if (view.at_slots) return "running";
  if (view.tenant_at_limit) return "tenant-at-limit";
  if (view.customer_at_limit) return "customer-at-limit";
  if (view.results_at_limit) return "results-at-limit";
  if (executors == Executors::kNone) return "waiting-for-workers";
  if (executors == Executors::kAllAtLimit) return "workers-at-limit";
  if (entry != nullptr && entry->concurrency != 0) {
    if (entry->is_at_rate && entry->is_at_rate()) return "rate-limited";
    // The batch whose turn is next waits for nothing but a slot: one of its handler's, or one of its lane.
    if (view.ahead == 0) return view.gate_is_closed ? "handler-at-limit" : "lane-at-limit";
  }
  return "waiting-its-turn";
}

// Jobs per second of a batch, where too few jobs have ended to measure it: estimated from the cost
// of its jobs and the fraction of the lane that the batch received lately; before it received
// anything, from the fraction that is its share.
double rate_of(const QueueView& view, std::uint32_t workers) {
  if (view.job_cost.count() <= 0) return 0;
  const double fraction = view.received > 0.001 ? view.received : view.share;
  return fraction * workers * 1e9 / static_cast<double>(view.job_cost.count());
}

void add_tenants(const ServerState& state, const User& user, TenantViews& tenants) {
  for (const Lane* lane : state.lanes()) {
    for (const TenantView& view : lane->view().snapshot(0).tenants) {
      if (!user.is_admin() && view.tenant != user.name()) continue;
      TenantView& sum = tenants[view.tenant];
      sum.tenant = view.tenant;
      sum.weight = view.weight;
      sum.queues += view.queues;
      sum.queued += view.queued;
      sum.executors += view.executors;
      sum.is_idle = sum.is_idle && view.is_idle;
      sum.busy += view.busy;
      sum.share = std::max(sum.share, view.share);
      sum.received = std::max(sum.received, view.received);
    }
  }
}

Executors executors_of(const ServerState& state, const HandlerDirectory::Entry* entry) {
  if (entry == nullptr || entry->kind != HandlerKind::kRemote) return Executors::kSome;
  const MachinesBoard::View machines = state.machines().get();
  const auto found = machines->handlers.find(entry->handler.name());
  if (found == machines->handlers.end() || found->second.workers == 0) return Executors::kNone;
  return found->second.at_limit == found->second.workers ? Executors::kAllAtLimit : Executors::kSome;
}

}  // namespace

Explanation explain(const ServerState& state, BatchRecord& record, const BatchStatus& status) {
  const bool is_over = status.finished_at != 0;
  const QueueView view = is_over ? QueueView{} : record.lane->view().batch(record);
  const HandlerDirectory::Entry* const entry = state.handlers().find(record.handler().name());
  const double rate = is_over ? 0
                              : record.rate.per_second(now(), status.ok + status.failed)
                                    .value_or(rate_of(view, slots_of(state, *record.lane)));
  const std::uint64_t left = status.queued + status.running;
  // A wait for other batches or for a command has no known end; a delay has.
  const bool is_known = rate > 0 && status.state != BatchState::kOpen &&
                        (status.holds & ~static_cast<Holds>(Hold::kDelay)) == 0;
  const auto until_start = has(status.holds, Hold::kDelay) ? record.due.start - now() : Instant::duration(0);
  const double start_ms = std::max(0.0, std::chrono::duration<double, std::milli>(until_start).count());
  return {.state = status.state,
          .reason = reason_of(status, view, is_over, entry, executors_of(state, entry)),
          .is_paused = !is_over && status.paused,
          .ahead = view.ahead,
          .share = view.share,
          .received = view.received,
          .jobs_per_second = rate,
          .eta_ms = is_over    ? 0
                    : is_known ? std::llround(start_ms + static_cast<double>(left) / rate * 1000)
                               : -1};
}

TenantViews tenants_seen_by(const ServerState& state, const User& user) {
  TenantViews tenants;
  add_tenants(state, user, tenants);
  std::erase_if(tenants, [](const auto& tenant) { return tenant.second.is_idle; });
  return tenants;
}

TenantViews tenants_with_own(const ServerState& state, const User& user) {
  TenantViews tenants;
  TenantView& own = tenants[user.name()];
  own.tenant = user.name();
  const auto& limits = state.users().limits();
  if (const auto known = limits.find(user.name()); known != limits.end()) own.weight = known->second.weight;
  add_tenants(state, user, tenants);
  std::erase_if(tenants,
                [&user](const auto& tenant) { return tenant.second.is_idle && tenant.first != user.name(); });
  return tenants;
}

std::uint32_t slots_of(const ServerState& state, const Lane& lane) {
  return &lane == state.lanes().front() ? state.pool().workers() : lane.parallelism();
}

std::uint32_t concurrency_of(const ServerState& state, const HandlerDirectory::Entry& entry) {
  if (entry.kind == HandlerKind::kRemote) return 0;  // as many as the remote workers have slots
  return entry.concurrency != 0 ? entry.concurrency : state.pool().workers();
}

double rounded(double fraction) { return std::round(fraction * 1e4) / 1e4; }

}  // namespace locksley::daemon
