// A lane: a ring of batch queues, and the operations by which batches enter it, change in it and
// leave it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/histogram.h"
#include "core/batch/batch.h"
#include "core/lane/shown_jobs.h"
#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_leases.h"
#include "core/sync/mutex.h"

namespace locksley {

// How a lane notifies the executors of remote workers, which may come and go while it serves
// batches. Any thread calls these functions; they must not block.
class RemoteExecutors {
 public:
  virtual ~RemoteExecutors() = default;
  // There may be more to claim.
  virtual void lane_has_work() = 0;
  // A batch was told to stop, or to begin no more jobs.
  virtual void lane_has_stops() = 0;
};

// A ring, and the operations that change a batch's record (core/batch/batch.h) and its queue in the
// ring together, so that the two stay consistent. Executors (the pool for native handlers,
// processes for others) take turns with its batches by core/lane/turn.h; the function of on_work()
// tells them that there may be something to claim. No other code has access to the ring.
//
// Owned by the component that owns the executors; outlives them.
// Every call may be made from any thread, except where it says otherwise. Calls take the mutexes of
// the ring and of the batch, one after the other, and block no longer than that. Calls that may end
// a batch, drop jobs or queue failed jobs again also call its journal and observer: submit(),
// close(), add_jobs(), enqueue(), enqueue_jobs(), the functions for retries, cancel() and its
// halves, hand_over(), withdraw(), release(), and settlements.
// Calls for a batch whose queue is in no ring, or that was cancelled meanwhile, have no effect on
// the ring. After hand_over() all calls for a batch go to its new lane: this one would lock the
// wrong ring. Only Lease::reclaim() refuses a batch of another lane. A turn in progress makes
// hand_over() fail.
//
// Members: each changes the record and the queue of a batch together, most of them in a few lines.
// The functions for readers and for limits are in handles (Gates, Groups, View).
class Lane {
 public:
  using Notify = std::function<void()>;

  Lane(std::string name, FairRing::Options options)
      : name_(std::move(name)),
        ring_(options),
        quantum_(options.quantum.count()),
        parallelism_(options.parallelism) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const std::string& name() const { return name_; }

  // ---- Set before the first batch ----

  // These functions are reset only when no other thread uses the lane any more.

  // Called after there may be more to claim.
  void on_work(Notify wake) { wake_ = std::move(wake); }
  // Whether the function of on_work() is set: the lane has an owner of executors, and can have only
  // one.
  bool has_owner() const { return wake_ != nullptr; }
  // Called after a batch was told to stop, for executors that do not check Batch::is_stopping() and
  // Batch::is_aborting() themselves.
  void on_stop(Notify stop) { stop_ = std::move(stop); }

  // Called, on any thread, after a wait has begun that ends before all others. The owner of the
  // executors then calls end_waits() soon, and again at the time that end_waits() returns; it also
  // calls it once when it takes over the lane. The pool's monitor does so.
  // Other threads may call end_waits(), too, as the link to remote workers does. The owner still
  // misses no wait: `wait` is called for each new wait that ends before all others. If another
  // thread has ended a wait, the owner's next call merely comes too early.
  void on_wait(Notify wait) { wait_ = std::move(wait); }

  // Called, on any thread, after a batch has reached its max_fails and was told to stop, if it has
  // more jobs to drop than one call of drop_some() drops. The program then calls drop_some() until
  // it returns true, on a thread that may work for long. The call must not block. The mutex of a
  // worker's results may be held, as for a BatchObserver. Without the function, the thread that
  // records the failure at the limit (an executor, or the pool's monitor) drops all of these jobs
  // itself.
  struct Cancelled;
  using DropRest = std::function<void(std::shared_ptr<Batch>, Cancelled)>;
  void on_long_cancel(DropRest drop_rest) { drop_rest_ = std::move(drop_rest); }

  // From now on `executors` is notified of work and of stops, in addition to the owner of the local
  // executors. Null: no object is notified any more, but a call that has begun may still be
  // running. The object outlives the lane's last batch. May be called at any time.
  void set_remote(RemoteExecutors* executors) {
    // [lane-remote] release and acquire: a thread that finds the pointer sees the whole object.
    remote_.store(executors, std::memory_order_release);
  }

  // ---- A batch's life ----

