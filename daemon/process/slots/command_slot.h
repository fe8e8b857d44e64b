// A slot that starts one process for each job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/lane/external_executor.h"
#include "daemon/process/keeper/keeper_link.h"
#include "daemon/process/process_lane.h"
#include "daemon/process/process_pipes.h"
#include "daemon/process/slots/terminator.h"

namespace locksley::daemon {

// A slot of a lane of commands: takes a job, starts its program, collects the program's output, and
// settles the job. Owned by its lane; the process thread only (ProcessSlot). Nothing blocks. If the
// program cannot be started, the job ends with an error.
class CommandSlot final : public ProcessSlot {
 public:
  explicit CommandSlot(ProcessLane& lane);
  ~CommandSlot() override;

  Program::Kind kind() const override { return Program::Kind::kCommand; }
  std::uint64_t begin(std::uint64_t most) override LOCKSLEY_REQUIRES(kProcessThread);
  bool is_busy() const override LOCKSLEY_REQUIRES(kProcessThread) { return executor_.has_turn(); }
  void check_cancelled() override LOCKSLEY_REQUIRES(kProcessThread);
  void release_process() override LOCKSLEY_REQUIRES(kProcessThread) {}
  void reset_failures() override LOCKSLEY_REQUIRES(kProcessThread) {}
  void stop() override LOCKSLEY_REQUIRES(kProcessThread);
  void abandon() override LOCKSLEY_REQUIRES(kProcessThread);
  bool is_stopped() const override LOCKSLEY_REQUIRES(kProcessThread) { return !executor_.has_turn(); }

 private:
  // Why the slot ends the process, if it does.
  enum class Verdict { kNone, kTimeout, kCancelled, kTooMuchOutput, kHandedBack };

  std::expected<void, std::string> start(const ExternalJob& job) LOCKSLEY_REQUIRES(kProcessThread);
  // Begins to end the process, unless that has begun.
  void terminate(Verdict verdict) LOCKSLEY_REQUIRES(kProcessThread);
  void process_ended(const ProcessEnd& end) LOCKSLEY_REQUIRES(kProcessThread);
  // The job's status and output.
  std::pair<JobStatus, std::string> result_of(const ProcessEnd& end);
  void log_crash(std::string_view why) LOCKSLEY_REQUIRES(kProcessThread);

  ProcessLane& lane_;
  ExternalExecutor executor_;
  std::shared_ptr<const Program> program_;  // of the running job
  std::uint64_t job_ = 0;                   // its index
  std::uint64_t process_ = 0;               // the keeper's number
  Verdict verdict_ = Verdict::kNone;
  OutputReader output_reader_;
  OutputReader error_reader_;
  std::string output_;
  TextTail error_tail_;
  ProcessTimer timeout_;
  Terminator terminator_;
};

}  // namespace locksley::daemon
