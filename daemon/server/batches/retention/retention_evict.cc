// Evictions: which batches leave early to make room.
#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "core/batch/batch_failures.h"
#include "daemon/server/accounts/heaviest_first.h"
#include "daemon/server/batches/retention/free_aside.h"
#include "daemon/server/batches/retention/retention.h"

namespace locksley::daemon {

namespace {

constexpr double kAnyBurden = -1;
constexpr int kMostTried = 16;  // batches that a call checks; some 3 us

// Until when a batch that is over counts as being read, as known at `at`. If that is not after
// `at`, it is not being read.
Instant read_until(const BatchRecord& record, Instant at) LOCKSLEY_REQUIRES(kIoThread) {
  if (record.status().discarded == 0) return Instant::min();
  const BatchRecord::Discarder& reader = record.discarder;
  const Instant until = reader.seen + (reader.has_all ? Retention::kAfterLastPage : Retention::kReaderSilent);
  if (record.waiters.for_rows.load() == 0) return until;
  return std::max(until, at + Retention::kWaiterWakes);
}

// Chooses the tenant that loses the next batch, while all together are over their limit. One walk
// over all tenants finds their order; afterwards only the burden of the tenant that lost a batch
// changes. Lives for one call.
class Victims {
 public:
  enum class For : std::uint8_t { kNewBatch, kGrowth, kLimit };
  using Used = std::function<std::uint64_t(const Tenant&)>;
  using Gives = std::function<bool(const Tenant&)>;

  // `used`: a tenant's use of the resource. `gives`: whether the tenant has a batch to evict.
  // `asker`: as in Retention::evict(), and with kNewBatch only.
  Victims(std::deque<Tenant>& tenants, For reason, Tenant* asker, Used used, Gives gives)
      : reason_(reason), asker_(asker), used_(std::move(used)), gives_(std::move(gives)) {
    for (Tenant& tenant : tenants) {
      if (&tenant == asker_) continue;
      if (gives_(tenant)) {
        givers_.add(tenant, burden_of(tenant));
      } else {
        note_other(tenant);
      }
    }
    givers_.complete();
  }

  // Null: none may lose a batch.
  Tenant* next() const {
    const double asked = asker_ == nullptr ? kAnyBurden : burden_of(*asker_);
    if (!givers_.empty() && givers_.burden() > asked && givers_.burden() >= growing_)
      return &givers_.heaviest();
    return asker_ != nullptr && gives_(*asker_) ? asker_ : nullptr;
  }
  // The tenant of next() has lost a batch, or must be checked again.
  void changed(Tenant& victim) {
    if (&victim == asker_) return;
    if (gives_(victim)) return givers_.change_heaviest(burden_of(victim));
    gives_nothing(victim);
  }
  // The tenant of next(), which is not the asker, has no batch to evict.
  void gives_nothing(Tenant& victim) {
    givers_.remove_heaviest();
    note_other(victim);
  }

 private:
  double burden_of(const Tenant& tenant) const { return tenant.burden(used_(tenant)); }
  void note_other(const Tenant& tenant) {
    if (reason_ != For::kGrowth || tenant.account.used(Resource::kQueuedJobs) == 0) return;
    growing_ = std::max(growing_, burden_of(tenant));
  }

