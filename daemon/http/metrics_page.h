// /metrics: asks every source for its numbers and writes them in Prometheus' text format, or as OpenMetrics.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "daemon/http/metric_family.h"

namespace locksley::daemon {

// Owned by main(), outlives the HTTP server. Sources are added before the server listens. text() and
// openmetrics() are called by one thread at a time, as Router promises; they call the sources in the order in
// which they were added, each of which reads snapshots and must not block. What a source throws reaches the
// caller.
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