  // kLater: the caller calls wake() after a series of submissions.
  enum class Start { kNow, kLater };
  // The batch enters the ring with `jobs` jobs; `open`: more will come. Its payloads must be there.
  // Call it once for each batch. A batch that was cancelled before does not enter, and is over
  // without jobs.
  void submit(const std::shared_ptr<Batch>& batch, std::uint64_t jobs, bool open, Start start = Start::kNow);
  // False, and nothing is added, if the batch is closed or cancelled. True: added; or recorded as
  // cancelled, if the batch is being cancelled at the same time.
  bool add_jobs(Batch& batch, std::uint64_t jobs);
  void close(Batch& batch);

  // The second halves of submit(), add_jobs() and close(), for a caller that has to wait for
  // something (an fsync, for example) before the jobs may run. The caller first counts them in the
  // batch's record (Batch::jobs_added(), Batch::close()), and calls these later, in the same order.
  // Jobs of a batch that was cancelled meanwhile are dropped. `ranges`: disjoint, ascending.
  void enqueue(const std::shared_ptr<Batch>& batch, std::span<const IndexRange> ranges, bool open,
               Start start = Start::kNow);
  void enqueue_jobs(Batch& batch, IndexRange range);
  void enqueue_close(Batch& batch);

  // Queues again the failed jobs of the batch whose time for a retry has come. The program calls it
  // at BatchStatus::retry_at, since the lane has no timer for it. One call queues a bounded number
  // of jobs: if more are due, BatchStatus::retry_at says so. A batch whose queue has left the ring
  // enters it again. One thread at a time: the one that submits.
  void retry_due(const std::shared_ptr<Batch>& batch);
  // Queues again all jobs that have failed, and returns how many. A batch that was over goes on.
  // One thread at a time: the one that submits.
  std::uint64_t retry_failed(const std::shared_ptr<Batch>& batch);
  // The last step of retry_failed() for a caller that must not work for long. The caller calls
  // Batch::Failures::begin_requeue(); another thread calls Batch::Failures::requeue(); then the
  // caller passes the jobs that requeue() returned to this function, some at a time and the last
  // ones first. `more`: how many ranges will follow.
  void queue_again(const std::shared_ptr<Batch>& batch, std::span<const IndexRange> ranges,
                   std::size_t more = 0);

  // Drops the jobs that have not started, and closes the batch. `running`: what happens to the jobs
  // that run. `reason` becomes the output of the jobs that never ran. Returns how many jobs will
  // not run because of this call.
  std::uint64_t cancel(Batch& batch, std::string reason, RunningJobs running = RunningJobs::kStop);
  // The same in two halves, for a caller that must not work for long. begin_cancel() takes the same
  // time for any number of jobs. Then some thread calls drop_some() until it returns true; each
  // call takes some 100 us. Until then, some of the jobs that will not run count as queued.
  struct Cancelled {
    std::uint64_t will_not_run = 0;
    std::vector<IndexRange> left;  // to be dropped, besides jobs that wait for a retry
  };
  Cancelled begin_cancel(Batch& batch, std::string reason, RunningJobs running = RunningJobs::kStop)
      LOCKSLEY_EXCLUDES(hold_mutex_);
  static bool drop_some(Batch& batch, Cancelled& cancelled);
  // Cancels the rest of a batch that has reached its max_fails. With the function of
  // on_long_cancel(), it takes the same time for any number of jobs. Needs: the batch is kept
  // alive.
  void cancel_after_failures(Batch& batch);

  // Moves the batch, with the jobs that wait in this lane, to a gate of lane `to`, which may be
  // this lane. False, without effect, while executors have jobs of the batch. So the caller holds
  // the batch first; otherwise executors might always have some of its jobs.
  bool hand_over(const std::shared_ptr<Batch>& batch, Lane& to, GateId gate = 0);
  // Jobs from index `from` on leave the batch, as far as no executor has claimed them
  // (FairRing::withdraw()): another process will run them. Returns the first of them; none: there
  // are no such jobs. A closed batch without other jobs is over then.
  std::optional<std::uint64_t> withdraw(Batch& batch, std::uint64_t from);
  // Every batch leaves the lane at once, whatever waits in it. For the end of the process, once all
  // claims are settled. O(batches).
  void detach_all() { ring_.detach_all(); }

  // ---- Changes of a batch, effective at once ----

