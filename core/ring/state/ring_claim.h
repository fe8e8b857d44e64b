// The values that a ring takes and returns: options of queues, claims, and the settlements of
// turns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/index_range.h"
#include "core/base/job.h"
#include "core/base/result_account.h"
#include "core/fair/fair_competitor.h"
#include "core/ring/state/backoff.h"
#include "core/ring/state/ring_gate.h"
#include "core/ring/state/ring_queue.h"

namespace locksley {

// What is shared out fairly: worker time, or the number of jobs.
enum class Share : std::uint8_t { kTime, kJobs };

// The request for a claim.
struct ClaimRequest {
  ClaimFilter filter = ClaimFilter::kAny;
  std::uint64_t most = ~std::uint64_t{0};  // jobs; at least 1
  // How many executors run the jobs of the turn side by side; the turn counts as that many. It
  // counts as fewer if the queue, its groups or its gate admit fewer, if the claim has fewer jobs,
  // or above Charge::kMostWidth.
  std::uint32_t width = 1;
  Nanoseconds quantum{0};          // how long the turn should take; 0: FairRing::Options::quantum
  const GateSet* gates = nullptr;  // of queues that may be served; null: any
  Site site = Site::kLocal;
};

// The options with which a queue is attached to the ring.
struct QueueOptions {
  std::string tenant = "default";
  std::string customer = {};  // of the tenant; empty: the one of all batches that name none
  std::uint32_t weight = 1;   // 0 counts as 1
  std::uint32_t slots = 0;    // executors at once; 0: no cap
  Nanoseconds cost_hint{0};   // expected cost of a job; 0: unknown
  // The address of the handler, as an identity: jobs of one handler are expected to cost about the
  // same.
  const void* kind = nullptr;
  void* batch = nullptr;  // RingQueue::batch(): the ring keeps the pointer and never dereferences it
  // The tenant's account; null: results are not counted. Outlives the tenant's last queue.
  ResultAccount* results = nullptr;
  bool is_internal = false;  // not a batch of a user: views do not count it
  GateId gate = 0;           // an existing one of the ring
};

// The ring's charge in advance for a turn. Made by the ring, and passed back to it unchanged in the
// settlement.
struct Charge {
  Nanoseconds time{};   // the estimate; 0 for a thief
  Nanoseconds began{};  // when the turn began
  VirtualTime queue = 0;
  FairCharge group;   // of the queue's group
  FairCharge tenant;  // of the tenant, if that group is a customer
  std::uint32_t queue_epoch = 0;
  std::uint16_t place = 0;  // the queue's GateId, and the two flags below
  // Width and site; 0: a local turn of one executor. Nearly all turns are local turns of one
  // executor, and cost one comparison.
  std::uint16_t lease = 0;

  static constexpr std::uint16_t kCapped = 0x8000;
  static constexpr std::uint16_t kOfCustomer = 0x4000;
  static_assert(kMostGates <= kOfCustomer);
  GateId gate() const { return place & (kOfCustomer - 1U); }
  // The queue, its customer or its tenant has a cap in slots: no part of the claim may be stolen,
  // since a thief would be one executor more.
  bool is_capped() const { return (place & kCapped) != 0; }
  bool is_of_customer() const { return (place & kOfCustomer) != 0; }

  static constexpr std::uint16_t kRemote = 0x8000;
  static constexpr std::uint32_t kMostWidth = kRemote - 1;
  // The number of executors that the turn counts as.
  std::uint32_t width() const { return lease == 0 ? 1U : lease & kMostWidth; }
  Site site() const { return (lease & kRemote) != 0 ? Site::kRemote : Site::kLocal; }
};

// The jobs of a queue that an executor takes at the beginning of its turn. The executor counts at
// the queue and at its gate until it settles.
struct Claim {
  RingQueue* queue = nullptr;
  IndexRange range{};
  Charge charged{};
  Nanoseconds waited{};  // how long the queue had jobs to claim before this claim
};

// The account of one executor's turn.
struct Settlement {
  Charge charged{};             // of the claim, or as join() returned it
  Nanoseconds actual{};         // worker time used, of all executors that the turn counts as
  std::uint64_t executed = 0;   // jobs that ended in the turn (not sub-jobs)
  std::uint64_t started = 0;    // jobs that began, some of `left` too; may be 0 if starts are not limited
  IndexRange left{};            // claimed jobs that were not executed, and go back
  bool has_ended_well = false;  // a job of the turn ended with status ok
  Backoff backoff = Backoff::kNone;  // the queue is not served until it ends
};

// The result of a settlement.
struct [[nodiscard]] Settled {
  // Jobs that went back to a cancelled queue: they never run, and the caller has to record that.
  IndexRange dropped{};
  // The claim of the next turn, where the caller asked for one.
  std::optional<Claim> claim;
};

}  // namespace locksley
