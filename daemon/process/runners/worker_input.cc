#include "daemon/process/runners/worker_input.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <string_view>

namespace locksley::daemon {

void WorkerInput::open(int descriptor) {
  pipe_.assign(descriptor);
  ++opened_;
  is_closed_by_process_ = false;
  watch();
}

void WorkerInput::close() {
  asio::error_code ignored;
  pipe_.close(ignored);
  is_writing_ = false;
  buffer_.clear();
}

void WorkerInput::close_and_take_back() {
  if (pipe_.is_open()) {
    // Linux opens the other end of a pipe by this name.
    const std::string name = "/proc/self/fd/" + std::to_string(pipe_.native_handle());
    const int other_end = ::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    std::array<char, 16U << 10> unread;
    while (other_end >= 0 && ::read(other_end, unread.data(), unread.size()) > 0) {
    }
    if (other_end >= 0) ::close(other_end);
  }
  close();
}

// Asio may report an event of an earlier descriptor with the same number: so poll() checks this
// one.
void WorkerInput::watch() {
  pipe_.async_wait(ProcessDescriptor::wait_error, [this, opened = opened_](const asio::error_code& error) {
    kProcessThread.assert_held();
    if (error || opened != opened_ || !pipe_.is_open()) return;
    pollfd state{pipe_.native_handle(), 0, 0};
    if (::poll(&state, 1, 0) == 1) return peer_closed();
    watch();
  });
}

// A worker that has read all its jobs may close its input, answer and end. Jobs that were not read
// are lost.
void WorkerInput::peer_closed() {
  is_closed_by_process_ = true;
  int unread = 0;
  const bool has_read_all =
      buffer_.empty() && ::ioctl(pipe_.native_handle(), FIONREAD, &unread) == 0 && unread == 0;
  buffer_.clear();
  on_closed_(has_read_all ? Rest::kNone : Rest::kLost);
}

std::uint64_t WorkerInput::bytes_read() {
  int unread = 0;
  if (!pipe_.is_open() || ::ioctl(pipe_.native_handle(), FIONREAD, &unread) != 0) return 0;
  return written_ - std::min(written_, static_cast<std::uint64_t>(unread));
}

void WorkerInput::write() {
  if (is_writing_) return;
  while (!buffer_.empty() && pipe_.is_open()) {
    std::array<std::string_view, 32> views;
    const std::size_t used = buffer_.gather(views);
    std::array<iovec, 32> parts;
    for (std::size_t i = 0; i < used; ++i) parts[i] = {const_cast<char*>(views[i].data()), views[i].size()};
    const ssize_t wrote = ::writev(pipe_.native_handle(), parts.data(), static_cast<int>(used));
    if (wrote > 0) {
      buffer_.consume(static_cast<std::size_t>(wrote));
      written_ += static_cast<std::uint64_t>(wrote);
    } else if (errno == EAGAIN) {
      is_writing_ = true;
      pipe_.async_wait(ProcessDescriptor::wait_write, [this](const asio::error_code& error) {
        if (error) return;
        kProcessThread.assert_held();
        is_writing_ = false;
        write();
      });
      return;
    } else if (errno != EINTR) {
      peer_closed();
    }
  }
}

}  // namespace locksley::daemon