  // Relative to the other batches of its tenant or customer; 0 counts as 1.
  void set_weight(Batch& batch, std::uint32_t weight);
  // The most jobs of the batch that run at once; 0: no cap. Running jobs go on. Thieves may steal
  // from claims made before the change, for about a quantum. Calls wake().
  void set_slots(Batch& batch, std::uint32_t slots);
  // No new jobs of the batch are started while it has at least one reason for a hold. With
  // Hold::kHandler none is reclaimed, either. Releasing a reason that the batch does not have has
  // no effect.
  void hold(Batch& batch, Hold reason) LOCKSLEY_EXCLUDES(hold_mutex_);
  void release(Batch& batch, Hold reason) LOCKSLEY_EXCLUDES(hold_mutex_);
  void pause(Batch& batch) { hold(batch, Hold::kCommand); }
  void resume(Batch& batch) { release(batch, Hold::kCommand); }
  // Payloads for which PayloadSource::fetch() returned 0 can be read now: the batch no longer waits
  // for them. Calls wake().
  void payloads_arrived(Batch& batch) {
    ring_.payloads_arrived(batch.ring_queue(), steady_now());
    wake();
  }

  // ---- Changes of the lane, effective at once ----

  // How many executors serve the lane: a claim leaves each of them its part of a batch.
  void set_parallelism(std::uint32_t executors) {
    // [lane-parallelism] relaxed: as in parallelism().
    parallelism_.store(executors, std::memory_order_relaxed);
    ring_.set_parallelism(executors);
  }
  std::uint32_t parallelism() const {
    // [lane-parallelism] relaxed: for display only; nothing follows from a stale value.
    return parallelism_.load(std::memory_order_relaxed);
  }
  // Ends waits that are over at `until`: back-offs of batches, and waits of tenants and customers
  // for their rate. One call ends a bounded number. Returns when the next wait ends, which may be
  // in the past: then call again soon. None: there is no wait. Notifies remote executors of new
  // work, but does not call wake().
  std::optional<Nanoseconds> end_waits(Nanoseconds until) {
    const auto next = ring_.end_waits(until);
    wake_remote();
    return next;
  }
  // All back-offs end at once. As end_waits().
  void end_backoffs() {
    while (!ring_.end_backoffs(steady_now())) {
    }
    wake_remote();
  }
  // How long a turn should take. Effective from the next claim on.
  void set_quantum(Nanoseconds quantum);
  // Jobs that take up to this long are brief; 0: all are. O(batches).
  void set_brief_job(Nanoseconds brief_job) { ring_.set_brief_job(brief_job, steady_now()); }

  // ---- Remote executors: leases of the gates that Gates::set_remote() has opened to them ----

  // The number of remote executors, in addition to those of set_parallelism().
  void set_remote_parallelism(std::uint32_t executors) { ring_.set_remote_parallelism(executors); }
  // While `is_wanted`, the object of set_remote() is notified when there may be more for remote
  // executors to claim. The program calls this before it waits for a notification, and then tries
  // to claim once more.
  void want_remote_work(bool is_wanted) { remote_wanted_.store(is_wanted); }

  // ---- Parts of the interface, each in a header of its own ----

  // Hints without a lock (core/ring/state/ready_hints.h).
  const ReadyHints& hints() const { return ring_.hints(); }
  // Handles, as cheap as a reference, which the lane outlives.
  class Gates;   // lane_gates.h: limits that batches of several tenants have in common
  class Groups;  // lane_groups.h: weights and limits of tenants and of their customers
  class View;    // lane_view.h: what is in the lane
  Gates gates();
  Groups groups();
  View view() const;

  // ---- For executors ----

  // How long an executor may go on with a claim before it gives back the rest.
  Nanoseconds quantum() const {
    // [lane-quantum] relaxed: a number on its own.
    return Nanoseconds(quantum_.load(std::memory_order_relaxed));
  }
  // The jobs that run in the lane outside the pool, as clients see them.
  ShownJobs& running() { return running_; }
  const ShownJobs& running() const { return running_; }
  // How long batches waited for the turns of external executors (core/lane/external_executor.h).
  // The pool's workers count for themselves.
  DurationHistogram external_wait;

  // There may be more to claim.
  void wake() {
    tell_of_wait();
    if (!remote_wanted_.load()) {
      if (wake_) wake_();
      return;
    }
    // Most of the new work may be for remote workers alone: local executors are not woken for that.
    if (wake_ && ring_.hints().has_work()) wake_();
    wake_remote();
  }

