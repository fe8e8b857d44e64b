// Descriptors between the daemon and a process, and bounded reads from them.
#pragma once

#include <unistd.h>

#include <asio/error_code.hpp>
#include <cstddef>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/process/io/process_io.h"

namespace locksley::daemon {

// Owns a file descriptor, and closes it in its destructor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_ = -1;
};

// The two ends of a pipe, which close with it. Any thread.
struct Pipe {
  Descriptor read;
  Descriptor write;
};
// Both ends block. The error is a sentence.
std::expected<Pipe, std::string> make_pipe();
// For bytes from a process: reads from the pipe do not block.
std::expected<Pipe, std::string> make_output_pipe();
// For bytes to a process: writes to the pipe do not block.
std::expected<Pipe, std::string> make_input_pipe();
// A file in memory, without a name, that holds this payload and is read from its beginning.
std::expected<Descriptor, std::string> make_memory_file(std::string_view payload);
// /dev/null, for reading.
std::expected<Descriptor, std::string> open_null();

// Reads the output of a process as it arrives, until the other end is closed, `on_bytes` returns
// false, or finish() or close() is called. Owned by the process's runner; only the thread of its
// executor. Nothing blocks. A read error counts as the end.
class OutputReader {
 public:
  // Gets the bytes of each read, which are valid until the function returns. If it returns false,
  // reading ends.
  using OnBytes = std::function<bool(std::string_view)>;

  explicit OutputReader(ProcessExecutor executor) : descriptor_(executor) {}

  // `on_end` is called when reading ends because the other end has been closed or `on_bytes` has
  // returned false; finish() and close() do not call it. It may be empty.
  void begin(Descriptor descriptor, OnBytes on_bytes, std::function<void()> on_end = {});
  // Reads the bytes that are in the pipe now, and closes it.
  void finish();
  void close();

 private:
  void wait();
  enum class Found { kMore, kNothing, kEnd };
  Found read_some();

  ProcessDescriptor descriptor_;
  OnBytes on_bytes_;
  std::function<void()> on_end_;
  // Lives from begin() to close(); callbacks of an earlier begin() see that it has expired.
  std::shared_ptr<char> alive_;
};

// Keeps the last kMost bytes of a text, for error messages, without trailing white space.
class TextTail {
 public:
  static constexpr std::size_t kMost = 4096;
  void add(std::string_view bytes);
  std::string take();

 private:
  std::string text_;
  bool is_cut_ = false;
};

}  // namespace locksley::daemon
