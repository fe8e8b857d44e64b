// The texts that tell a job's submitter how its process ended. Any thread; nothing blocks or fails.
#pragma once

#include <string>
#include <string_view>

#include "config/config.h"
#include "core/base/job.h"

namespace locksley::daemon {

// "killed by signal 11 (Segmentation fault)"
std::string killed_by(int signal);
std::string timed_out(Nanoseconds limit, std::string_view errors);
std::string too_much_output(const config::Handler& settings);
// `what`, followed by the end of the process's standard error, if that is not empty.
std::string with_errors(std::string what, std::string_view errors);

}  // namespace locksley::daemon
