#include "daemon/metrics/tenant_labels.h"

#include <chrono>
#include <iterator>
#include <utility>

namespace locksley::daemon {

void TenantLabels::set_limit(std::size_t limit) {
  limit_ = limit;
  while (labelled_.size() > limit) labelled_.erase(std::prev(labelled_.end()));
}

const std::string& TenantLabels::label_of(const std::string& tenant) {
  static const std::string other = kOther;
  if (tenant == other) return other;
  const auto known = labelled_.find(tenant);
  if (known != labelled_.end()) return *known;
  return labelled_.size() < limit_ ? *labelled_.insert(tenant).first : other;
}

void TenantLabels::add(const std::string& lane, const std::string* after, const std::vector<TenantView>& page,
                       bool is_last, Sums& sums) {
  std::map<std::string, double>& last = last_readings_[lane];
  auto known = after == nullptr ? last.begin() : last.upper_bound(*after);
  for (const TenantView& view : page) {
    // A ring that has forgotten a tenant counts its busy time from 0 when the tenant comes back.
    while (known != last.end() && known->first < view.tenant) known = last.erase(known);
    const double busy = std::chrono::duration<double>(view.busy).count();
    double before = 0;
    if (known != last.end() && known->first == view.tenant) {
      before = std::exchange(known->second, busy);
      ++known;
    } else {
      last.emplace_hint(known, view.tenant, busy);
    }
    const std::string& label = label_of(view.tenant);
    busy_[label] += busy >= before ? busy - before : busy;
    TenantNumbers& sum = sums[label];
    sum.queued += view.queued;
    sum.share += view.share;
    sum.received += view.received;
    sum.due += view.due;
  }
  if (is_last) last.erase(known, last.end());
}

const std::string* TenantLabels::label_after(const std::string& after) const {
  if (after == kOther) return nullptr;
  const auto next = labelled_.upper_bound(after);
  if (next != labelled_.end()) return &*next;
  const auto other = busy_.find(kOther);
  return other == busy_.end() ? nullptr : &other->first;
}

double TenantLabels::busy_seconds(const std::string& label) const {
  const auto found = busy_.find(label);
  return found == busy_.end() ? 0 : found->second;
}

}  // namespace locksley::daemon
