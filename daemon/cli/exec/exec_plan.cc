#include "daemon/cli/exec/exec_plan.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/context.h"
#include "daemon/cli/exec/command_check.h"
#include "daemon/cli/exec/shell_words.h"
#include "daemon/cli/names/path_template.h"
#include "daemon/cli/text/table.h"
#include "proto/batch_options.h"
#include "proto/clients/cpp/batch_id.h"
#include "proto/exec_payload.h"

namespace locksley::cli {

using client::client_error;
using client::Expected;
using Kind = client::ClientError::Kind;
using Outcome = PayloadSource::Outcome;

namespace {

ExecResume resume_of(const ExecArguments& arguments) {
  if (arguments.retries_failed) return ExecResume::kRetry;
  if (arguments.resumes_failed) return ExecResume::kFailed;
  return arguments.resumes ? ExecResume::kRest : ExecResume::kNo;
}

// The command for people, as the batch's name.
std::string name_of(std::span<const std::string> words) {
  constexpr std::size_t kLongest = 256;
  std::string name = shortened(printable(quoted_command(words)), kLongest);
  return proto::is_valid_batch_name(name) ? name : std::string(proto::kExecHandler);
}

// The variables with their values; those that are not set are left out.
std::vector<std::string> with_values(const std::vector<std::string>& variables) {
  std::vector<std::string> result;
  for (const std::string& variable : variables) {
    const char* const value = variable.contains('=') ? nullptr : std::getenv(variable.c_str());
    if (value != nullptr) {
      result.push_back(variable + "=" + value);
    } else if (variable.contains('=')) {
      result.push_back(variable);
    }
  }
  return result;
}

std::string absolute_directory(const std::string& directory) {
  std::error_code problem;
  const auto current = std::filesystem::current_path(problem);
  if (directory.empty()) return current.string();
  return directory.starts_with('/') ? directory : (current / directory).lexically_normal().string();
}

}  // namespace

ExecPlan::ExecPlan(const ExecArguments& arguments, ExecWords words, Halt halt)
    : words_(std::move(words)),
      template_(words_.command),
      halt_(halt),
      input_{.separator = arguments.nul_separated ? '\0' : '\n',
             .each = arguments.each,
             .skips_empty = arguments.skips_empty},
      directory_(absolute_directory(arguments.directory)),
      variables_(with_values(arguments.variables)),
      submit_{.handler = std::string(proto::kExecHandler), .batch = arguments.batch},
      resume_(resume_of(arguments)) {
  if (submit_.batch.name.empty()) submit_.batch.name = name_of(words_.command);
  if (const auto most = halt_.most_failed(submit_.batch.slots == 1)) {
    submit_.batch.max_fails = std::min(submit_.batch.max_fails.value_or(*most), *most);
  }
}

std::expected<ExecPlan, std::string> ExecPlan::make(const ExecArguments& arguments) {
  auto words = ExecWords::parse(arguments.words);
  if (!words) return std::unexpected(std::move(words.error()));
  auto halt = Halt::parse(arguments.halt);
  if (!halt) return std::unexpected("--halt: " + halt.error());
  const ExecResume resume = resume_of(arguments);
  if (resume != ExecResume::kNo && arguments.joblog.empty())
    return std::unexpected("--resume, --resume-failed and --retry-failed need --joblog");
  if (int{arguments.resumes} + int{arguments.resumes_failed} + int{arguments.retries_failed} > 1)
    return std::unexpected("only one of --resume, --resume-failed and --retry-failed");
  if (resume == ExecResume::kRetry) {
    if (!arguments.words.empty()) return std::unexpected("--retry-failed takes the commands from the joblog");
    if (!arguments.results.empty()) return std::unexpected("--retry-failed has no arguments for --results");
  } else if (words->command.empty()) {
    return std::unexpected("a command must follow --, such as: locksley exec -- gzip {}");
  }
  if (auto problem = problem_with_exec_command(words->command, absolute_directory(arguments.directory));
      !problem.empty())
    return std::unexpected(std::move(problem));
  if (!words->lists.empty() && (arguments.nul_separated || arguments.each != 1 || arguments.skips_empty))
    return std::unexpected("-0, -n and -r are for standard input, and arguments were given after :::");
  if (arguments.joblog.starts_with('+'))
    return std::unexpected("--joblog +FILE, to append, is missing here: --resume appends to FILE");
  for (const std::string_view ending : {".csv", ".tsv", ".json"}) {
    if (PathTemplate::parse(arguments.results).is_folder() && arguments.results.ends_with(ending)) {
      return std::unexpected("--results: one file for all jobs, such as " + arguments.results +
                             ", is missing here: --json prints a line for each job");
    }
  }
  if (arguments.keeps_order && !arguments.results.empty())
    return std::unexpected("--keep-order cannot be combined with --results");
  if (arguments.batch.keep != proto::Keep::kAll)
    return std::unexpected("--keep: the results of all jobs are needed");
  for (const std::string& variable : arguments.variables) {
    if (variable.empty() || variable.front() == '=')
      return std::unexpected("--env needs NAME, or NAME=VALUE");
  }
  return ExecPlan(arguments, *std::move(words), *halt);
}

Expected<void> ExecPlan::begin(const ExecArguments& arguments, Joblog& joblog, client::Client& client) {
  std::size_t rows = 0;
  if (!arguments.joblog.empty()) {
    if (auto opened = joblog.open(arguments.joblog, resume_); !opened) return opened;
    if (auto found = find_batch(arguments, joblog, client); !found) return found;
    if (resume_ == ExecResume::kNo) {
      if (auto begun = joblog.begin_anew(); !begun) return begun;
    }
    rows = joblog.rows();
    if (goes_on_) {
      const ExecNote note = *joblog.note();
      rows = note.rows;
      if (auto continued = go_on(joblog, note, client); !continued) return continued;
    }
    if (auto chosen = choose_jobs(joblog, rows); !chosen) return chosen;
  }
  if (goes_on_) return {};
  if (submit_.batch.id.empty()) {
    submit_.batch.id = client::random_batch_id();
    submit_.has_new_id = true;
  }
  if (!joblog.is_open()) return {};
  return joblog.write_note({.batch = submit_.batch.id, .rows = rows, .resume = resume_});
}

Expected<void> ExecPlan::go_on(const Joblog& joblog, const ExecNote& note, client::Client& client) {
  logged_ok_ = joblog.logged_after(note.rows, false);
  if (resume_ == ExecResume::kFailed) {
    const auto queued = client.retry(note.batch);
    if (!queued) return std::unexpected(queued.error());
    queued_again_ = queued->value_or(0);
    if (note.resume == ExecResume::kRest) failed_before_ = joblog.failed(note.rows).size();
  } else {
    logged_failed_ = joblog.logged_after(note.rows, true);
  }
  // The batch's jobs were chosen when it began; the options of this call do not change them.
  resume_ = note.resume;
  return {};
}

Expected<void> ExecPlan::find_batch(const ExecArguments& arguments, Joblog& joblog, client::Client& client) {
  const bool is_new = resume_ == ExecResume::kNo;
  const auto note = joblog.note();
  if (!note || (!is_new && note->rows > joblog.rows())) return {};
  const auto status = client.status(note->batch);
  if (!status && status.error().code != "NOBATCH") return std::unexpected(status.error());
  // The jobs of a cancelled batch that did not run are missing in the joblog, and run in a new
  // batch.
  if (!status || status->state == "cancelled") return {};
  const bool retries = note->resume == ExecResume::kRetry;
  if (is_new && status->is_over()) return {};
  if (is_new) {
    return client_error(Kind::kLocal, "batch " + note->batch + " of " + arguments.joblog +
                                          " still runs: " + (retries ? "--retry-failed" : "--resume") +
                                          " goes on with it, `locksley cancel " + note->batch + "` ends it");
  }
  if (retries != (resume_ == ExecResume::kRetry)) {
    return client_error(Kind::kLocal, "batch " + note->batch + " of " + arguments.joblog +
                                          " has other jobs: " + (retries ? "--retry-failed" : "--resume") +
                                          " goes on with it first");
  }
  if (!arguments.batch.id.empty() && arguments.batch.id != note->batch) {
    return client_error(Kind::kLocal, "--id: batch " + note->batch + " of " + arguments.joblog +
                                          " is not over: resume it first, without --id");
  }
  submit_.batch.id = note->batch;
  goes_on_ = true;
  return {};
}

Expected<void> ExecPlan::look_ahead(const ExecArguments& arguments) {
  if (resume_ == ExecResume::kNo) return {};
  Joblog joblog;
  if (auto read = joblog.read(arguments.joblog, resume_); !read) return read;
  return choose_jobs(joblog, joblog.rows());
}

Expected<void> ExecPlan::choose_jobs(const Joblog& joblog, std::size_t rows) {
  if (resume_ == ExecResume::kRetry) return read_failed(joblog, rows);
  if (resume_ != ExecResume::kNo) done_ = joblog.done(rows, resume_);
  return {};
}

Expected<void> ExecPlan::read_failed(const Joblog& joblog, std::size_t rows) {
  for (const auto& [number, command] : joblog.failed(rows)) {
    auto words = split_command(command);
    if (!words || words->empty()) {
      return client_error(Kind::kInput, "the joblog's command of job " + std::to_string(number) + ": " +
                                            (words ? std::string("it is empty") : words.error().message));
    }
    failed_.push_back({.number = number, .arguments = *std::move(words)});
  }
  return {};
}

ExecPlan::Source ExecPlan::source(int stop_fd) const {
  if (resume_ == ExecResume::kRetry) {
    return
        [this, next = std::size_t{0}](ExecJob& job, std::chrono::milliseconds) mutable -> Expected<Outcome> {
          if (next == failed_.size()) return Outcome::kEnd;
          job = failed_[next++];
          return Outcome::kRecord;
        };
  }
  if (words_.lists.empty()) say_if_terminal_is_read("arguments", input_.separator);
  // Shared, because a std::function is copied.
  auto input = std::make_shared<ExecInput>(words_.lists, input_, STDIN_FILENO, stop_fd);
  return [this, input](ExecJob& job, std::chrono::milliseconds patience) -> Expected<Outcome> {
    for (;;) {
      auto outcome = input->next(job, patience);
      const bool is_left_out =
          outcome && *outcome == Outcome::kRecord && std::ranges::binary_search(done_, job.number);
      if (!is_left_out) return outcome;
    }
  };
}

Payloads ExecPlan::payloads(PassingNames& names, int stop_fd) const {
  return [this, &names, next = source(stop_fd)](std::string& payload,
                                                std::chrono::milliseconds patience) -> Expected<Outcome> {
    ExecJob job;
    auto outcome = next(job, patience);
    if (!outcome || *outcome != Outcome::kRecord) return outcome;
    names.add(job.text());
    const std::vector<std::string> words = template_.words(job.arguments, job.number);
    if (words.empty() || words.front().empty())
      return client_error(Kind::kInput,
                          "job " + std::to_string(job.number) + ": its program has an empty name");
    payload = proto::encode_exec_payload(directory_, variables_, words);
    return outcome;
  };
}

Expected<int> ExecPlan::print(int stop_fd) const {
  const Source next = source(stop_fd);
  ExecJob job;
  for (;;) {
    const auto outcome = next(job, std::chrono::hours(24));
    if (!outcome) return std::unexpected(outcome.error());
    if (*outcome == Outcome::kEnd) return daemon::kExitOk;
    if (*outcome != Outcome::kRecord) continue;
    if (const int code = cli::print_line(command_line(job)); code != daemon::kExitOk) return code;
  }
}

std::string ExecPlan::command_line(const ExecJob& job) const {
  return quoted_command(template_.words(job.arguments, job.number));
}

bool ExecPlan::is_logged(std::uint64_t number, bool is_ok) const {
  return std::ranges::binary_search(logged_ok_, number) ||
         (!is_ok && std::ranges::binary_search(logged_failed_, number));
}

}  // namespace locksley::cli
