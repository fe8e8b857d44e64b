// An executor of a lane whose jobs run outside the pool: in a process, for example.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/index_set.h"
#include "core/batch/batch.h"
#include "core/lane/lane.h"
#include "core/lane/result_writer.h"
#include "core/lane/shown_jobs.h"
#include "core/lane/turn.h"

namespace locksley {

// A job for the program that runs it. The view is valid until the turn ends.
struct ExternalJob {
  std::uint64_t index = 0;
  std::string_view payload;
};

// An executor without a thread: takes turns with the lane's batches, hands out their jobs, and
// takes their results.
//
//   if (executor.begin_turn(64, kMostBytes)) {
//     while (auto job = executor.start_job()) send(*job);
//   }
//   // later, in the order of the starts:
//   executor.end_job(JobStatus::kOk, output); executor.publish();
//   // when nothing is out:
//   executor.end_turn();
//
// Jobs end in the order in which they were started, unless allow_any_order() was called. Jobs that
// have started, but have not ended at the end of the turn, go back to the ring with those that have
// not started: they will run again.
//
// Owned by the program that runs the jobs; the lane outlives it. Destroyed between two turns.
// One thread at a time.
// begin_turn() blocks if fetching the batch's payloads blocks. Nothing else blocks: a journal
// without room still takes results, so the program must not begin a turn then. The batch is charged
// for the time from begin_turn() to end_turn(), in which the executor served no other batch. A job
// whose payload can never be read ends as an error; if a payload cannot be read now, its batch
// backs off. Calls in a wrong order are bugs, and abort.
class ExternalExecutor {
 public:
  explicit ExternalExecutor(Lane& lane)
      : lane_(lane), running_(lane.running()), turn_(lane, writer_, Turn::NoRoom::kGoOn) {}
  ~ExternalExecutor();
  ExternalExecutor(const ExternalExecutor&) = delete;
  ExternalExecutor& operator=(const ExternalExecutor&) = delete;

  // Claims a turn of at most `most` jobs, with payloads of about `most_bytes` at most, of a batch
  // at `gates` (null: any). False: there is nothing to claim. A job whose payload cannot be read
  // ends here, as an error.
  bool begin_turn(std::uint64_t most, std::size_t most_bytes, const GateSet* gates = nullptr);
  bool has_turn() const { return turn_.is_held(); }
  // The turn's batch.
  Batch& batch() const { return turn_.batch(); }
  // The gate of the turn's batch.
  GateId gate() const { return turn_.gate(); }

  // Where the turn's jobs run: shown, and kept with their results. Must live as long as the turn.
  // `has_line_notes`: as in ShownJob::Job. Before the first start_job().
  void set_worker(std::string_view worker, bool has_line_notes) {
    worker_ = worker;
    has_line_notes_ = has_line_notes;
  }
  // The oldest running job as other threads see it, if there is one; after allow_any_order(), of
  // the running job with the lowest index.
  ShownJob& running() { return in_any_order_ && !shown_.empty() ? *shown_.begin()->second : running_; }
  // The same for job `index`; null: it does not run. Only after allow_any_order().
  ShownJob* running(std::uint64_t index) const;

  // While `is_starting`, the program that is to run the turn's jobs has received none of them yet:
  // it is loading, or waits for a place. So they count as not begun (ShownJobs::first_starting()).
  // During a turn, at whose begin and end it is false.
  void set_starting(bool is_starting);

  // The jobs of this turn may end in any order. Before the first start_job().
  void allow_any_order();
  // Ascending. Only after allow_any_order().
  std::vector<std::uint64_t> running_indexes() const;
  // A running job has ended. The facts of its run are kept with its result. Only after
  // allow_any_order().
  void end_job(std::uint64_t index, JobStatus status, std::string_view output,
               std::optional<std::int32_t> exit_status = std::nullopt);

  // The next job, which is running from now on. None: all jobs of the turn have been started, or
  // the batch is to stop or is held.
  std::optional<ExternalJob> start_job();
  // Jobs that have started and not ended.
  std::uint64_t running_jobs() const { return started_ - ended_; }
  // The oldest running job has ended; after allow_any_order(), the running job with the lowest
  // index.
  void end_job(JobStatus status, std::string_view output,
               std::optional<std::int32_t> exit_status = std::nullopt);
  // Makes the results of the jobs that have ended visible to all threads.
  void publish() {
    turn_.publish();
    published_.clear();
  }
  // The last job that ended broke the program that runs the jobs: after the turn, no job of the
  // batch is started until its back-off ends (Lane::end_waits()).
  void note_broken() { turn_.set_backoff(Backoff::kBroken); }
  // Ends the turn. All jobs that have not ended go back.
  void end_turn();

 private:
  // Fetches the payloads of at most `most` jobs, and sets fetched_. It stays 0 if the first payload
  // cannot be read. If that payload can never be read, its job ends as an error.
  void fetch(std::uint64_t most, std::size_t most_bytes);
  // The job as others can see it, running since this instant.
  ShownJob::Job job_to_show(std::uint64_t index, Nanoseconds since) const;

  // Constant.
  Lane& lane_;

  // One thread at a time.
  std::string_view worker_;
  bool has_line_notes_ = false;
  bool is_starting_ = false;
  ShownJob running_;
  std::string facts_;  // encoded, of the job that ends
  // After allow_any_order(): the jobs of the turn that have not ended, those that run, and those
  // that have ended since publish().
  bool in_any_order_ = false;
  IndexSet not_ended_;
  std::map<std::uint64_t, std::unique_ptr<ShownJob>> shown_;
  std::vector<std::unique_ptr<ShownJob>> published_;
  ResultWriter writer_{ResultWriter::For::kExternal};
  Turn turn_;
  // When the oldest running job began: at its start, or at the end of the job before it.
  Nanoseconds job_began_{};
  std::uint64_t first_ = 0;  // index of the turn's first job
  // Counted from first_:
  std::uint64_t fetched_ = 0;
  std::uint64_t started_ = 0;
  std::uint64_t ended_ = 0;
  std::vector<std::string_view> payloads_;  // of the turn's first jobs
  std::string scratch_;                     // of PayloadSource::fetch()
};

}  // namespace locksley
