#include "daemon/cli/exec/exec_results.h"

#include <utility>
#include <vector>

namespace locksley::cli {

using client::Expected;

namespace {

// Results whose facts are asked for in one pipeline: its replies are in memory. Guess: a few
// megabytes.
constexpr std::size_t kMostRows = 1'000;
constexpr std::size_t kMostOutput = std::size_t{8} << 20;

std::optional<ExecFiles> files_of(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional<ExecFiles>(std::in_place, text);
}

}  // namespace

ExecResults::ExecResults(ExecPlan& plan, PassingNames& names, Joblog& joblog, Output& output,
                         const Options& options, std::function<void()> before_message)
    : plan_(plan),
      names_(names),
      joblog_(joblog),
      output_(output),
      files_(files_of(options.files)),
      outputs_({.json = options.json,
                .keeps_order = options.keeps_order,
                .tags = options.tags,
                .files = files_ ? &*files_ : nullptr},
               output, std::move(before_message),
               [this](std::string_view log_line) { joblog_.add(log_line); }) {}

Expected<std::size_t> ExecResults::show(client::Client& client, std::optional<std::uint64_t> total) {
  std::size_t shown = 0;
  look_at_halt(0, total);
  for (;;) {
    std::vector<std::uint64_t> indexes;
    std::size_t bytes = 0;
    for (Row& row : rows_) {
      if (indexes.size() == kMostRows || bytes > kMostOutput) break;
      if (!is_known(row)) break;
      indexes.push_back(row.index);
      bytes += row.output.size();
    }
    if (indexes.empty()) return shown;
    const auto facts = ask_job_facts(client, plan_.submit().batch.id, indexes, joblog_.is_open());
    if (!facts) return std::unexpected(facts.error());
    for (const JobFacts& of_one : *facts) {
      show(rows_.front(), of_one, total);
      rows_.pop_front();
      ++shown;
    }
  }
}

bool ExecResults::is_known(Row& row) {
  if (row.job) return true;
  if (const auto text = names_.take(row.index)) row.job = ExecJob::of(*text);
  return row.job.has_value();
}

void ExecResults::leave_out_unknown() {
  for (Row& row : rows_) {
    if (is_known(row)) continue;
    if (!ExecEnd::of({row.index, row.status, row.output}).is_cancelled()) ++left_out_;
    outputs_.skip(row.index);
  }
  std::erase_if(rows_, [](const Row& row) { return !row.job; });
}

void ExecResults::show(const Row& row, const JobFacts& facts, std::optional<std::uint64_t> total) {
  const ExecJob& job = *row.job;
  const ExecEnd end = ExecEnd::of({row.index, row.status, row.output});
  if (end.is_cancelled()) {
    ++cancelled_;
    return outputs_.skip(row.index);
  }
  ++ended_;
  failed_ += end.is_ok() ? 0 : 1;
  plan_.halt().count(end.is_ok());
  look_at_halt(end.shell_status(), total);
  if (plan_.is_logged(job.number, end.is_ok())) return outputs_.skip(row.index);
  outputs_.add(row.index, job, end, facts.errors, log_line(job, end, facts));
}

void ExecResults::look_at_halt(int status, std::optional<std::uint64_t> total) {
  if (!halt_status_ && plan_.halt().is_reached(total))
    halt_status_ = plan_.halt().status_when_reached(status, total.value_or(0));
}

void ExecResults::flush() {
  output_.flush();
  if (output_.error() != 0 || !output_.is_empty()) return;
  if (auto logged = joblog_.flush(); !logged) problem_ = logged.error().message;
}

std::string ExecResults::log_line(const ExecJob& job, const ExecEnd& end, const JobFacts& facts) const {
  if (!joblog_.is_open()) return {};
  return Joblog::line_of({.number = job.number,
                          .started_ms = facts.started_ms,
                          .runtime_us = facts.duration_us,
                          .received = end.output.size(),
                          .exit_value = end.exit_value,
                          .signal = end.signal,
                          .command = plan_.command_line(job)});
}

}  // namespace locksley::cli
