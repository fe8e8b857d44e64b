// From the words after `--`, and standard input, to the jobs of `locksley exec`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "daemon/cli/exec/exec_job.h"
#include "daemon/cli/feed/payload_source.h"
#include "proto/clients/cpp/error.h"

namespace locksley::cli {

// The words after `--` of `locksley exec`: a command, and, after `:::`, its arguments.
struct ExecWords {
  // One list of arguments. A list after `:::+` goes along with the list before it, up to the end of
  // the shorter one; one after `:::` is combined with all before it, so that there is a job for
  // each combination; the arguments of the last list change fastest.
  struct List {
    bool goes_along = false;
    std::vector<std::string> arguments = {};
  };
  std::vector<std::string> command = {};
  std::vector<List> lists = {};  // empty: the arguments come from standard input

  // The error is for the user.
  static std::expected<ExecWords, std::string> parse(std::span<const std::string> words);
};

// The jobs of `locksley exec` in their order, with numbers from 1: from the lists of the command
// line, or from records of standard input, `each` of them for one job. In constant memory.
//
// Used by one thread. Blocks and fails as RecordReader does; a record with a NUL byte is kInput,
// because no argument of a program can have one.
class ExecInput {
 public:
  using Outcome = RecordReader::Outcome;
  struct Options {
    char separator = '\n';
    std::size_t each = 1;
    bool skips_empty = false;  // records
  };

  // Borrows the lists and the descriptors.
  ExecInput(std::span<const ExecWords::List> lists, const Options& options, int input_fd, int stop_fd);

  client::Expected<Outcome> next(ExecJob& job, std::chrono::milliseconds patience);

 private:
  bool next_combination(std::vector<std::string>& arguments);
  client::Expected<Outcome> next_records(std::vector<std::string>& arguments,
                                         std::chrono::milliseconds patience);

  const std::span<const ExecWords::List> lists_;
  const Options options_;
  RecordReader records_;
  std::uint64_t number_ = 0;
  std::uint64_t record_ = 0;          // number of the last one that was read
  std::vector<std::string> partial_;  // of a job whose records have not all come
  bool at_end_ = false;
  std::vector<std::size_t> place_;  // in each list that does not go along; empty: before the first
};

}  // namespace locksley::cli
