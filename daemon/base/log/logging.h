// How the daemon's log is made and set.
#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "config/config.h"

namespace locksley::daemon {

// The daemon's log: lines to standard error, as text for people or as one JSON object a line.
//
// The thread that logs also writes. spdlog's asynchronous thread would wake every ten seconds, and
// an idle daemon must make no system call. Writing must not wait for the reader of the log: a line
// that standard error cannot take at once is dropped and counted, and the next line that can be
// written reports the number. Bytes from a peer cannot break a line: control characters are escaped
// in both formats. Fields say what a line is about (log_line.h).
//
// Any thread may log, and may change level and format at any time. Shared by all parts that log;
// main() drops it last.
std::shared_ptr<spdlog::logger> make_log(const config::Log& settings);
void set_log_level(spdlog::logger& log, config::LogLevel level);
void set_log_format(spdlog::logger& log, config::LogFormat format);

// The number of lines dropped since the start.
std::uint64_t lost_log_lines();

}  // namespace locksley::daemon
