// Which batches go early, to make room.
#include <algorithm>
#include <utility>

#include "daemon/server/batches/retention/retention.h"

namespace locksley::daemon {

namespace {

constexpr double kAnyBurden = -1;

// The greatest burden of the tenants with jobs that have not ended: their results may be growing.
// `used` returns what a tenant has.
template <class Used>
double heaviest_that_grows(const std::deque<Tenant>& tenants, Used used) {
  double most = kAnyBurden;
  for (const Tenant& tenant : tenants) {
    if (tenant.account.used(Resource::kQueuedJobs) != 0) most = std::max(most, tenant.burden(used(tenant)));
  }
  return most;
}

}  // namespace

Tenant* Retention::heaviest(Resource resource, Tenant* asker, double least) const {
  Tenant* found = nullptr;
  const double asked = asker == nullptr ? kAnyBurden : asker->burden(asker->account.used(resource));
  double most = asked;
  bool asker_gives = asker != nullptr && !asker->account.has_limit(resource);
  for (Tenant& tenant : registry_.tenants().all()) {
    if (&tenant == asker) continue;
    const double own = tenant.burden(tenant.account.used(resource));
    asker_gives = asker_gives || (asker != nullptr && own > asked);
    if (own < least || own <= most || evictable(tenant, resource) == 0) continue;
    found = &tenant;
    most = own;
  }
  return found == nullptr && asker_gives && evictable(*asker, resource) != 0 ? asker : found;
}

void Retention::evict(Tenant* asker) {
  if (asker == nullptr && !std::exchange(may_be_over_, false)) return;
  evict_for({.asker = asker});
}

void Retention::limits_changed() { evict_for({.is_limit = true}); }

void Retention::evict_for(const Cause& cause) {
  if (!causes_.empty()) {  // go_on_until() comes to this cause after the others
    if (std::ranges::find(causes_, cause) == causes_.end()) causes_.push_back(cause);
    return;
  }
  if (evict_some(cause, schedule_ ? kMostAtOnce : ~std::size_t{0})) return;
  causes_.push_back(cause);
  schedule_();
}

bool Retention::go_on_until(Instant until) {
  while (retires_ || !causes_.empty()) {
    if (retires_) {
      retires_ = !retire_some(kBetweenLooks);
    } else if (evict_some(causes_.front(), kBetweenLooks)) {
      causes_.pop_front();
      continue;
    }
    if (now() >= until) return false;
  }
  return true;
}

bool Retention::evict_some(const Cause& cause, std::size_t left) {
  for (const Resource resource : kEvictable) {
    if (cause.asker != nullptr) {
      if (!evict_own(*cause.asker, resource, left)) return false;
    } else {
      for (Tenant& tenant : registry_.tenants().all()) {
        if (!evict_own(tenant, resource, left)) return false;
      }
    }
    const auto used = [resource](const Tenant& tenant) { return tenant.account.used(resource); };
    const bool is_growth = cause.asker == nullptr && !cause.is_limit;
    const double least = is_growth ? heaviest_that_grows(registry_.tenants().all(), used) : kAnyBurden;
    if (!evict_heaviest(resource, cause.asker, least, left)) return false;
  }
  return true;
}

bool Retention::evict_own(Tenant& tenant, Resource resource, std::size_t& left) {
  for (; tenant.account.exceeds_limit(resource); --left) {
    if (left == 0) return false;
    if (!evict_one(tenant, resource)) return true;
  }
  return true;
}

bool Retention::evict_heaviest(Resource resource, Tenant* asker, double least, std::size_t& left) {
  for (; registry_.tenants().account_of_all().exceeds_limit(resource); --left) {
    if (left == 0) return false;
    Tenant* const victim = heaviest(resource, asker, least);
    if (victim == nullptr || !evict_one(*victim, resource)) return true;
  }
  return true;
}

std::uint64_t Retention::first_of(Kept& kept, SequenceSet& batches) {
  while (const auto first = batches.from(0)) {
    if (!is_pinned_(*first)) return *first;
    batches.erase(*first);
    kept.pinned.insert(*first);
  }
  return kNone;
}

void Retention::unpinned(std::uint64_t sequence) {
  BatchRecord* const record = registry_.by_sequence(sequence);
  if (record == nullptr) return;
  Tenant& tenant = registry_.tenant_of(*record);
  Kept& kept = kept_of(tenant);
  if (!kept.pinned.erase(sequence)) return;
  (record->is_stored() ? kept.stored : kept.ephemeral).insert(sequence);
  note_if_over(tenant.account);
  has_relief_ = has_relief_ || tenant.account.results().is_full();
}

bool Retention::evict_one(Tenant& tenant, Resource resource) {
  Kept& kept = kept_of(tenant);
  const bool is_memory = resource == Resource::kRecordBytes;
  // Most of a record's memory is free once the store alone has the batch, and nothing is lost by
  // that.
  const std::uint64_t stored = first_of(kept, kept.stored);
  if (is_memory && stored != kNone && try_retire(*registry_.by_sequence(stored))) return true;
  const std::uint64_t ephemeral =
      is_memory ? std::min(first_of(kept, kept.ephemeral), first_of(kept, kept.part_read)) : kNone;
  const RetainedBatch* const retired =
      kept.retired == 0 ? nullptr : registry_.retained().next_of(tenant.number, kept.first_retired);
  if (retired != nullptr && retired->sequence < std::min(stored, ephemeral)) {
    return forget_retired(retired->sequence, Urgency::kWithNext).has_value();
  }
  const std::uint64_t first = std::min(stored, ephemeral);
  // Very many batches of others lie before the tenant's oldest: the next call searches on.
  if (kept.retired != 0 && retired == nullptr && kept.first_retired < first) return true;
  if (first == kNone) return false;
  return forget(*registry_.by_sequence(first), Urgency::kWithNext).has_value();
}

bool Retention::evict_one_with_results(Tenant& tenant) {
  constexpr int kMostTried = 16;  // some 3 us
  Kept& kept = kept_of(tenant);
  int tried = 0;
  for (std::uint64_t first; (first = first_of(kept, kept.ephemeral)) != kNone;) {
    BatchRecord& record = *registry_.by_sequence(first);
    if (record.status().discarded == 0) return forget(record, Urgency::kWithNext).has_value();
    kept.ephemeral.erase(first);
    kept.part_read.insert(first);
    if (++tried == kMostTried) return true;
  }
  if (kept.tried == 0) kept.tried_all = true;
  for (auto each = kept.stored.from(kept.tried); each; each = kept.stored.from(*each + 1)) {
    kept.tried = *each + 1;
    if (try_retire(*registry_.by_sequence(*each))) {
      kept.tried_all = false;
      return true;
    }
    if (++tried == kMostTried) return true;
  }
  kept.tried = 0;
  return !kept.tried_all;  // if not, the next call begins again with the first
}

bool Retention::evict_results(Instant until) {
  std::size_t evicted = 0;
  const auto has_time = [&] { return ++evicted % kBetweenLooks != 0 || now() < until; };
  for (Tenant& tenant : registry_.tenants().all()) {
    const ResultAccount& results = tenant.account.results();
    while (results.bytes() >= results.limit() && evict_one_with_results(tenant)) {
      if (!has_time()) return false;
    }
  }
  const ResultAccount& all = registry_.tenants().account_of_all().results();
  while (all.bytes() >= all.limit()) {
    if (!has_time()) return false;
    const auto used = [](const Tenant& tenant) { return tenant.account.results().bytes(); };
    const double least = heaviest_that_grows(registry_.tenants().all(), used);
    Tenant* victim = nullptr;
    double most = kAnyBurden;
    for (Tenant& tenant : registry_.tenants().all()) {
      const Kept* const kept = find_kept(tenant);
      if (kept == nullptr || (kept->ephemeral.empty() && kept->stored.empty())) continue;
      const double own = tenant.burden(used(tenant));
      if (own >= least && own > most) {
        victim = &tenant;
        most = own;
      }
    }
    if (victim == nullptr) return true;
    if (evict_one_with_results(*victim)) continue;
    // Batches that the store has yet to write will leave memory soon, and lose nothing by it; a
    // lighter user's batch in memory would lose its results. If there are none, all batches of the
    // victim wait for their readers, and another user is next.
    const Kept& kept = kept_of(*victim);
    if (!kept.stored.empty() || !kept.ephemeral.empty()) return true;
  }
  return true;
}

}  // namespace locksley::daemon
