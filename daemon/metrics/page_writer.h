// Writes metric families as text: in Prometheus' format, or as OpenMetrics.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "daemon/metrics/metric_family.h"

namespace locksley::daemon {

enum class MetricsFormat { kText, kOpenMetrics };

// Writes counters, gauges and histograms; the daemon has no families of other types. OpenMetrics
// differs from Prometheus' format in this: the family of a counter is named without `_total`, its
// samples with it; units are stated; bounds are floating-point numbers; quotes in help are escaped;
// and the end is marked, so that a truncated page is invalid.
//
// Owned by the code that makes a page; not synchronised. Nothing blocks; only allocation fails.
class PageWriter {
 public:
  explicit PageWriter(MetricsFormat format) : format_(format) {}

  // Writes the samples of the family from number `from` on, at most `most` of them; before the
  // first sample, also the lines that describe the family. Needs: no other family is written before
  // the last sample of this one.
  void write(const prometheus::MetricFamily& family, std::size_t from, std::size_t most);
  // The whole page, once all is written.
  std::string take() &&;

 private:
  bool is_open() const { return format_ == MetricsFormat::kOpenMetrics; }
  void head(std::string_view type, std::string_view help);
  void sample(std::string_view suffix, const prometheus::ClientMetric& metric, std::string_view le,
              std::string_view value);
  void histogram(const prometheus::ClientMetric& metric);

  const MetricsFormat format_;
  std::string text_;
  std::string_view name_;  // of the current family
};

}  // namespace locksley::daemon
