#include "daemon/cli/bench/latency.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace locksley::cli {

std::uint64_t quantile(const std::vector<std::uint64_t>& sorted, double fraction) {
  if (sorted.empty()) return 0;
  const double rank = std::ceil(fraction * static_cast<double>(sorted.size()));
  const auto place = static_cast<std::size_t>(std::max(rank, 1.0)) - 1;
  return sorted[std::min(place, sorted.size() - 1)];
}

LatencySummary summarize(std::vector<std::uint64_t> nanoseconds) {
  std::ranges::sort(nanoseconds);
  const auto us = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000; };
  LatencySummary summary;
  summary.samples = nanoseconds.size();
  if (nanoseconds.empty()) return summary;
  summary.p50_us = us(quantile(nanoseconds, 0.5));
  summary.p90_us = us(quantile(nanoseconds, 0.9));
  summary.p99_us = us(quantile(nanoseconds, 0.99));
  summary.p999_us = us(quantile(nanoseconds, 0.999));
  summary.max_us = us(nanoseconds.back());
  const std::uint64_t sum = std::accumulate(nanoseconds.begin(), nanoseconds.end(), std::uint64_t{0});
  summary.mean_us = us(sum) / static_cast<double>(nanoseconds.size());
  return summary;
}

}  // namespace locksley::cli
