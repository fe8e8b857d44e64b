// Numbers, durations and times as text for people. Any thread; nothing blocks or fails.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace locksley::cli {

// Numbers as people read them.

std::string with_commas(std::uint64_t value);           // 1,234,567
std::string short_number(double value);                 // 0.31, 9.5, 812, 12.4k, 3.05M
std::string short_duration(std::chrono::milliseconds);  // 812ms, 4.2s, 1:05, 2:03:04
std::string percent(double fraction);                   // 12.5%
// Unix milliseconds in local time, 2026-03-01 12:34:56; "-" for 0.
std::string local_time(std::int64_t unix_milliseconds);

}  // namespace locksley::cli
