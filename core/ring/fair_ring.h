// The ring of one lane: it decides which batch is served next, and how many of its jobs one claim
// takes. core/FAIRNESS.md has the algorithm, the bound on unfairness and its proof.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/base/index_range.h"
#include "core/base/job.h"
#include "core/ring/parts/group_standings.h"
#include "core/ring/parts/ring_clocks.h"
#include "core/ring/parts/ring_jobs.h"
#include "core/ring/parts/running_turns.h"
#include "core/ring/parts/service_order.h"
#include "core/ring/parts/tenant_book.h"
#include "core/ring/parts/turn_costs.h"
#include "core/ring/state/ready_hints.h"
#include "core/ring/state/ring_claim.h"
#include "core/ring/state/ring_gate.h"
#include "core/ring/state/ring_gates.h"
#include "core/ring/state/ring_group.h"
#include "core/ring/state/ring_lock.h"
#include "core/ring/state/ring_queue.h"
#include "core/ring/state/ring_waits.h"
#include "core/sync/mutex.h"

namespace locksley {

// Three levels of start-time fair queueing over measured time: tenants, the customers of each
// tenant, and the queues of each customer; limits of each; and gates, which limit queues of all
// tenants together. It knows nothing of handlers, payloads or threads.
//
// It consists of parts (core/ring/parts), each with the state of one subject, under one mutex. The
// ring itself has the sequence of a turn and of a queue's life. Calls that one kind of caller needs
// are in classes of their own (FairRing::Gates and others).
//
// Owned by its lane; outlives all executors. Its destruction removes the queues that are still
// attached.
// Every call may be made from any thread. `now` is any steady clock, the same for all calls; a
// value that is a little older than one already seen does no harm.
// Each call takes the one mutex once. Unless it says otherwise, it holds the mutex for O(g *
// (log(queues of the customer) + log(customers of the tenant) + log(tenants)) + w). Here g is the
// number of gates at which the tenant has jobs, and w the number of gates where queues wait. A
// keepalive is never released while the mutex is held.
// Misuse (a settlement without a turn, or for more jobs than are claimed) ends the process.
class FairRing {
 public:
  struct Options {
    Share share = Share::kTime;
    Nanoseconds quantum = std::chrono::milliseconds(1);  // how long a turn should take
    std::uint32_t parallelism = 1;                       // executors: a claim leaves each of them its part
    Nanoseconds brief_job{0};                            // jobs up to this long are brief; 0: all are
    Nanoseconds start_cost{0};                           // GateOptions::start_cost of gate 0
    // The virtual time at which a level's clock is set back; tests choose a small one. The default
    // leaves room for the sum of a few services of any size, and one worker needs 73 years to reach
    // it.
    VirtualTime set_back_at = VirtualTime{1} << 61;
    // Tenants without queues are kept with their counters. If there are more than this many, the
    // ring removes those that are not ahead of the virtual time; a removed tenant starts anew. The
    // default is a guess: 2 MB.
    std::size_t most_idle_tenants = 4096;
    // A customer without queues is kept only while its key is ahead of the virtual time, or its
    // rate admits no start (IdleCustomers). If more than this many are kept, the tenant that has
    // most of them loses some, in the order of IdleCustomers::limit(). A forgotten customer starts
    // anew. Its user gains nothing by that: a customer with a new name starts anew, too. The
    // default is a guess: 3 MB.
    std::size_t most_idle_customers = 4096;
  };

  explicit FairRing(Options options);
  ~FairRing();
  FairRing(const FairRing&) = delete;
  FairRing& operator=(const FairRing&) = delete;

  // ---- A queue's life ----

