// Which clients get OpenMetrics, and its format. tests/integration/prometheus has two parsers read
// it.
#include "daemon/metrics/openmetrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

namespace locksley::daemon {
namespace {

std::string text_of(Family family) {
  Families families;
  std::move(family).move_to(families);
  return openmetrics_text(families);
}

TEST(OpenMetricsTest, ACounterIsNamedWithoutTotalAndItsSamplesWithIt) {
  Family family = Family::counter("x_seconds_total", "Time.");
  family.add({{"a", "1"}, {"b", "2"}}, 1.5);
  family.add({}, std::uint64_t{123456789012345});
  EXPECT_EQ(text_of(std::move(family)),
            "# TYPE x_seconds counter\n"
            "# UNIT x_seconds seconds\n"
            "# HELP x_seconds Time.\n"
            "x_seconds_total{a=\"1\",b=\"2\"} 1.5\n"
            "x_seconds_total 123456789012345\n"
            "# EOF\n");
}

TEST(OpenMetricsTest, OnlyWholeWordsAtTheEndAreUnits) {
  Family bytes = Family::gauge("x_bytes", "h");
  bytes.add({}, 1.0);
  EXPECT_EQ(text_of(std::move(bytes)),
            "# TYPE x_bytes gauge\n# UNIT x_bytes bytes\n# HELP x_bytes h\nx_bytes 1\n# EOF\n");
  Family fds = Family::gauge("xbytes", "h");
  fds.add({}, 1.0);
  EXPECT_EQ(text_of(std::move(fds)), "# TYPE xbytes gauge\n# HELP xbytes h\nxbytes 1\n# EOF\n");
}

TEST(OpenMetricsTest, AHistogramsBoundsAreFloatingPointNumbers) {
  prometheus::MetricFamily family{
      .name = "x", .help = "h", .type = prometheus::MetricType::Histogram, .metric = {}};
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label.push_back({"l", "v"});
  metric.histogram.bucket = {{1, 0.001}, {2, 1}, {3, 2.5}};
  metric.histogram.sample_count = 4;
  metric.histogram.sample_sum = 17.25;
  EXPECT_EQ(openmetrics_text({family}),
            "# TYPE x histogram\n"
            "# HELP x h\n"
            "x_bucket{l=\"v\",le=\"0.001\"} 1\n"
            "x_bucket{l=\"v\",le=\"1.0\"} 2\n"
            "x_bucket{l=\"v\",le=\"2.5\"} 3\n"
            "x_bucket{l=\"v\",le=\"+Inf\"} 4\n"
            "x_count{l=\"v\"} 4\n"
            "x_sum{l=\"v\"} 17.25\n"
            "# EOF\n");
}

TEST(OpenMetricsTest, EscapesLabelsAndHelp) {
  Family family = Family::gauge("x", "a\\b\"c\nd");
  family.add({{"l", "a\\b\"c\nd"}}, std::numeric_limits<double>::infinity());
  family.add({{"l", ""}}, -std::numeric_limits<double>::infinity());
  family.add({{"l", "n"}}, std::nan(""));
  EXPECT_EQ(text_of(std::move(family)),
            "# TYPE x gauge\n"
            "# HELP x a\\\\b\\\"c\\nd\n"
            "x{l=\"a\\\\b\\\"c\\nd\"} +Inf\n"
            "x{l=\"\"} -Inf\n"
            "x{l=\"n\"} NaN\n"
            "# EOF\n");
}

TEST(OpenMetricsTest, APageWithoutMetricsHasItsEnd) { EXPECT_EQ(openmetrics_text({}), "# EOF\n"); }

TEST(OpenMetricsTest, WhoAsksForItGetsIt) {
  for (const char* accept : {
           // Prometheus 2.42, 2.55 and 3.
           "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
           "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
           "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/"
           "plain;version=0.0.4;q=0.3,*/*;q=0.2",
           "application/openmetrics-text; version=1.0.0",
           "Application/OpenMetrics-Text ; Version=\"1.0.0\" ; q=0.001",
           "application/openmetrics-text",
           "application/openmetrics-text, text/plain",
           "text/plain;q=0.4, application/openmetrics-text;q=0.5",
           "application/openmetrics-text, */*",
           "application/openmetrics-text;q=0.5, text/plain;version=0.0.3",
           "application/openmetrics-text;q=0.5, */*, text/plain;q=0.1",
           "nonsense, ;;;, application/openmetrics-text;q=1.000",
       }) {
    EXPECT_TRUE(wants_openmetrics(accept)) << accept;
  }
}

TEST(OpenMetricsTest, OthersGetPrometheusFormat) {
  for (const char* accept : {
           "",
           "*/*",
           "application/*",
           "text/plain;version=0.0.4",
           "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
           "application/openmetrics-text;version=0.0.1",
           "application/openmetrics-text;version=1.0.0;q=0",
           "application/openmetrics-text;q=0.5, text/plain;q=0.6",
           "application/openmetrics-text;q=0.5, text/*;q=0.6",
           "application/openmetrics-text;q=0.5, */*",
           "application/openmetrics-text;q=0.5, */*;q=0.1, text/plain",
           "application/openmetrics-text;q=2",
           "application/openmetrics-text;q=-1",
           "application/openmetrics-text;q=much",
           "application/openmetrics-text;q=",
           "application/openmetrics-text;q=nan",
           "application/openmetrics-text-not",
           ",,,;=;=,q=1",
       }) {
    EXPECT_FALSE(wants_openmetrics(accept)) << accept;
  }
}

}  // namespace
}  // namespace locksley::daemon
