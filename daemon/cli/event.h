#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>

namespace locksley::cli {

// Something that happens once, to be waited for with poll() beside other descriptors. Any thread may call
// anything; nothing blocks.
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
