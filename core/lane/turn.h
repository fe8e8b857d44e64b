// One executor's turn with a batch: from the claim to the settlement.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/batch/batch.h"
#include "core/lane/lane.h"
#include "core/lane/result_writer.h"

namespace locksley {

// A turn: jobs of one batch that one executor runs, and the executor's account with the ring and
// the batch. Workers, thieves, external executors and leases all take these steps, in this order:
//
//   1. try_claim(), join() or reclaim()
//                          The ring counts the executor and, for a claim, charges the batch in
//                          advance.
//   2. begin_at_claim()    The charged time began with step 1. The executor may still find that it
//                          can run no job now; job_begins() says that one begins. The batch then
//                          counts the executor as running, unless it has sub-jobs only.
//      begin_measured()    The same for a lease: the first job begins, and the holder measures the
//                          charged time.
//   3. publish()           Any number of times. Jobs that have ended become visible.
//   4. leave()             Publishes all jobs that have ended, and then the batch stops counting
//                          the executor.
//   5. settle()            The ring gets the account and the jobs that did not end.
//
// So a reader who sees that nothing of a batch runs sees every job of it that has ended: step 4
// publishes first. The ring keeps the batch alive from step 1 to step 5.
//
// A member of its executor, which uses it for one turn after the other, or of a Lease. Any number
// of turns of one batch may run at once, and they may end in any order. The lane and the writer
// outlive it. A turn that is destroyed between steps 1 and 5 takes the missing steps, and gives
// back the jobs that have not ended.
// One thread at a time, except that the monitor may publish through the writer meanwhile.
// publish() and leave() block while the batch's journal has no room, unless the turn was made with
// NoRoom::kGoOn. All other calls take the mutexes of the ring, the batch and the writer, one after
// the other, and block no longer than that. Steps in a wrong order are bugs, and abort.
class Turn {
 public:
  // The behaviour of publish() and leave() while the batch's journal has no room.
  enum class NoRoom : std::uint8_t { kWait, kGoOn };

  Turn(Lane& lane, ResultWriter& writer, NoRoom no_room = NoRoom::kWait)
      : lane_(lane), writer_(&writer), no_room_(no_room) {}
  // A turn without a writer, for a holder that publishes results by itself: follow_up().
  explicit Turn(Lane& lane) : lane_(lane), no_room_(NoRoom::kGoOn) {}
  ~Turn();
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  // ---- Step 1: with no turn ----

  // Claims at most `max_jobs` jobs of the batch that is owed most, of those at `gates` (null: any).
  // False: there is nothing to claim.
  bool try_claim(ClaimFilter filter = ClaimFilter::kAny, std::uint64_t max_jobs = FairRing::kAnyNumber,
                 const GateSet* gates = nullptr);
  // The same, for a turn of several executors, or of another quantum.
  bool try_claim(const ClaimRequest& request);
  // Takes those jobs of `wanted` that wait in the lane, for `width` executors that run them
  // already. Returns them, ascending; none: no turn.
  std::vector<IndexRange> reclaim(Batch& batch, IndexRange wanted, std::uint32_t width);
  // For a thief, who has `stolen` already, from a turn of `batch`. An empty range: sub-jobs of a
  // running job. Such a turn ends no jobs, does not use the writer, and does not count as running:
  // the executor that holds the job does.
  void join(Batch& batch, IndexRange stolen);

  // ---- Steps 2 to 4: during the turn ----

