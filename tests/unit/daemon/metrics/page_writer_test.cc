// The two formats of the metrics. tests/integration/prometheus has two parsers read them.
#include "daemon/metrics/page_writer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>

namespace locksley::daemon {
namespace {

std::string text_of(const Families& families, MetricsFormat format = MetricsFormat::kOpenMetrics) {
  PageWriter writer(format);
  for (const prometheus::MetricFamily& family : families) {
    // As long families are written.
    for (std::size_t from = 0; from < family.metric.size(); ++from) writer.write(family, from, 1);
  }
  return std::move(writer).take();
}

std::string text_of(Family family, MetricsFormat format = MetricsFormat::kOpenMetrics) {
  Families families;
  std::move(family).move_to(families);
  return text_of(families, format);
}

TEST(PageWriterTest, ACounterIsNamedWithoutTotalAndItsSamplesWithIt) {
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

TEST(PageWriterTest, OnlyWholeWordsAtTheEndAreUnits) {
  Family bytes = Family::gauge("x_bytes", "h");
  bytes.add({}, 1.0);
  EXPECT_EQ(text_of(std::move(bytes)),
            "# TYPE x_bytes gauge\n# UNIT x_bytes bytes\n# HELP x_bytes h\nx_bytes 1\n# EOF\n");
  Family fds = Family::gauge("xbytes", "h");
  fds.add({}, 1.0);
  EXPECT_EQ(text_of(std::move(fds)), "# TYPE xbytes gauge\n# HELP xbytes h\nxbytes 1\n# EOF\n");
}

TEST(PageWriterTest, AHistogramsBoundsAreFloatingPointNumbers) {
  prometheus::MetricFamily family{
      .name = "x", .help = "h", .type = prometheus::MetricType::Histogram, .metric = {}};
  prometheus::ClientMetric& metric = family.metric.emplace_back();
  metric.label.push_back({"l", "v"});
  metric.histogram.bucket = {{1, 0.001}, {2, 1}, {3, 2.5}};
  metric.histogram.sample_count = 4;
  metric.histogram.sample_sum = 17.25;
  EXPECT_EQ(text_of(Families{family}),
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

TEST(PageWriterTest, EscapesLabelsAndHelp) {
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

TEST(PageWriterTest, TheEndOfAPageWithoutMetricsIsMarked) {
  EXPECT_EQ(text_of(Families{}), "# EOF\n");
  EXPECT_EQ(text_of(Families{}, MetricsFormat::kText), "");
}

TEST(PageWriterTest, PrometheusFormatHasTotalEverywhereAndNeitherUnitsNorAnEnd) {
  Family family = Family::counter("x_seconds_total", "\"Time\".");
  family.add({{"a", "1"}}, 1.5);
  family.add({{"a", "\"\\\n"}}, 2.0);
  EXPECT_EQ(text_of(std::move(family), MetricsFormat::kText),
            "# TYPE x_seconds_total counter\n"
            "# HELP x_seconds_total \"Time\".\n"
            "x_seconds_total{a=\"1\"} 1.5\n"
            "x_seconds_total{a=\"\\\"\\\\\\n\"} 2\n");
  prometheus::MetricFamily histogram{
      .name = "y", .help = "h", .type = prometheus::MetricType::Histogram, .metric = {}};
  histogram.metric.emplace_back().histogram.bucket = {{7, 1}};
  EXPECT_THAT(text_of(Families{histogram}, MetricsFormat::kText),
              ::testing::HasSubstr("\ny_bucket{le=\"1\"} 7\n"));
}

}  // namespace
}  // namespace locksley::daemon
