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
  double share = 0;  // the share that is due now
  // Over the recent time in which the tenants had something to run: the share that they received,
  // and the share that was due.
  double received = 0;
  double due = 0;
};

// Bounds the number of values of the label `tenant`. The first `limit` tenants get labels of their
// own, and keep them as long as the daemon runs, unless set_limit() lowers the limit: so their
// counters do not fall or disappear. All others are added up under "other", including a tenant of
// that very name, so that no label appears twice.
//
// Busy times are sums of differences between readings, so they do not fall when a tenant gets its
// own label, or when a ring with very many tenants removes one
// (FairRing::Options::most_idle_tenants).
//
// Owned by SchedulerMetrics; not synchronised: one thread. Nothing blocks or fails.
class TenantLabels {
 public:
  static constexpr const char* kOther = "other";
  using Sums = std::map<std::string, TenantNumbers>;  // by label

  explicit TenantLabels(std::size_t limit) : limit_(limit) {}

  // Takes effect at the next reading. Tenants that lose their labels count under "other" from then
  // on.
  void set_limit(std::size_t limit);

  // Adds the numbers of the tenants in `page` to `sums`. They are the tenants of the lane that
  // follow the name `after` (null: from the first one on), as the lane's ring has them now, in the
  // order of their names; `is_last`: no more follow. Each reading of a lane passes all its pages.
  // Readings may take turns.
  void add(const std::string& lane, const std::string* after, const std::vector<TenantView>& page,
           bool is_last, Sums& sums);
  // The label that follows `after` (empty: the first one) in the order of their names, kOther last;
  // null: there is none. The pointer is valid until the next call of another function.
  const std::string* label_after(const std::string& after) const;
  double busy_seconds(const std::string& label) const;

  // The tenants with labels of their own.
  const std::set<std::string>& labelled() const { return labelled_; }

 private:
  // The tenant's label. Gives the tenant a label of its own if one is left.
  const std::string& label_of(const std::string& tenant);

  std::size_t limit_;
  std::set<std::string> labelled_;
  // The busy seconds of each tenant that the lane's ring knew, at the last reading.
  std::map<std::string, std::map<std::string, double>> last_readings_;  // by lane
  std::map<std::string, double> busy_;  // by label, with kOther: it stays once it exists
};

}  // namespace locksley::daemon
