// The ring of one lane: which batch is served next, and with how many of its jobs. The algorithm, the bound
// on unfairness and its proof are in core/FAIRNESS.md.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/atomics.h"
#include "core/fair_level.h"
#include "core/index_range.h"
#include "core/indexed_heap.h"
#include "core/job.h"
#include "core/ring_queue.h"
#include "core/ring_tenant.h"
#include "core/ring_view.h"

namespace locksley {

// What is shared: worker time, or number of jobs.
enum class Share : std::uint8_t { time, jobs };

// Which queues a claim may come from. `brief`: only those whose jobs are short (Options::brief_job), for
// workers that are kept for them.
enum class ClaimFilter : std::uint8_t { any, brief };

struct QueueOptions {
  std::string tenant = "default";
  std::uint32_t weight = 1;  // 0 counts as 1
  std::uint32_t slots = 0;   // executors at once; 0: no cap
  Nanoseconds cost_hint{0};  // what a job is expected to cost; 0: unknown
  void* owner = nullptr;     // RingQueue::owner()
  bool is_internal = false;  // nobody's batch: views do not count it among the queues
};

// What an executor owes for its turn. Made by the ring, handed back to it unchanged in the settlement.
struct Charge {
  Nanoseconds time{};   // the estimate; 0 for a thief
  Nanoseconds began{};  // when the turn began
  VirtualTime queue = 0;
  VirtualTime tenant = 0;
  std::uint32_t queue_epoch = 0;
  std::uint32_t tenant_epoch = 0;
};

// A turn: a range of jobs. Whoever has it is an executor of the queue until it settles.
struct Claim {
  RingQueue* queue = nullptr;
  IndexRange range{};
  Charge charged{};
  Nanoseconds waited{};  // how long the queue had had work and no turn
};

// The account of one executor's turn.
struct Settlement {
  Charge charged{};            // of the claim, or what join() gave
  Nanoseconds actual{};        // worker time really used
  std::uint64_t executed = 0;  // jobs that ended in it (not sub-jobs)
  IndexRange left{};           // not executed, handed back
};

// What a settlement comes to.
struct [[nodiscard]] Settled {
  IndexRange dropped{};  // handed back to a cancelled queue: will never run; the caller has to record that
  std::optional<Claim> claim;  // the next turn, where one was asked for
};

// Two levels of start-time fair queueing, tenants and then queues of a tenant, over measured time. It knows
// nothing of handlers, payloads or threads.
//
// Owned by its lane; outlives all executors. Queues still in it when it is destroyed are let go. All calls
// may be made from any thread; each takes the one mutex, once, for O(log(queues of the tenant) +
// log(tenants)), unless it says otherwise. `now` is any steady clock, the same for all calls; one that is a
// little older than another already seen does no harm. A keepalive is never released while the mutex is held.
// Misuse (a settlement without a turn, or for more jobs than are claimed) ends the process.
class FairRing {
 public:
  struct Options {
    Share share = Share::time;
    Nanoseconds quantum = std::chrono::milliseconds(1);  // what a turn should take
    std::uint32_t parallelism = 1;                       // executors there are: a claim leaves each its part
    Nanoseconds brief_job{0};                            // jobs up to so long are brief; 0: all are
    // Virtual time at which a level's clock is set back. The default leaves room for sums of a few services
    // of any size, and comes after 73 years of one worker's time. For tests.
    VirtualTime set_back_at = VirtualTime{1} << 61;
  };

  explicit FairRing(Options options);
  ~FairRing();
  FairRing(const FairRing&) = delete;
  FairRing& operator=(const FairRing&) = delete;

  // ---- A queue's life ----