 private:
  friend class Turn;  // core/lane/turn.h: the only code that claims, joins and settles

  // ---- Notifications of executors and their owners ----

  // Calls the function of on_wait(), if a wait has begun that ends before all others.
  void tell_of_wait() {
    // Tests wait_ first: without a function, has_new_wait() stays true for the next owner of the
    // executors.
    if (wait_ && ring_.has_new_wait()) [[unlikely]]
      wait_();
  }
  void tell_to_stop() {
    if (stop_) stop_();
    tell_remote_to_stop();
  }
  void tell_remote_to_stop() {
    // [lane-remote] acquire: as in set_remote().
    if (RemoteExecutors* const remote = remote_.load(std::memory_order_acquire)) remote->lane_has_stops();
  }
  // The half of wake() for remote executors.
  void wake_remote() {
    if (!remote_wanted_.load() || !ring_.hints().has_remote_work()) return;
    // [lane-remote] acquire: as in set_remote().
    if (RemoteExecutors* const remote = remote_.load(std::memory_order_acquire)) remote->lane_has_work();
  }

  // ---- Turns: as the ring's calls of these names ----

  std::optional<Claim> try_claim(Nanoseconds now, ClaimFilter filter, std::uint64_t max_jobs,
                                 const GateSet* gates) {
    std::optional<Claim> claim = ring_.try_claim(now, filter, max_jobs, gates);
    tell_of_wait();
    return claim;
  }
  std::optional<Claim> try_claim(Nanoseconds now, const ClaimRequest& request) {
    std::optional<Claim> claim = ring_.try_claim(now, request);
    tell_of_wait();
    return claim;
  }
  Charge join(Batch& batch, Nanoseconds now) { return ring_.join(batch.ring_queue(), now); }
  // None, too, if the batch is in another lane, or is held since its handler may move.
  std::optional<FairRing::Leases::Reclaimed> reclaim(Batch& batch, IndexRange wanted, std::uint32_t width,
                                                     Nanoseconds now) LOCKSLEY_EXCLUDES(hold_mutex_);
  void charge_so_far(Batch& batch, Charge& charged, Nanoseconds service, Nanoseconds now) {
    ring_.leases().charge_so_far(batch.ring_queue(), charged, service, now);
  }
  bool others_wait(const Batch& batch, const GateSet& gates) {
    return ring_.leases().others_wait(batch.ring_queue(), gates);
  }
  // Records jobs that were given back to a cancelled batch as cancelled. Calls wake().
  void give_back(Batch& batch, std::span<const IndexRange> ranges, std::uint64_t unused_starts,
                 Nanoseconds now);
  // Settles an executor's account with the ring, and claims its next turn under the same lock if
  // `next` says so. Records jobs that were given back to a cancelled batch as cancelled. The batch
  // may be destroyed by the end of the call, unless the caller keeps it.
  enum class Next { kClaim, kNothing };
  std::optional<Claim> settle(Batch& batch, const Settlement& settlement, Nanoseconds now, Next next,
                              ClaimFilter filter, const GateSet* gates);

  // ---- Batches ----

  // The batch enters the ring, without jobs.
  void attach(const std::shared_ptr<Batch>& batch) LOCKSLEY_EXCLUDES(hold_mutex_);
  // False: the ring does not take the jobs, because the batch was cancelled; they are recorded as
  // cancelled.
  bool add_or_drop(Batch& batch, IndexRange range);

  // Constant.
  const std::string name_;

  // Constant after on_work(), on_stop(), on_wait() and on_long_cancel().
  Notify wake_;
  Notify stop_;
  Notify wait_;
  DropRest drop_rest_;

  // Null: no remote workers serve the lane.
  std::atomic<RemoteExecutors*> remote_{nullptr};

  // Each has a mutex of its own.
  ShownJobs running_;
  FairRing ring_;

  // Guards no data. It makes the two steps (record, then ring) of hold(), release(), attach(),
  // reclaim() and begin_cancel() one step for threads that call these for the same batch.
  Mutex hold_mutex_;

  // Nanoseconds. Written by set_quantum(), read by executors.
  std::atomic<std::int64_t> quantum_;
  // Written by want_remote_work(), read by all that make something claimable, after they have
  // published it.
  std::atomic<bool> remote_wanted_{false};
  // Written by set_parallelism(), read by any thread for display.
  std::atomic<std::uint32_t> parallelism_;
};

}  // namespace locksley
