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
  double share = 0;  // due now
  // Over the recent time in which it had something to run: the share that it received, and the one
  // that was due.
  double received = 0;
  double due = 0;
};

// Bounds the number of values of the label `tenant`. The first `limit` tenants get labels of their
// own, and keep them as long as the daemon runs, so their counters never fall or disappear. All
// others are added up under "other", including a tenant of that very name, so that no label appears
// twice.
//
// Busy times are sums of differences between readings, so they do not fall when a tenant gets its
// own label, or when a ring with very many tenants removes one
// (FairRing::Options::most_idle_tenants).
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
  // What the tenant used since the last reading.
  double newly_busy(const std::string& tenant, double busy_seconds);

  std::size_t limit_;
  std::set<std::string> labelled_;
  std::map<std::string, double> last_reading_;  // busy seconds, of every tenant
  std::map<std::string, double> busy_;          // by label, with kOther: it stays once it exists
};

}  // namespace locksley::daemon
