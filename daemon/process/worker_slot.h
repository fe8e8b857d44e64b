// One long-lived process that takes job after job.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "core/slot.h"
#include "daemon/process/keeper_link.h"
#include "daemon/process/line_log.h"
#include "daemon/process/process_lane.h"
#include "daemon/process/process_pipes.h"
#include "daemon/process/terminator.h"
#include "proto/output_buffer.h"
#include "proto/reply_reader.h"

namespace locksley::daemon {

// A slot of a lane of workers: starts the process when there is a first job, feeds it turn after turn, and
// replaces it when it has died, has had its number of jobs, or has grown. The jobs of a turn are written to
// it all at once, so that it need not wait for one; it answers in order. What it was sent and has not
// answered when it dies goes back to the ring, but for the first, which it was at.
class WorkerSlot final : public ProcessSlot {
 public:
  explicit WorkerSlot(ProcessLane& lane);
  ~WorkerSlot() override;

  Program::Kind kind() const override { return Program::Kind::worker; }
  std::uint64_t begin(std::uint64_t most) override;
  bool is_busy() const override { return slot_.has_turn() || is_leaving_ || is_pausing_; }
  void look() override;
  void let_process_go() override {
    if (process_ != 0) retire();
  }
  void renew() override;
  void stop() override;
  void abandon() override;
  bool is_stopped() const override { return process_ == 0; }

 private:
  // Why the process is to end though it has work.
  enum class Verdict { none, timeout, cancelled, bad_answer, handed_back };

  std::expected<void, std::string> start_process();
  void send(const SlotJob& job);
  void write();
  void watch_input();
  void input_was_closed();
  bool take_answers(std::string_view bytes);
  // False: this process is not asked any more.
  bool take_answer(const proto::Reply& reply);
  void turn_is_over();
  void arm_timeout();
  void check_timeout();
  void condemn(Verdict verdict);
  void refuse_answer(std::string why);
  // It cannot take jobs, or cannot answer, any more: if it does not end now by itself, it is ended.
  void give_up(std::string why);
  // Whether the lane's program is still what the process was started by.
  bool is_current();
  // Says, by closing its input, that no more jobs come.
  void retire();
  bool has_grown() const;
  void ended(const ProcessEnd& end);
  void end_first_job(const ProcessEnd& end);
  void log_end(const char* what, std::string_view why);
  // No process is started for a while.
  void pause();

  ProcessLane& lane_;
  Slot slot_;
  std::shared_ptr<const Program> program_;  // of the process, or one that starts the same
  std::uint64_t process_ = 0;               // the keeper's number; 0: there is none
  pid_t pid_ = 0;                           // once it is known
  bool is_leaving_ = false;                 // it ends, or was asked to
  bool is_pausing_ = false;
  Verdict verdict_ = Verdict::none;
  std::string why_;             // Verdict::bad_answer, or given up
  std::uint64_t answered_ = 0;  // by this process
  std::uint32_t failures_ = 0;  // of processes one after another that answered nothing
  Nanoseconds oldest_since_{};  // when the oldest running job began

  ProcessDescriptor input_;
  bool is_writing_ = false;
  proto::OutputBuffer to_write_;
  OutputReader answer_reader_;
  std::unique_ptr<proto::ReplyReader> answers_;
  OutputReader error_reader_;
  LineLog error_log_;
  TextTail error_tail_;  // since the last answer
  ProcessTimer timeout_;
  ProcessTimer patience_;  // with a batch that was cancelled
  bool is_patient_ = false;
  ProcessTimer silence_;  // since give_up()
  bool is_given_up_ = false;
  ProcessTimer pause_timer_;
  Terminator terminator_;
};

}  // namespace locksley::daemon
