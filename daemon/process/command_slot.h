// One process a job.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/slot.h"
#include "daemon/process/keeper_link.h"
#include "daemon/process/process_lane.h"
#include "daemon/process/process_pipes.h"
#include "daemon/process/terminator.h"

namespace locksley::daemon {

// A slot of a lane of commands: takes a job, starts its program, collects what it writes, and says how the
// job ended.
class CommandSlot final : public ProcessSlot {
 public:
  explicit CommandSlot(ProcessLane& lane);
  ~CommandSlot() override;

  Program::Kind kind() const override { return Program::Kind::command; }
  std::uint64_t begin(std::uint64_t most) override;
  bool is_busy() const override { return slot_.has_turn(); }
  void look() override;
  void let_process_go() override {}
  void renew() override {}
  void stop() override;
  void abandon() override;
  bool is_stopped() const override { return !slot_.has_turn(); }

 private:
  // Why the process is to end, if it does not by itself.
  enum class Verdict { none, timeout, cancelled, too_much_output, handed_back };

  std::expected<void, std::string> start(const SlotJob& job);
  void condemn(Verdict verdict);
  void ended(const ProcessEnd& end);
  // How the job ended, and its output.
  std::pair<JobStatus, std::string> judge(const ProcessEnd& end);
  void log_crash(std::string_view why);

  ProcessLane& lane_;
  Slot slot_;
  std::shared_ptr<const Program> program_;  // of the job
  std::uint64_t job_ = 0;                   // its index
  std::uint64_t process_ = 0;               // the keeper's number
  Verdict verdict_ = Verdict::none;
  OutputReader output_reader_;
  OutputReader error_reader_;
  std::string output_;
  TextTail error_tail_;
  ProcessTimer timeout_;
  Terminator terminator_;
};

}  // namespace locksley::daemon
