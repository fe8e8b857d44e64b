// The metrics of a daemon that works for an upstream daemon.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/metrics/metric_family.h"
#include "daemon/upstream/upstream_meter.h"

namespace locksley::daemon {

// A lane that serves the upstream, at one moment.
struct UpstreamLaneView {
  // A copy of the meter's counters. Any thread.
  static UpstreamLaneView of(std::string lane, const UpstreamMeter& meter);

  std::string lane;
  bool is_connected = false;  // and has joined
  std::uint64_t leases = 0;
  std::uint64_t kept_bytes = 0;
  std::chrono::microseconds round_trip{};  // 0: not measured yet
  std::uint64_t reconnects = 0;
  std::uint64_t jobs = 0;
  std::uint64_t lost_leases = 0;
};

// Adds the metrics `locksley_upstream_…`; none for no lanes. Any thread; nothing blocks or fails.
void read_upstream_metrics(const std::vector<UpstreamLaneView>& lanes, Families& families);

}  // namespace locksley::daemon
