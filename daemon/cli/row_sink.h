#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/cli/ordered_outputs.h"
#include "daemon/cli/output.h"
#include "proto/clients/cpp/values.h"

namespace locksley::cli {

// Writes the results of `run` and `results`: outputs to standard output, one on each line, or each to a file;
// failures to standard error as `job 17: error: text`; or every row as a line of JSON.
//
// Used by one thread. Blocks like Output, and for the files of `directory`.
class RowSink {
 public:
  struct Options {
    bool json = false;
    bool ordered = false;
    bool failed_only = false;    // only the failures, and to standard output
    std::string directory = {};  // for files of outputs, named by the job's index; empty: standard output
  };

  // Borrows `output`. Calls `before_message` before each write to standard error, to remove a progress bar.
  RowSink(Options options, Output& output, std::function<void()> before_message);

  void add(const client::ResultRow& row);
  // After the last row.
  void finish();

  std::uint64_t rows() const { return rows_; }
  std::uint64_t failed() const { return failed_; }
  // Why an output could not be written; empty: no failure. A closed pipe is reported by Output::error().
  const std::string& problem() const { return problem_; }

 private:
  void show(const client::ResultRow& row);
  void write_file(const client::ResultRow& row, const std::string& name);

  const Options options_;
  Output& output_;
  const std::function<void()> before_message_;
  std::unique_ptr<OrderedOutputs> order_;
  std::uint64_t rows_ = 0;
  std::uint64_t failed_ = 0;
  std::string problem_;
};

// `job 17: error: text`, on one line that a terminal can show.
std::string failure_line(const client::ResultRow& row);

}  // namespace locksley::cli
