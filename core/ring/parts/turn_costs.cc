#include "core/ring/parts/turn_costs.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace locksley {

namespace {

// The executors share the last jobs of a batch, but none gets less than this part of a quantum: the
// cost of the claim itself would exceed the time that the other executors save. Guesses. A lease
// costs the two machines together some 100 us of processor time, and a remote worker's quantum is
// at least 10 ms.
constexpr std::uint64_t kLeastPart = 100;
constexpr std::uint64_t kLeastPartOfLease = 10;

// The least service that `starts` starts are charged.
std::int64_t service_of_starts(const GateOptions& options, std::uint64_t starts) {
  const auto cost = static_cast<std::uint64_t>(options.start_cost.count());
  if (cost == 0) return 0;
  constexpr auto kMost = static_cast<std::uint64_t>(RingLevel::kMostService);
  return static_cast<std::int64_t>(starts > kMost / cost ? kMost : starts * cost);
}

}  // namespace

TurnCosts::TurnCosts(const Options& options)
    : share_(options.share),
      quantum_(std::max(options.quantum, Nanoseconds{1})),
      parallelism_(std::max(options.parallelism, 1U)),
      brief_job_(options.brief_job) {}

void TurnCosts::set_parallelism(std::uint32_t parallelism) {
  parallelism_ = std::max(parallelism, 1U) + remote_parallelism_;
}

void TurnCosts::set_remote_parallelism(std::uint32_t remote) {
  parallelism_ += remote - std::exchange(remote_parallelism_, remote);
}

void TurnCosts::set_quantum(Nanoseconds quantum) { quantum_ = std::max(quantum, Nanoseconds{1}); }

// ---- Before a turn ----

std::uint64_t TurnCosts::claim_size(RingQueue& queue, Nanoseconds quantum, Site site) const {
  const bool is_remote = site == Site::kRemote;
  const std::uint64_t size =
      queue.cost_.next_claim(quantum, is_remote ? JobCost::kLeaseGrowth : JobCost::kGrowth);
  std::uint64_t executors = parallelism_;
  const std::uint32_t at_gate = queue.seat_->gate.most;
  if ((queue.slots_ | at_gate) != 0) [[unlikely]] {
    if (queue.slots_ != 0) executors = std::min<std::uint64_t>(executors, queue.slots_);
    if (at_gate != 0) executors = std::min<std::uint64_t>(executors, at_gate);
  }
  const std::uint64_t share = (queue.jobs_.size() + executors - 1) / executors;
  return std::min(size, std::max(share, size / (is_remote ? kLeastPartOfLease : kLeastPart)));
}

std::uint64_t TurnCosts::lease_size(RingQueue& queue, const ClaimRequest& request, Nanoseconds quantum,
                                    std::uint32_t width) const {
  // A turn that got fewer executors than it asked for gets no more jobs than these may run at once.
  const std::uint64_t most =
      width < request.width ? std::min<std::uint64_t>(request.most, width) : request.most;
  const std::uint64_t size = claim_size(queue, quantum, request.site);
  return std::min(most, size > std::numeric_limits<std::uint64_t>::max() / width ? size : size * width);
}

std::int64_t TurnCosts::expected_service(const RingGate& gate, Nanoseconds time, std::uint64_t jobs) const {
  if (share_ == Share::kJobs) return static_cast<std::int64_t>(jobs) * kJobService;
  return std::max(std::int64_t{time.count()}, service_of_starts(gate.options, jobs));
}

std::int64_t TurnCosts::service_of_one_turn(const RingGate& gate) const {
  return share_ == Share::kTime ? std::max(quantum_.count(), gate.options.start_cost.count()) : kJobService;
}

JobLength TurnCosts::length_of(const RingQueue& queue) const {
  if (brief_job_.count() == 0) return JobLength::kBrief;
  const auto most = static_cast<double>(brief_job_.count());
  const auto length = [](bool is_brief) { return is_brief ? JobLength::kBrief : JobLength::kLengthy; };
  if (queue.cost_.is_known()) return length(queue.cost_.mean() <= most);
  // The cost is unknown: one of the workers for brief jobs may measure it. If the first jobs of the
  // tenant's latest queues were lengthy, one worker for all its customers.
  const RingSeat& seat = *queue.seat_;
  if (queue.fair.executors != 0 || seat.first_costs.least(queue.kind_) > most) return JobLength::kLengthy;
  const RingSeat* const tenant = seat.parent;
  return length(tenant == nullptr || tenant->first_turns == 0 ||
                tenant->first_costs.least(queue.kind_) <= most);
}

// ---- After a turn ----

TurnService TurnCosts::service_of(const RingGate& gate, const Settlement& settlement) const {
  if (share_ == Share::kTime) {
    const std::int64_t in_lane = settlement.actual.count();
    const std::uint64_t starts = std::max(settlement.executed, settlement.started);
    return {.at_gate = std::max(in_lane, service_of_starts(gate.options, starts)), .in_lane = in_lane};
  }
  // A turn that ran sub-jobs only counts as one job. Otherwise a queue with only such turns would
  // stay at the top for ever.
  constexpr std::uint64_t kMostJobs = std::uint64_t{1} << 40;  // so that the product with kJobService fits
  const bool free = settlement.executed == 0 && settlement.actual.count() <= 0;
  const std::uint64_t jobs = free ? 0 : std::clamp<std::uint64_t>(settlement.executed, 1, kMostJobs);
  const std::int64_t service = static_cast<std::int64_t>(jobs) * kJobService;
  return {.at_gate = service, .in_lane = service};
}

void TurnCosts::learn(RingQueue& queue, const Settlement& settlement) {
  std::uint64_t jobs = settlement.executed;
  if (settlement.charged.lease != 0) [[unlikely]] {
    // The executors of a lease whose jobs went back have used their time for a job each.
    // A lease in which no job ended says nothing of the cost.
    if (jobs == 0) return;
    jobs = std::max<std::uint64_t>(jobs, settlement.charged.width());
  }
  if (!queue.cost_.learn(settlement.actual, jobs)) return;
  for (RingSeat* each = queue.seat_; each != nullptr; each = each->parent)
    each->first_costs.learn(queue.kind_, queue.cost_.mean());
}

void TurnCosts::note_first_turn(RingQueue& queue) {
  const bool in_first_turn = !queue.cost_.is_known() && queue.fair.executors > 0;
  if (std::exchange(queue.in_first_turn_, in_first_turn) == in_first_turn) return;
  for (RingSeat* each = queue.seat_; each != nullptr; each = each->parent)
    each->first_turns += in_first_turn ? 1U : -1U;
}

}  // namespace locksley
