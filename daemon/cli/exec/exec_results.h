// The results of `locksley exec` between the daemon and the screen and the joblog.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "daemon/cli/exec/exec_files.h"
#include "daemon/cli/exec/exec_job.h"
#include "daemon/cli/exec/exec_outputs.h"
#include "daemon/cli/exec/exec_plan.h"
#include "daemon/cli/exec/job_facts.h"
#include "daemon/cli/exec/joblog.h"
#include "daemon/cli/names/passing_names.h"
#include "daemon/cli/text/output.h"
#include "proto/clients/cpp/client.h"

namespace locksley::cli {

// The results of `locksley exec` on their way: held as rows until the feed has read their jobs and
// the daemon has sent their facts (job_facts.h); then shown, counted, and written to the joblog. A
// job is in the joblog only after the whole of its output has left this program, so after kill -9 a
// job may be shown twice, but none is missing.
//
// Used by one thread. Borrows all. show() blocks like Client, Output and files; flush() like Output
// and Joblog.
class ExecResults {
 public:
  struct Options {
    bool json = false;
    bool keeps_order = false;
    bool tags = false;
    std::string files = {};  // of --results; empty: none
  };

  ExecResults(ExecPlan& plan, PassingNames& names, Joblog& joblog, Output& output, const Options& options,
              std::function<void()> before_message);

  void add(const client::ResultRow& row) {
    rows_.push_back({row.index, std::string(row.status), std::string(row.output), {}});
  }
  // The number of rows that are held.
  std::size_t held() const { return rows_.size(); }
  std::uint64_t first_held() const { return rows_.front().index; }

  // Shows the results whose jobs are known; returns how many. `total`: the number of jobs, if it is
  // known.
  client::Expected<std::size_t> show(client::Client& client, std::optional<std::uint64_t> total);
  // Leaves out the results whose jobs are not known, because the input ended before them.
  void leave_out_unknown();
  // The number of results that were left out, without those of cancelled jobs.
  std::uint64_t left_out() const { return left_out_; }
  // Call it after the last result: shows the outputs that waited for jobs before them.
  void finish() { outputs_.finish(); }
  // Writes the output that is still in a buffer; then, unless that failed or was interrupted, the
  // joblog.
  void flush();

  std::uint64_t ended() const { return ended_; }    // of jobs that ran
  std::uint64_t failed() const { return failed_; }  // of them
  std::uint64_t cancelled() const { return cancelled_; }
  // Notes whether --halt is reached. `status`: the exit status of the job that was counted last. A
  // share of all jobs can be reached only once their number is known.
  void look_at_halt(int status, std::optional<std::uint64_t> total);
  // The exit status of the run, if --halt is reached; none: it is not.
  std::optional<int> halt_status() const { return halt_status_; }
  // Why a file could not be written; empty: no failure.
  const std::string& problem() const { return problem_.empty() ? outputs_.problem() : problem_; }

 private:
  struct Row {
    std::uint64_t index;
    std::string status;
    std::string output;
    std::optional<ExecJob> job;
  };

  // Whether the feed has come to the row's job.
  bool is_known(Row& row);
  void show(const Row& row, const JobFacts& facts, std::optional<std::uint64_t> total);
  // The joblog's line for the job; empty: no joblog is kept.
  std::string log_line(const ExecJob& job, const ExecEnd& end, const JobFacts& facts) const;

  ExecPlan& plan_;
  PassingNames& names_;
  Joblog& joblog_;
  Output& output_;
  std::optional<ExecFiles> files_;
  ExecOutputs outputs_;
  std::deque<Row> rows_;
  std::uint64_t ended_ = 0;
  std::uint64_t failed_ = 0;
  std::uint64_t cancelled_ = 0;
  std::uint64_t left_out_ = 0;
  std::optional<int> halt_status_;
  std::string problem_;
};

}  // namespace locksley::cli
