// A flag that wakes poll().
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace locksley::cli {

// An event that happens once, as a descriptor for poll(). Any thread may call its members; nothing
// blocks.
class Event {
 public:
  Event() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Event() { ::close(fd_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void raise() { ::eventfd_write(fd_, 1); }
  int fd() const { return fd_; }  // readable from raise() on

 private:
  const int fd_;
};

}  // namespace locksley::cli
