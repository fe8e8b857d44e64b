// From the outputs of the jobs of `locksley exec` to the screen or to files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/cli/exec/exec_end.h"
#include "daemon/cli/exec/exec_files.h"
#include "daemon/cli/exec/exec_job.h"
#include "daemon/cli/text/ordered_outputs.h"
#include "daemon/cli/text/output.h"

namespace locksley::cli {

// Shows what the programs of `locksley exec` wrote: the standard output of each job whole, to
// standard output, and its standard error to standard error; as the jobs end, or in the order of
// the input; each line after the job's arguments, with --tag; as lines of JSON; or to files.
//
// Used by one thread. Blocks like Output, and for files. After the first failure nothing more is
// shown.
class ExecOutputs {
 public:
  // Takes the joblog's line of a job that was shown. The last bytes of its output may still be in
  // the buffer of Output.
  using OnShown = std::function<void(std::string_view log_line)>;

  struct Options {
    bool json = false;
    bool keeps_order = false;
    bool tags = false;
    ExecFiles* files = nullptr;  // for outputs; null: standard output
  };

  // Borrows all. Calls `before_message` before each write to standard error, to remove a progress
  // bar.
  ExecOutputs(const Options& options, Output& output, std::function<void()> before_message, OnShown on_shown);

  // `index`: the job's place in its batch. A job whose `log_line` is empty is shown without a call
  // of `on_shown`.
  void add(std::uint64_t index, const ExecJob& job, const ExecEnd& end, std::string_view errors,
           std::string_view log_line);
  // Passes over a job that has nothing to show, so that the jobs after it need not wait for it.
  void skip(std::uint64_t index);
  // Shows the outputs that are still held. Call it after the last job.
  void finish();

  // Why a file could not be written, or a held output is lost; empty: no failure.
  const std::string& problem() const { return problem_; }

 private:
  struct Texts {
    std::string_view output;
    std::string_view errors;
    std::string_view log_line;
  };
  // packed() makes one text of them, for OrderedOutputs; unpacked() is the reverse.
  static std::string packed(const Texts& texts);
  static Texts unpacked(std::string_view text);
  void show(const Texts& texts);

  const Options options_;
  Output& output_;
  const std::function<void()> before_message_;
  const OnShown on_shown_;
  std::unique_ptr<OrderedOutputs> order_;
  std::string problem_;
};

}  // namespace locksley::cli
