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

// What a worker has reported about the jobs of one lease: which of them have begun. `next` is the
// lowest job that the worker had not begun at its last BEAT.
//
// This knowledge is complete until a job may have begun without a report. So call these functions
// in the order of the worker's commands. A member of OutLease; one thread. Nothing blocks or fails.
class ReportedJobs {
 public:
  // ---- What the worker says, and what happens to its slots ----

  // The lease has these jobs, and nothing is reported yet.
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
  // into the machine's own queue before they began.
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
  // The worker has reported that a job has begun or ended on one of the lease's slots.
  void ran() { has_begun_ = true; }
  // The lease has come to the front on a slot: a job may have begun there.
  void came_to_front() { is_complete_ = false; }

  // ---- What follows ----

  // The worker has reported that a job has begun, by a SETTLE, BEAT, NOTE or RECLAIM.
  bool has_begun() const { return has_begun_; }
  // Exactly the jobs below next() have begun. If false, the link assumes that a job runs on each
  // slot on which the lease is in front.
  bool is_complete() const { return is_complete_; }
  std::uint64_t next() const { return next_; }
  // The worker has sent a BEAT for the lease, or an answer to a CUT.
  bool has_next() const { return has_next_; }
  // How many of the jobs that the lease holds, `held`, have begun by the last BEAT.
  std::uint64_t begun(const IndexSet& held) const { return has_next_ ? held.count_below(next_) : 0; }
  // Whether begun() is not 0. O(1).
  bool has_begun_any(const IndexSet& held) const { return has_next_ && held.has_below(next_); }
  // Whether a job of `held` has begun and has not ended, by BEAT, NOTE or RECLAIM. A SETTLE says
  // nothing about jobs other than those that it ends.
  bool has_running(const IndexSet& held) const {
    return runs_reclaimed_ || has_begun_any(held) || (noted_ && held.contains(*noted_));
  }

 private:
  std::uint64_t next_ = 0;
  bool has_next_ = false;
  bool is_complete_ = false;
  bool has_begun_ = false;
  std::optional<std::uint64_t> noted_;  // of the last NOTE
  bool runs_reclaimed_ = false;         // a RECLAIM came, and no job has ended since
};

// The time-out of the jobs of one lease: since when it counts, and whether it counts at all.
//
// It counts from the end of the last job, or from the begin of the first one. A lease is
// *displaced* while it is behind on all its slots after it was in front: a job of another lease has
// run there. Then the time-out goes on if one of its jobs is known to run, or if it was displaced
// before and no job has ended since. So a worker that always runs other leases can delay the
// time-out only once. A member of OutLease; one thread. Nothing blocks or fails.
class JobTimeout {
 public:
  // The lease is in front on a slot: it begins, or goes on.
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
  // The worker has reported that no job of the lease has begun.
  void nothing_runs(Nanoseconds now) { since_ = now; }
  // The worker has reported that a job of the lease runs. True: the time-out did not count, and
  // counts from now on.
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
  // A cut that was planned for other workers or batches.
  struct Cut {
    std::uint64_t at;
    Nanoseconds planned;
    bool is_for_idle_worker;  // else for batches that wait for its slots
    // When the worker first got the order, by a push or with the reply to a BEAT; none: not yet.
    std::optional<Nanoseconds> told = std::nullopt;
  };

  // The worker has been asked to hand back jobs, or will be.
  bool is_cut() const { return cut || cut_pushed; }
  // The worker gets the order of the cut now, if there is one.
  void note_told(Nanoseconds now) {
    if (cut && !cut->told) cut->told = now;
  }
  // YIELD has come, or the link no longer waits for it: the worker may be asked again.
  void end_cut() {
    cut.reset();
    cut_pushed.reset();
  }

  std::optional<Cut> cut;
  std::optional<Nanoseconds> cut_pushed;  // the last push of a CUT, whatever its reason
  bool stop_pushed = false;
  // When the lease was last cut because it lasts too long while others wait.
  std::optional<Nanoseconds> shortened;
};

// A lease that a worker holds. Owned by its RemoteWorker; one thread.
struct OutLease {
  OutLease(Lane& lane, LeaseBuffers& buffers) : lease(lane, buffers) {}

  // The most jobs that a lease shows: each takes up to 4 KiB for its note. A guess: a worker runs
  // some jobs of a lease at once, and settles those that have ended within some ms.
  static constexpr std::size_t kMostShown = 1'024;
  // Shows a job that the lease holds to others from now on, if it was not shown before, and returns
  // its entry. Null: the lease shows kMostShown other jobs.
  ShownJob* shown_job(std::uint64_t index, std::string_view worker);
  // The attempts of the jobs that the lease holds are over: passes their last notes to their batch.
  void save_notes();

  // Whether one of its jobs may have begun: the lease is, or was, in front on a slot, or the worker
  // has reported it. False if the worker has given the lease back without a report.
  bool may_have_begun() const;
  // How many of the lowest jobs that the lease holds have begun: the jobs below the `next` of its
  // BEATs, and, unless ReportedJobs::is_complete(), one for each of the `in_front` slots on which
  // the lease is in front.
  std::uint64_t begun(std::uint32_t in_front) const;
  // The lowest job that has not started, as far as the link knows. None: all have started.
  std::optional<std::uint64_t> first_not_started() const;
  // The same, if one job for each slot counts as started.
  std::optional<std::uint64_t> first_to_spare() const;
  // The index at which the lease could be cut: the middle of the jobs that have not started. None:
  // all have started. If one job has not started, the index is that job's; if the lease holds no
  // other job, the whole lease goes back.
  std::optional<std::uint64_t> middle() const;

  Lease lease;
  Lease::Shown shown;  // of the jobs that may run, and of those for which the worker has sent a NOTE
  // The charges for the lease in WorkerUse::shown and WorkerUse::splits.
  std::uint64_t counted_shown = 0;
  std::uint64_t counted_splits = 0;
  SlotTimes::Occupation occupation;
  std::uint64_t number = 0;  // LeaseName::number
  std::uint64_t former = 0;  // number of the reclaimed lease: LeasePlaces::add_former(); 0: none
  // The end of the reply with its payloads: WorkerConnections::Connection::end_of_replies(). 0:
  // there was none.
  std::uint64_t reply_end = 0;

  ReportedJobs reported;
  JobTimeout timeout;
  LeaseOrders orders;

  bool has_crashed = false;  // the job that was recorded last
  // How the whole lease went back, if the worker has begun no job of it.
  enum class Untouched : std::uint8_t {
    kNo,
    kUnasked,  // by the worker itself: no report, and no order
    kHeldUp,   // on an order, and the worker has reported it: its batch is charged nothing
  };
  Untouched untouched = Untouched::kNo;

 private:
  // How many of the jobs that the lease holds may have started.
  std::uint64_t started() const;
};

}  // namespace locksley::daemon
