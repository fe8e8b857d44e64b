#include "daemon/metrics/metrics_page.h"

#include <algorithm>

namespace locksley::daemon {

namespace {
// Samples that are written between two readings of the clock: some 30 us at most, if they are
// histograms.
constexpr std::size_t kSamplesAtOnce = 8;
}  // namespace

bool MetricsPage::Making::go_on(Instant until) {
  for (; source_ < sources_.size(); ++source_, is_read_ = false) {
    if (!is_read_) {
      if (!reading_) reading_ = sources_[source_]();
      if (!reading_(families_, until)) return false;
      reading_ = {};
      is_read_ = true;
    }
    if (!write_until(until)) return false;
  }
  return true;
}

bool MetricsPage::Making::write_until(Instant until) {
  for (; family_ < families_.size(); ++family_, sample_ = 0) {
    prometheus::MetricFamily& family = families_[family_];
    while (sample_ < family.metric.size()) {
      if (now() >= until) return false;
      writer_.write(family, sample_, kSamplesAtOnce);
      const std::size_t end = std::min(sample_ + kSamplesAtOnce, family.metric.size());
      // Frees each sample once it is written: to free all at the end would take long.
      for (; sample_ < end; ++sample_) family.metric[sample_] = {};
    }
  }
  families_.clear();
  family_ = 0;
  return true;
}

std::string MetricsPage::whole(MetricsFormat format) const {
  Making making(*this, format);
  while (!making.go_on(kNever)) {
  }
  return std::move(making).take();
}

}  // namespace locksley::daemon
