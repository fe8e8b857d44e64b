// A runner whose process takes job after job.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/lane/external_executor.h"
#include "daemon/process/io/process_pipes.h"
#include "daemon/process/keeper/keeper_link.h"
#include "daemon/process/lane/process_lane.h"
#include "daemon/process/lane/process_runner.h"
#include "daemon/process/runners/line_log.h"
#include "daemon/process/runners/terminator.h"
#include "daemon/process/runners/worker_input.h"
#include "proto/reply_reader.h"

namespace locksley::daemon {

// Runs the jobs of turn after turn in one process. The runner starts the process with the first
// job, and retires it when the process has run max_jobs jobs, or has grown beyond max_memory. All
// jobs of a turn are written at once, so that the worker never waits for the next job. The worker
// answers in order; with worker_protocol 2, in any order. When the worker dies, the first job that
// it has not answered ends with that failure, unless the worker had answered others before and had
// not read this one. The other jobs return to the ring. Their batch waits for a back-off
// (FairRing), while the lane runs jobs of other batches with a new process.
//
// Owned by its slot; the process thread only (ProcessRunner). Nothing blocks: pipes are
// non-blocking. A worker that ends before it has read a byte of its first job cannot work at all.
// The runner then pauses, after each such failure twice as long as before (worker_limits.h), and
// the handler's concurrency is one less meanwhile. The job returns to the ring for a while if the
// handler has worked before (LaneHandler::spares_job()).
class WorkerRunner final : public ProcessRunner {
 public:
  WorkerRunner(ProcessLane& lane, LaneSlot& slot);
  ~WorkerRunner() override;

  Program::Kind kind() const override { return Program::Kind::kWorker; }
  State state() const override LOCKSLEY_REQUIRES(kProcessThread) {
    if (has_turn()) return State::kRunning;
    if (is_pausing_) return State::kPausing;
    if (process_ == 0) return State::kEmpty;
    return is_ending_ || end_is_expected_ ? State::kEnding : State::kIdle;
  }
  LaneSlot& slot() const override { return slot_; }
  LaneHandler* handler() const override LOCKSLEY_REQUIRES(kProcessThread) { return handler_; }
  Nanoseconds idle_since() const override LOCKSLEY_REQUIRES(kProcessThread) { return idle_since_; }
  Nanoseconds stays_until() const override LOCKSLEY_REQUIRES(kProcessThread) { return stays_until_; }
  bool may_serve(const LaneHandler& handler) const override LOCKSLEY_REQUIRES(kProcessThread) {
    return failures_ == 0 || handler_ == &handler;
  }
  std::uint64_t begin(LaneHandler& handler, std::unique_ptr<ExternalExecutor> turn,
                      std::uint64_t most) override LOCKSLEY_REQUIRES(kProcessThread);
  void check_cancelled() override LOCKSLEY_REQUIRES(kProcessThread);
  void release_process() override LOCKSLEY_REQUIRES(kProcessThread) {
    if (state() == State::kIdle) retire();
  }
  void reset_failures() override LOCKSLEY_REQUIRES(kProcessThread);
  void stop() override LOCKSLEY_REQUIRES(kProcessThread);
  void abandon() override LOCKSLEY_REQUIRES(kProcessThread);

 private:
  // Why the runner ends the process although it has jobs.
  enum class Verdict { kNone, kTimeout, kCancelled, kBadAnswer, kHandedBack };

