#include "core/ring/fair_ring.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "core/base/check.h"

namespace locksley {

FairRing::FairRing(Options options) : options_(options) {
  options_.quantum = std::max(options_.quantum, Nanoseconds{1});
  options_.parallelism = std::max(options_.parallelism, 1U);
  (void)add_gate({.start_cost = options_.start_cost});
}

FairRing::~FairRing() { detach_all(); }

// ---- A queue's life ----

void FairRing::attach(RingQueue& queue, const QueueOptions& options, std::shared_ptr<void> keepalive) {
  const RingLock lock(mutex_);
  check(queue.seat_ == nullptr, "a queue is attached twice");
  RingTenant& tenant = tenant_of(options.tenant);
  RingSeat& seat = seat_of(tenant, options.gate);
  queue.seat_ = &seat;
  queue.owner_ = options.owner;
  queue.keepalive_ = std::move(keepalive);
  queue.next_ = std::exchange(tenant.first, &queue);
  queue.previous_ = nullptr;
  if (queue.next_ != nullptr) queue.next_->previous_ = &queue;
  ++tenant.queues;
  ++seat.gate.queues;
  if (options.results != nullptr) tenant.results = options.results;
  queue.internal_ = options.is_internal;
  if (queue.internal_) ++tenant.internal_queues;

  queue.fair.key = seat.level.now();
  queue.fair.entry = 0;
  queue.fair.weight = std::max(options.weight, 1U);
  queue.fair.remainder = 0;
  queue.slots_ = options.slots;
  queue.closed_ = queue.cancelled_ = queue.paused_ = false;
  queue.cost_without_jobs_ = Nanoseconds{0};
  if (options.cost_hint.count() > 0) {
    queue.job_cost_ = static_cast<double>(options.cost_hint.count());
    queue.largest_claim_ = std::numeric_limits<std::uint64_t>::max();
  }
}

bool FairRing::add_jobs(RingQueue& queue, std::uint64_t n, Nanoseconds now) {
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr || queue.closed_) return false;
  queue.end_ += n;
  change_queued(queue, n);
  arrive(queue, now);
  publish();
  return true;
}

bool FairRing::add_range(RingQueue& queue, IndexRange range, Nanoseconds now) {
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr || queue.closed_) return false;
  if (range.high > queue.end_) {
    check(range.low >= queue.end_, "a range overlaps the indexes added before");
    if (range.low != queue.end_) {
      if (queue.cursor_ < queue.end_) queue.returned_.push_back({queue.cursor_, queue.end_});
      queue.cursor_ = range.low;
    }
    queue.end_ = range.high;
    change_queued(queue, range.size());
  } else if (!range.empty()) {
    hand_back(queue, range);
  }
  arrive(queue, now);
  publish();
  return true;
}

bool FairRing::put_back(RingQueue& queue, std::span<const IndexRange> ranges, Nanoseconds now,
                        std::size_t more) {
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr) return false;
  if (more != 0) queue.returned_.reserve(queue.returned_.size() + ranges.size() + more);
  // From the top, so that the lowest are served first.
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) hand_back(queue, *range);
  arrive(queue, now);
  publish();
  return true;
}

void FairRing::arrive(RingQueue& queue, Nanoseconds now) {
  const bool was_ready = queue.fair.is_ready();
  refresh(queue, now);
  // [ring-arrivals] relaxed: as in arrivals(); only the holder of the mutex writes.
  if (!was_ready && queue.fair.is_ready()) arrivals_.fetch_add(1, std::memory_order_relaxed);
}

void FairRing::close(RingQueue& queue, Nanoseconds now) {
  std::shared_ptr<void> released;  // outlives the lock
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr) return;
  queue.closed_ = true;
  refresh(queue, now);
  released = leave_if_over(queue);
  publish();
}