  // The turn begins. The charged time began with the instant of step 1, for settle_and_claim() that
  // of the settlement: so turns that follow each other leave no time between them uncharged.
  void begin_at_claim() { begin(charged_.began); }
  // The turn begins now, and so does its first job. For a holder that measures the turn's service
  // itself: settle_for().
  void begin_measured() {
    begin(steady_now());
    job_begins();
  }
  // Call it before each job that begins, or that ends without running. The first call counts the
  // turn's executors in the batch, which starts the batch if no job of it has begun before. So a
  // batch whose payloads cannot be read yet has not started.
  void job_begins() {
    if (!is_counted_ && jobs_width_ != 0) count_executors();
  }
  // Counts the lowest `jobs` of the jobs left as ended. Their results are in the writer.
  void count_ended(std::uint64_t jobs) {
    executed_ += jobs;
    left_.low += jobs;
  }
  // Counts `jobs` jobs as ended, wherever they lie, for a holder that knows which ones are left.
  void count_executed(std::uint64_t jobs) { executed_ += jobs; }
  // Gives these jobs back now; the turn goes on without them. `ranges`: ascending and disjoint.
  // `unused_starts`: how many of the jobs have not begun, and so have used no start of a rate.
  void give_back(std::span<const IndexRange> ranges, std::uint64_t unused_starts) {
    lane_.give_back(*batch_, ranges, unused_starts, steady_now());
  }
  // Whether jobs of other batches wait at these gates, as far as is known.
  bool others_wait(const GateSet& gates) { return lane_.others_wait(*batch_, gates); }
  // The batch is charged for `service`, which the turn's executors have used so far, where that is
  // more than it was charged. For turns that last long.
  void charge_so_far(Nanoseconds service) { lane_.charge_so_far(*batch_, charged_, service, steady_now()); }
  // `jobs` jobs of the turn have begun: Settlement::started.
  void set_started(std::uint64_t jobs) { started_ = jobs; }
  // A job ended with status ok: Settlement::has_ended_well.
  void note_ended_well() { has_ended_well_ = true; }
  // Once the turn is settled, the batch is not served for a while (Lane::end_waits()).
  void set_backoff(Backoff backoff) { backoff_ = backoff; }
  // For an executor from which jobs are stolen: `left` are the jobs that it still has.
  void set_left(IndexRange left) { left_ = left; }
  // `time` of the turn so far was spent on another batch, which is charged for it. Moves began() on
  // by `time`.
  void exclude(Nanoseconds time) { began_ += time; }
  // If the batch has reached its max_fails, its rest is cancelled.
  void publish() { follow_up(writer_->publish()); }
  // The same, for a turn without a writer, after its holder has published.
  void follow_up(ResultWriter::Outcome outcome);
  void leave();

  // ---- Step 5 ----

  // The batch is charged for the time from began() until `now`. An instant after leave(), so that
  // the time of the publication, and of the wait for the journal, is paid by the batch that caused
  // them: BatchJournal::wait_for_room().
  void settle(Nanoseconds now) { settle_for(now, now - began_); }
  // The same, for a holder that has measured the time of the turn's executors itself, by any clock.
  void settle_for(Nanoseconds service) { settle_for(steady_now(), service); }
  // The same as settle(), and step 1 of the next turn under the same lock. False: there is nothing
  // to claim.
  bool settle_and_claim(Nanoseconds now, ClaimFilter filter, const GateSet* gates = nullptr) {
    return settle(now, now - began_, Lane::Next::kClaim, filter, gates);
  }

  // ---- State ----

  // Whether the turn is between step 1 and step 5.
  bool is_held() const { return batch_ != nullptr; }
  // These need is_held():
  Batch& batch() const { return *batch_; }
  GateId gate() const { return charged_.gate(); }
  // Whether no part of the claim may be stolen: Charge::is_capped().
  bool is_capped() const { return charged_.is_capped(); }
  IndexRange left() const { return left_; }
  std::uint64_t executed() const { return executed_; }
  // The number of executors that it counts as.
  std::uint32_t width() const { return charged_.width(); }
  // The time that the ring expects the claim to take, and how long the batch had waited for the
  // claim. 0 for a thief.
  Nanoseconds expected() const { return charged_.time; }
  Nanoseconds waited() const { return waited_; }
  // When the turn began; settle() charges the batch for the time since then. From step 2 on, until
  // the next turn's step 2.
  Nanoseconds began() const { return began_; }

 private:
  enum class Step : std::uint8_t { kNone, kClaimed, kBegun, kLeft };

  void begin(Nanoseconds began);
  void count_executors();
  enum class Work : std::uint8_t { kJobs, kSubJobs };
  void hold(Batch& batch, IndexRange range, Work work, const Charge& charged, Nanoseconds waited);
  bool hold(const std::optional<Claim>& claim);
  void settle_for(Nanoseconds now, Nanoseconds service) {
    (void)settle(now, service, Lane::Next::kNothing, ClaimFilter::kAny, nullptr);
  }
  bool settle(Nanoseconds now, Nanoseconds service, Lane::Next next, ClaimFilter filter,
              const GateSet* gates);

  // Constant.
  Lane& lane_;
  ResultWriter* const writer_ = nullptr;  // null: the holder publishes
  const NoRoom no_room_;

  // The executor's thread only.
  Batch* batch_ = nullptr;  // null: no turn
  Step step_ = Step::kNone;
  // How many executors the turn adds to the batch's count; 0: it has sub-jobs only.
  std::uint32_t jobs_width_ = 0;
  bool is_counted_ = false;  // by the batch, as running
  bool ends_jobs_ = false;   // and passes their results to the writer
  bool has_ended_well_ = false;
  Backoff backoff_ = Backoff::kNone;
  IndexRange left_;
  std::uint64_t executed_ = 0;  // jobs that ended; not sub-jobs
  std::uint64_t started_ = 0;   // the argument of set_started()
  Charge charged_;
  Nanoseconds waited_{};
  Nanoseconds began_{};
};

}  // namespace locksley