  // `queue` enters, empty and open. The ring holds `keepalive` while the queue is open, has work, has
  // executors, or has jobs that were claimed and not settled. A queue that has left may be attached again.
  void attach(RingQueue& queue, const QueueOptions& options, std::shared_ptr<void> keepalive);
  // Adds the next n indexes (the first ones are [0, n)). False, and nothing is added, if the queue is closed,
  // cancelled or gone.
  bool add_jobs(RingQueue& queue, std::uint64_t n, Nanoseconds now);
  // Adds just these indexes; those of add_jobs() go on behind the highest index added so far. For jobs to be
  // tried again, and for batches of which some jobs are done. False as in add_jobs().
  bool add_range(RingQueue& queue, IndexRange range, Nanoseconds now);
  // Adds indexes of jobs that had ended or been claimed, here or before this queue was made, also if the
  // queue is closed: served before all others. False, and nothing is added, if it is not in the ring.
  // `ranges`: ascending and disjoint.
  bool put_back(RingQueue& queue, std::span<const IndexRange> ranges, Nanoseconds now);
  // No more jobs: it drains, then leaves. Without effect on one that is gone.
  void close(RingQueue& queue, Nanoseconds now);
  // Closes it and drops all jobs that are not claimed: returns them. Those that are claimed settle later;
  // what is handed back of them is dropped then.
  [[nodiscard]] std::vector<IndexRange> cancel(RingQueue& queue, Nanoseconds now);
  // The queue leaves with what waits in it, for another ring. None, and nothing happens, while jobs of it are
  // claimed or executors are at work on it.
  struct TakenOut {
    bool was_attached = false;  // else nothing below means anything
    bool is_closed = false;
    std::vector<IndexRange> ranges;  // ascending
  };
  std::optional<TakenOut> take_out(RingQueue& queue, Nanoseconds now);
  // Every queue leaves at once, whatever waits in it; for the end of the process, when all claims are
  // settled. O(queues).
  void detach_all();

  // ---- Turns ----

  // A turn of the queue owed most, of at most `most` jobs. None if nothing (that the filter lets through) can
  // be claimed.
  std::optional<Claim> try_claim(Nanoseconds now, ClaimFilter filter = ClaimFilter::any,
                                 std::uint64_t most = kAnyNumber);
  static constexpr std::uint64_t kAnyNumber = ~std::uint64_t{0};
  // A thief has taken part of a claim, or sub-jobs of a job that runs: one executor more, charged nothing in
  // advance. Whatever the queue's state, since the thief has its part already: what it must not run (the
  // queue may be paused or cancelled by now) it hands back when it settles. What is claimed keeps the queue
  // in the ring until then, also while it has no executor. Slots do not bind a thief: it must leave claims of
  // queues that have a cap alone; with thieves of sub-jobs the executors may exceed the cap.
  Charge join(RingQueue& queue, Nanoseconds now);
  // One executor fewer. After it the queue may be gone, if the caller does not keep it.
  Settled settle(RingQueue& queue, const Settlement& settlement, Nanoseconds now);
  // Both under one lock.
  Settled settle_and_claim(RingQueue& queue, const Settlement& settlement, Nanoseconds now,
                           ClaimFilter filter = ClaimFilter::any);

  // ---- Changes, effective at once ----

  void set_weight(RingQueue& queue, std::uint32_t weight);
  void set_slots(RingQueue& queue, std::uint32_t slots, Nanoseconds now);
  void pause(RingQueue& queue, Nanoseconds now);
  void resume(RingQueue& queue, Nanoseconds now);
  // Also for a tenant that is not there: it will have that weight when it comes.
  void set_tenant_weight(std::string_view tenant, std::uint32_t weight);
  void set_parallelism(std::uint32_t parallelism);
  void set_quantum(Nanoseconds quantum);
  // O(queues).
  void set_brief_job(Nanoseconds brief_job, Nanoseconds now);

  // ---- Hints, without the mutex ----

  // Whether there is something to claim. After a call that made something claimable has returned, this is
  // true (seq_cst) until it was claimed or became unclaimable.
  bool has_work(ClaimFilter filter = ClaimFilter::any) const {
    return (ready_.load() & (filter == ClaimFilter::any ? kReadyAny : kReadyBrief)) != 0;
  }
  // How often a queue that had nothing to claim has got something by add_jobs(), add_range() or resume().
  // When it changes, somebody new waits, and an executor does well to end its turn early: turns are paid for
  // by the time that they took, so that costs nobody anything.
  std::uint64_t arrivals() const {
    // [ring-arrivals] relaxed: a late look ends a turn a job later.
    return arrivals_.load(std::memory_order_relaxed);
  }

