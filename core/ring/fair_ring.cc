#include "core/ring/fair_ring.h"

#include <algorithm>
#include <type_traits>

#include "core/base/check.h"
#include "core/ring/fair_ring_gates.h"

namespace locksley {

FairRing::FairRing(Options options)
    : clocks_(gates_, options.set_back_at),
      book_(clocks_.of_tenants(), {.most_idle_tenants = options.most_idle_tenants,
                                   .most_idle_customers = options.most_idle_customers}),
      costs_({.share = options.share,
              .quantum = options.quantum,
              .parallelism = options.parallelism,
              .brief_job = options.brief_job}) {
  (void)gates().add({.start_cost = options.start_cost});
}

FairRing::~FairRing() { detach_all(); }

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
  const Charge charged = join_locked(queue, 0, now);
  refresh(queue, now);
  publish();
  return charged;
}

Charge FairRing::join_locked(RingQueue& queue, std::uint64_t jobs, Nanoseconds now) {
  RingSeat& seat = *queue.seat_;
  const bool nothing_is_open = gates_.open().empty();
  const FairCharge charge = seat.group.join(seat);
  // If no node could be claimed, the clock advances as if the only ready node had been claimed:
  // that takes nothing from other nodes, and newcomers start there.
  if (clocks_.least_to_pass(seat.group) == RingClocks::kNoStart)
    RingClocks::pass(seat, seat.level.time_of(clocks_.key_to_pass(queue.fair)));
  ++queue.fair.executors;
  Charge charged = turns_.begin(queue, now);
  charged.group = charge;
  if (!seat.is_plain) [[unlikely]]
    standings_.begin_above(seat, charged, jobs, std::nullopt, now);
  const RingSeat& top = seat.parent == nullptr ? seat : *seat.parent;
  if (nothing_is_open) clocks_.pass(top.home().time_of(clocks_.key_to_pass(top.fair)));
  return charged;
}

Settled FairRing::settle(RingQueue& queue, const Settlement& settlement, Nanoseconds now) {
  std::shared_ptr<void> released;  // outlives the lock
  const RingLock lock(mutex_);
  Settled settled;
  settled.dropped = settle_locked(queue, settlement, now);
  if (queue.is_over()) released = leave(queue);
  publish();
  return settled;
}

Settled FairRing::settle_and_claim(RingQueue& queue, const Settlement& settlement, Nanoseconds now,
                                   ClaimFilter filter, const GateSet* gates) {
  std::shared_ptr<void> released;  // outlives the lock
  const RingLock lock(mutex_);
  const IndexRange dropped = settle_locked(queue, settlement, now);
  if (queue.is_over()) released = leave(queue);
  // Built where the caller gets it: a claim is copied by a dozen instructions.
  Settled settled{.dropped = dropped,
                  .claim = claim_locked(now, PlainRequest{.filter = filter, .gates = gates})};
  publish();
  return settled;
}

RingSeat* FairRing::next_seat(const ServiceOrder::Choice& choice, ServiceOrder::Look& look) {
  while (RingSeat* const seat = order_.first_tenant(choice, look)) {
    RingGroup& tenant = seat->group;
    if (tenant.results == nullptr || !tenant.results->is_full_and_awaited())
      return tenant.customers == nullptr ? seat : &order_.first_customer(*seat, choice);
    standings_.shut(tenant);
  }
  return nullptr;
}

RingSeat* FairRing::pass_over_lengthy(RingSeat* next, const ServiceOrder::Choice& choice,
                                      ServiceOrder::Look& look, Nanoseconds now) {
  // More of them wait for the next claim.
  constexpr int kMost = 64;  // a guess: some microseconds
  for (int count = 0; next != nullptr; ++count) {
    RingQueue& queue = ServiceOrder::first_queue(*next, choice.filter);
    if (costs_.length_of(queue) == JobLength::kBrief) break;
    if (count == kMost) return nullptr;
    refresh(queue, now);
    next = next_seat(choice, look);
  }
  return next;
}

