#include "daemon/cli/exec/exec_end.h"

#include <charconv>
#include <csignal>

namespace locksley::cli {
namespace {

constexpr std::string_view kExitStatus = "exit status ";
constexpr std::string_view kKilledBy = "killed by signal ";
constexpr std::string_view kTooLarge = "its output is larger";
constexpr int kNotStarted = 127;  // as in shells

int number_after(std::string_view text, std::string_view prefix) {
  int number = 0;
  if (text.starts_with(prefix))
    std::from_chars(text.data() + prefix.size(), text.data() + text.size(), number);
  return number;
}

}  // namespace

ExecEnd ExecEnd::of(const client::ResultRow& row) {
  ExecEnd end;
  end.status = row.status;
  if (end.is_ok()) {
    end.output = row.output;
    return end;
  }
  const std::size_t nul = row.output.find('\0');
  end.reason = row.output.substr(0, nul);
  if (nul != std::string_view::npos) end.output = row.output.substr(nul + 1);
  if (row.status == "timeout") {
    end.exit_value = -1;
    end.signal = SIGTERM;
  } else if (const int signal = number_after(end.reason, kKilledBy); signal != 0) {
    end.signal = signal;
  } else if (end.reason.starts_with(kTooLarge)) {
    end.signal = SIGKILL;
  } else if (const int status = number_after(end.reason, kExitStatus); status != 0) {
    end.exit_value = status;
  } else {
    end.exit_value = kNotStarted;
  }
  return end;
}

std::string ExecEnd::message(std::string_view errors) const {
  if (is_ok() || reason.starts_with(kExitStatus)) return {};
  std::string_view text = reason;
  // The reason ends with the last bytes of the standard error, without newlines at its end.
  errors = errors.substr(0, errors.find_last_not_of("\r\n") + 1);
  const std::size_t colon = text.find(": ");
  if (!errors.empty() && colon != std::string_view::npos && errors.ends_with(text.substr(colon + 2)))
    text = text.substr(0, colon);
  return std::string(text);
}

int ExecEnd::shell_status() const {
  if (is_ok()) return 0;
  if (signal != 0) return 128 + signal;
  return exit_value > 0 ? exit_value : 1;
}

}  // namespace locksley::cli