std::vector<IndexRange> FairRing::cancel(RingQueue& queue, Nanoseconds now) {
  std::shared_ptr<void> released;  // outlives the lock
  const RingLock lock(mutex_);
  if (queue.seat_ == nullptr) return {};
  std::vector<IndexRange> dropped = std::exchange(queue.returned_, {});
  if (queue.cursor_ < queue.end_) dropped.push_back({queue.cursor_, queue.end_});
  queue.cursor_ = queue.end_;
  change_queued(queue, -queue.queued_);
  queue.closed_ = queue.cancelled_ = true;
  queue.paused_ = false;
  end_backoff(queue);
  refresh(queue, now);
  released = leave_if_over(queue);
  publish();
  return dropped;
}

std::optional<FairRing::TakenOut> FairRing::take_out(RingQueue& queue, Nanoseconds now) {
  std::shared_ptr<void> released;  // outlives the lock
  const RingLock lock(mutex_);
  TakenOut taken;
  if (queue.seat_ == nullptr) return taken;
  if (queue.claimed_ != 0 || queue.fair.executors != 0) return std::nullopt;
  taken.was_attached = true;
  taken.is_closed = queue.closed_;
  taken.ranges = std::exchange(queue.returned_, {});
  if (queue.cursor_ < queue.end_) taken.ranges.push_back({queue.cursor_, queue.end_});
  std::ranges::sort(taken.ranges, {}, &IndexRange::low);
  queue.cursor_ = queue.end_;
  change_queued(queue, -queue.queued_);
  queue.closed_ = true;
  queue.paused_ = false;
  end_backoff(queue);
  queue.breaks_ = 0;
  refresh(queue, now);
  released = leave_if_over(queue);
  publish();
  return taken;
}

void FairRing::detach_all() {
  std::vector<std::shared_ptr<void>> released;  // outlives the lock
  const RingLock lock(mutex_);
  check(executors_ == 0, "a ring is given up while it has executors");
  while (!tenants_.empty()) {
    RingTenant& tenant = *tenants_.begin()->second;
    if (tenant.queues == 0) {
      idle_.remove(tenant);
      tenants_.erase(tenants_.begin());
      continue;
    }
    // The next round removes the tenant, once its last queue has left.
    RingQueue& queue = *tenant.first;
    check(queue.claimed_ == 0, "a ring is given up while a thief holds jobs of it");
    queue.returned_.clear();
    queue.cursor_ = queue.end_;
    change_queued(queue, -queue.queued_);
    refresh(queue, Nanoseconds{0});
    released.push_back(leave(queue));
  }
  publish();
}

// ---- Turns ----

struct FairRing::PlainRequest {
  ClaimFilter filter = ClaimFilter::kAny;
  std::uint64_t most = kAnyNumber;
  const GateSet* gates = nullptr;
  static constexpr Site site = Site::kLocal;
};

std::optional<Claim> FairRing::try_claim(Nanoseconds now, ClaimFilter filter, std::uint64_t most,
                                         const GateSet* gates) {
  const RingLock lock(mutex_);
  std::optional<Claim> claim =
      claim_locked(now, PlainRequest{.filter = filter, .most = most, .gates = gates});
  publish();
  return claim;
}

std::optional<Claim> FairRing::try_claim(Nanoseconds now, const ClaimRequest& request) {
  const RingLock lock(mutex_);
  std::optional<Claim> claim = claim_locked(now, request);
  publish();
  return claim;
}

Charge FairRing::join(RingQueue& queue, Nanoseconds now) {
  const RingLock lock(mutex_);
  check(queue.seat_ != nullptr && queue.claimed_ > 0, "a thief joins a queue of which nothing is claimed");
  const FairCharge charge = join_locked(queue);
  Charge charged = begin_turn(queue, now);
  charged.tenant = charge;
  refresh(queue, now);
  publish();
  return charged;
}

FairCharge FairRing::join_locked(RingQueue& queue) {
  RingSeat& seat = *queue.seat_;
  const FairCharge charge = seat.tenant.join(seat);
  // As by a claim, if none could be claimed: this takes nothing from other nodes, and newcomers start there.
  if (open_.empty()) pass(seat.home().time_of(seat.fair.key));
  if (least_start(seat.tenant) == kNever) pass(seat, seat.level.time_of(queue.fair.key));
  ++queue.fair.executors;
  return charge;
}

