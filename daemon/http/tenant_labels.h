// Which tenants have a label of their own in metrics, and what the others come to together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "core/ring_view.h"

namespace locksley::daemon {

// What is reported for one value of the label `tenant`.
struct TenantNumbers {
  std::uint64_t queued = 0;
  double busy_seconds = 0;
  double share = 0;
  double received = 0;
};

// Keeps the label `tenant` bounded. The first `limit` tenants seen have labels of their own and keep them for
// as long as a ring knows them; when one has gone and a newcomer needs its place, the newcomer gets it. All
// others are added up under "other", a tenant of that very name included, so that no label is written twice.
//
// Busy time under "other" is a sum of differences between readings, so that it never falls when a tenant
// leaves or gets a label of its own. A tenant without anything to do for a while is forgotten by its ring and
// starts again at 0 when it comes back: to a reader of counters that is a reset like any other. Not
// thread-safe: one reader.
class TenantLabels {
 public:
  static constexpr const char* kOther = "other";

  explicit TenantLabels(std::size_t limit) : limit_(limit) {}

  // From the next reading on. Those that lose their labels are of "other" from then on.
  void set_limit(std::size_t limit);
  // `tenants`: those of all lanes; the same name may come several times and is added up.
  std::map<std::string, TenantNumbers> read(const std::vector<TenantView>& tenants);

 private:
  void choose_labels(const std::map<std::string, TenantNumbers>& present);

  std::size_t limit_;
  std::set<std::string> labelled_;
  std::set<std::string> demoted_;              // what they had used before, their labels have shown
  std::map<std::string, double> busy_before_;  // of those under "other"
  double other_busy_seconds_ = 0;
  bool has_other_ = false;  // once there, it stays: its counter goes on
};

}  // namespace locksley::daemon