  // ---- Inspection, under the mutex ----

  // `deepest`: how many of the deepest queues' depths to list. O(tenants), and a look at 1,024 queues at
  // most: where more than so many have about the same depth (within a factor of two), some of these are
  // listed, not the very deepest.
  RingSnapshot snapshot(std::size_t deepest, Nanoseconds now) const;
  // O(queues of the tenant), a nanosecond each, and no more than 65,536 of them: among more, `ahead` is
  // estimated from a sample.
  QueueView view(const RingQueue& queue, Nanoseconds now) const;
  // Whether somebody has jobs of it or is about to. If not, and it is paused, that stays so.
  bool has_claims(const RingQueue& queue) const;

 private:
  static constexpr std::uint32_t kReadyAny = 1;
  static constexpr std::uint32_t kReadyBrief = 2;

  // With Share::jobs, the service of one job. As much as the greatest weight, so that one job of any queue
  // moves its key.
  static constexpr std::int64_t kJobService = 1000;

  // All need mutex_.
  std::optional<Claim> claim_locked(Nanoseconds now, ClaimFilter filter, std::uint64_t most = kAnyNumber);
  IndexRange settle_locked(RingQueue& queue, const Settlement& settlement, Nanoseconds now);
  Charge begin_turn(RingQueue& queue, Nanoseconds now);

  void change_queued(RingQueue& queue, std::uint64_t by);  // modulo 2^64: -n takes n away
  void set_depth_class(RingQueue& queue, std::uint8_t depth_class);
  void set_active(RingQueue& queue, bool active);
  void hand_back(RingQueue& queue, IndexRange range);
  IndexRange take(RingQueue& queue, std::uint64_t most);
  std::uint64_t claim_size(RingQueue& queue) const;
  void learn_cost(RingQueue& queue, const Settlement& settlement);
  std::int64_t service_of(const Settlement& settlement) const;
  JobLength length_of(const RingQueue& queue) const;
  static bool at_slots(const RingQueue& queue) {
    return queue.slots_ != 0 && queue.fair.executors >= queue.slots_;
  }

  RingTenant& tenant_of(const std::string& name);
  // Brings heaps and sums up to date after any change of the queue.
  void refresh(RingQueue& queue, Nanoseconds now);
  // The keepalive, to be released after the mutex, if the queue has left.
  [[nodiscard]] std::shared_ptr<void> leave_if_over(RingQueue& queue);
  [[nodiscard]] std::shared_ptr<void> leave(RingQueue& queue);
  void remove_settled_tenants();
  void set_back_clocks(RingTenant& busy);
  void publish();
  // refresh(), where the queue may have got its first jobs.
  void arrive(RingQueue& queue, Nanoseconds now);

  double share_of(const RingTenant& tenant) const;
  std::uint64_t queues_ahead(const RingQueue& queue) const;

  mutable std::mutex mutex_;
  // Guarded by mutex_:
  Options options_;
  FairLevel<RingTenant> level_;
  std::unordered_map<std::string, std::unique_ptr<RingTenant>> tenants_;
  std::unordered_map<std::string, std::uint32_t>
      tenant_weights_;      // as configured; for tenants that come back
  RetiredTenants retired_;  // without queues, but ahead of the virtual time: kept until it has caught up
  Usage usage_;
  std::uint64_t queued_ = 0;   // jobs
  std::uint64_t claimed_ = 0;  // jobs; with their executors, or on their way to a thief that has yet to join
  std::uint32_t executors_ = 0;
  std::uint64_t claims_ = 0;
  std::uint64_t active_queues_ = 0;  // with jobs queued, or executors
  // By RingQueue::depth_class_: for who asks for the deepest, without a look at all.
  std::array<RingQueue*, 65> by_depth_{};
  std::uint32_t published_ready_ = 0;

  // A hint. Written under mutex_, read by anyone: idle workers look at it, so it has a line of its own.
  alignas(kCacheLine) std::atomic<std::uint32_t> ready_{0};
  std::atomic<std::uint64_t> arrivals_{0};
};

}  // namespace locksley
