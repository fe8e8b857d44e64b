#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "daemon/cli/options.h"
#include "proto/clients/cpp/error.h"

namespace locksley::cli {

// Reads records from a descriptor, each ended by `separator`; the last one may be without it. Holds
// one record and a read buffer. Used by one thread. next() blocks for input, at most for the given
// time, and fails with kInterrupted as soon as `stop_fd` is readable. A descriptor that cannot be
// read is kInput.
class RecordReader {
 public:
  enum class Outcome { kRecord, kEnd, kIdle };  // kIdle: no record in the given time

  // Borrows both descriptors.
  RecordReader(int fd, char separator, int stop_fd) : fd_(fd), stop_fd_(stop_fd), separator_(separator) {}

  client::Expected<Outcome> next(std::string& record, std::chrono::milliseconds patience);

 private:
  static constexpr std::size_t kReadBytes = std::size_t{256} << 10;

  client::Expected<Outcome> fill(std::chrono::milliseconds patience);

  const int fd_;
  const int stop_fd_;
  const char separator_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::string partial_;  // the start of a record whose end has not arrived
  bool at_end_ = false;
};

// The payloads of a command line: its arguments, the records of standard input, or the contents of
// the files that either of them names. Blocks and fails like RecordReader; a file that cannot be
// read is kInput, with its name.
class PayloadSource {
 public:
  using Outcome = RecordReader::Outcome;

  // Not for --range, which has no payloads. Borrows `options` and the descriptors.
  PayloadSource(const PayloadOptions& options, int input_fd, int stop_fd);

  client::Expected<Outcome> next(std::string& payload, std::chrono::milliseconds patience);
  // The name of the file of the last payload; empty: it is not from a file.
  const std::string& file() const { return file_; }

 private:
  const std::span<const std::string> arguments_;
  std::size_t next_argument_ = 0;
  const bool from_arguments_;
  const bool files_;
  const int stop_fd_;
  std::string file_;
  RecordReader records_;
};

// All records of standard input. Fails as RecordReader does.
client::Expected<std::vector<std::string>> read_records(char separator, int stop_fd);

// The payload of one job of --range; `index` is one of its jobs.
std::string range_payload(const PayloadOptions& options, std::uint64_t index);

}  // namespace locksley::cli
