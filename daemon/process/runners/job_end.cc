#include "daemon/process/runners/job_end.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

#include "config/units.h"

namespace locksley::daemon {

std::string killed_by(int signal) {
  // The kernel enforces limits by signals: without this the end would look like a crash.
  std::string_view why;
  if (signal == SIGXCPU) why = ": more processor time than limits.cpu";
  if (signal == SIGXFSZ) why = ": a larger file than limits.file_size";
  const char* const name = ::sigdescr_np(signal);
  return fmt::format("killed by signal {} ({}){}", signal, name == nullptr ? "unknown" : name, why);
}

std::string timed_out(Nanoseconds limit, std::string_view errors) {
  return with_errors(fmt::format("timed out after {}",
                                 config::to_string(std::chrono::duration_cast<config::Duration>(limit))),
                     errors);
}

std::string too_much_output(const config::Handler& settings) {
  return fmt::format("its output is larger than {} ({})",
                     settings.runs_payloads ? "exec.max_output" : "max_output",
                     config::to_string(settings.max_output));
}

std::string with_errors(std::string what, std::string_view errors) {
  if (!errors.empty()) what.append(": ").append(errors);
  return what;
}

}  // namespace locksley::daemon
