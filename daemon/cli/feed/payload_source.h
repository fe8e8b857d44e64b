// Payloads from arguments, from standard input and from files, one at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cli/context/options.h"
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
  std::uint64_t taken_ = 0;  // arguments or records
  const bool from_arguments_;
  const bool files_;
  const char separator_;
  const int stop_fd_;
  std::string file_;
  RecordReader records_;
};

// All records of standard input. Fails as RecordReader does.
client::Expected<std::vector<std::string>> read_records(char separator, int stop_fd);
// The same for payloads, or for the names of their files, of which none may be empty. Says so on
// standard error if it reads from a terminal.
client::Expected<std::vector<std::string>> read_names(const PayloadOptions& options, int stop_fd);

// If standard input is a terminal, says on standard error that the program reads `what` from it:
// without a message the program would look as if it hung.
void say_if_terminal_is_read(std::string_view what, char separator);
// The same for these payloads, if they come from standard input.
void say_if_terminal_is_read(const PayloadOptions& options);

// The payload of one job of --range; `index` is one of its jobs.
std::string range_payload(const PayloadOptions& options, std::uint64_t index);

}  // namespace locksley::cli
