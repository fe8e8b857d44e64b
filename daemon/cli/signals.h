#pragma once

#include <initializer_list>
#include <optional>

namespace locksley::cli {

// SIGINT, SIGTERM and SIGHUP as a descriptor that becomes readable, so that every wait of the program can be
// interrupted by waiting for it as well; SIGPIPE becomes the error of the write.
//
// Made before any thread starts, as threads inherit the blocked signals, and no two for one signal. Any
// thread may wait for fd(); one thread takes.
class Signals {
 public:
  // Those that end the program.
  Signals();
  // Others.
  explicit Signals(std::initializer_list<int> signals);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_; }
  // The next signal that came, and makes fd() quiet if it was the last; nothing if none came. Never blocks.
  std::optional<int> take();

 private:
  const int fd_;
};

}  // namespace locksley::cli
