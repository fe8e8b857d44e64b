// Which clients get OpenMetrics.
#include "daemon/metrics/openmetrics.h"

#include <gtest/gtest.h>

namespace locksley::daemon {
namespace {

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
