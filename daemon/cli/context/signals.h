// Signals as a descriptor for poll().
#pragma once

#include <initializer_list>
#include <optional>

namespace locksley::cli {

// SIGINT, SIGTERM and SIGHUP as a descriptor that becomes readable, so that a signal can interrupt
// every wait of the program. SIGPIPE is ignored, so that a write to a closed pipe fails with EPIPE.
//
// Made before any thread starts, because threads inherit the blocked signals; no two objects for
// one signal. Any thread may wait for fd(); one thread calls take().
class Signals {
 public:
  // The signals that end the program.
  Signals();
  // Other signals.
  explicit Signals(std::initializer_list<int> signals);
  ~Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const { return fd_; }
  // The next pending signal, or none. After the last one fd() is no longer readable. Never blocks.
  std::optional<int> take();

 private:
  const int fd_;
};

}  // namespace locksley::cli