Settled FairRing::settle(RingQueue& queue, const Settlement& settlement, Nanoseconds now) {
  std::shared_ptr<void> released;  // outlives the lock
  const RingLock lock(mutex_);
  Settled settled;
  settled.dropped = settle_locked(queue, settlement, now);
  released = leave_if_over(queue);
  publish();
  return settled;
}

Settled FairRing::settle_and_claim(RingQueue& queue, const Settlement& settlement, Nanoseconds now,
                                   ClaimFilter filter, const GateSet* gates) {
  std::shared_ptr<void> released;  // outlives the lock
  const RingLock lock(mutex_);
  Settled settled;
  settled.dropped = settle_locked(queue, settlement, now);
  released = leave_if_over(queue);
  settled.claim = claim_locked(now, PlainRequest{.filter = filter, .gates = gates});
  publish();
  return settled;
}

template <class Request>
std::optional<Claim> FairRing::claim_locked(Nanoseconds now, const Request& request) {
  constexpr bool kIsPlain = std::is_same_v<Request, PlainRequest>;
  Look look;
  RingSeat* const next = next_seat(request.filter, request.gates, request.site, look);
  if (next == nullptr) return std::nullopt;
  RingSeat& seat = *next;
  RingTenant& tenant = seat.tenant;
  RingQueue& queue = first_queue(seat, request.filter);

  Claim claim;
  claim.queue = &queue;
  Nanoseconds time = options_.quantum;  // of jobs of unknown cost
  std::uint32_t width = 1;
  if constexpr (kIsPlain) {
    claim.range = take(queue, std::min({request.most, seat.gate.largest_claim, claim_size(queue, time)}));
  } else {
    if (request.quantum.count() > 0) time = request.quantum;
    width = admitted(queue, request);
    claim.range = take(queue, lease_size(queue, request, time, width));
    width = static_cast<std::uint32_t>(std::min<std::uint64_t>(width, claim.range.size()));
    time *= width;
  }
  queue.claimed_ += claim.range.size();
  claimed_ += claim.range.size();
  if (queue.job_cost_ > 0) {
    const double expected = queue.job_cost_ * static_cast<double>(claim.range.size());
    time = Nanoseconds{expected < 1e18 ? static_cast<std::int64_t>(expected)
                                       : std::int64_t{1'000'000'000'000'000'000}};
  }
  const std::int64_t service = expected_service(seat.gate, time, claim.range.size());
  pass(look.least);
  pass(seat, is_alone(seat) ? seat.level.top_time() : least_start(tenant));
  if (look.is_restricted) [[unlikely]] {
    const bool passes =
        request.gates != nullptr && request.gates->restriction() == GateSet::Restriction::kPassing;
    if (!passes) limit_lead(seat, queue, service / width);
  }
  const FairCharge tenant_charge = tenant.charge(seat, service);
  const VirtualTime queue_charge = seat.level.charge(queue, service);
  claim.charged = begin_turn(queue, now);
  if constexpr (!kIsPlain) begin_lease(queue, claim.charged, width, request.site);
  claim.charged.time = time;
  claim.charged.queue = queue_charge;
  claim.charged.tenant = tenant_charge;
  claim.waited = std::max(Nanoseconds{0}, now - queue.waiting_since_);
  queue.waiting_since_ = now;
  ++claims_;
  refresh(queue, now);
  if (clock_.now >= options_.set_back_at || tenant.clock.now >= options_.set_back_at) set_back_clocks(tenant);
  if (idle_.size() > options_.most_idle_tenants) remove_idle_tenants();
  return claim;
}

