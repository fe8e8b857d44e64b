// The joblog of `locksley exec`: what has run, and the batch that it ran in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clients/cpp/error.h"

namespace locksley::cli {

// What `locksley exec` runs of its input, by the joblog of a run before.
enum class ExecResume : std::uint8_t {
  kNo,      // everything; the joblog begins anew
  kRest,    // jobs that are not in the joblog
  kFailed,  // jobs that are not in it, and those that failed
  kRetry,   // the failed jobs, with the commands in the joblog; there is no input
};

// The note beside a joblog about the batch that a run has begun. By it a later run finds the batch
// of a run that was killed.
struct ExecNote {
  std::string batch;
  std::size_t rows = 0;  // of the joblog, when the batch was begun: by them its jobs were chosen
  ExecResume resume = ExecResume::kNo;
};

// A joblog in the format of GNU parallel: a line for each job that has ended, in the order of their
// ends, appended at once; and the note of the batch, in a file beside it, FILE.batch.
//
// A file that is not regular, such as /dev/null or a pipe, only takes the lines: it has no note,
// and no run can be resumed from it.
//
// Used by one thread. No two programs have one joblog open at a time. Blocks for the file system.
// Fails with kLocal, and with kInput for a file that is no joblog. A last line that is not whole,
// as after kill -9, is removed.
class Joblog {
 public:
  struct Row {
    std::uint64_t number = 0;
    std::int64_t started_ms = 0;  // since 1970, UTC
    std::uint64_t runtime_us = 0;
    std::uint64_t received = 0;  // bytes of output
    int exit_value = 0;
    int signal = 0;
    std::string command = {};
  };

  Joblog() = default;
  ~Joblog();
  Joblog(const Joblog&) = delete;
  Joblog& operator=(const Joblog&) = delete;

  // With kNo nothing is read, and begin_anew() must follow.
  client::Expected<void> open(const std::string& path, ExecResume resume);
  bool is_open() const { return fd_ >= 0; }
  // Instead of open(): only reads its rows, for a look ahead. A missing file has none, except with
  // kRetry.
  client::Expected<void> read(const std::string& path, ExecResume resume);
  // Empties the file, and removes the note.
  client::Expected<void> begin_anew();

  // ---- The rows that it had when it was opened ----

  std::size_t rows() const { return rows_.size(); }
  // The jobs that are done according to the first `rows` rows, sorted; with kRest also those that
  // failed.
  std::vector<std::uint64_t> done(std::size_t rows, ExecResume resume) const;
  // The jobs of the rows after the first `rows` rows, sorted: with `has_failed` those whose last
  // row is a failure, else the others.
  std::vector<std::uint64_t> logged_after(std::size_t rows, bool has_failed) const;
  // The jobs that failed according to the first `rows` rows, with their commands, by number.
  std::vector<std::pair<std::uint64_t, std::string>> failed(std::size_t rows) const;

  // ---- This run ----

  // The row as a line of the file.
  static std::string line_of(const Row& row);
  // Holds the line until flush().
  void add(std::string_view line) { unwritten_ += line; }
  client::Expected<void> flush();

  std::optional<ExecNote> note() const;
  client::Expected<void> write_note(const ExecNote& note) const;
  void remove_note() const;

 private:
  struct Entry {
    std::uint64_t number;
    bool has_failed;
    std::string command;  // of one that has failed
  };

  // Returns the length of the lines that are whole.
  client::Expected<std::size_t> read_rows();
  client::Expected<void> read_row(std::string_view line, std::size_t line_number);
  client::Expected<void> write_all(std::string_view text);
  std::unexpected<client::ClientError> fault(const std::string& what) const;
  std::string note_path() const { return path_ + ".batch"; }

  // Whether this run keeps a note: the file is a regular one.
  bool has_note_ = true;
  std::string path_;
  int fd_ = -1;
  std::vector<Entry> rows_;
  std::string unwritten_;
};

}  // namespace locksley::cli
