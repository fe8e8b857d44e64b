#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace locksley::cli {

// Standard output (or another descriptor) with a buffer, that never holds up a Ctrl-C: where the reader of a
// pipe does not read, writing is put off once `stop_fd` is readable, and what is left stays in the buffer.
//
// Used by one thread; borrows both descriptors. append() and flush() block while the reader is slow. A write
// that fails is remembered: everything after it is dropped, and error() says why.
class Output {
 public:
  Output(int fd, int stop_fd);
  ~Output() { flush(); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  void append(std::string_view bytes);
  void flush();
  // 0, or the errno of the write that failed; EPIPE: the reader has gone.
  int error() const { return error_; }

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{64} << 10;  // what a pipe holds

  const int fd_;
  const int stop_fd_;
  std::size_t most_at_once_;
  std::string buffer_;
  int error_ = 0;
};

}  // namespace locksley::cli