template <class Request>
std::optional<Claim> FairRing::claim_locked(Nanoseconds now, const Request& request) {
  constexpr bool kIsPlain = std::is_same_v<Request, PlainRequest>;
  const ServiceOrder::Choice choice{.filter = request.filter, .gates = request.gates, .site = request.site};
  ServiceOrder::Look look;
  RingSeat* next = next_seat(choice, look);
  if (request.filter == ClaimFilter::kBrief) [[unlikely]]
    next = pass_over_lengthy(next, choice, look, now);
  std::optional<Claim> result;
  if (next == nullptr) return result;
  RingSeat& seat = *next;
  RingGroup& group = seat.group;
  RingQueue& queue = ServiceOrder::first_queue(seat, request.filter);

  Claim& claim = result.emplace();
  claim.queue = &queue;
  Nanoseconds time = costs_.quantum();  // of jobs of unknown cost
  std::uint32_t width = 1;
  std::uint64_t most = request.most;
  if (!seat.is_plain) [[unlikely]]
    most = std::min(most, standings_.prepare_above(seat, queue, now));
  if constexpr (kIsPlain) {
    claim.range = jobs_.claim(
        queue, std::min({most, seat.gate.largest_claim, costs_.claim_size(queue, time, Site::kLocal)}));
  } else {
    if (request.quantum.count() > 0) time = request.quantum;
    width = RunningTurns::admitted(queue, request);
    claim.range = jobs_.claim(queue, std::min(most, costs_.lease_size(queue, request, time, width)));
    width = static_cast<std::uint32_t>(std::min<std::uint64_t>(width, claim.range.size()));
    time *= width;
  }
  time = TurnCosts::expected_time(queue, claim.range.size(), time, width);
  const std::int64_t service = costs_.expected_service(seat.gate, time, claim.range.size());
  clocks_.pass(look.pass_to);
  clocks_.pass_to_least(seat);
  if (look.is_restricted) [[unlikely]]
    order_.limit_leads(seat, queue, service / width, costs_.parallelism(), choice, now);
  const FairCharge group_charge = group.charge(seat, service);
  const VirtualTime queue_charge = seat.level.charge(queue, service);
  claim.charged = turns_.begin(queue, now);
  if (!seat.is_plain) [[unlikely]]
    standings_.begin_above(seat, claim.charged, claim.range.size(), service, now);
  if constexpr (!kIsPlain) turns_.begin_lease(queue, claim.charged, width, request.site);
  claim.charged.time = time;
  claim.charged.queue = queue_charge;
  claim.charged.group = group_charge;
  claim.waited = std::max(Nanoseconds{0}, now - queue.waiting_since_);
  queue.waiting_since_ = now;
  refresh(queue, now);
  if (clocks_.is_far(seat, queue)) [[unlikely]] {
    if (clocks_.is_tenants_far()) book_.set_back(clocks_.set_back_tenants());
    clocks_.set_back_members_above(group);
  }
  book_.forget_tenants();
  return result;
}

IndexRange FairRing::settle_locked(RingQueue& queue, const Settlement& settlement, Nanoseconds now) {
  check(queue.seat_ != nullptr && queue.fair.executors > 0, "a settlement without a turn");
  check(
      settlement.executed <= queue.claimed_ && settlement.left.size() <= queue.claimed_ - settlement.executed,
      "a settlement for jobs that were not claimed");
  jobs_.settle(queue, settlement.executed + settlement.left.size());
  RingSeat& seat = *queue.seat_;
  RingGroup& group = seat.group;
  const Charge& charged = settlement.charged;
  const TurnService service = costs_.service_of(seat.gate, settlement);
  // A queue's received service is shown as it is charged: with a start cost, that is more than the
  // time used.
  Nanoseconds received = costs_.share() == Share::kTime ? Nanoseconds(service.at_gate) : settlement.actual;
  if (charged.lease != 0) [[unlikely]]
    received = turns_.end_lease(queue, charged, received, now);
  seat.level.settle(queue, charged.queue, RunningTurns::has_reentered(queue, charged), service.at_gate);
  FairCharge of_group = charged.group;
  if (!seat.is_plain) [[unlikely]]
    of_group = GroupStandings::end_above(seat, settlement, service, received, now);
  group.settle(seat, of_group, service.at_gate, service.in_lane);
  if (service.at_gate != service.in_lane) [[unlikely]]
    order_.note_excess(seat, service);
  turns_.end(queue, seat, charged.began, received, now);
  group.busy += settlement.actual;
  TurnCosts::learn(queue, settlement);

  IndexRange dropped;
  if (!settlement.left.empty()) {
    if (queue.cancelled_) {
      dropped = settlement.left;
    } else {
      jobs_.give_back(queue, settlement.left);
    }
  }
  if (settlement.has_ended_well) queue.breaks_ = 0;
  if (settlement.backoff != Backoff::kNone) [[unlikely]]
    waits_.begin_backoff(queue, settlement.backoff, charged.began, now, std::max(standings_.latest(), now));
  refresh(queue, now);
  if (!queue.fair.is_ready() && !clocks_.counts_all_charges())
    clocks_.pass_to_settled(queue, service.at_gate);
  if (order_.has_forgiven_since(charged.began)) [[unlikely]]
    order_.restore_leads(queue, charged, service.in_lane);
  return dropped;
}

// ---- After a change ----

void FairRing::refresh(RingQueue& queue, Nanoseconds now) {
  RingSeat& seat = *queue.seat_;
  standings_.advance(now);
  const bool runnable = !queue.jobs_.empty() && !queue.paused_ && queue.backoff_end_.count() == 0;
  const bool ready = runnable && !queue.at_slots();
  TurnCosts::update_first_turn(queue);
  const JobLength length = costs_.length_of(queue);
  if (ready && queue.fair.is_ready() && length == queue.fair.length) {
    // If no group opens or closes, only keys have changed.
    if (seat.is_plain) [[likely]] {
      seat.level.update(queue);
      seat.home().update(seat);
      return;
    }
    if (standings_.stays_open(seat)) {
      seat.level.update(queue);
      for (RingSeat* each = &seat; each != nullptr; each = each->parent) each->home().update(*each);
      return;
    }
  }
  if (ready && !queue.fair.is_ready()) queue.waiting_since_ = now;
  jobs_.set_active(queue, !queue.jobs_.empty() || queue.fair.executors > 0);
  seat.level.set_ready(queue, ready, length);
  seat.group.clock.set_competes(queue.fair, runnable || queue.fair.executors > 0);
  standings_.refresh(seat);
}

}  // namespace locksley
