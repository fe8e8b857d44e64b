#include "daemon/server/batches/retention/retention.h"

#include <algorithm>
#include <utility>

#include "daemon/server/batches/retention/free_aside.h"
#include "daemon/store/rows/stored_rows.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

namespace {

// How much the batch takes in the store.
std::uint64_t stored_bytes_of(const BatchRecord& record, std::uint64_t result_bytes)
    LOCKSLEY_REQUIRES(kIoThread) {
  return Retention::kRowBytes + record.stored.text_bytes + record.stored.payload_bytes + result_bytes;
}
// How much the record and payloads of the batch take in memory, and the batch in the store.
EvictableBytes bytes_of(const BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
  const bool is_stored = record.is_stored();
  return {.stored = is_stored ? record.stored.bytes : 0,
          .record = record.charged.record_bytes,
          .payloads = is_stored ? 0 : record.charged.memory_bytes};
}
// The same for a batch that is in the store alone.
EvictableBytes bytes_of_retired(std::uint64_t stored_bytes) {
  return {.stored = stored_bytes, .record = Registry::kRetainedBytes};
}
// Whether dropping this reference frees the batch. Otherwise a read of it is under way, or a client
// waits for it: then the results of a batch that a client has forgotten still count in their
// account.
bool is_last(const std::shared_ptr<BatchRecord>& reference) { return reference.use_count() == 1; }

}  // namespace

Retention::Retention(Registry& registry, ServerStats& stats, Store* store, Reader& aside)
    : registry_(registry), stats_(stats), store_(store), aside_(aside) {}

// ---- Room ----

std::uint64_t Retention::most_now(const Account& own, Resource resource) const {
  if (!own.leaves_room(resource)) return own.limit(resource);
  const Account& all = *own.parent();
  const std::uint64_t kept = all.used(resource) - books_.evictable_of_all(resource);
  return std::min(own.limit(resource), all.limit(resource) - std::min(all.limit(resource), kept));
}

const Account* Retention::first_without_room(Tenant& asker, Resource resource, std::uint64_t more) const {
  const Account& own = asker.account;
  const Account& all = *own.parent();
  const std::uint64_t own_evictable = books_.evictable(asker.number, resource);
  const std::uint64_t most = most_now(own, resource);
  if (more > most || own.used(resource) - own_evictable > most - more) return &own;
  // The asker's own batches free as much as it would be over its limit.
  const std::uint64_t wanted = own.used(resource) + more;
  const std::uint64_t freed = wanted - std::min(wanted, own.limit(resource));
  if (all.has_room(resource, more) || all.used(resource) + more - freed <= all.limit(resource))
    return nullptr;
  std::uint64_t left = all.used(resource) + more - freed - all.limit(resource);  // to be freed by others
  const double asked = asker.burden(own.used(resource) + more - freed);
  for (const Tenant& other : registry_.tenants().all()) {
    if (left == 0) break;
    if (&other == &asker) continue;
    const auto used = static_cast<double>(other.account.used(resource));
    const double above = used - asked * other.weight;
    if (above <= 0) continue;
    left -= std::min({left, books_.evictable(other.number, resource), static_cast<std::uint64_t>(above)});
  }
  left -= std::min(left, own_evictable - std::min(own_evictable, freed));
  return left == 0 ? nullptr : &all;
}

void Retention::update(BatchRecord& record, std::uint64_t result_bytes) {
  const std::uint64_t bytes = stored_bytes_of(record, result_bytes);
  Account& account = registry_.tenant_of(record).account;
  account.charge(Resource::kStoredBytes, bytes);
  account.refund(Resource::kStoredBytes, std::exchange(record.stored.bytes, bytes));
  note_if_over(account);
  publish_bytes();
}

void Retention::results_discarded(BatchRecord& record, std::uint64_t result_bytes) {
  Tenant& tenant = registry_.tenant_of(record);
  if (registry_.by_sequence(record.sequence) == &record) {
    const std::uint64_t before = record.stored.bytes;
    update(record, result_bytes);
    kept_of(tenant).change_stored(record.sequence, before, record.stored.bytes);
    return;
  }
  RetainedBatch* const retired = registry_.retained().find(record.sequence);
  if (retired == nullptr) return;
  retired->rows.may_have_changes = true;
  const std::uint64_t bytes = stored_bytes_of(record, result_bytes);
  if (bytes >= retired->stored_bytes) return;
  const std::uint64_t freed = retired->stored_bytes - bytes;
  retired->stored_bytes = bytes;
  kept_of(tenant).shrink_retired(freed);
  tenant.account.refund(Resource::kStoredBytes, freed);
  publish_bytes();
}

void Retention::publish_bytes() {
  if (store_ == nullptr) return;
  const std::uint64_t bytes = registry_.tenants().account_of_all().used(Resource::kStoredBytes);
  stats_.stored_bytes.set(bytes);
  store_->set_live_bytes(bytes);
}

void Retention::note_if_over(const Account& account) {
  for (const Resource resource : kOfBatches) {
    if (account.exceeds_limit(resource) || account.parent()->exceeds_limit(resource)) may_be_over_ = true;
  }
}

