#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "daemon/cli/ordered_outputs.h"
#include "daemon/cli/output.h"
#include "proto/client/values.h"

namespace locksley::cli {

// What `run` and `results` do with each job's end: outputs to standard output, one per line, or each to a
// file; failures to standard error as `job 17: error: text`; or every row as a line of JSON.
//
// Used by one thread. Blocks like Output, and for the files of `directory`.
class RowSink {
 public:
  struct Options {
    bool json = false;
    bool ordered = false;
    bool failed_only = false;  // only the failures, and to standard output
    std::string directory =
        {};  // outputs to files in it, named by the job's index; empty: to standard output
  };

  // Borrows `output`. `before_message` is called before anything is written to standard error, to take a
  // progress bar away.
  RowSink(Options options, Output& output, std::function<void()> before_message);

  void add(const client::ResultRow& row);
  // After the last row.
  void finish();

  std::uint64_t rows() const { return rows_; }
  std::uint64_t failed() const { return failed_; }
  // Why an output could not be written; empty: all is well. A reader that went away is for Output::error() to
  // tell.
  const std::string& problem() const { return problem_; }

 private:
  void show(const client::ResultRow& row);
  void write_file(const client::ResultRow& row);

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
