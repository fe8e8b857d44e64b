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
  using Sums = std::map<std::string, TenantNumbers>;  // by label

  explicit TenantLabels(std::size_t limit) : limit_(limit) {}

  // Takes effect at the next reading. Tenants that lose their labels count under "other" from then
  // on.
  void set_limit(std::size_t limit);

  // The tenants of a lane that follow the name `after` (null: from the first one on) as the lane's
  // ring has them now, in the order of their names; `is_last`: no more follow. Their numbers are
  // added to `sums`. Each reading of a lane passes all its pages. Readings may take turns.
  void add(const std::string& lane, const std::string* after, const std::vector<TenantView>& page,
           bool is_last, Sums& sums);
  // The label that follows `after` (empty: the first one) in the order of their names, kOther last;
  // null: none. It is valid until the next call of another function.
  const std::string* label_after(const std::string& after) const;
  double busy_seconds(const std::string& label) const;

  // Those with labels of their own.
  const std::set<std::string>& labelled() const { return labelled_; }

 private:
  // Gives the tenant one of its own if there is one left.
  const std::string& label_of(const std::string& tenant);

  std::size_t limit_;
  std::set<std::string> labelled_;
  // The busy seconds of each tenant that the lane's ring knew, at the last reading.
  std::map<std::string, std::map<std::string, double>> last_readings_;  // by lane
  std::map<std::string, double> busy_;  // by label, with kOther: it stays once it exists
};

}  // namespace locksley::daemon
