#include "daemon/cli/text/output.h"

#include <limits.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace locksley::cli {

Output::Output(int fd, int stop_fd) : fd_(fd), stop_fd_(stop_fd), most_at_once_(kBufferBytes) {
  struct stat about{};
  // A pipe that poll() calls writable takes PIPE_BUF bytes without blocking; more may block.
  if (::fstat(fd, &about) == 0 && S_ISFIFO(about.st_mode)) most_at_once_ = PIPE_BUF;
}

void Output::append(std::string_view bytes) {
  if (error_ != 0) return;
  buffer_.append(bytes);
  if (buffer_.size() >= kBufferBytes) flush();
}

void Output::flush() {
  std::size_t written = 0;
  was_stopped_ = false;
  while (error_ == 0 && written < buffer_.size()) {
    pollfd entries[] = {{.fd = fd_, .events = POLLOUT, .revents = 0},
                        {.fd = stop_fd_, .events = POLLIN, .revents = 0}};
    if (::poll(entries, 2, -1) < 0 && errno != EINTR) error_ = errno;
    if (entries[0].revents == 0) {
      was_stopped_ = entries[1].revents != 0;
      if (was_stopped_) break;
      continue;
    }
    const ssize_t count =
        ::write(fd_, buffer_.data() + written, std::min(most_at_once_, buffer_.size() - written));
    if (count >= 0) {
      written += static_cast<std::size_t>(count);
    } else if (errno != EINTR && errno != EAGAIN) {
      error_ = errno;
    }
  }
  buffer_.erase(0, error_ == 0 ? written : buffer_.size());
}

}  // namespace locksley::cli
