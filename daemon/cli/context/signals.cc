#include "daemon/cli/context/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>

namespace locksley::cli {
namespace {

int block_and_open(std::initializer_list<int> signals) {
  std::signal(SIGPIPE, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) {
    // nohup, and a shell that starts a background job, ignore a signal on purpose: it stays
    // ignored.
    struct sigaction current{};
    if (::sigaction(signal, nullptr, &current) == 0 && current.sa_handler == SIG_IGN) continue;
    sigaddset(&set, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  return ::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

Signals::Signals() : Signals({SIGINT, SIGTERM, SIGHUP}) {}

Signals::Signals(std::initializer_list<int> signals) : fd_(block_and_open(signals)) {}

Signals::~Signals() { ::close(fd_); }

std::optional<int> Signals::take() {
  signalfd_siginfo info{};
  if (::read(fd_, &info, sizeof info) != static_cast<ssize_t>(sizeof info)) return {};
  return static_cast<int>(info.ssi_signo);
}

}  // namespace locksley::cli
