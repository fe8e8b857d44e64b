// Standard output with a buffer, whose writes a signal can interrupt.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace locksley::cli {

// Standard output, or another descriptor, with a buffer. A pipe whose reader does not read does not
// delay a Ctrl-C: as soon as `stop_fd` is readable, writing stops and the rest stays in the buffer,
// until the next flush().
//
// Used by one thread; borrows both descriptors. append() and flush() block while the reader is
// slow. After a failed write all further bytes are dropped, and error() has the reason. The
// destructor writes what is in the buffer, unless the last flush() was stopped.
class Output {
 public:
  Output(int fd, int stop_fd);
  ~Output() {
    if (!was_stopped_) flush();
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void append(std::string_view bytes);
  void flush();
  // Whether nothing is left to be written. After flush() that is so unless a signal stopped it:
  // then the caller takes the signal, and either ends or calls flush() once more.
  bool is_empty() const { return buffer_.empty(); }
  // 0, or the errno of the failed write; EPIPE: the reader has closed the pipe.
  int error() const { return error_; }

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{64} << 10;  // the capacity of a pipe

  const int fd_;
  const int stop_fd_;
  std::size_t most_at_once_;
  std::string buffer_;
  int error_ = 0;
  bool was_stopped_ = false;  // the last flush()
};

}  // namespace locksley::cli