IndexRange FairRing::settle_locked(RingQueue& queue, const Settlement& settlement, Nanoseconds now) {
  check(queue.seat_ != nullptr && queue.fair.executors > 0, "a settlement without a turn");
  check(
      settlement.executed <= queue.claimed_ && settlement.left.size() <= queue.claimed_ - settlement.executed,
      "a settlement for jobs that were not claimed");
  queue.claimed_ -= settlement.executed + settlement.left.size();
  claimed_ -= settlement.executed + settlement.left.size();
  RingSeat& seat = *queue.seat_;
  RingTenant& tenant = seat.tenant;
  const Charge& charged = settlement.charged;
  const Service service = service_of(seat.gate, settlement);
  // What a queue received is shown as it is shared out: with a start cost, that is more than time.
  Nanoseconds received = options_.share == Share::kTime ? Nanoseconds(service.at_gate) : settlement.actual;
  if (charged.lease != 0) [[unlikely]]
    received = end_lease(queue, charged, received, now);
  seat.level.settle(queue, charged.queue, charged.queue_epoch != epoch_of(queue), service.at_gate);
  tenant.settle(seat, charged.tenant, service.at_gate, service.in_lane);
  if (service.at_gate != service.in_lane) [[unlikely]]
    note_excess(seat.gate, service);
  --executors_;
  change_executors(seat.gate, -1U);
  const EndedService ended(charged.began, received, now);
  queue.fair.usage.end(ended);
  tenant.fair.usage.end(ended);
  usage_.end(ended);
  tenant.busy += settlement.actual;
  learn_cost(queue, settlement);

  IndexRange dropped;
  if (!settlement.left.empty()) {
    if (queue.cancelled_) {
      dropped = settlement.left;
    } else {
      hand_back(queue, settlement.left);
    }
  }
  begin_backoff(queue, settlement, now);
  refresh(queue, now);
  return dropped;
}

Charge FairRing::begin_turn(RingQueue& queue, Nanoseconds now) {
  RingSeat& seat = *queue.seat_;
  ++executors_;
  change_executors(seat.gate, 1);
  queue.fair.usage.begin(now);
  seat.tenant.fair.usage.begin(now);
  usage_.begin(now);
  Charge charged;
  charged.began = now;
  charged.queue_epoch = epoch_of(queue);
  charged.gate = static_cast<std::uint16_t>(seat.gate.id);
  return charged;
}

// ---- After a change ----

void FairRing::refresh(RingQueue& queue, Nanoseconds now) {
  RingSeat& seat = *queue.seat_;
  latest_ = std::max(latest_, now);
  const bool runnable = queue.queued_ > 0 && !queue.paused_ && queue.backoff_end_.count() == 0;
  const bool ready = runnable && !at_slots(queue);
  const JobLength length = length_of(queue);
  if (ready && queue.fair.is_ready() && length == queue.fair.length && !seat.tenant.is_shut) {
    // Only keys have changed.
    seat.level.update(queue);
    seat.home().update(seat);
    return;
  }
  if (ready && !queue.fair.is_ready()) queue.waiting_since_ = now;
  set_active(queue, queue.queued_ > 0 || queue.fair.executors > 0);
  seat.level.set_ready(queue, ready, length);
  seat.tenant.clock.set_competes(queue.fair, runnable || queue.fair.executors > 0);
  refresh(seat);
}

void FairRing::refresh(RingSeat& seat) {
  RingTenant& tenant = seat.tenant;
  const bool has_waiting = !seat.level.empty();
  tenant.set_ready(seat, has_waiting && !tenant.is_shut,
                   seat.level.has_brief() ? JobLength::kBrief : JobLength::kLengthy);
  set_competes(tenant, tenant.is_shut ? tenant.fair.executors > 0 : tenant.clock.competing_weight > 0);
  list(seat.gate);
  if (!has_waiting && tenant.fair.executors == 0 &&
      std::ranges::all_of(
          tenant.parts, [](const auto& each) LOCKSLEY_REQUIRES(kRingNodes) { return each->level.empty(); })) {
    tenant.clock.end_busy_period();
  }
  if (executors_ == 0 && open_.empty() && closed_.empty()) {
    clock_.end_busy_period();
    remove_idle_tenants();
  }
}

}  // namespace locksley
