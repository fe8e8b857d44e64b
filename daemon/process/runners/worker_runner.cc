#include "daemon/process/runners/worker_runner.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <utility>

#include "config/units.h"
#include "core/batch/batch_attempts.h"
#include "core/batch/handler.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"
#include "daemon/process/runners/job_end.h"
#include "daemon/process/runners/worker_limits.h"
#include "proto/command_writer.h"
#include "proto/text.h"

namespace locksley::daemon {
namespace {

// The least time from a cancellation to terminate(): a worker can finish a short job in it.
constexpr Nanoseconds kCancelGrace = std::chrono::milliseconds(100);

// From the moment when a process with jobs closes its output or its input to SIGKILL.
constexpr Nanoseconds kEndGrace = std::chrono::milliseconds(500);

constexpr std::size_t kAnswerElements = 3;  // [job, status, output]; [note, text, job]

// An answer without its output: an error's line, which has 64 KiB at most, and short fields.
constexpr std::size_t kAnswerRest = 65U << 10;

// Only jobs that run when the process is killed show it: the process had not read the whole turn.
constexpr const char* kClosedInput = "closed its standard input, with jobs to come";

}  // namespace

WorkerRunner::WorkerRunner(ProcessLane& lane, LaneSlot& slot)
    : lane_(lane),
      slot_(slot),
      where_(lane.name() + "/" + slot.name),
      input_(lane.loop().executor(),
             [this](WorkerInput::Rest rest) {
               kProcessThread.assert_held();
               // A stop cannot reach the process, which may answer, or end, until terminate().
               if (cancel_timer_is_armed_) return;
               if (rest == WorkerInput::Rest::kLost || !has_turn()) expect_end(kClosedInput);
             }),
      answer_reader_(lane.loop().executor()),
      error_reader_(lane.loop().executor()),
      error_log_(lane.loop().log()),
      timeout_(lane.loop().executor()),
      cancel_timer_(lane.loop().executor()),
      end_timer_(lane.loop().executor()),
      pause_timer_(lane.loop().executor()),
      terminator_(lane.loop().executor(), lane.loop().keeper()) {}

WorkerRunner::~WorkerRunner() { abandon(); }

void WorkerRunner::abandon() {
  if (process_ != 0) {
    lane_.loop().keeper().forget(std::exchange(process_, 0));
    handler_->process_ended();
  }
  if (has_turn()) end_turn();
}

void WorkerRunner::end_turn() {
  cancel_timer_.cancel();
  cancel_timer_is_armed_ = false;
  ++turns_;
  turn_->end_turn();
  lane_.take_back(std::move(turn_));
  idle_since_ = steady_now();
}

std::uint64_t WorkerRunner::begin(LaneHandler& handler, std::unique_ptr<ExternalExecutor> turn,
                                  std::uint64_t most) {
  handler_ = &handler;
  turn_ = std::move(turn);
  turn_->set_worker(where_, /*has_line_notes=*/false);
  program_ = handler.program();
  if (is_version_2()) turn_->allow_any_order();
  const std::uint64_t max_jobs = program_->settings().max_jobs;
  const std::uint64_t answered = process_ == 0 ? 0 : answered_;
  if (max_jobs != 0) most = std::min(most, max_jobs - std::min(max_jobs - 1, answered));
  std::uint64_t started = 0;
  verdict_ = Verdict::kNone;
  has_read_ahead_ = false;
  job_begins_.clear();
  while (started < most) {
    const auto job = turn_->start_job();
    if (!job) break;
    if (started == 0) first_job_ = job->index;
    job_begins_.push_back(input_.buffer().size());
    send(*job);
    ++started;
  }
  if (started == 0) {
    end_turn();
    return 0;
  }
  if (process_ == 0) {
    if (const auto begun = start_process(); !begun) {
      pid_ = 0;  // the log line below must not show those of the process before
      answered_ = 0;
      log_end("worker cannot be started", begun.error());
      if (!spares_job()) turn_->end_job(JobStatus::kError, begun.error());
      end_turn();
      input_.close();
      pause();
      return started;
    }
  }
  oldest_since_ = steady_now();
  input_.begin_turn();
  arm_timeout();
  input_.write();
  return started;
}

std::expected<void, std::string> WorkerRunner::start_process() {
  auto input = make_input_pipe();
  if (!input) return std::unexpected(input.error());
  auto output = make_output_pipe();
  if (!output) return std::unexpected(output.error());
  auto errors = make_output_pipe();
  if (!errors) return std::unexpected(errors.error());
  const std::array<int, 3> descriptors{input->read.get(), output->write.get(), errors->write.get()};
  process_ = lane_.loop().keeper().start(program_->request_for_slot(lane_.name(), slot_.name), descriptors,
                                         {.on_start = [this](pid_t pid) { pid_ = pid; },
                                          .on_end =
                                              [this](const ProcessEnd& end) {
                                                kProcessThread.assert_held();
                                                process_ended(end);
                                              }});
  handler_->process_began();
  error_log_.set_handler(handler_->name());
  pid_ = 0;
  answered_ = 0;
  is_starting_ = true;
  began_ = steady_now();
  stays_until_ = {};
  end_is_expected_ = false;
  why_.clear();
  error_tail_.take();
  input_.open(input->write.release());
  const std::size_t max_output = program_->settings().max_output.count;
  answers_ =
      std::make_unique<proto::ReplyReader>(proto::ReplyLimits{.max_bulk_bytes = max_output,
                                                              .max_elements = kAnswerElements,
                                                              .max_depth = 1,
                                                              .max_reply_bytes = max_output + kAnswerRest});
  answer_reader_.begin(
      std::move(output->read),
      [this](std::string_view bytes) {
        kProcessThread.assert_held();
        return take_answers(bytes);
      },
      [this] {
        kProcessThread.assert_held();
        expect_end("closed its standard output");
      });
  error_reader_.begin(std::move(errors->read), [this](std::string_view bytes) {
    error_tail_.add(bytes);
    error_log_.add(bytes, has_turn() ? &turn_->batch() : nullptr);
    if (has_turn() && turn_->running_jobs() != 0) turn_->running().add_log(bytes);
    return true;
  });
  return {};
}

void WorkerRunner::send(const ExternalJob& job) {
  proto::CommandWriter writer(input_.buffer());
  if (is_version_2()) {
    const Batch& batch = turn_->batch();
    writer.begin(8);
    writer.argument("job");
    writer.argument(job.payload);
    writer.argument(job.index);
    writer.argument(std::string_view(batch.id()));
    writer.argument(std::uint64_t{batch.attempts().of(job.index)});
    writer.argument(std::string_view(batch.options().trace));
    writer.argument(std::string_view(batch.attempts().note(job.index)));
    writer.argument(static_cast<std::uint64_t>(batch.options().timeout.count()));
    return;
  }
  writer.begin(3);
  writer.argument(job.payload);
  writer.argument(job.index);
  writer.argument(std::string_view(turn_->batch().id()));
}

void WorkerRunner::turn_ended() {
  const bool reads_no_more = input_.is_closed_by_process();
  end_turn();
  // The process had read all its jobs. It gets no further turn, and has the grace time to end.
  if (reads_no_more) expect_end(kClosedInput);
  const std::uint64_t max_jobs = program_->settings().max_jobs;
  if (!end_is_expected_ && (!is_current() || (max_jobs != 0 && answered_ >= max_jobs) || has_grown())) {
    retire();
  }
  lane_.runner_changed(*this);
}

bool WorkerRunner::is_current() {
  const std::shared_ptr<const Program>& current = handler_->program();
  if (current == program_) return true;
  if (current == nullptr || !current->starts_the_same_process_as(*program_)) return false;
  program_ = current;
  return true;
}

void WorkerRunner::reset_failures() {
  failures_ = 0;
  if (!std::exchange(is_pausing_, false)) return;
  pause_timer_.cancel();
  handler_->pause_ended();
  lane_.runner_changed(*this);
}

bool WorkerRunner::has_grown() const {
  const std::uint64_t most = program_->settings().max_memory.count;
  return most != 0 && pid_ != 0 && resident_bytes(pid_) > most;
}

void WorkerRunner::retire() {
  is_ending_ = true;
  input_.close();
  // The process has the grace time to end by itself.
  timeout_.expires_after(std::max<Nanoseconds>(program_->settings().grace, std::chrono::milliseconds(100)));
  timeout_.async_wait([this, process = process_](const asio::error_code& error) {
    if (error) return;
    kProcessThread.assert_held();
    lane_.loop().keeper().signal(process, SIGKILL);
  });
}

void WorkerRunner::check_cancelled() {
  if (!has_turn() || verdict_ != Verdict::kNone || !turn_->batch().is_aborting()) return;
  if (std::exchange(cancel_timer_is_armed_, true)) return;
  Nanoseconds grace = kCancelGrace;
  if (is_version_2()) {
    send_stops();
    grace = std::max<Nanoseconds>(grace, program_->settings().grace);
  }
  cancel_timer_.expires_after(grace);
  // The timer may have fired before it was cancelled, and another turn may have begun since.
  cancel_timer_.async_wait([this, turn = turns_](const asio::error_code& error) {
    if (error || turn != turns_) return;
    kProcessThread.assert_held();
    if (turn_->batch().is_aborting()) terminate(Verdict::kCancelled);
  });
}

void WorkerRunner::stop() {
  pause_timer_.cancel();
  if (process_ == 0) return;
  if (has_turn()) {
    terminate(Verdict::kHandedBack);
  } else if (!is_ending_) {
    retire();
    lane_.loop().keeper().signal(process_, SIGTERM);
  }
}

void WorkerRunner::terminate(Verdict verdict) {
  if (verdict_ != Verdict::kNone || process_ == 0) return;
  verdict_ = verdict;
  is_ending_ = true;
  // The process must not begin another job.
  const std::uint64_t next = turn_->running().index() - first_job_ + 1;
  has_read_ahead_ = next < job_begins_.size() && input_.bytes_read() > job_begins_[next];
  input_.close_and_take_back();
  terminator_.begin(process_, program_->settings().grace);
}

void WorkerRunner::log_end(const char* what, std::string_view why) {
  RateGate& gate = lane_.end_lines();
  if (!gate.open(now())) return;
  LogLine line(what);
  has_turn() ? line.about(turn_->batch()) : line.with("handler", handler_->name());
  line.with("pid", pid_).with("jobs_answered", answered_).with("reason", why);
  line.with("unlogged", gate.held_back()).write(*lane_.loop().log(), spdlog::level::warn);
}

void WorkerRunner::refuse_answer(std::string why) {
  log_end("worker is ended", "it " + why);
  why_ = "its worker " + std::move(why);
  is_ending_ = true;
  if (verdict_ == Verdict::kNone) verdict_ = Verdict::kBadAnswer;
  lane_.loop().keeper().signal(process_, SIGKILL);
}

void WorkerRunner::expect_end(std::string why) {
  if (verdict_ != Verdict::kNone || process_ == 0 || is_ending_ || std::exchange(end_is_expected_, true))
    return;
  const Nanoseconds grace = program_->settings().grace;
  end_timer_.expires_after(has_turn() ? kEndGrace : std::max(kEndGrace, grace));
  end_timer_.async_wait([this, process = process_, why = std::move(why)](const asio::error_code& error) {
    if (error || process != process_) return;
    kProcessThread.assert_held();
    why_ = why;
    lane_.loop().keeper().signal(process, SIGKILL);
  });
  if (!has_turn()) lane_.runner_changed(*this);
}

void WorkerRunner::process_ended(const ProcessEnd& end) {
  process_ = 0;
  handler_->process_ended();
  timeout_.cancel();
  end_timer_.cancel();
  terminator_.end();
  // Answers that the process had written before it ended count.
  answer_reader_.finish();
  answers_.reset();
  error_reader_.finish();
  error_log_.end(has_turn() ? &turn_->batch() : nullptr);
  const std::uint64_t bytes_read = input_.bytes_read();
  input_.close();
  const bool was_ending = is_ending_;
  is_ending_ = false;
  if (!was_ending) {
    log_end("worker has ended by itself", !end.has_started ? end.why
                                          : end.has_exited ? fmt::format("exit status {}", end.status)
                                                           : killed_by(end.status));
  }
  if (has_turn() && end_broken_turn(end, bytes_read) == Fault::kHandler) pause();
  lane_.runner_changed(*this);
}

WorkerRunner::Fault WorkerRunner::end_broken_turn(const ProcessEnd& end, std::uint64_t bytes_read) {
  Fault fault = Fault::kNone;
  // No job can return for ever: each process that hands it back has answered another job, or the
  // time of LaneHandler::spares_job() ends.
  if (turn_->running_jobs() != 0 && verdict_ != Verdict::kHandedBack && !ended_between_jobs(bytes_read)) {
    // After a timeout or a cancellation, the daemon has ended the process.
    const bool is_its_fault = verdict_ == Verdict::kNone || verdict_ == Verdict::kBadAnswer;
    if (is_its_fault && bytes_read == 0 && answered_ == 0) fault = Fault::kHandler;
    if (fault != Fault::kHandler || !spares_job()) {
      end_first_job(end);
      if (is_its_fault && bytes_read != 0) turn_->note_broken();
    }
  }
  end_turn();
  return fault;
}

bool WorkerRunner::spares_job() {
  // [handler-stats] relaxed: for display only; nothing follows from a stale value.
  turn_->batch().handler().stats.failed_starts.fetch_add(1, std::memory_order_relaxed);
  return handler_->spares_job(steady_now());
}

bool WorkerRunner::ended_between_jobs(std::uint64_t bytes_read) {
  const std::uint64_t next = turn_->running().index() - first_job_;
  return verdict_ == Verdict::kNone && answered_ != 0 && bytes_read <= job_begins_[next];
}

void WorkerRunner::end_first_job(const ProcessEnd& end) {
  const std::string errors = error_tail_.take();
  switch (verdict_) {
    case Verdict::kTimeout:
      return turn_->end_job(JobStatus::kTimeout,
                            timed_out(Nanoseconds(turn_->batch().options().timeout), errors));
    case Verdict::kCancelled:
      return turn_->end_job(JobStatus::kCancelled, "cancelled");
    case Verdict::kBadAnswer:
      return turn_->end_job(JobStatus::kError, why_);
    case Verdict::kNone:
    case Verdict::kHandedBack:
      break;
  }
  if (!end.has_started) return turn_->end_job(JobStatus::kError, end.why);
  std::string what = end.has_exited ? fmt::format("the worker ended with exit status {}", end.status)
                                    : "the worker was " + killed_by(end.status);
  // Killed after expect_end(), unless the process had ended by itself just before.
  if (!why_.empty() && !end.has_exited && end.status == SIGKILL) what = "the worker " + why_;
  turn_->end_job(JobStatus::kCrashed, with_errors(std::move(what), errors));
}

void WorkerRunner::pause() {
  is_pausing_ = true;
  handler_->pause_began();
  pause_timer_.expires_after(pause_after(failures_++));
  pause_timer_.async_wait([this](const asio::error_code& error) {
    // The timer may have fired before it was cancelled.
    if (error || !is_pausing_) return;
    kProcessThread.assert_held();
    is_pausing_ = false;
    handler_->pause_ended();
    lane_.runner_changed(*this);
  });
}

}  // namespace locksley::daemon
