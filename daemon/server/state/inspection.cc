#include "daemon/server/state/inspection.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "core/lane/lane_view.h"
#include "daemon/base/time.h"
#include "daemon/server/state/outlook.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {

namespace {

// Whether a handler's jobs run here, or a remote worker may get some now.
enum class Executors : std::uint8_t { kSome, kNone, kAllAtLimit };

struct Reason {
  std::string_view text;
  Progress progress = Progress::kExpected;
};

Reason reason_of(const BatchStatus& status, const QueueView& view, bool is_over,
                 const HandlerDirectory::Entry* entry, Executors executors) {
  if (is_over) return {"ended"};
  if (status.running > 0) return {"running"};
  if (status.paused) return {"paused", Progress::kNone};
  if (has(status.holds, Hold::kHandler)) return {"handler-missing", Progress::kNone};
  if (has(status.holds, Hold::kBatches)) return {"after-batch", Progress::kNone};
  if (has(status.holds, Hold::kDelay)) return {"delayed"};
  if (status.queued == 0) return {"open-and-empty", Progress::kNone};
  if (status.waiting != 0 && status.waiting == status.queued) return {"delayed"};
  if (view.backoff == Backoff::kBroken) return {"crash-backoff", Progress::kUncertain};
  if (view.backoff == Backoff::kNoPayloads) return {"store-unreadable", Progress::kUncertain};
  if (entry != nullptr && entry->is_backing_off && entry->is_backing_off())
    return {"crash-backoff", Progress::kUncertain};
  if (view.at_slots) return {"running"};
  if (view.tenant_at_limit) return {"tenant-at-limit"};
  if (view.customer_at_limit) return {"customer-at-limit"};
  if (view.results_at_limit) return {"results-at-limit", Progress::kUncertain};
  if (executors == Executors::kNone) return {"waiting-for-workers", Progress::kNone};
  if (executors == Executors::kAllAtLimit) return {"workers-at-limit", Progress::kUncertain};
  if (entry != nullptr && entry->concurrency != 0) {
    if (entry->is_at_rate && entry->is_at_rate()) return {"rate-limited"};
    // The batch whose turn is next waits for nothing but a slot: one of its handler's, or one of
    // its lane.
    if (view.ahead == 0) return {view.gate_is_closed ? "handler-at-limit" : "lane-at-limit"};
  }
  return {"waiting-its-turn"};
}

// An estimate of how many jobs of a batch run at once: from the fraction of the lane that it
// received lately, or, if it received nothing yet, from its share.
double slots_for(const QueueView& view, std::uint32_t workers) {
  return (view.received > 0.001 ? view.received : view.share) * workers;
}

void add_to(TenantViews& tenants, const TenantView& view) {
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
  const Reason reason = reason_of(status, view, is_over, entry, executors_of(state, entry));
  Outlook outlook{.jobs_per_second = 0, .eta_ms = 0};
  if (!is_over) {
    // A wait for other batches or for a command has no known end; a delay has.
    const bool is_held = (status.holds & ~static_cast<Holds>(Hold::kDelay)) != 0 && status.queued != 0;
    const Instant at = now();
    const std::uint64_t ended = status.ok + status.failed;
    outlook = outlook_of(
        {.progress = is_held ? Progress::kNone : reason.progress,
         .measured = record.rate.per_second(at, ended),
         .slots = slots_for(view, slots_of(state, *record.lane)),
         .job_cost = view.job_cost,
         .silence = record.rate.silence(at, ended),
         .left = status.queued + status.running,
         .until_start = has(status.holds, Hold::kDelay) ? record.due.start - at : Instant::duration(0)});
    if (status.state == BatchState::kOpen) outlook.eta_ms = -1;
  }
  return {.state = status.state,
          .reason = reason.text,
          .is_paused = !is_over && status.paused,
          .ahead = view.ahead,
          .share = view.share,
          .received = view.received,
          .jobs_per_second = outlook.jobs_per_second,
          .eta_ms = outlook.eta_ms};
}

TenantViews tenants_seen_by(const ServerState& state, const UserRef& user, OwnTenant own) {
  TenantPages pages(state, user, own);
  while (!pages.read_some()) {
  }
  return pages.take();
}

TenantPages::TenantPages(const ServerState& state, UserRef user, OwnTenant own)
    : state_(state), user_(std::move(user)), own_(own) {
  if (own_ == OwnTenant::kIfKnown) return;
  TenantView& view = views_[user_->name()];
  view.tenant = user_->name();
  const auto& limits = state_.users().limits();
  if (const auto known = limits.find(user_->name()); known != limits.end())
    view.weight = known->second.weight;
}

bool TenantPages::read_some() {
  constexpr std::size_t kAtOnce = 128;  // some 50 us, with the mutex that the executors of the lane need
  if (lane_ == state_.lanes().size()) return true;
  const Lane::View lane = state_.lanes()[lane_]->view();
  std::size_t count = 0;
  if (!user_->is_admin()) {
    if (const auto own = lane.tenant(user_->name())) add_to(views_, *own);
  } else {
    const std::vector<TenantView> page = lane.tenants(after_ ? &*after_ : nullptr, kAtOnce);
    for (const TenantView& view : page) add_to(views_, view);
    count = page.size();
    if (count == kAtOnce) after_ = page.back().tenant;
  }
  if (count < kAtOnce) {
    ++lane_;
    after_.reset();
  }
  return lane_ == state_.lanes().size();
}

std::size_t TenantPages::memory_bytes() const {
  constexpr std::size_t kNodeBytes = 40;  // of a tree, besides its value
  return views_.size() * (sizeof(TenantViews::value_type) + kNodeBytes);
}

TenantViews TenantPages::take() {
  std::erase_if(views_, [this](const auto& tenant) {
    return tenant.second.is_idle && (own_ == OwnTenant::kIfKnown || tenant.first != user_->name());
  });
  return std::move(views_);
}

LaneSeen lane_seen_by(const Lane& lane, const User& user) {
  if (user.is_admin()) {
    const RingTotals totals = lane.view().totals();
    return {.queued = totals.queued, .running = totals.executors, .batches = totals.active_queues};
  }
  const auto own = lane.view().tenant(user.name());
  if (!own) return {};
  return {.queued = own->queued, .running = own->executors, .batches = own->queues};
}

std::vector<const Lane*> lanes_in_use(const ServerState& state) {
  std::set<const Lane*> of_handlers;
  for (const auto& [name, entry] : state.handlers().entries()) of_handlers.insert(&entry.lane);
  std::vector<const Lane*> lanes;
  for (const Lane* const lane : state.lanes()) {
    const auto has_batches = [lane] {
      return std::ranges::any_of(lane->view().gates(), [](const GateView& gate) { return gate.queues != 0; });
    };
    if (slots_of(state, *lane) != 0 || of_handlers.contains(lane) || has_batches()) lanes.push_back(lane);
  }
  return lanes;
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
