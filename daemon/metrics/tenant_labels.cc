#include "daemon/metrics/tenant_labels.h"

#include <chrono>
#include <iterator>
#include <utility>

namespace locksley::daemon {

void TenantLabels::set_limit(std::size_t limit) {
  limit_ = limit;
  while (labelled_.size() > limit) labelled_.erase(std::prev(labelled_.end()));
}

void TenantLabels::choose_labels(const std::map<std::string, TenantNumbers>& present) {
  for (const auto& [name, numbers] : present) {
    if (labelled_.size() >= limit_) return;
    if (name != kOther) labelled_.insert(name);
  }
}

double TenantLabels::newly_busy(const std::string& tenant, double busy_seconds) {
  const double before = std::exchange(last_reading_[tenant], busy_seconds);
  return busy_seconds >= before ? busy_seconds - before : busy_seconds;
}

std::map<std::string, TenantNumbers> TenantLabels::read(const std::vector<TenantView>& tenants) {
  std::map<std::string, TenantNumbers> present;
  for (const TenantView& view : tenants) {
    TenantNumbers& numbers = present[view.tenant];
    numbers.queued += view.queued;
    numbers.busy_seconds += std::chrono::duration<double>(view.busy).count();
    numbers.share += view.share;
    numbers.received += view.received;
    numbers.due += view.due;
  }
  choose_labels(present);

  std::map<std::string, TenantNumbers> result;
  for (const std::string& name : labelled_) result[name];
  if (busy_.contains(kOther)) result[kOther];
  for (const auto& [name, numbers] : present) {
    const std::string label = labelled_.contains(name) ? name : kOther;
    TenantNumbers& sum = result[label];
    sum.queued += numbers.queued;
    sum.share += numbers.share;
    sum.received += numbers.received;
    sum.due += numbers.due;
    busy_[label] += newly_busy(name, numbers.busy_seconds);
  }
  for (auto& [label, numbers] : result) numbers.busy_seconds = busy_[label];
  return result;
}

}  // namespace locksley::daemon