  // `queue` enters the ring, empty and open. It leaves when it is closed and has neither jobs, nor
  // executors, nor claimed jobs that are not settled; the ring holds `keepalive` until then. A
  // queue that has left may be attached again.
  void attach(RingQueue& queue, const QueueOptions& options, std::shared_ptr<void> keepalive)
      LOCKSLEY_EXCLUDES(mutex_);
  // For tests and benchmarks: adds the next n indexes (the first call adds [0, n)). False, and
  // nothing is added, if the queue is closed, cancelled or not attached.
  bool add_jobs(RingQueue& queue, std::uint64_t n, Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);
  // Adds exactly these indexes; add_jobs() continues after the highest index added so far. For
  // batches of which some jobs have ended already. False as in add_jobs().
  bool add_range(RingQueue& queue, IndexRange range, Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);
  // Adds indexes that were claimed or had ended, in this queue or in an earlier one of the batch:
  // for retries and for hand-overs. The queue may be closed. They are served before all others,
  // except for a range that ends where the tail of the queue begins: it joins the tail
  // (QueuedJobs). False, and nothing is added, if the queue is not attached. `ranges`: ascending
  // and disjoint. `more`: about how many ranges later calls will add; room is made for them now.
  // O(ranges) more, if other ranges wait.
  bool queue_again(RingQueue& queue, std::span<const IndexRange> ranges, Nanoseconds now,
                   std::size_t more = 0) LOCKSLEY_EXCLUDES(mutex_);
  // No more jobs will come: the queue leaves as soon as all its jobs are settled. No effect on a
  // queue that is not attached.
  void close(RingQueue& queue, Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);
  // Closes the queue, drops all jobs that are not claimed, and returns these. Claimed jobs settle
  // later; those that go back are dropped then (Settled::dropped). O(ranges) more, if ranges were
  // added since the last queue_again().
  [[nodiscard]] std::vector<IndexRange> cancel(RingQueue& queue, Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);
  // Removes the jobs of the tail, the unclaimed part of the queue (QueuedJobs), from index `from`
  // on: they will run in another process. Some may have been claimed before, and joined the tail,
  // as queue_again() says. Returns them; an empty range: there are none.
  [[nodiscard]] IndexRange withdraw(RingQueue& queue, std::uint64_t from, Nanoseconds now)
      LOCKSLEY_EXCLUDES(mutex_);
  // The queue leaves, with the jobs that wait in it, for another ring. None, without effect, while
  // its jobs are claimed or it has executors.
  struct TakenOut {
    bool was_attached = false;  // if not, the other members mean nothing
    bool is_closed = false;
    std::vector<IndexRange> ranges;  // ascending
  };
  // O(r log r) for r ranges of jobs, but not under the mutex.
  std::optional<TakenOut> take_out(RingQueue& queue, Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);
  // Every queue leaves at once, even with jobs that wait in it. For the end of the process, once
  // all claims are settled. O(queues).
  void detach_all() LOCKSLEY_EXCLUDES(mutex_);

  // ---- Turns ----

  // Begins a turn: claims at most `most` jobs of the queue that is owed most, of those whose gates
  // are open and in `gates` (null: any gate). None if nothing that the filter admits can be
  // claimed. Passes over tenants whose account of results is full, and shuts them: none of their
  // queues is served until Groups::reopen_tenants().
  std::optional<Claim> try_claim(Nanoseconds now, ClaimFilter filter = ClaimFilter::kAny,
                                 std::uint64_t most = kAnyNumber, const GateSet* gates = nullptr)
      LOCKSLEY_EXCLUDES(mutex_);
  static constexpr std::uint64_t kAnyNumber = ~std::uint64_t{0};
  // The same, for a turn of several executors, or of another quantum.
  std::optional<Claim> try_claim(Nanoseconds now, const ClaimRequest& request) LOCKSLEY_EXCLUDES(mutex_);
  // Begins a turn of a thief, which has stolen part of a claim, or sub-jobs of a running job: one
  // executor more, charged nothing in advance. The thief has its part already, so this succeeds in
  // every state of the queue; if the queue was paused or cancelled, the jobs go back at the
  // settlement. Until then, claimed jobs keep the queue in the ring, even while it has no executor.
  // Caps in slots and the gate's concurrency are not checked: thieves must not steal from a capped
  // claim (Charge::is_capped()), but thieves of sub-jobs may exceed the cap.
  Charge join(RingQueue& queue, Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);
  // Ends a turn. The queue may be destroyed by the end of the call, unless the caller keeps it.
  Settled settle(RingQueue& queue, const Settlement& settlement, Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);
  // settle() and try_claim() under one lock.
  Settled settle_and_claim(RingQueue& queue, const Settlement& settlement, Nanoseconds now,
                           ClaimFilter filter = ClaimFilter::kAny, const GateSet* gates = nullptr)
      LOCKSLEY_EXCLUDES(mutex_);

  // ---- Changes of a queue, effective at once ----

  void set_weight(RingQueue& queue, std::uint32_t weight) LOCKSLEY_EXCLUDES(mutex_);
  void set_slots(RingQueue& queue, std::uint32_t slots, Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);
  void pause(RingQueue& queue, Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);
  void resume(RingQueue& queue, Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);

  // ---- Waits that end with time ----

  // Ends the waits that are over at `now`: back-offs of queues (RingWaits), and waits of tenants
  // and customers for their rate (GroupLimits::start_interval). One call ends at most 64. Returns
  // when the next wait ends, which may be in the past; none: there is no wait. The owner of the
  // executors calls this when has_new_wait() was true, and at the time that was returned. O(1) if
  // no wait has ended.
  std::optional<Nanoseconds> end_waits(Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);
  // Ends up to 64 back-offs before their time, for an owner of executors that has replaced the
  // worker program which broke some of them. Back-offs of queues without payloads end, too: the
  // next turn fetches the payloads, and may begin such a back-off again. True: no back-off is left.
  bool end_backoffs(Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);
  // Missing payloads of the queue can be read now: its back-off for lack of payloads ends. A turn
  // that began before `now` may have fetched too early: it begins no such back-off any more.
  void payloads_arrived(RingQueue& queue, Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);
  // True once after a wait has begun that ends before all others. Takes no mutex: one load while it
  // is false.
  bool has_new_wait() { return waits_.has_new(); }

  // ---- Options that change, effective at once ----

