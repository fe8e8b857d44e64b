// The metrics of a daemon that works for an upstream daemon.
#include "daemon/upstream/upstream_metrics.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>

namespace locksley::daemon {
namespace {

using std::chrono::microseconds;

std::string page_of(const std::vector<UpstreamLaneView>& lanes) {
  Families families;
  read_upstream_metrics(lanes, families);
  return prometheus::TextSerializer().Serialize(families);
}

TEST(UpstreamMetricsTest, EachLaneHasItsSeriesInBaseUnits) {
  const std::string page = page_of({{.lane = "cpu",
                                     .is_connected = true,
                                     .leases = 3,
                                     .kept_bytes = 4096,
                                     .round_trip = microseconds(1500),
                                     .reconnects = 2,
                                     .jobs = 70,
                                     .lost_leases = 1},
                                    {.lane = "processes"}});
  for (const char* line : {"connected{lane=\"cpu\"} 1\n", "connected{lane=\"processes\"} 0\n",
                           "leases{lane=\"cpu\"} 3\n", "unacknowledged_result_bytes{lane=\"cpu\"} 4096\n",
                           "round_trip_seconds{lane=\"cpu\"} 0.0015\n", "reconnects_total{lane=\"cpu\"} 2\n",
                           "jobs_total{lane=\"cpu\"} 70\n", "lost_leases_total{lane=\"cpu\"} 1\n"}) {
    EXPECT_NE(page.find(std::string("\nlocksley_upstream_") + line), std::string::npos) << line << page;
  }
}

TEST(UpstreamMetricsTest, NoLanesHaveNoMetrics) { EXPECT_EQ(page_of({}), ""); }

TEST(UpstreamMetricsTest, AViewAddsUpTheConnectionsOfItsLane) {
  UpstreamMeter meter;
  meter.joined.add(1);  // an old connection, and a new one
  meter.joined.add(1);
  meter.leases.add(5);
  EXPECT_TRUE(UpstreamLaneView::of("cpu", meter).is_connected);
  meter.leases.add(std::uint64_t{2} - 5);  // the old one has three fewer
  meter.joined.add(std::uint64_t{0} - 1);
  EXPECT_TRUE(UpstreamLaneView::of("cpu", meter).is_connected);
  EXPECT_EQ(UpstreamLaneView::of("cpu", meter).leases, 2U);
  meter.joined.add(std::uint64_t{0} - 1);
  EXPECT_FALSE(UpstreamLaneView::of("cpu", meter).is_connected);
}

}  // namespace
}  // namespace locksley::daemon
