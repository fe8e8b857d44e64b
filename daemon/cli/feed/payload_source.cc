#include "daemon/cli/feed/payload_source.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace locksley::cli {

using client::client_error;
using client::Expected;
using Kind = client::ClientError::Kind;

namespace {

std::string reason() { return std::strerror(errno); }

Expected<void> read_all(int fd, const std::string& name, int stop_fd, std::string& content) {
  struct stat about{};
  const bool has_stat = ::fstat(fd, &about) == 0;
  // A pipe or a device may keep the reader waiting.
  const bool may_wait = !has_stat || !S_ISREG(about.st_mode);
  std::size_t room = 64 << 10;
  // One byte more than the file's size, so that the read that finds the end needs no larger buffer.
  if (has_stat && about.st_size > 0) room = static_cast<std::size_t>(about.st_size) + 1;
  std::size_t used = 0;
  for (;;) {
    if (may_wait) {
      pollfd entries[] = {{.fd = fd, .events = POLLIN, .revents = 0},
                          {.fd = stop_fd, .events = POLLIN, .revents = 0}};
      ::poll(entries, 2, -1);
      if (entries[1].revents != 0) return client_error(Kind::kInterrupted, "interrupted");
      if (entries[0].revents == 0) continue;
    }
    if (used == content.size()) content.resize(used == 0 ? room : used * 2);
    const ssize_t count = ::read(fd, content.data() + used, content.size() - used);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) return client_error(Kind::kInput, name + ": " + reason());
    if (count == 0) break;
    used += static_cast<std::size_t>(count);
  }
  content.resize(used);
  return {};
}

Expected<void> read_file(const std::string& name, int stop_fd, std::string& content) {
  content.clear();
  // O_NONBLOCK: the open() of a named pipe would wait for a writer.
  const int fd = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return client_error(Kind::kInput, name + ": " + reason());
  auto read = read_all(fd, name, stop_fd, content);
  ::close(fd);
  return read;
}

std::string_view record_word(char separator) { return separator == '\n' ? "line" : "record"; }

std::unexpected<client::ClientError> no_name(std::string_view what, std::uint64_t number) {
  return client_error(Kind::kInput,
                      std::string(what) + " " + std::to_string(number) + " is empty: it names no file");
}

}  // namespace

Expected<RecordReader::Outcome> RecordReader::fill(std::chrono::milliseconds patience) {
  pollfd entries[] = {{.fd = fd_, .events = POLLIN, .revents = 0},
                      {.fd = stop_fd_, .events = POLLIN, .revents = 0}};
  const int ready = ::poll(entries, 2, static_cast<int>(patience.count()));
  if (entries[1].revents != 0) return client_error(Kind::kInterrupted, "interrupted");
  if (ready <= 0) return Outcome::kIdle;
  buffer_.resize(kReadBytes);
  const ssize_t count = ::read(fd_, buffer_.data(), buffer_.size());
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return Outcome::kIdle;
  if (count < 0) return client_error(Kind::kInput, "standard input: " + reason());
  begin_ = 0;
  end_ = static_cast<std::size_t>(count);
  return count == 0 ? Outcome::kEnd : Outcome::kRecord;
}

Expected<RecordReader::Outcome> RecordReader::next(std::string& record, std::chrono::milliseconds patience) {
  for (;;) {
    if (begin_ < end_) {
      const char* first = buffer_.data() + begin_;
      const void* found = std::memchr(first, separator_, end_ - begin_);
      if (found != nullptr) {
        const auto length = static_cast<std::size_t>(static_cast<const char*>(found) - first);
        partial_.append(first, length);
        begin_ += length + 1;
        record.swap(partial_);
        partial_.clear();
        return Outcome::kRecord;
      }
      partial_.append(first, end_ - begin_);
      begin_ = end_;
    }
    if (!at_end_) {
      const auto filled = fill(patience);
      if (!filled || *filled == Outcome::kIdle) return filled;
      at_end_ = *filled == Outcome::kEnd;
      if (!at_end_) continue;
    }
    if (partial_.empty()) return Outcome::kEnd;
    record.swap(partial_);
    partial_.clear();
    return Outcome::kRecord;
  }
}

PayloadSource::PayloadSource(const PayloadOptions& options, int input_fd, int stop_fd)
    : arguments_(options.arguments),
      from_arguments_(!options.arguments.empty()),
      files_(options.files),
      separator_(options.nul_separated ? '\0' : '\n'),
      stop_fd_(stop_fd),
      records_(input_fd, separator_, stop_fd) {}

Expected<PayloadSource::Outcome> PayloadSource::next(std::string& payload,
                                                     std::chrono::milliseconds patience) {
  if (from_arguments_) {
    if (taken_ == arguments_.size()) return Outcome::kEnd;
    payload = arguments_[taken_];
  } else {
    const auto outcome = records_.next(payload, patience);
    if (!outcome || *outcome != Outcome::kRecord) return outcome;
  }
  ++taken_;
  if (files_) {
    if (payload.empty()) return no_name(from_arguments_ ? "argument" : record_word(separator_), taken_);
    file_ = payload;
    if (auto read = read_file(file_, stop_fd_, payload); !read)
      return std::unexpected(std::move(read.error()));
  }
  return Outcome::kRecord;
}

Expected<std::vector<std::string>> read_records(char separator, int stop_fd) {
  RecordReader reader(STDIN_FILENO, separator, stop_fd);
  std::vector<std::string> records;
  std::string record;
  for (;;) {
    const auto outcome = reader.next(record, std::chrono::hours(24));
    if (!outcome) return std::unexpected(outcome.error());
    if (*outcome == RecordReader::Outcome::kEnd) return records;
    if (*outcome == RecordReader::Outcome::kRecord) records.push_back(record);
  }
}

void say_if_terminal_is_read(std::string_view what, char separator) {
  if (::isatty(STDIN_FILENO) != 1) return;
  std::fprintf(stderr, "locksley: reading %.*s from the terminal, %s; end with Ctrl-D\n",
               static_cast<int>(what.size()), what.data(),
               separator == '\n' ? "one a line" : "each ended by a NUL");
}

void say_if_terminal_is_read(const PayloadOptions& options) {
  if (!options.arguments.empty() || options.range) return;
  say_if_terminal_is_read(options.files ? "names of files" : "payloads", options.nul_separated ? '\0' : '\n');
}

Expected<std::vector<std::string>> read_names(const PayloadOptions& options, int stop_fd) {
  say_if_terminal_is_read(options);
  const char separator = options.nul_separated ? '\0' : '\n';
  auto names = read_records(separator, stop_fd);
  if (!names || !options.files) return names;
  const auto empty = std::ranges::find(*names, "");
  if (empty == names->end()) return names;
  return no_name(record_word(separator), static_cast<std::uint64_t>(empty - names->begin()) + 1);
}

std::string range_payload(const PayloadOptions& options, std::uint64_t index) {
  // Computed as the daemon does it; unsigned, because a range may have more numbers than the
  // largest signed one.
  const auto value =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(options.range.value().first) + index);
  const std::string number = std::to_string(value);
  if (options.arguments.empty()) return number;
  std::string payload = options.arguments[0];
  for (std::size_t at = payload.find("{}"); at != std::string::npos;
       at = payload.find("{}", at + number.size())) {
    payload.replace(at, 2, number);
  }
  return payload;
}

}  // namespace locksley::cli
