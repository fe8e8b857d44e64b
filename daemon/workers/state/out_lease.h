// A lease that a remote worker holds, with what the link knows of its jobs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "core/base/index_range.h"
#include "core/base/index_set.h"
#include "core/base/job.h"
#include "core/lane/lease.h"
#include "core/lane/slot_times.h"
#include "daemon/workers/state/worker_accounts.h"

namespace locksley::daemon {

// What a worker has said of the jobs of one lease: which of them have begun. `next` is the lowest
// job that the worker has not begun, by its last BEAT.
//
// What is known lasts until a job begins of which the worker has not said so. So these calls are
// made in the order of its commands. A member of OutLease; one thread. Nothing blocks or fails.
class ReportedJobs {
 public:
  // ---- What the worker says, and what happens to its slots ----

  // The lease has these jobs, and the worker has said nothing yet.
  void leased(IndexRange jobs) { next_ = jobs.low; }
  // RECLAIM: the worker runs one of the jobs, or has run one.
  void reclaimed() { has_begun_ = runs_reclaimed_ = true; }
  // SETTLE: a job has ended, and another one may have begun in its place.
  void settled() { runs_reclaimed_ = is_complete_ = false; }
  // NOTE: this job has begun.
  void noted(std::uint64_t index) {
    has_begun_ = true;
    noted_ = index;
    if (index >= next_) is_complete_ = false;
  }
  // BEAT. `next`: within the jobs of the lease, or just above them. It may fall, if jobs went back
  // to the machine's own queue before they had begun.
  struct Beat {
    bool has_risen;     // `next` is above the one before
    bool is_corrected;  // jobs may be shown as running that have not begun
  };
  Beat beaten(std::uint64_t next) {
    const std::uint64_t before = std::exchange(next_, next);
    is_complete_ = true;
    return {.has_risen = next > before, .is_corrected = !std::exchange(has_next_, true) || next < before};
  }
  // YIELD from this job on, although the order asked for more: the jobs below have begun.
  void kept_below(std::uint64_t index) {
    next_ = std::max(next_, index);
    has_next_ = is_complete_ = true;
  }
  // A job has begun or ended on one of its slots, as the worker has said.
  void ran() { has_begun_ = true; }
  // The lease has come to the front on a slot: a job may have begun there.
  void came_to_front() { is_complete_ = false; }

  // ---- What follows ----

  // The worker has said that a job has begun, by a SETTLE, BEAT, NOTE or RECLAIM.
  bool has_begun() const { return has_begun_; }
  // The jobs below next() have begun, and no others. If not, it is taken for granted that a job
  // runs on each slot on which the lease is in front.
  bool is_complete() const { return is_complete_; }
  std::uint64_t next() const { return next_; }
  // The worker has sent a BEAT for the lease, or an answer to a CUT.
  bool has_next() const { return has_next_; }
  // How many of the jobs that the lease holds, `held`, have begun by the last BEAT.
  std::uint64_t begun(const IndexSet& held) const { return has_next_ ? held.count_below(next_) : 0; }
  // Whether that is any. O(1).
  bool has_begun_any(const IndexSet& held) const { return has_next_ && held.has_below(next_); }
  // Whether a job of `held` has begun and has not ended, by BEAT, NOTE or RECLAIM. A SETTLE says
  // nothing of the jobs that it does not end.
  bool has_running(const IndexSet& held) const {
    return runs_reclaimed_ || has_begun_any(held) || (noted_ && held.contains(*noted_));
  }

 private:
  std::uint64_t next_ = 0;
  bool has_next_ = false;
  bool is_complete_ = false;
  bool has_begun_ = false;
  std::optional<std::uint64_t> noted_;  // of the last NOTE
  bool runs_reclaimed_ = false;         // RECLAIM came, and no job has ended since
};

// The time-out of the jobs of one lease: since when it counts, and whether it counts at all.
//
// It counts from the end of the last job, or from the begin of the first one. A lease is
// *displaced* while it is behind on all its slots although it was in front: a job of the other
// lease has run. Then the time-out counts on if one of its jobs is known to run, or if it was
// displaced before and no job has ended since. So a worker that runs other leases all the time puts
// the time-out off once. A member of OutLease; one thread. Nothing blocks or fails.
class JobTimeout {
 public:
  // It is in front on a slot: it begins, or goes on.
  void came_to_front(Nanoseconds now) {
    if (!is_displaced_ || !counts_on_) since_ = now;
    if (std::exchange(is_displaced_, false)) was_displaced_ = true;
  }
  // A job of another lease has run on one of its slots. `is_behind`: it is in front on none.
  void other_ran(bool is_behind, bool has_running_job) {
    is_displaced_ = is_behind;
    counts_on_ = was_displaced_ || has_running_job;
  }
  void job_ended(Nanoseconds now) {
    since_ = now;
    was_displaced_ = false;
  }
  // The worker has said that no job of it has begun.
  void nothing_runs(Nanoseconds now) { since_ = now; }
  // The worker has said that a job of it runs. True: the time-out counts from now on, and did not.
  bool job_runs(Nanoseconds now) {
    if (!is_displaced_ || std::exchange(counts_on_, true)) return false;
    since_ = now;
    return true;
  }

