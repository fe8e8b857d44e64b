#include "daemon/cli/ask.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace locksley::cli {
namespace {

Answer ask_on(int terminal, Signals& signals, const std::string& batch) {
  for (;;) {
    std::fprintf(stderr, "\nInterrupted. Batch %s: (c)ancel it, (l)eave it to run, or Enter to go on? ",
                 batch.c_str());
    std::fflush(stderr);
    pollfd entries[] = {{.fd = terminal, .events = POLLIN, .revents = 0},
                        {.fd = signals.fd(), .events = POLLIN, .revents = 0}};
    ::poll(entries, 2, -1);
    if (signals.take()) {
      std::fputs("\n", stderr);
      return Answer::kLeave;
    }
    std::array<char, 256> line{};
    const ssize_t count = ::read(terminal, line.data(), line.size());
    if (count <= 0) return Answer::kLeave;  // the terminal went away
    switch (line[0]) {
      case 'c':
      case 'C':
        return Answer::kCancel;
      case 'l':
      case 'L':
        return Answer::kLeave;
      case '\n':
        return Answer::kGoOn;
      default:
        break;
    }
  }
}

}  // namespace

Answer ask_after_interrupt(Signals& signals, const std::string& batch) {
  if (::isatty(STDERR_FILENO) != 1) return Answer::kCancel;
  // Not standard input, which may be the payloads.
  const int terminal = ::open("/dev/tty", O_RDWR | O_CLOEXEC);
  if (terminal < 0) return Answer::kCancel;
  const Answer answer = ask_on(terminal, signals, batch);
  ::close(terminal);
  return answer;
}

}  // namespace locksley::cli
