// What a call of `locksley exec` does, from its options, its joblog and the daemon's answer.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <vector>

#include "daemon/cli/context/options.h"
#include "daemon/cli/exec/command_template.h"
#include "daemon/cli/exec/exec_input.h"
#include "daemon/cli/exec/exec_job.h"
#include "daemon/cli/exec/halt.h"
#include "daemon/cli/exec/joblog.h"
#include "daemon/cli/feed/feed.h"
#include "daemon/cli/names/passing_names.h"
#include "proto/clients/cpp/client.h"

namespace locksley::cli {

// What one `locksley exec` is to do: its command, where its jobs come from, which of them are left
// out, and the batch that they go to. Made by one thread in two steps, make() and begin(). Then
// only halt() changes, which that thread uses alone, so the feed's thread may call payloads().
//
// make() fails for words that contradict each other, with a sentence for the user; begin() fails as
// Joblog and Client do.
class ExecPlan {
 public:
  static std::expected<ExecPlan, std::string> make(const ExecArguments& arguments);

  // Opens the joblog, and finds the batch of the run before. A joblog whose batch still runs is not
  // begun anew: the error is kLocal.
  client::Expected<void> begin(const ExecArguments& arguments, Joblog& joblog, client::Client& client);

  // Whether it continues the batch of an earlier run.
  bool goes_on() const { return goes_on_; }
  // Of such a batch, with --resume-failed: its jobs that had failed and were queued again, if the
  // daemon's reply with their number was not lost; and jobs that had failed before, and are not in
  // it.
  std::uint64_t queued_again() const { return queued_again_; }
  std::uint64_t failed_before() const { return failed_before_; }
  const SubmitArguments& submit() const { return submit_; }
  Halt& halt() { return halt_; }

  // The jobs, in their order, without those that are left out. Each is added to `names` before it
  // is returned. The result borrows the plan and `names`.
  Payloads payloads(PassingNames& names, int stop_fd) const;
  // Instead of begin(), for print(): reads the joblog, and changes nothing.
  client::Expected<void> look_ahead(const ExecArguments& arguments);
  // Without a daemon: the commands of the jobs, one on each line. Returns the exit status of
  // cli::print().
  client::Expected<int> print(int stop_fd) const;
  std::string command_line(const ExecJob& job) const;
  // Whether the joblog already has this result from an earlier run, so that it is neither shown nor
  // logged again. If the joblog has a failure of the job, a result that is ok is a new one: the job
  // has run again since.
  bool is_logged(std::uint64_t number, bool is_ok) const;

 private:
  using Source =
      std::function<client::Expected<PayloadSource::Outcome>(ExecJob& job, std::chrono::milliseconds)>;

  ExecPlan(const ExecArguments& arguments, ExecWords words, Halt halt);
  // Continues the batch that the joblog's note has.
  client::Expected<void> go_on(const Joblog& joblog, const ExecNote& note, client::Client& client);
  client::Expected<void> find_batch(const ExecArguments& arguments, Joblog& joblog, client::Client& client);
  // By the first `rows` rows of the joblog, chooses the jobs that are left out; with
  // --retry-failed, the jobs that run.
  client::Expected<void> choose_jobs(const Joblog& joblog, std::size_t rows);
  client::Expected<void> read_failed(const Joblog& joblog, std::size_t rows);
  Source source(int stop_fd) const;

  ExecWords words_;
  CommandTemplate template_;
  Halt halt_;
  ExecInput::Options input_;
  std::string directory_;
  std::vector<std::string> variables_;
  SubmitArguments submit_;
  ExecResume resume_ = ExecResume::kNo;
  bool goes_on_ = false;
  std::uint64_t queued_again_ = 0;
  std::uint64_t failed_before_ = 0;
  std::vector<std::uint64_t> done_;  // jobs that are left out, sorted
  // Jobs of the batch that the joblog has, sorted. Those that failed are not there if they were
  // queued again.
  std::vector<std::uint64_t> logged_ok_;
  std::vector<std::uint64_t> logged_failed_;
  std::vector<ExecJob> failed_;  // of ExecResume::kRetry: all jobs; their arguments are the whole commands
};

}  // namespace locksley::cli
