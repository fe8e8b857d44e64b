// From results to standard output, to files and to standard error.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/cli/names/path_check.h"
#include "daemon/cli/names/result_files.h"
#include "daemon/cli/text/ordered_outputs.h"
#include "daemon/cli/text/output.h"
#include "proto/clients/cpp/values.h"

namespace locksley::cli {

// Writes the results of `run` and `results`: outputs to standard output, one on each line, or each
// to a file; failures to standard error as `job 17: error: text`; or every row as a line of JSON. A
// job without output has no line.
//
// Used by one thread. Blocks like Output, and for `files`.
class RowSink {
 public:
  struct Options {
    bool json = false;
    bool ordered = false;
    bool failed_only = false;      // only the failures, and to standard output
    char separator = '\n';         // after each output
    ResultFiles* files = nullptr;  // for outputs; null: standard output
    NameOf name_of = {};           // is called once for each row; none: no job has a name
    bool shows_names = false;      // in messages and JSON
  };

  // Borrows `output` and `options.files`. Calls `before_message` before each write to standard
  // error, to remove a progress bar.
  RowSink(Options options, Output& output, std::function<void()> before_message);

  void add(const client::ResultRow& row);
  // Shows the outputs that --ordered still holds. Call it after the last row.
  void finish();

  std::uint64_t rows() const { return rows_; }
  std::uint64_t failed() const { return failed_; }
  // Why an output could not be written; empty: no failure. A closed pipe is reported by
  // Output::error().
  const std::string& problem() const { return problem_; }

 private:
  void show(const client::ResultRow& row);
  // Writes the output to its file. Returns the file's path; empty: there is a problem().
  std::string write_file(const client::ResultRow& row, const std::optional<std::string>& name);

  const Options options_;
  Output& output_;
  const std::function<void()> before_message_;
  std::unique_ptr<OrderedOutputs> order_;
  std::uint64_t rows_ = 0;
  std::uint64_t failed_ = 0;
  std::string problem_;
};

// `job 17: error: text`, or `photo.jpg (job 17): error: text`, on one line that a terminal can
// show.
std::string failure_line(const client::ResultRow& row, const std::optional<std::string>& name = std::nullopt);

}  // namespace locksley::cli
