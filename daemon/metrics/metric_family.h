// Builds metric families, which PageWriter writes to the page.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/base/histogram.h"

namespace locksley::daemon {

using Labels = std::vector<std::pair<std::string, std::string>>;
using Families = std::vector<prometheus::MetricFamily>;

// One metric under construction: its name, its help and its series. Lives on the stack of the
// function that reads the numbers. Counts are added as they are, durations through seconds_of().
// Nothing blocks or fails.
class Family {
 public:
  static Family counter(std::string name, std::string help);
  static Family gauge(std::string name, std::string help);
  static Family histogram(std::string name, std::string help);

  void add(Labels labels, double value);
  void add(Labels labels, std::uint64_t value) { add(std::move(labels), static_cast<double>(value)); }
  void add(Labels labels, const DurationHistogram::Snapshot& snapshot);

  // Appends the family, unless it has no series.
  void move_to(Families& families) &&;

 private:
  Family(std::string name, std::string help, prometheus::MetricType type);
  prometheus::MetricFamily family_;
};

constexpr double seconds_of(std::uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }
constexpr double seconds_of(Nanoseconds duration) { return static_cast<double>(duration.count()) * 1e-9; }

}  // namespace locksley::daemon
