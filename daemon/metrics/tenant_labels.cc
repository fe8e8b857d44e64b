#include "daemon/metrics/tenant_labels.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace locksley::daemon {

void TenantLabels::set_limit(std::size_t limit) {
  limit_ = limit;
  while (labelled_.size() > limit) demoted_.insert(labelled_.extract(std::prev(labelled_.end())));
}

void TenantLabels::choose_labels(const std::map<std::string, TenantNumbers>& present) {
  std::vector<std::string> newcomers;
  for (const auto& [name, numbers] : present) {
    if (name != kOther && !labelled_.contains(name)) newcomers.push_back(name);
  }
  for (std::string& name : newcomers) {
    if (labelled_.size() >= limit_) {
      const auto absent =
          std::ranges::find_if(labelled_, [&](const auto& old) { return !present.contains(old); });
      if (absent == labelled_.end()) return;
      labelled_.erase(absent);
    }
    labelled_.insert(std::move(name));
  }
}

std::map<std::string, TenantNumbers> TenantLabels::read(const std::vector<TenantView>& tenants) {
  std::map<std::string, TenantNumbers> present;
  for (const TenantView& view : tenants) {
    TenantNumbers& numbers = present[view.tenant];
    numbers.queued += view.queued;
    numbers.busy_seconds += std::chrono::duration<double>(view.busy).count();
    numbers.share += view.share;
    numbers.received += view.received;
  }
  choose_labels(present);

  std::map<std::string, TenantNumbers> result;
  TenantNumbers other;
  std::map<std::string, double> busy_now;
  for (const auto& [name, numbers] : present) {
    if (labelled_.contains(name)) {
      result.emplace(name, numbers);
      continue;
    }
    has_other_ = true;
    other.queued += numbers.queued;
    other.share += numbers.share;
    other.received += numbers.received;
    const auto before = busy_before_.find(name);
    double since = before == busy_before_.end() ? 0 : before->second;
    if (demoted_.contains(name)) since = numbers.busy_seconds;
    other_busy_seconds_ +=
        numbers.busy_seconds >= since ? numbers.busy_seconds - since : numbers.busy_seconds;
    busy_now.emplace(name, numbers.busy_seconds);
  }
  busy_before_ = std::move(busy_now);
  demoted_.clear();
  other.busy_seconds = other_busy_seconds_;
  if (has_other_) result.emplace(kOther, other);
  return result;
}

}  // namespace locksley::daemon
