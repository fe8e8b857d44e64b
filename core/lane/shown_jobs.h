// How clients see the jobs that run outside the pool: in processes, or on other machines.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/job.h"
#include "core/batch/batch.h"
#include "core/batch/job_facts.h"
#include "core/lane/job_log.h"
#include "core/lane/job_watches.h"
#include "core/sync/mutex.h"

namespace locksley {

class ShownJob;

// All jobs of one lane that run outside the pool.
//
// A member of the lane. Any thread may call everything. Each call takes one mutex: find(),
// read_log() and the watches for a look-up, O(log n), and for the copy that they return; visit()
// for some ns for each executor that it visits. Nothing else blocks or fails.
class ShownJobs {
 public:
  // A job at one moment.
  struct View {
    std::shared_ptr<Batch> batch = {};
    std::uint64_t index = 0;
    std::uint32_t attempt = 1;
    Nanoseconds since{};     // by the steady clock
    bool has_ended = false;  // its result is published, or is about to be
    std::string worker = {};
    std::optional<std::uint32_t> progress = {};
    std::string note = {};  // at most as many bytes as were asked for
    std::uint64_t log_end = 0;
    std::optional<std::int32_t> exit_status = {};  // if the machine has reported it before the job's end
  };

  ShownJobs() = default;
  ShownJobs(const ShownJobs&) = delete;
  ShownJobs& operator=(const ShownJobs&) = delete;

  // Logs are charged to this from now on; null: to nothing. Before the lane's first job.
  void set_budget(std::shared_ptr<LogBudget> budget) LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    budget_ = std::move(budget);
  }
  // Called by any thread, under the mutex, after a job that is watched began, wrote or ended. Must
  // be quick and must not call the lane.
  void on_log(std::function<void(Batch&)> told) LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    on_log_ = std::move(told);
  }

  // None: the job does not run here. Finds a job that has ended until its result is published
  // (View::has_ended).
  std::optional<View> find(const Batch& batch, std::uint64_t index) const LOCKSLEY_EXCLUDES(mutex_);
  // Visits the executors that run a job, from number `from` on, at most `most` of them. Returns the
  // number of the next one, 0 at the end. Executors that come and go meanwhile may be left out, or
  // be visited twice. Calls both functions under the mutex: they must be quick, and must not call
  // the lane.
  std::size_t visit(std::size_t from, std::size_t most, std::size_t note_bytes,
                    const std::function<bool(const Batch&)>& is_wanted,
                    const std::function<void(View)>& take) const LOCKSLEY_EXCLUDES(mutex_);

  // An executor has jobs of the batch. `first`: the first of these jobs, which identifies the
  // executor. `is_starting`: its program has received none of the jobs yet
  // (ExternalExecutor::set_starting()).
  void set_starting(const Batch& batch, std::uint64_t first, bool is_starting) LOCKSLEY_EXCLUDES(mutex_);
  // The lowest `first` of the batch's executors that are starting. O(log n) in the number of
  // starting executors.
  std::optional<std::uint64_t> first_starting(const Batch& batch) const LOCKSLEY_EXCLUDES(mutex_);

  // The log of a job from byte `from` on. None: the job does not run here.
  struct Log {
    std::uint64_t end = 0;
    std::string bytes;  // the bytes before `end`
  };
  std::optional<Log> read_log(const Batch& batch, std::uint64_t index, std::uint64_t from) const
      LOCKSLEY_EXCLUDES(mutex_);
  // When the job begins, writes to its log, or ends, all watches of the job end, and the function
  // of on_log() is called once. The caller calls unwatch() once for each watch, ended or not; the
  // batch outlives that call. O(log n) in the number of jobs that are watched.
  using Watch = JobWatches<>::Watch;
  Watch watch(const Batch& batch, std::uint64_t index) LOCKSLEY_EXCLUDES(mutex_);
  bool is_watching(const Watch& watch) const LOCKSLEY_EXCLUDES(mutex_);
  void unwatch(const Watch& watch) LOCKSLEY_EXCLUDES(mutex_);

 private:
  friend class ShownJob;

  // The entries of `all_` that have a job, by job: remote workers may have hundreds of thousands.
  // For a moment two executors may have the same job. A tree and not a hash table, as in
  // JobWatches.
  using ByJob = std::multimap<WatchedJob, ShownJob*>;

  // The visible state of one executor. Only the executor's thread changes it, under the mutex.
  struct Shown {
    std::size_t place = 0;   // in all_
    Batch* batch = nullptr;  // null: no job runs
    std::uint64_t index = 0;
    ByJob::iterator entry = {};         // while a job runs: its entry
    ByJob::node_type spare_entry = {};  // else, after the first job: the entry of the next one
    std::uint32_t attempt = 1;
    Nanoseconds since{};
    std::string_view worker = {};
    bool has_line_notes = false;
    bool has_ended = false;
    std::optional<std::uint32_t> progress = {};
    std::optional<std::int32_t> exit_status = {};
    std::string note = {};
    JobLog log = {};
  };

  // Null: the job does not run here.
  Shown* locate(const Batch& batch, std::uint64_t index) const LOCKSLEY_REQUIRES(mutex_);
  // The state of an executor of this object. Never null.
  Shown* shown(ShownJob& job) const LOCKSLEY_REQUIRES(mutex_);
  View view_of(const Shown& job, std::size_t note_bytes) const LOCKSLEY_REQUIRES(mutex_);
  void end_watches(Batch& batch, std::uint64_t index) LOCKSLEY_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<ShownJob*> all_ LOCKSLEY_GUARDED_BY(mutex_);
  ByJob by_job_ LOCKSLEY_GUARDED_BY(mutex_);
  std::set<WatchedJob> starting_ LOCKSLEY_GUARDED_BY(mutex_);
  JobWatches<> watches_ LOCKSLEY_GUARDED_BY(mutex_);
  std::shared_ptr<LogBudget> budget_ LOCKSLEY_GUARDED_BY(mutex_);
  std::function<void(Batch&)> on_log_ LOCKSLEY_GUARDED_BY(mutex_);
};

