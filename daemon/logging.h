#pragma once

#include <spdlog/logger.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "config/config.h"

namespace locksley::daemon {

// The daemon's log: lines to standard error, as text for people or as one JSON object a line.
//
// Written by the thread that logs, not by one in between: spdlog's own thread wakes every ten seconds though
// nothing happens, and an idle daemon is to make no system call. Writing synchronously must not mean waiting
// for whoever reads the log, so a line that standard error cannot take at once is dropped and counted, and
// the next that goes through says so. What a peer sent cannot break a line: control characters are escaped in
// both formats. What a line is about it says in fields (log_line.h).
//
// Any thread may log. Level and format may be changed at any time.
std::shared_ptr<spdlog::logger> make_log(const config::Log& settings);
void set_log_level(spdlog::logger& log, config::LogLevel level);
void set_log_format(spdlog::logger& log, config::LogFormat format);

// Lines dropped since the start.
std::uint64_t lost_log_lines();

}  // namespace locksley::daemon
