#include "daemon/metrics/metric_family.h"

namespace locksley::daemon {

Family::Family(std::string name, std::string help, prometheus::MetricType type) {
  family_.name = std::move(name);
  family_.help = std::move(help);
  family_.type = type;
}

Family Family::counter(std::string name, std::string help) {
  return {std::move(name), std::move(help), prometheus::MetricType::Counter};
}

Family Family::gauge(std::string name, std::string help) {
  return {std::move(name), std::move(help), prometheus::MetricType::Gauge};
}

Family Family::histogram(std::string name, std::string help) {
  return {std::move(name), std::move(help), prometheus::MetricType::Histogram};
}

void Family::add(Labels labels, double value) {
  prometheus::ClientMetric& metric = family_.metric.emplace_back();
  for (auto& [name, text] : labels) metric.label.push_back({std::move(name), std::move(text)});
  // PageWriter writes one of the two, by the family's type.
  metric.counter.value = value;
  metric.gauge.value = value;
}

void Family::add(Labels labels, const DurationHistogram::Snapshot& snapshot) {
  add(std::move(labels), 0.0);
  prometheus::ClientMetric::Histogram& histogram = family_.metric.back().histogram;
  std::uint64_t cumulative = 0;
  for (std::size_t i = 0; i < DurationHistogram::kBoundsSeconds.size(); ++i) {
    cumulative += snapshot.counts[i];
    histogram.bucket.push_back({cumulative, DurationHistogram::kBoundsSeconds[i]});
  }
  // PageWriter writes the +Inf bucket, from the count.
  histogram.sample_count = cumulative + snapshot.counts.back();
  histogram.sample_sum = snapshot.sum_seconds;
}

void Family::move_to(Families& families) && {
  if (!family_.metric.empty()) families.push_back(std::move(family_));
}

}  // namespace locksley::daemon
