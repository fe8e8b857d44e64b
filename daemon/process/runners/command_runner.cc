#include "daemon/process/runners/command_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "core/batch/batch_attempts.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"
#include "daemon/process/runners/job_end.h"

namespace locksley::daemon {
namespace {

// The descriptors from which a process reads.
struct ProcessInput {
  Descriptor standard;  // descriptor 0
  Descriptor file;      // descriptor 3; none without input: file
};

std::expected<ProcessInput, std::string> open_input(config::Input input, std::string_view payload) {
  ProcessInput result;
  if (input == config::Input::kFile || (input == config::Input::kStdin && !payload.empty())) {
    auto file = make_memory_file(payload);
    if (!file) return std::unexpected(file.error());
    (input == config::Input::kFile ? result.file : result.standard) = *std::move(file);
  }
  if (result.standard.get() < 0) {
    auto null = open_null();
    if (!null) return std::unexpected(null.error());
    result.standard = *std::move(null);
  }
  return result;
}

}  // namespace

CommandRunner::CommandRunner(ProcessLane& lane, LaneSlot& slot)
    : lane_(lane),
      slot_(slot),
      where_(lane.name() + "/" + slot.name),
      output_reader_(lane.loop().executor()),
      error_reader_(lane.loop().executor()),
      timeout_(lane.loop().executor()),
      terminator_(lane.loop().executor(), lane.loop().keeper()) {}

CommandRunner::~CommandRunner() { abandon(); }

void CommandRunner::abandon() {
  if (!has_turn()) return;
  handler_->process_ended();
  lane_.loop().keeper().forget(process_);
  end_turn();
}

void CommandRunner::end_turn() {
  // A slot without a job takes no memory for an output.
  output_.clear();
  output_.shrink_to_fit();
  turn_->end_turn();
  lane_.take_back(std::move(turn_));
}

std::uint64_t CommandRunner::begin(LaneHandler& handler, std::unique_ptr<ExternalExecutor> turn,
                                   std::uint64_t most) {
  handler_ = &handler;
  turn_ = std::move(turn);
  turn_->set_worker(where_, /*has_line_notes=*/true);
  const auto job = most == 0 ? std::nullopt : turn_->start_job();
  if (!job) {
    end_turn();
    return 0;
  }
  job_ = job->index;
  program_ = handler.program();
  verdict_ = Verdict::kNone;
  output_.clear();
  error_tail_.take();
  if (const auto begun = start(*job); !begun) {
    turn_->end_job(JobStatus::kError, begun.error());
    end_turn();
  }
  return 1;
}

std::expected<void, std::string> CommandRunner::start(const ExternalJob& job) {
  const auto request = request_for(job);
  if (!request) return std::unexpected(request.error());
  const auto input = open_input(program_->settings().input, job.payload);
  if (!input) return std::unexpected(input.error());
  auto output = make_output_pipe();
  if (!output) return std::unexpected(output.error());
  auto errors = make_output_pipe();
  if (!errors) return std::unexpected(errors.error());

  const std::array<int, 4> descriptors{input->standard.get(), output->write.get(), errors->write.get(),
                                       input->file.get()};
  const std::size_t count = input->file.get() < 0 ? 3 : 4;
  process_ = lane_.loop().keeper().start(*request, std::span(descriptors).first(count),
                                         {.on_start = {}, .on_end = [this](const ProcessEnd& end) {
                                            kProcessThread.assert_held();
                                            process_ended(end);
                                          }});
  handler_->process_began();
  read(std::move(output->read), std::move(errors->read));
  arm_timeout();
  return {};
}

std::expected<SpawnRequest, std::string> CommandRunner::request_for(const ExternalJob& job) const {
  const config::Input input = program_->settings().input;
  const Batch& batch = turn_->batch();
  const std::string note = batch.attempts().note(job.index);
  const JobVariables variables{.batch = batch.id(),
                               .index = job.index,
                               .attempt = batch.attempts().of(job.index),
                               .tenant = batch.options().tenant,
                               .trace = batch.options().trace,
                               .note = note,
                               .lane = lane_.name(),
                               .slot = slot_.name};
  if (program_->settings().runs_payloads) return program_->request_for_command(variables, job.payload);
  if (input == config::Input::kArgument && job.payload.find('\0') != std::string_view::npos) {
    return std::unexpected(
        "the payload has a NUL byte, which an argument cannot have: use input: stdin, or file");
  }
  return program_->request_for(variables,
                               input == config::Input::kFile ? std::string_view("/dev/fd/3") : job.payload);
}

void CommandRunner::read(Descriptor output, Descriptor errors) {
  output_reader_.begin(std::move(output), [this](std::string_view bytes) {
    kProcessThread.assert_held();
    output_ += bytes;
    if (output_.size() <= program_->settings().max_output.count) return true;
    terminate(Verdict::kTooMuchOutput);
    return false;
  });
  error_reader_.begin(std::move(errors), [this](std::string_view bytes) {
    error_tail_.add(bytes);
    if (has_turn()) turn_->running().add_log(bytes);
    return true;
  });
}

void CommandRunner::arm_timeout() {
  const auto timeout = Nanoseconds(turn_->batch().options().timeout);
  if (timeout.count() == 0) return;
  timeout_.expires_after(timeout);
  // The timer may have fired before it was cancelled, and another job may have begun since.
  timeout_.async_wait([this, process = process_](const asio::error_code& error) {
    if (error || process != process_) return;
    kProcessThread.assert_held();
    terminate(Verdict::kTimeout);
  });
}

void CommandRunner::check_cancelled() {
  if (has_turn() && turn_->batch().is_aborting()) terminate(Verdict::kCancelled);
}

void CommandRunner::stop() {
  if (has_turn()) terminate(Verdict::kHandedBack);
}

void CommandRunner::terminate(Verdict verdict) {
  if (verdict_ != Verdict::kNone) return;
  verdict_ = verdict;
  // A process that writes too much gets no grace time.
  terminator_.begin(process_,
                    verdict == Verdict::kTooMuchOutput ? Nanoseconds(0) : program_->settings().grace);
}

void CommandRunner::process_ended(const ProcessEnd& end) {
  handler_->process_ended();
  timeout_.cancel();
  terminator_.end();
  output_reader_.finish();
  error_reader_.finish();
  if (verdict_ != Verdict::kHandedBack) {
    const auto [status, output] = result_of(end);
    if (status == JobStatus::kCrashed) log_crash(output.substr(0, output.find('\0')));
    turn_->end_job(status, output, end.has_exited ? std::optional(end.status) : std::nullopt);
  }
  end_turn();
  lane_.runner_changed(*this);
}

void CommandRunner::log_crash(std::string_view why) {
  RateGate& gate = lane_.end_lines();
  if (!gate.open(now())) return;
  LogLine("command crashed")
      .about(turn_->batch())
      .with("job", job_)
      .with("reason", why)
      .with("unlogged", gate.held_back())
      .write(*lane_.loop().log(), spdlog::level::warn);
}

std::pair<JobStatus, std::string> CommandRunner::result_of(const ProcessEnd& end) {
  const config::Handler& settings = program_->settings();
  const std::string errors = error_tail_.take();
  switch (verdict_) {
    case Verdict::kTimeout:
      return {JobStatus::kTimeout, failed(timed_out(Nanoseconds(turn_->batch().options().timeout), errors))};
    case Verdict::kCancelled:
      return {JobStatus::kCancelled, "cancelled"};
    case Verdict::kTooMuchOutput:
      return {JobStatus::kError, too_much_output(settings)};
    case Verdict::kNone:
    case Verdict::kHandedBack:
      break;
  }
  if (!end.has_started) return {JobStatus::kError, end.why};
  if (!end.has_exited) return {JobStatus::kCrashed, failed(with_errors(killed_by(end.status), errors))};
  if (end.status != 0)
    return {JobStatus::kError, failed(with_errors(fmt::format("exit status {}", end.status), errors))};
  // The last bytes, read after the process had ended, count as well.
  if (output_.size() > settings.max_output.count) return {JobStatus::kError, too_much_output(settings)};
  return {JobStatus::kOk, std::exchange(output_, {})};
}

std::string CommandRunner::failed(std::string text) {
  if (!program_->settings().runs_payloads || output_.empty()) return text;
  std::ranges::replace(text, '\0', '?');
  return text.append(1, '\0').append(std::exchange(output_, {}));
}

}  // namespace locksley::daemon
