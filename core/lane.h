// A lane: a ring of batch queues and the one door through which batches enter it, change in it and leave it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "core/batch.h"
#include "core/fair_ring.h"
#include "core/histogram.h"

namespace locksley {

// Keeps a batch's record and its queue in the ring in step. What executes the jobs (the pool for native
// handlers, slots of processes for others) claims from ring() and is told by `wake` that there is something
// to claim.
//
// Owned by whoever runs the executors; outlives them. Every call may be made from any thread, takes the
// ring's and the batch's mutex one after the other, and does not block otherwise.
class Lane {
 public:
  using Wake = std::function<void()>;

  Lane(std::string name, FairRing::Options options)
      : name_(std::move(name)), ring_(options), quantum_(options.quantum.count()) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  const std::string& name() const { return name_; }
  // How long an executor may go on with a claim before it hands back the rest.
  Nanoseconds quantum() const {
    // [lane-quantum] relaxed: a number on its own.
    return Nanoseconds(quantum_.load(std::memory_order_relaxed));
  }
  void set_quantum(Nanoseconds quantum);
  FairRing& ring() { return ring_; }
  const FairRing& ring() const { return ring_; }

  // Called after there may be more to claim. Set once, before the first batch.
  void on_work(Wake wake) { wake_ = std::move(wake); }
  // Called after a batch was told to stop, for executors that do not look by themselves. Set once, likewise.
  void on_stop(Wake stop) { stop_ = std::move(stop); }

  // The batch enters the ring with `jobs` jobs; `open`: more will come. Its payloads must be there.
  // `start` wakes the executors; false leaves that to the caller, who then calls wake() after a series of
  // submissions.
  enum class Start { now, later };
  void submit(const std::shared_ptr<Batch>& batch, std::uint64_t jobs, bool open, Start start = Start::now);
  // False, and nothing is added, if the batch is closed or cancelled.
  bool add_jobs(Batch& batch, std::uint64_t jobs);
  void close(Batch& batch);

  // The second half of submit(), add_jobs() and close(), for whoever has to wait for something, a disk say,
  // before the jobs may run: the batch's record takes them in at once (Batch::jobs_added(), Batch::close()),
  // the ring by these. In the same order; what was cancelled in between is dropped. `ranges`: disjoint,
  // ascending.
  void enqueue(const std::shared_ptr<Batch>& batch, std::span<const IndexRange> ranges, bool open,
               Start start = Start::now);
  void enqueue_jobs(Batch& batch, IndexRange range);
  void enqueue_close(Batch& batch);

  void set_weight(Batch& batch, std::uint32_t weight);
  // No new jobs of it are started while there is a reason. Taking away one that is not there does nothing.
  void hold(Batch& batch, Hold reason);
  void release(Batch& batch, Hold reason);
  void pause(Batch& batch) { hold(batch, Hold::command); }
  void resume(Batch& batch) { release(batch, Hold::command); }

  // Jobs of the batch that failed and whose time has come are queued again; where the batch's queue has left
  // the ring, it enters anew. By one thread at a time: the one that submits.
  void retry_due(const std::shared_ptr<Batch>& batch);
  // All jobs that have failed are queued again, and the batch, if it was over, goes on. How many. Likewise.
  std::uint64_t retry_failed(const std::shared_ptr<Batch>& batch);

  // The batch goes on in another lane, with what waits in this one. False, and nothing happens, while
  // executors have jobs of it; the caller keeps it held meanwhile, or they will always.
  bool hand_over(const std::shared_ptr<Batch>& batch, Lane& to);

  // Drops what has not started and asks what runs to stop. `reason` is the output of the jobs that never ran.
  // Returns how many jobs will not run because of it. Of an open batch it is a close, too.
  std::uint64_t cancel(Batch& batch, std::string reason);

  // ---- For executors ----

  // How long batches waited for the turns that slots took (core/slot.h). The pool's workers count for
  // themselves.
  DurationHistogram slot_wait;

  void wake() {
    if (wake_) wake_();
  }
  // What is left of a batch that had more failures than it allows is cancelled.
  void cancel_after_failures(Batch& batch);
  // Settles an executor's account with the ring, and claims its next turn under the same lock if `next` says
  // so. Jobs that were handed back to a cancelled batch are recorded as cancelled. After it the batch may be
  // gone, if the caller does not keep it.
  enum class Next { claim, nothing };
  std::optional<Claim> settle(Batch& batch, const Settlement& settlement, Nanoseconds now, Next next,
                              ClaimFilter filter = ClaimFilter::any);

 private:
  void attach(const std::shared_ptr<Batch>& batch);
  void put_back(const std::shared_ptr<Batch>& batch, std::span<const IndexRange> ranges);

  const std::string name_;
  FairRing ring_;
  std::mutex hold_mutex_;  // keeps record and ring in step when two threads hold and release one batch
  Wake wake_;
  Wake stop_;
  std::atomic<std::int64_t> quantum_;  // nanoseconds; written by set_quantum(), read by executors
};

}  // namespace locksley