  bool has_turn() const { return turn_ != nullptr; }
  void end_turn() LOCKSLEY_REQUIRES(kProcessThread);
  std::expected<void, std::string> start_process() LOCKSLEY_REQUIRES(kProcessThread);
  void send(const ExternalJob& job) LOCKSLEY_REQUIRES(kProcessThread);
  // These functions return false if the runner must read nothing more from this process.
  bool take_answers(std::string_view bytes) LOCKSLEY_REQUIRES(kProcessThread);
  bool take_answer(const proto::Reply& reply) LOCKSLEY_REQUIRES(kProcessThread);
  // Whether the reply is a word of version 2 about a job that has ended, or never ran. Such a word
  // is ignored.
  bool is_late_word(const proto::Reply& reply) LOCKSLEY_REQUIRES(kProcessThread);
  // Takes a word: progress or a note, of the job that the word names, or else of the oldest running
  // one. Needs: the word is not late.
  bool take_word(const proto::Reply& reply) LOCKSLEY_REQUIRES(kProcessThread);
  // worker_protocol: 2.
  bool is_version_2() const LOCKSLEY_REQUIRES(kProcessThread) {
    return program_->settings().worker_protocol == 2;
  }
  // Whether an answer with this status is recorded. After stop() only `ok` is: SIGTERM has reached
  // the process and all programs that it had started, so any other end may be the daemon's doing.
  // If the answer does not count, kills the process, and its jobs return to the ring.
  bool counts(JobStatus status) LOCKSLEY_REQUIRES(kProcessThread);
  // The process has answered a job.
  void note_answer() LOCKSLEY_REQUIRES(kProcessThread);
  // Takes an array of version 2: [job, status, output], or a word.
  bool take_array(const proto::Reply& reply) LOCKSLEY_REQUIRES(kProcessThread);
  // Tells the process, with version 2, to stop its jobs.
  void send_stops() LOCKSLEY_REQUIRES(kProcessThread);
  // All answers that have arrived have been taken; `has_answered`: at least one now.
  void answers_taken(bool has_answered) LOCKSLEY_REQUIRES(kProcessThread);
  void turn_ended() LOCKSLEY_REQUIRES(kProcessThread);
  void arm_timeout() LOCKSLEY_REQUIRES(kProcessThread);
  void check_timeout() LOCKSLEY_REQUIRES(kProcessThread);
  // Checks whether the process has begun to read. Before that, the time limit of its jobs does not
  // run.
  void check_start(Nanoseconds limit) LOCKSLEY_REQUIRES(kProcessThread);
  // Begins to end the process, unless an earlier call has done so, and takes back the jobs that the
  // process has not read. Needs: a running job.
  void terminate(Verdict verdict) LOCKSLEY_REQUIRES(kProcessThread);
  // The worker has broken the protocol, or does not begin to read: kills it.
  void refuse_answer(std::string why) LOCKSLEY_REQUIRES(kProcessThread);
  // The process has closed its input or its output, so it is useless: gives it no further turn, and
  // kills it unless it ends by itself. The process has half a second for that if it has jobs; else
  // at least the grace time, since no job waits for it.
  void expect_end(std::string why) LOCKSLEY_REQUIRES(kProcessThread);
  // Whether the handler's current program would start the same process.
  bool is_current() LOCKSLEY_REQUIRES(kProcessThread);
  // Closes the input, which tells the process that no more jobs come; kills the process after the
  // grace time, or after 100 ms if that is longer.
  void retire() LOCKSLEY_REQUIRES(kProcessThread);
  bool has_grown() const;
  void process_ended(const ProcessEnd& end) LOCKSLEY_REQUIRES(kProcessThread);
  // The process has ended during a turn, of which it had read `bytes_read` bytes. Settles the first
  // job that it has not answered, unless that job is to run again, and then the turn. Returns
  // whether the handler's program cannot work at all.
  enum class Fault { kNone, kHandler };
  Fault end_broken_turn(const ProcessEnd& end, std::uint64_t bytes_read) LOCKSLEY_REQUIRES(kProcessThread);
  // A process could not be started, or ended before it read a byte of its first job. Counts the
  // failed start, and returns whether the job is spared (LaneHandler::spares_job()).
  bool spares_job() LOCKSLEY_REQUIRES(kProcessThread);
  // Whether the process ended by itself between two jobs: it had answered some, and had not read
  // the next one. Needs: a running job.
  bool ended_between_jobs(std::uint64_t bytes_read) LOCKSLEY_REQUIRES(kProcessThread);
  // Settles the first job that the process has not answered.
  void end_first_job(const ProcessEnd& end);
  void log_end(const char* what, std::string_view why) LOCKSLEY_REQUIRES(kProcessThread);
  // Starts no process for a while.
  void pause() LOCKSLEY_REQUIRES(kProcessThread);

  ProcessLane& lane_;
  LaneSlot& slot_;
  const std::string where_;  // shown as the jobs' worker: lane/slot
  LaneHandler* handler_ = nullptr;
  std::unique_ptr<ExternalExecutor> turn_;  // null: no jobs
  std::uint64_t turns_ = 0;                 // that have ended
  std::uint64_t first_job_ = 0;             // index of the turn's first job
  std::vector<std::uint64_t> job_begins_;   // of the turn's jobs: where each begins in the turn's bytes
  Nanoseconds idle_since_{};
  Nanoseconds began_{};  // when the process was started
  Nanoseconds stays_until_{};
  std::shared_ptr<const Program> program_;  // of the process, or one that starts the same process
  std::uint64_t process_ = 0;               // of KeeperLink::start(); 0: no process
  pid_t pid_ = 0;                           // 0: not known yet
  bool is_ending_ = false;                  // the process has been told to end
  bool is_pausing_ = false;
  Verdict verdict_ = Verdict::kNone;
  bool has_read_ahead_ = false;  // after terminate(): had the process begun to read a further job?
  std::string why_;              // with Verdict::kBadAnswer, or after expect_end()
  std::uint64_t answered_ = 0;   // jobs of this process
  std::uint32_t failures_ = 0;   // consecutive processes that could not be started, or read no job
  bool is_starting_ = false;     // the process has neither read nor answered anything, as far as is known
  Nanoseconds oldest_since_{};   // when the oldest running job began, or was first seen to be read

  WorkerInput input_;
  OutputReader answer_reader_;
  std::unique_ptr<proto::ReplyReader> answers_;
  OutputReader error_reader_;
  LineLog error_log_;
  TextTail error_tail_;  // since the last answer
  ProcessTimer timeout_;
  ProcessTimer cancel_timer_;  // from the cancellation of the turn's batch to terminate()
  bool cancel_timer_is_armed_ = false;
  ProcessTimer end_timer_;  // from expect_end() to SIGKILL
  bool end_is_expected_ = false;
  ProcessTimer pause_timer_;
  Terminator terminator_;
};

}  // namespace locksley::daemon