  bool is_displaced() const { return is_displaced_; }
  // Since when it counts, for a lease that has begun; none: it does not count at the moment.
  std::optional<Nanoseconds> since() const {
    return is_displaced_ && !counts_on_ ? std::nullopt : std::optional(since_);
  }

 private:
  Nanoseconds since_{};
  bool is_displaced_ = false;
  bool was_displaced_ = false;
  bool counts_on_ = false;  // while it is displaced
};

// The orders about one lease that its worker has not answered. A member of OutLease; one thread.
struct LeaseOrders {
  // A cut for the sake of others.
  struct Cut {
    std::uint64_t at;
    Nanoseconds planned;
    bool is_for_idle_worker;  // else for batches that wait for its slots
    // When the worker first got the order, by a push or with the reply to a BEAT; none: not yet.
    std::optional<Nanoseconds> told = std::nullopt;
  };

  // The worker has been asked for jobs, or will be.
  bool is_cut() const { return cut || cut_pushed; }
  // The worker gets the order to cut now, if there is one.
  void note_told(Nanoseconds now) {
    if (cut && !cut->told) cut->told = now;
  }
  // YIELD has come, or is not waited for any longer: the worker may be asked again.
  void end_cut() {
    cut.reset();
    cut_pushed.reset();
  }

  std::optional<Cut> cut;
  std::optional<Nanoseconds> cut_pushed;  // the last push of a CUT, whatever its reason
  bool stop_pushed = false;
  // When it was last cut because it lasts too long while others wait.
  std::optional<Nanoseconds> shortened;
};

// A lease that a worker holds. Owned by its RemoteWorker; one thread.
struct OutLease {
  OutLease(Lane& lane, LeaseBuffers& buffers) : lease(lane, buffers) {}

  // How many jobs a lease shows: each takes up to 4 KiB for its note. A guess: a worker runs some
  // jobs of a lease at once, and settles those that have ended within some ms.
  static constexpr std::size_t kMostShown = 1'024;
  // Shows a job that the lease holds to others from now on, if it was not shown before, and returns
  // its entry. Null: the lease shows kMostShown other jobs.
  ShownJob* shown_job(std::uint64_t index, std::string_view worker);
  // The attempts of the jobs that it holds are over: their batch gets their last notes.
  void save_notes();

  // Whether one of its jobs may have begun: the lease is, or was, in front on a slot, or the worker
  // has said so. Not if the worker has given it back without a word.
  bool may_have_begun() const;
  // How many of the lease's jobs have begun; these are the lowest ones. They are the jobs below the
  // `next` of its BEATs, and one for each of the `in_front` slots on which it is in front, unless
  // the link knows better (ReportedJobs::is_complete()).
  std::uint64_t begun(std::uint32_t in_front) const;
  // The lowest job that has not started, as far as the link knows. None: all its jobs have.
  std::optional<std::uint64_t> first_not_started() const;
  // The same, but one job for each slot is taken to have started.
  std::optional<std::uint64_t> first_to_spare() const;
  // The index at which the lease could be cut: the middle of the jobs that have not started. None:
  // all have. If one job has not started, it is this job; if the lease holds no other, all of it
  // goes back.
  std::optional<std::uint64_t> middle() const;

  Lease lease;
  Lease::Shown shown;  // of the jobs that may run, and of those for which the worker has sent a NOTE
  // What is charged for it to WorkerUse::shown and WorkerUse::splits.
  std::uint64_t counted_shown = 0;
  std::uint64_t counted_splits = 0;
  SlotTimes::Occupation occupation;
  std::uint64_t number = 0;  // LeaseName::number
  std::uint64_t former = 0;  // of the lease before, of LeasePlaces::add_former(); 0: none
  // Where the reply with its payloads ends: WorkerConnections::Connection::end_of_replies(). 0:
  // there was none.
  std::uint64_t reply_end = 0;

  ReportedJobs reported;
  JobTimeout timeout;
  LeaseOrders orders;

  bool has_crashed = false;  // the job that was recorded last
  // How it went back whole, if the worker has begun no job of it.
  enum class Untouched : std::uint8_t {
    kNo,
    kUnasked,  // by the worker itself: no report, and no order
    kHeldUp,   // on an order, and the worker has said so: its batch is charged nothing
  };
  Untouched untouched = Untouched::kNo;

 private:
  // How many of the jobs that the lease holds may have started.
  std::uint64_t started() const;
};

}  // namespace locksley::daemon
