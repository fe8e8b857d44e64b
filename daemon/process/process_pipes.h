// What goes between the daemon and a process: descriptors, and bytes from them within bounds.
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

#include "daemon/process/process_io.h"

namespace locksley::daemon {

// A descriptor that is closed when its owner goes.
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

struct Pipe {
  Descriptor read;
  Descriptor write;
};
// Both ends block. The error is a sentence.
std::expected<Pipe, std::string> make_pipe();
// For bytes from a process: to read from it does not block.
std::expected<Pipe, std::string> make_output_pipe();
// For bytes to a process: to write does not block.
std::expected<Pipe, std::string> make_input_pipe();
// A file in memory, without a name, that holds these bytes and is read from its beginning.
std::expected<Descriptor, std::string> make_memory_file(std::string_view bytes);
// /dev/null, for reading.
std::expected<Descriptor, std::string> open_null();

// Reads what a process writes, as it comes, until the other end is closed, or it is told to stop. Owned by
// what owns the process; its loop's thread.
class OutputReader {
 public:
  // Each piece; its bytes live until it returns. False: enough, nothing more is read.
  using OnBytes = std::function<bool(std::string_view)>;

  explicit OutputReader(ProcessExecutor executor) : descriptor_(executor) {}

  // `on_end`: the other end was closed; may be empty, and is not called by finish().
  void begin(Descriptor descriptor, OnBytes on_bytes, std::function<void()> on_end = {});
  // Takes what is there now, and closes.
  void finish();
  void close();

 private:
  void wait();
  enum class Found { more, nothing, end };
  Found read_some();

  ProcessDescriptor descriptor_;
  OnBytes on_bytes_;
  std::function<void()> on_end_;
  std::shared_ptr<char> alive_;  // of what was begun last
};

// The end of a text, so many bytes at most, for error messages: without the whitespace behind it.
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
