// /metrics: collects the metrics of all sources, and writes them in Prometheus' text format or as
// OpenMetrics.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/metrics/metric_family.h"

namespace locksley::daemon {

// The page, rebuilt for each scrape from its sources, in the order in which they were added.
//
// Owned beside the Router that serves it; outlives the HTTP server. Add all sources before the
// server listens. text() and openmetrics(): one thread at a time, as Router promises. Sources read
// snapshots and must not block. An exception of a source reaches the caller.
class MetricsPage {
 public:
  using Source = std::function<void(Families&)>;
  static constexpr const char* kContentType = "text/plain; version=0.0.4; charset=utf-8";

  // Two sources must not write the same metric.
  void add(Source source) { sources_.push_back(std::move(source)); }
  std::string text() const;
  std::string openmetrics() const;

 private:
  Families read() const;

  std::vector<Source> sources_;
};

}  // namespace locksley::daemon