void Retention::note_if_full(const Account& account) {
  may_relieve_ = may_relieve_ || account.results().is_full() || account.failures().is_full();
}

void Retention::jobs_ended() {
  may_relieve_soon_ = may_relieve_soon_ || registry_.tenants().account_of_all().failures().is_full();
}

// ---- Batches that are over ----

void Retention::add(BatchRecord& record) {
  Tenant& tenant = registry_.tenant_of(record);
  note_if_over(tenant.account);
  note_if_full(tenant.account);
  if (!record.is_stored()) return kept_of(tenant).add_ephemeral(record.sequence, bytes_of(record));
  kept_of(tenant).add_stored(record.sequence, bytes_of(record));
  ended_.push_back(record.sequence);
}

void Retention::remove(BatchRecord& record) {
  kept_of(registry_.tenant_of(record)).remove(record.sequence, bytes_of(record));
  set_return(record, kNever);
}

void Retention::add_restored(const RetainedBatch& batch) {
  Tenant& tenant = registry_.tenants().all()[batch.tenant];
  kept_of(tenant).add_retired(batch.sequence, bytes_of_retired(batch.stored_bytes));
  tenant.account.charge(Resource::kStoredBytes, batch.stored_bytes);
  registry_.restore(batch);
  note_if_over(tenant.account);
}

void Retention::retired_left(const RetainedBatch& batch) {
  Tenant& tenant = registry_.tenants().all()[batch.tenant];
  kept_of(tenant).remove_retired(bytes_of_retired(batch.stored_bytes));
  tenant.account.refund(Resource::kStoredBytes, batch.stored_bytes);
}

void Retention::go_on(BatchRecord& record, const BatchStatus& status) {
  remove(record);
  record.discarder.has_all = false;
  const auto retired = registry_.go_on(record.shared(), status);
  if (!retired) return;
  retired_left(*retired);
  record.stored.parts = retired->rows.parts;
  update(record, status.result_bytes);
}

std::optional<Ticket> Retention::forget(BatchRecord& record, Urgency urgency) {
  const bool is_stored = record.is_stored();
  const std::uint64_t sequence = record.sequence;
  if (is_stored && registry_.by_sequence(sequence) != &record) return forget_retired(sequence, urgency);
  std::shared_ptr<BatchRecord> held = record.shared();
  if (record.is_active) return std::nullopt;
  const Reader::User owner = registry_.tenant_of(record).number;
  remove(record);
  if (!registry_.forget(record)) return std::nullopt;
  if (is_stored) {
    registry_.tenant_of(record).account.refund(Resource::kStoredBytes, record.stored.bytes);
    publish_bytes();
  }
  const ForgetBatch forgotten{
      .sequence = sequence, .rows = rows_of(record.status(), record.stored.parts, record.stored.has_changes)};
  const std::uint64_t memory = record.memory_bytes();
  // A batch that an eviction forgets must make room at once; otherwise the eviction would go on to
  // further batches.
  if (urgency == Urgency::kWithNext || is_last(held)) record.refund_results();
  free_aside(aside_, std::move(held), memory, owner);
  return is_stored ? store_->put(forgotten, urgency) : 0;
}

std::optional<Ticket> Retention::forget_retired(std::uint64_t sequence, Urgency urgency) {
  const auto forgotten = registry_.forget_retained(sequence);
  if (!forgotten) return std::nullopt;
  retired_left(*forgotten);
  publish_bytes();
  return store_->put(ForgetBatch{.sequence = sequence, .rows = forgotten->rows}, urgency);
}

bool Retention::try_retire(BatchRecord& record) {
  // The store must have the whole batch, and no reply about it may be outstanding. If the disk
  // fails, the batch stays.
  const auto& stored = record.stored;
  if (is_pinned_(record.sequence) || stored.is_rejected || stored.ticket > settled_ ||
      !store_->is_written(stored.end_ticket)) {
    return false;
  }
  remove(record);
  kept_of(registry_.tenant_of(record)).add_retired(record.sequence, bytes_of_retired(stored.bytes));
  std::shared_ptr<BatchRecord> held = record.shared();
  const Reader::User owner = registry_.tenant_of(record).number;
  const std::uint64_t memory = record.memory_bytes();
  registry_.retire(record);
  record.refund_results();
  free_aside(aside_, std::move(held), memory, owner);
  return true;
}

void Retention::retire(Ticket settled) {
  settled_ = settled;
  if (retires_ || retire_some(schedule_ ? kMostAtOnce : ~std::size_t{0})) return;
  retires_ = true;
  schedule_();
}

bool Retention::retire_some(std::size_t left) {
  for (; ended_.size() > kMostInMemory; ended_.pop_front(), --left) {
    if (left == 0) return false;
    BatchRecord* const record = registry_.by_sequence(ended_.front());
    // If RETRY has made the batch go on, it comes here again after its next end.
    if (record == nullptr || record->is_active) continue;
    if (!try_retire(*record)) return true;
  }
  return true;
}

}  // namespace locksley::daemon
