#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/cli/exec/exec_end.h"
#include "daemon/cli/exec/exec_files.h"
#include "daemon/cli/exec/exec_job.h"
#include "daemon/cli/ordered_outputs.h"
#include "daemon/cli/output.h"

namespace locksley::cli {

// Shows what the programs of `locksley exec` wrote: the standard output of each job whole, to standard output, and its
// standard error to standard error; as the jobs end, or in the order of the input; each line after the job's
// arguments, if so asked; as lines of JSON; or to files.
//
// Used by one thread. Blocks like Output, and for files.
class ExecOutputs {
 public:
  struct Options {
    bool json = false;
    bool keeps_order = false;
    bool tags = false;
    ExecFiles* files = nullptr;  // for outputs; null: standard output
  };

  // Borrows all. Calls `before_message` before each write to standard error, to remove a progress bar.
  ExecOutputs(const Options& options, Output& output, std::function<void()> before_message);

  // `index`: the job's place in its batch.
  void add(std::uint64_t index, const ExecJob& job, const ExecEnd& end, std::string_view errors);
  // A job that has nothing to show: those after it need not wait.
  void skip(std::uint64_t index);
  // After the last job.
  void finish();

  // Why a file could not be written; empty: no failure.
  const std::string& problem() const { return problem_; }

 private:
  void show(std::string_view output, std::string_view errors);

  const Options options_;
  Output& output_;
  const std::function<void()> before_message_;
  std::unique_ptr<OrderedOutputs> order_;
  std::string problem_;
};

}  // namespace locksley::cli