// One executor's entry among the running jobs: it shows one job at a time.
//
// Owned by an executor; the ShownJobs outlive it. One thread at a time. Each call takes the mutex
// of the ShownJobs for some 50 ns, and for the bytes that are added.
class ShownJob {
 public:
  explicit ShownJob(ShownJobs& all);
  ~ShownJob();
  ShownJob(const ShownJob&) = delete;
  ShownJob& operator=(const ShownJob&) = delete;

  // A job that runs.
  struct Job {
    Batch& batch;  // the executor keeps it alive until clear()
    std::uint64_t index;
    std::uint32_t attempt;
    Nanoseconds since;
    std::string_view worker;      // its text lives as long as the ShownJob
    bool has_line_notes = false;  // its note is the last line that it writes to standard error
  };
  void begin(const Job& job);
  bool is_begun() const { return is_begun_; }
  std::uint64_t index() const { return own().index; }
  Nanoseconds since() const { return own().since; }  // as begin() got it
  // Whether the job has reported progress, a note, an exit status or a log since begin().
  bool has_reports() const { return has_reports_; }
  // These need is_begun():
  void set_progress(std::uint32_t per_cent);
  // The batch keeps the note for the job's next attempt: it gets at most one note a second, and the
  // last one at the end of this attempt. While the results of the batch's user are at their limit,
  // a note that is longer than the one before is not kept.
  void set_note(std::string_view text);
  // The attempt is over, and has no result: gives its last note to the batch, unless the batch has
  // it.
  void save_note();
  void set_exit_status(std::int32_t status);
  void add_log(std::string_view bytes);
  // The job has ended at `now`: appends its facts, for its row. The job stays visible until clear()
  // or begin().
  void append_facts(Nanoseconds now, std::optional<std::int32_t> exit_status, std::string& facts);
  // The job no longer runs, and its result is published.
  void clear();

 private:
  friend class ShownJobs;

  // For the executor's thread. Not checked by the compiler: this thread may read without the mutex
  // the data that only it changes.
  const ShownJobs::Shown& own() const LOCKSLEY_NO_THREAD_SAFETY_ANALYSIS { return shown_; }
  void forget() LOCKSLEY_REQUIRES(all_.mutex_);

  ShownJobs& all_;

  // The executor's thread.
  bool is_begun_ = false;
  bool has_reports_ = false;
  Nanoseconds note_saved_{};  // when the batch got the last one
  bool has_unsaved_note_ = false;

  ShownJobs::Shown shown_ LOCKSLEY_GUARDED_BY(all_.mutex_);
};

}  // namespace locksley