  // Sets Options::parallelism, the number of local executors.
  void set_parallelism(std::uint32_t parallelism) LOCKSLEY_EXCLUDES(mutex_);
  // Sets the number of remote executors, which is added to it.
  void set_remote_parallelism(std::uint32_t remote) LOCKSLEY_EXCLUDES(mutex_);
  void set_quantum(Nanoseconds quantum) LOCKSLEY_EXCLUDES(mutex_);
  // O(queues).
  void set_brief_job(Nanoseconds brief_job, Nanoseconds now) LOCKSLEY_EXCLUDES(mutex_);

  // ---- Parts of the interface, each in a header of its own ----

  // Whether something may be claimed, for threads that do not hold the mutex (ready_hints.h).
  const ReadyHints& hints() const { return hints_; }
  // Handles, as cheap as a reference, which the ring outlives.
  class Gates;   // fair_ring_gates.h: limits that queues of several tenants have in common
  class Groups;  // fair_ring_groups.h: weights and limits of tenants and of their customers
  class Leases;  // fair_ring_leases.h: turns that last long
  class View;    // fair_ring_view.h: what is in the ring
  // fair_ring_gates.h: lets the nodes of a gate start anew.
  class StartAnewWalk;
  Gates gates();
  Groups groups();
  Leases leases();
  View view() const;

 private:
  // ---- Turns (fair_ring.cc) ----

  // The request for a claim of one local executor: a type of its own, so that such a claim has no
  // code for leases.
  struct PlainRequest;
  // The seat whose queue the claim serves; null: none.
  RingSeat* next_seat(const ServiceOrder::Choice& choice, ServiceOrder::Look& look)
      LOCKSLEY_REQUIRES(mutex_, kFairNodes);
  // As next_seat(), but skips queues that became lengthy when other queues were measured. `next`:
  // the result of next_seat().
  RingSeat* pass_over_lengthy(RingSeat* next, const ServiceOrder::Choice& choice, ServiceOrder::Look& look,
                              Nanoseconds now) LOCKSLEY_REQUIRES(mutex_, kFairNodes);
  // `Request`: PlainRequest or ClaimRequest.
  template <class Request>
  std::optional<Claim> claim_locked(Nanoseconds now, const Request& request)
      LOCKSLEY_REQUIRES(mutex_, kFairNodes);
  IndexRange settle_locked(RingQueue& queue, const Settlement& settlement, Nanoseconds now)
      LOCKSLEY_REQUIRES(mutex_, kFairNodes);
  // An executor joins a turn of others (`jobs` is 0), or has taken `jobs` jobs from the queue
  // without a charge.
  Charge join_locked(RingQueue& queue, std::uint64_t jobs, Nanoseconds now)
      LOCKSLEY_REQUIRES(mutex_, kFairNodes);

  // ---- A queue's life (fair_ring_life.cc) ----

  // A queue that is over leaves. Returns its keepalive, and other objects to free: the caller drops
  // them without the mutex.
  [[nodiscard]] std::shared_ptr<void> leave(RingQueue& queue) LOCKSLEY_REQUIRES(mutex_, kFairNodes);
  // refresh(), and counts an arrival if the queue has become ready.
  void arrive(RingQueue& queue, Nanoseconds now) LOCKSLEY_REQUIRES(mutex_, kFairNodes);

  // ---- Waits (fair_ring_control.cc) ----

  // Ends back-offs that last until `until` or less, but at most `most`. Returns how many it did not
  // end.
  int end_some_backoffs(Nanoseconds until, Nanoseconds now, int most) LOCKSLEY_REQUIRES(mutex_, kFairNodes);

  // ---- After a change (fair_ring.cc) ----

  // Updates heaps and sums after any change of the queue.
  void refresh(RingQueue& queue, Nanoseconds now) LOCKSLEY_REQUIRES(mutex_, kFairNodes);
  void publish() LOCKSLEY_REQUIRES(mutex_, kFairNodes) { hints_.publish(gates_.open()); }

  mutable Mutex mutex_;
  ReadyHints hints_;  // written under mutex_
  RingWaits waits_;   // its own annotations say which call needs the mutex
  // A part borrows only those above it.
  RingGates gates_ LOCKSLEY_GUARDED_BY(mutex_){hints_};
  RingClocks clocks_ LOCKSLEY_GUARDED_BY(mutex_);
  ServiceOrder order_ LOCKSLEY_GUARDED_BY(mutex_){gates_, clocks_};
  RunningTurns turns_ LOCKSLEY_GUARDED_BY(mutex_){gates_};
  TenantBook book_ LOCKSLEY_GUARDED_BY(mutex_);
  GroupStandings standings_ LOCKSLEY_GUARDED_BY(mutex_){book_, gates_, clocks_, waits_, turns_};
  TurnCosts costs_ LOCKSLEY_GUARDED_BY(mutex_);
  RingJobs jobs_ LOCKSLEY_GUARDED_BY(mutex_);
  // The list of the walks in progress. If a queue leaves at which a walk stands, leave() moves that
  // walk on.
  StartAnewWalk* walks_ LOCKSLEY_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace locksley
