// Chooses the tenants that have a label of their own in metrics, and adds up the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/ring/ring_view.h"

namespace locksley::daemon {

// The numbers of one value of the label `tenant`.
struct TenantNumbers {
  std::uint64_t queued = 0;
  double busy_seconds = 0;
  double share = 0;
  double received = 0;
};

// Bounds the number of values of the label `tenant`. The first `limit` tenants get labels of their
// own, and keep them as long as a ring knows them; then a new tenant may get the place. All others
// are added up under "other", including a tenant of that very name, so that no label appears twice.
//
// The busy time of "other" is a sum of differences between readings, so it does not fall when a
// tenant leaves or gets its own label. A ring forgets a tenant that has been idle for a while, and
// the tenant's counters then restart at 0, which readers of counters treat as a reset.
//
// Owned by SchedulerMetrics; not synchronised: one thread. Nothing blocks or fails.
class TenantLabels {
 public:
  static constexpr const char* kOther = "other";

  explicit TenantLabels(std::size_t limit) : limit_(limit) {}

  // Takes effect at the next reading. Tenants that lose their labels count under "other" from then
  // on.
  void set_limit(std::size_t limit);
  // `tenants`: of all lanes; entries of the same name are added up.
  std::map<std::string, TenantNumbers> read(const std::vector<TenantView>& tenants);
  // Those with labels of their own.
  const std::set<std::string>& labelled() const { return labelled_; }

 private:
  void choose_labels(const std::map<std::string, TenantNumbers>& present);

  std::size_t limit_;
  std::set<std::string> labelled_;
  std::set<std::string> demoted_;              // their earlier use has been reported under their own labels
  std::map<std::string, double> busy_before_;  // of those under "other"
  double other_busy_seconds_ = 0;
  bool has_other_ = false;  // once it exists it stays, so that its counter continues
};

}  // namespace locksley::daemon
