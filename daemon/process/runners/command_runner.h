// A runner that starts one process for each job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/lane/external_executor.h"
#include "daemon/process/io/process_pipes.h"
#include "daemon/process/keeper/keeper_link.h"
#include "daemon/process/lane/process_lane.h"
#include "daemon/process/lane/process_runner.h"
#include "daemon/process/runners/terminator.h"

namespace locksley::daemon {

// Runs one job a turn: starts its program, collects the program's output, and settles the job.
// Owned by its slot; the process thread only (ProcessRunner). Nothing blocks. If the program cannot
// be started, the job ends with an error.
class CommandRunner final : public ProcessRunner {
 public:
  CommandRunner(ProcessLane& lane, LaneSlot& slot);
  ~CommandRunner() override;

  Program::Kind kind() const override { return Program::Kind::kCommand; }
  State state() const override LOCKSLEY_REQUIRES(kProcessThread) {
    return has_turn() ? State::kRunning : State::kEmpty;
  }
  LaneSlot& slot() const override { return slot_; }
  LaneHandler* handler() const override LOCKSLEY_REQUIRES(kProcessThread) { return handler_; }
  Nanoseconds idle_since() const override LOCKSLEY_REQUIRES(kProcessThread) { return {}; }
  Nanoseconds stays_until() const override LOCKSLEY_REQUIRES(kProcessThread) { return {}; }
  bool may_serve(const LaneHandler& /*handler*/) const override LOCKSLEY_REQUIRES(kProcessThread) {
    return true;
  }
  std::uint64_t begin(LaneHandler& handler, std::unique_ptr<ExternalExecutor> turn,
                      std::uint64_t most) override LOCKSLEY_REQUIRES(kProcessThread);
  void check_cancelled() override LOCKSLEY_REQUIRES(kProcessThread);
  void release_process() override LOCKSLEY_REQUIRES(kProcessThread) {}
  void reset_failures() override LOCKSLEY_REQUIRES(kProcessThread) {}
  void stop() override LOCKSLEY_REQUIRES(kProcessThread);
  void abandon() override LOCKSLEY_REQUIRES(kProcessThread);

 private:
  // Why the runner ends the process, if it does.
  enum class Verdict { kNone, kTimeout, kCancelled, kTooMuchOutput, kHandedBack };

  bool has_turn() const { return turn_ != nullptr; }
  void end_turn() LOCKSLEY_REQUIRES(kProcessThread);
  std::expected<void, std::string> start(const ExternalJob& job) LOCKSLEY_REQUIRES(kProcessThread);
  // The job ends with the error.
  std::expected<SpawnRequest, std::string> request_for(const ExternalJob& job) const
      LOCKSLEY_REQUIRES(kProcessThread);
  // Reads the process's standard output and error, until it ends.
  void read(Descriptor output, Descriptor errors) LOCKSLEY_REQUIRES(kProcessThread);
  void arm_timeout() LOCKSLEY_REQUIRES(kProcessThread);
  // Begins to end the process, unless an earlier call has done so.
  void terminate(Verdict verdict) LOCKSLEY_REQUIRES(kProcessThread);
  void process_ended(const ProcessEnd& end) LOCKSLEY_REQUIRES(kProcessThread);
  // The job's status and output.
  std::pair<JobStatus, std::string> result_of(const ProcessEnd& end);
  // The output of a job that is not ok: `text`. For `exec`, a NUL and the process's standard output
  // follow, if it has written any.
  std::string failed(std::string text);
  void log_crash(std::string_view why) LOCKSLEY_REQUIRES(kProcessThread);

  ProcessLane& lane_;
  LaneSlot& slot_;
  const std::string where_;  // shown as the jobs' worker: lane/slot
  LaneHandler* handler_ = nullptr;
  std::unique_ptr<ExternalExecutor> turn_;  // null: no job runs
  std::shared_ptr<const Program> program_;  // of the running job
  std::uint64_t job_ = 0;                   // its index
  std::uint64_t process_ = 0;               // of KeeperLink::start()
  Verdict verdict_ = Verdict::kNone;
  OutputReader output_reader_;
  OutputReader error_reader_;
  std::string output_;
  TextTail error_tail_;
  ProcessTimer timeout_;
  Terminator terminator_;
};

}  // namespace locksley::daemon
