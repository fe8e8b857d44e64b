// The expected cost of a turn, the number of jobs that it takes, and how its service counts.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "core/base/job.h"
#include "core/ring/state/first_costs.h"
#include "core/ring/state/ring_claim.h"
#include "core/ring/state/ring_gate.h"
#include "core/ring/state/ring_group.h"
#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_queue.h"

namespace locksley {

// The service of a turn, as its gate counts it and as the lane does: only the gate counts its start
// costs.
struct TurnService {
  std::int64_t at_gate = 0;
  std::int64_t in_lane = 0;
};

// The sizes and the costs of turns. It has the options of the ring on which they depend, and reads
// and updates the measured costs of queues.
//
// A member of the ring, guarded by its mutex. Nothing blocks or fails. O(1).
class TurnCosts {
 public:
  struct Options {
    Share share = Share::kTime;
    Nanoseconds quantum{1};
    std::uint32_t parallelism = 1;  // local executors
    Nanoseconds brief_job{0};
  };

  explicit TurnCosts(const Options& options);

  // ---- Options: FairRing has what they mean ----

  void set_parallelism(std::uint32_t parallelism);
  void set_remote_parallelism(std::uint32_t remote);
  void set_quantum(Nanoseconds quantum);
  void set_brief_job(Nanoseconds brief_job) { brief_job_ = brief_job; }
  Share share() const { return share_; }
  Nanoseconds quantum() const { return quantum_; }
  // The number of local and remote executors.
  std::uint32_t parallelism() const { return parallelism_; }

  // ---- Before a turn ----

  // How many jobs a claim of one executor takes.
  std::uint64_t claim_size(RingQueue& queue, Nanoseconds quantum, Site site) const
      LOCKSLEY_REQUIRES(kFairNodes);
  // How many jobs a claim of `width` executors together takes.
  std::uint64_t lease_size(RingQueue& queue, const ClaimRequest& request, Nanoseconds quantum,
                           std::uint32_t width) const LOCKSLEY_REQUIRES(kFairNodes);
  // For how much time a claim of `jobs` jobs by `width` executors is charged in advance. `unknown`:
  // at least this much, if the cost of a job is unknown.
  static Nanoseconds expected_time(const RingQueue& queue, std::uint64_t jobs, Nanoseconds unknown,
                                   std::uint32_t width) LOCKSLEY_REQUIRES(kFairNodes) {
    const auto count = static_cast<double>(jobs);
    const Nanoseconds time =
        queue.cost_.is_known() ? time_of(queue.cost_.mean() * count)
                               : std::max(unknown, time_of(first_costs_of(queue).mean(queue.kind_) * count));
    return std::min(time, width * kLongestAdvance);
  }
  // The service of that claim.
  std::int64_t expected_service(const RingGate& gate, Nanoseconds time, std::uint64_t jobs) const
      LOCKSLEY_REQUIRES(kFairNodes);
  // The service of a turn in a view, which takes about a quantum, or costs as much as a start.
  std::int64_t service_of_one_turn(const RingGate& gate) const LOCKSLEY_REQUIRES(kFairNodes);
  // Whether the queue's jobs are brief. Without a measured cost, the result may change without a
  // change of this queue: when another queue of its customer or tenant is measured, or begins or
  // ends its first turn. So FairRing::pass_over_lengthy() computes it again.
  JobLength length_of(const RingQueue& queue) const LOCKSLEY_REQUIRES(kFairNodes);

  // ---- After a turn ----

  TurnService service_of(const RingGate& gate, const Settlement& settlement) const
      LOCKSLEY_REQUIRES(kFairNodes);
  static void learn(RingQueue& queue, const Settlement& settlement) LOCKSLEY_REQUIRES(kFairNodes);
  // Call it when the queue's cost, or whether it has executors, may have changed.
  static void update_first_turn(RingQueue& queue) LOCKSLEY_REQUIRES(kFairNodes) {
    if (queue.in_first_turn_ || !queue.cost_.is_known()) [[unlikely]]
      note_first_turn(queue);
  }

 private:
  // With Share::kJobs, the service of one job: the greatest weight, so that one job moves the key
  // of any queue.
  static constexpr std::int64_t kJobService = 1000;

  // A claim is charged in advance for at most so much time of each executor; what its turn uses
  // beyond that is charged while it runs, or when it ends. So an estimate that is far too high
  // cannot move the clocks by years, and the charges of a million executors do not overflow. A
  // guess: much longer than most jobs, so that those are charged in advance.
  static constexpr Nanoseconds kLongestAdvance = std::chrono::hours(1);

  // An expected time in nanoseconds.
  static Nanoseconds time_of(double expected) {
    constexpr std::int64_t kLongest = 1'000'000'000'000'000'000;  // 31 years; more could overflow
    return Nanoseconds{expected < static_cast<double>(kLongest) ? static_cast<std::int64_t>(expected)
                                                                : kLongest};
  }
  static void note_first_turn(RingQueue& queue) LOCKSLEY_REQUIRES(kFairNodes);
  // For a queue without a measured cost: the cost of the first jobs of earlier queues of its kind,
  // those of its customer at its gate, or else those of its tenant.
  static const FirstCosts& first_costs_of(const RingQueue& queue) LOCKSLEY_REQUIRES(kFairNodes) {
    const RingSeat& seat = *queue.seat_;
    const bool is_known = seat.parent == nullptr || seat.first_costs.mean(queue.kind_) > 0;
    return is_known ? seat.first_costs : seat.parent->first_costs;
  }

  const Share share_;
  Nanoseconds quantum_;
  std::uint32_t parallelism_;  // local and remote executors
  std::uint32_t remote_parallelism_ = 0;
  Nanoseconds brief_job_;
};

}  // namespace locksley
