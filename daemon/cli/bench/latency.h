// Percentiles of measured times. Any thread; nothing blocks or fails.
#pragma once

#include <cstdint>
#include <vector>

namespace locksley::cli {

// The quantile of sorted values by nearest rank: the smallest value that at least the share
// `fraction` of them do not exceed; 0 if there are no values.
std::uint64_t quantile(const std::vector<std::uint64_t>& sorted, double fraction);

struct LatencySummary {
  std::uint64_t samples = 0;
  double p50_us = 0, p90_us = 0, p99_us = 0, p999_us = 0, max_us = 0, mean_us = 0;
};

// Sorts the given times, in nanoseconds.
LatencySummary summarize(std::vector<std::uint64_t> nanoseconds);

}  // namespace locksley::cli
