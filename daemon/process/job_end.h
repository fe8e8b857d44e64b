// How the end of a process is told to whoever submitted its job.
#pragma once

#include <string>
#include <string_view>

#include "config/config.h"
#include "core/job.h"

namespace locksley::daemon {

// "killed by signal 11 (Segmentation fault)"
std::string killed_by(int signal);
std::string timed_out(Nanoseconds limit, std::string_view errors);
std::string too_much_output(const config::Handler& settings);
// `what`, and behind it what the process wrote to its standard error, if it did.
std::string with_errors(std::string what, std::string_view errors);

}  // namespace locksley::daemon