  const For reason_;
  Tenant* const asker_;
  const Used used_;
  const Gives gives_;
  HeaviestFirst<Tenant> givers_;  // without the asker
  // With kGrowth, the greatest burden of the tenants that have unfinished jobs but no batch to
  // evict: their results may be growing.
  double growing_ = kAnyBurden;
};

}  // namespace

void Retention::evict(Tenant* asker) {
  if (asker == nullptr && !std::exchange(may_be_over_, false)) return;
  evict_for({.asker = asker});
}

void Retention::limits_changed() { evict_for({.is_limit = true}); }

void Retention::evict_for(const Cause& cause) {
  if (!causes_.empty()) {  // go_on_until() serves this cause after the others
    if (std::ranges::find(causes_, cause) == causes_.end()) causes_.push_back(cause);
    return;
  }
  EvictionBudget budget(schedule_ ? kMostAtOnce : ~std::size_t{0}, Instant::max());
  if (evict_some(cause, budget)) return;
  causes_.push_back(cause);
  schedule_();
}

bool Retention::go_on_until(Instant until) {
  while (retires_ || !causes_.empty()) {
    if (retires_) {
      retires_ = !retire_some(kBetweenLooks);
    } else {
      EvictionBudget budget(~std::size_t{0}, until);
      if (!evict_some(causes_.front(), budget)) return false;
      causes_.pop_front();
    }
    // Even a cause for which nothing can be evicted takes some walks over all tenants.
    if ((retires_ || !causes_.empty()) && now() >= until) return false;
  }
  return true;
}

bool Retention::evict_some(const Cause& cause, EvictionBudget& budget) {
  const std::span<const Resource> resources = resources_of(cause);
  if (cause.asker != nullptr) {
    if (!evict_own(*cause.asker, resources, budget)) return false;
  } else {
    std::deque<Tenant>& tenants = registry_.tenants().all();
    tenants_looked_at_ += tenants.size();
    for (Tenant& tenant : tenants) {
      if (!evict_own(tenant, resources, budget)) return false;
    }
  }
  for (const Resource resource : resources) {
    if (!evict_heaviest(resource, cause, budget)) return false;
  }
  return true;
}

bool Retention::evict_own(Tenant& tenant, std::span<const Resource> resources, EvictionBudget& budget) {
  for (const Resource resource : resources) {
    for (; tenant.account.exceeds_limit(resource); budget.take()) {
      if (budget.is_used_up()) return false;
      if (!evict_one(tenant, resource)) break;
    }
  }
  return true;
}

bool Retention::evict_heaviest(Resource resource, const Cause& cause, EvictionBudget& budget) {
  const Account& all = registry_.tenants().account_of_all();
  if (!all.exceeds_limit(resource)) return true;
  if (budget.is_used_up()) return false;
  using enum Victims::For;
  const auto reason = cause.asker != nullptr ? kNewBatch : cause.is_limit ? kLimit : kGrowth;
  std::deque<Tenant>& tenants = registry_.tenants().all();
  tenants_looked_at_ += tenants.size();
  Victims victims(
      tenants, reason, cause.asker,
      [resource](const Tenant& tenant) { return tenant.account.used(resource); },
      [this, resource](const Tenant& tenant) {
        kIoThread.assert_held();
        return books_.evictable(tenant.number, resource) != 0;
      });
  for (; all.exceeds_limit(resource); budget.take()) {
    if (budget.is_used_up()) return false;
    Tenant* const victim = victims.next();
    if (victim == nullptr || !evict_one(*victim, resource)) return true;
    victims.changed(*victim);
  }
  return true;
}

void Retention::unpinned(std::uint64_t sequence) {
  BatchRecord* const record = registry_.by_sequence(sequence);
  if (record == nullptr) return;
  Tenant& tenant = registry_.tenant_of(*record);
  if (!kept_of(tenant).unpin(sequence, record->is_stored())) return;
  note_if_over(tenant.account);
  note_if_full(tenant.account);
}

bool Retention::evict_one(Tenant& tenant, Resource resource) {
  if (resource == Resource::kQueuedBytes) return drop_payloads_of_one(tenant);
  constexpr std::uint64_t kNone = KeptBatches::kNone;
  KeptBatches& kept = kept_of(tenant);
  const bool is_memory = resource == Resource::kRecordBytes;
  // Retiring a batch frees most of its record's memory, and loses nothing.
  const std::uint64_t stored = kept.first_stored(is_pinned_);
  if (is_memory && stored != kNone && try_retire(*registry_.by_sequence(stored))) return true;
  const std::uint64_t ephemeral =
      is_memory ? std::min(kept.first_ephemeral(is_pinned_), kept.first_part_read(is_pinned_)) : kNone;
  const RetainedBatch* const retired =
      kept.has_retired() ? registry_.retained().next_of(tenant.number, kept.first_retired()) : nullptr;
  if (retired != nullptr && retired->sequence < std::min(stored, ephemeral)) {
    return forget_retired(retired->sequence, Urgency::kWithNext).has_value();
  }
  const std::uint64_t first = std::min(stored, ephemeral);
  // Very many batches of others lie before the tenant's oldest: the next call searches on.
  if (kept.has_retired() && retired == nullptr && kept.first_retired() < first) return true;
  if (first == kNone) return false;
  return forget(*registry_.by_sequence(first), Urgency::kWithNext).has_value();
}

bool Retention::drop_payloads_of_one(Tenant& tenant) {
  KeptBatches& kept = kept_of(tenant);
  const std::uint64_t first = kept.first_with_payloads();
  if (first == KeptBatches::kNone) return false;
  BatchRecord& record = *registry_.by_sequence(first);
  kept.payloads_left(first, record.charged.memory_bytes);
  record.has_lost_payloads = true;
  using Repetition = BatchPayloads::Repetition;
  BatchPayloads::Released released =
      record.payloads().release(BatchPayloads::FailedJobs::kNeverRunAgain,
                                record.terms.id_is_chosen ? Repetition::kPossible : Repetition::kImpossible);
  registry_.charges().add_jobs_set_memory(record, 0, released.kept_bytes);
  free_aside(aside_, std::move(released.freed), released.freed_bytes, tenant.number);
  return true;
}

Retention::Searches& Retention::searches_of(const Tenant& tenant) {
  if (searches_.size() <= tenant.number) searches_.resize(tenant.number + 1);
  return searches_[tenant.number];
}

bool Retention::wait_if_read(KeptBatches& kept, BatchRecord& record) {
  const Instant at = now();
  const Instant until = read_until(record, at);
  if (until <= at) return false;
  if (kept.note_part_read(record.sequence)) set_return(record, until);
  return true;
}

void Retention::set_return(BatchRecord& record, Instant at) {
  Instant& set = record.discarder.returns;
  if (set != kNever) returns_.erase({set, record.sequence});
  set = at;
  if (set != kNever) returns_.emplace(set, record.sequence);
}

bool Retention::returns_earlier(BatchRecord& record) {
  if (record.discarder.returns == kNever) return false;  // the usual case: it is not part-read
  const Instant until = read_until(record, now());
  if (until >= record.discarder.returns) return false;
  set_return(record, until);
  const Account& own = registry_.tenant_of(record).account;
  const auto is_full = [](const Account& account) {
    return account.results().is_full() || account.failures().is_full();
  };
  return is_full(own) || is_full(*own.parent());
}

bool Retention::return_some(EvictionBudget& budget) {
  for (const Instant at = now(); next_return() <= at; budget.take()) {
    if (budget.is_used_up()) return false;
    BatchRecord& record = *registry_.by_sequence(returns_.begin()->second);
    const Instant until = read_until(record, at);
    set_return(record, until > at ? until : kNever);
    if (until > at) continue;
    const Tenant& tenant = registry_.tenant_of(record);
    if (!kept_of(tenant).note_not_read(record.sequence)) continue;
    Search& search = searches_of(tenant).ephemeral_for_failures;
    search.next = std::min(search.next, record.sequence);
  }
  return true;
}

bool Retention::evict_one_with_results(Tenant& tenant) {
  KeptBatches& kept = kept_of(tenant);
  int tried = 0;
  for (std::uint64_t first; (first = kept.first_ephemeral(is_pinned_)) != KeptBatches::kNone;) {
    BatchRecord& record = *registry_.by_sequence(first);
    if (!wait_if_read(kept, record)) return forget(record, Urgency::kWithNext).has_value();
    if (++tried == kMostTried) return true;
  }
  return retire_one(tenant, searches_of(tenant).stored_for_results, tried);
}

bool Retention::evict_one_with_failures(Tenant& tenant) {
  KeptBatches& kept = kept_of(tenant);
  Search& search = searches_of(tenant).ephemeral_for_failures;
  int tried = 0;
  if (search.next == 0) search.tried_all = true;
  for (auto each = kept.ephemeral_from(search.next); each; each = kept.ephemeral_from(*each + 1)) {
    search.next = *each + 1;
    BatchRecord& record = *registry_.by_sequence(*each);
    const bool can_leave = record.failures().charged_bytes() != 0 && !is_pinned_(*each);
    if (can_leave && !wait_if_read(kept, record)) {
      search.tried_all = false;
      return forget(record, Urgency::kWithNext).has_value();
    }
    if (++tried == kMostTried) return true;
  }
  const bool tried_all = search.tried_all;
  if (tried_all && retire_one(tenant, searches_of(tenant).stored_for_failures, tried)) return true;
  search.next = 0;
  return !tried_all;  // if not, the next call begins again with the first
}

bool Retention::retire_one(Tenant& tenant, Search& search, int tried) {
  KeptBatches& kept = kept_of(tenant);
  if (search.next == 0) search.tried_all = true;
  for (auto each = kept.stored_from(search.next); each; each = kept.stored_from(*each + 1)) {
    search.next = *each + 1;
    if (try_retire(*registry_.by_sequence(*each))) {
      search.tried_all = false;
      return true;
    }
    awaits_write_ = awaits_write_ || &search == &searches_of(tenant).stored_for_failures;
    if (++tried == kMostTried) return true;
  }
  search.next = 0;
  return !search.tried_all;  // if not, the next call begins again with the first
}

bool Retention::evict_results(Instant until) {
  static constexpr std::array kMemories{
      Memory{[](const Account& account) -> const ResultAccount& { return account.results(); },
             &Retention::evict_one_with_results},
      Memory{[](const Account& account) -> const ResultAccount& { return account.failures(); },
             &Retention::evict_one_with_failures},
  };
  EvictionBudget budget(~std::size_t{0}, until);
  if (!return_some(budget)) return false;
  std::deque<Tenant>& tenants = registry_.tenants().all();
  tenants_looked_at_ += tenants.size();
  for (Tenant& tenant : tenants) {
    for (const Memory& memory : kMemories) {
      const ResultAccount& own = memory.account_of(tenant.account);
      for (; own.bytes() >= own.limit() && (this->*memory.evict_one_with)(tenant); budget.take()) {
        if (budget.is_used_up()) return false;
      }
    }
  }
  return std::ranges::all_of(kMemories, [&](const Memory& memory) {
    kIoThread.assert_held();
    return evict_for_all(memory, budget);
  });
}

bool Retention::evict_for_all(const Memory& memory, EvictionBudget& budget) {
  std::deque<Tenant>& tenants = registry_.tenants().all();
  const ResultAccount& all = memory.account_of(registry_.tenants().account_of_all());
  if (all.bytes() < all.limit()) return true;
  if (budget.is_used_up()) return false;
  const auto has_batches = [this](const Tenant& tenant) {
    kIoThread.assert_held();
    const KeptBatches* const kept = books_.find(tenant.number);
    return kept != nullptr && kept->has_results_to_free();
  };
  tenants_looked_at_ += tenants.size();
  Victims victims(
      tenants, Victims::For::kGrowth, nullptr,
      [&](const Tenant& tenant) { return memory.account_of(tenant.account).bytes(); }, has_batches);
  for (; all.bytes() >= all.limit(); budget.take()) {
    if (budget.is_used_up()) return false;
    Tenant* const victim = victims.next();
    if (victim == nullptr) return true;
    if ((this->*memory.evict_one_with)(*victim)) {
      victims.changed(*victim);
      continue;
    }
    // If the victim has stored batches, the store will soon have written them: then they leave
    // memory and lose nothing, while a lighter user's batch in memory would lose its results. If it
    // has none, all its batches wait for their readers, or would free nothing, and another user is
    // next.
    if (kept_of(*victim).has_stored()) return true;
    victims.gives_nothing(*victim);
  }
  return true;
}

}  // namespace locksley::daemon
