// `locksley hash-password` reads the password from the terminal or from standard input. Its memory
// is overwritten afterwards.
#include <fcntl.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <expected>
#include <string>

#include "daemon/auth/password.h"
#include "daemon/auth/secret.h"
#include "daemon/base/exit_codes.h"
#include "daemon/cli/context/commands.h"
#include "daemon/cli/text/json.h"

namespace locksley::cli {
namespace {

using daemon::Secret;

struct Failure {
  int exit_code;
  std::string message;  // empty: there was no error
};

// Switches the terminal's echo off, for the life of this object.
class EchoOff {
 public:
  explicit EchoOff(int terminal) : terminal_(terminal) {
    is_off_ = ::tcgetattr(terminal_, &before_) == 0;
    termios without = before_;
    without.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    // Input from before the question is no answer to it.
    if (is_off_) is_off_ = ::tcsetattr(terminal_, TCSAFLUSH, &without) == 0;
  }
  ~EchoOff() {
    if (is_off_) ::tcsetattr(terminal_, TCSAFLUSH, &before_);
  }
  EchoOff(const EchoOff&) = delete;
  EchoOff& operator=(const EchoOff&) = delete;

  bool is_off() const { return is_off_; }

 private:
  const int terminal_;
  termios before_{};
  bool is_off_ = false;
};

// Reads one line without its line end; or the rest of the input, if there is no line end.
std::expected<Secret, Failure> read_line(int input, Signals& signals) {
  std::string line;
  line.reserve(daemon::kLongestPassword + 2);  // so that the text never moves and leaves a copy
  for (;;) {
    pollfd entries[] = {{.fd = input, .events = POLLIN, .revents = 0},
                        {.fd = signals.fd(), .events = POLLIN, .revents = 0}};
    ::poll(entries, 2, -1);
    if (const auto signal = signals.take()) {
      daemon::wipe(line);
      return std::unexpected(Failure{128 + *signal, ""});
    }
    if (entries[0].revents == 0) continue;
    char next = 0;
    const ssize_t count = ::read(input, &next, 1);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count < 0) {
      daemon::wipe(line);
      return std::unexpected(
          Failure{daemon::kExitNoInput, std::string("the password cannot be read: ") + std::strerror(errno)});
    }
    // The line is too long already; its rest does not matter.
    if (count == 0 || next == '\n' || line.size() > daemon::kLongestPassword) return Secret(std::move(line));
    line.push_back(next);
  }
}

std::expected<Secret, Failure> ask(int terminal, const char* question, Signals& signals) {
  std::fputs(question, stderr);
  std::fflush(stderr);
  auto answer = read_line(terminal, signals);
  std::fputs("\n", stderr);
  return answer;
}

std::expected<Secret, Failure> ask_twice(int terminal, Signals& signals) {
  const EchoOff echo_off(terminal);
  if (!echo_off.is_off()) {
    return std::unexpected(Failure{daemon::kExitNoInput, "the terminal would show the password"});
  }
  auto first = ask(terminal, "Password: ", signals);
  // A password that will be refused is not asked for a second time; the destructor of `echo_off`
  // discards the rest of its line.
  if (!first || first->view().empty() || first->view().size() > daemon::kLongestPassword) return first;
  const auto second = ask(terminal, "Again: ", signals);
  if (!second) return std::unexpected(second.error());
  if (first->view() != second->view()) {
    return std::unexpected(Failure{daemon::kExitDataError, "the two passwords differ"});
  }
  return first;
}

}  // namespace

int run_hash_password(const HashPasswordArguments&, bool json, Signals& signals) {
  const auto password =
      ::isatty(STDIN_FILENO) == 1 ? ask_twice(STDIN_FILENO, signals) : read_line(STDIN_FILENO, signals);
  std::expected<std::string, std::string> hash;
  Failure failure{daemon::kExitOk, ""};
  if (!password) {
    failure = password.error();
  } else if (hash = daemon::hash_password(password->view()); !hash) {
    failure = {daemon::kExitDataError, hash.error()};
  }
  if (failure.exit_code != daemon::kExitOk) {
    if (!failure.message.empty()) std::fprintf(stderr, "locksley: %s\n", failure.message.c_str());
    return failure.exit_code;
  }
  const std::string line = json ? json_object({{"password_hash", *hash}}) : *hash;
  return print_line(line);
}

}  // namespace locksley::cli
