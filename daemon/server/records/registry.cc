#include "daemon/server/records/registry.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <utility>

#include "core/base/check.h"
#include "daemon/store/rows/stored_rows.h"

namespace locksley::daemon {

namespace {
std::uint64_t random_seed() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}
}  // namespace

Registry::Registry(Tenants& tenants, ServerStats& stats)
    : stats_(stats),
      tenants_(tenants),
      customers_(tenants_),
      charges_(tenants_, customers_, stats),
      retained_(random_seed()) {}

BatchRecord* Registry::find_in_memory(const Tenant& tenant, std::string_view id) const {
  const auto* const found = by_id_.find({tenant.number, id});
  return found == nullptr ? nullptr : found->get();
}

Registry::Found Registry::find(const Tenant& tenant, std::string_view id) {
  if (BatchRecord* const found = find_in_memory(tenant, id)) return found;
  for (const std::uint64_t sequence : retained_.with_hash(retained_.hash_of(tenant.number, id))) {
    auto record = load_or_find(sequence);
    if (!record) return std::unexpected(std::move(record.error()));
    if ((*record)->id() == id && (*record)->options().tenant == tenant.name) return record->get();
  }
  return nullptr;
}

Registry::Known Registry::find_known(const Tenant& tenant, std::string_view id) const {
  if (BatchRecord* const found = find_in_memory(tenant, id)) return {.record = found};
  for (const std::uint64_t sequence : retained_.with_hash(retained_.hash_of(tenant.number, id))) {
    BatchRecord* const record = loaded_.find(sequence);
    if (record == nullptr) return {.to_load = sequence};
    if (record->id() == id && record->options().tenant == tenant.name) return {.record = record};
  }
  return {};
}

Registry::Found Registry::find(std::uint64_t sequence) {
  if (BatchRecord* const found = by_sequence_.find(sequence)) return found;
  if (retained_.find(sequence) == nullptr) return nullptr;
  auto record = load_or_find(sequence);
  if (!record) return std::unexpected(std::move(record.error()));
  return record->get();
}

bool Registry::may_be_taken(const Tenant& tenant, std::string_view id) const {
  return by_id_.find({tenant.number, id}) != nullptr ||
         !retained_.with_hash(retained_.hash_of(tenant.number, id)).empty();
}

Registry::Loaded Registry::load_or_find(std::uint64_t sequence) {
  if (auto known = loaded_.use(sequence)) return known;
  Loaded record = load_(sequence);
  if (record) loaded_.add(*record);
  return record;
}

BatchRecord* Registry::by_sequence(std::uint64_t sequence) const {
  if (BatchRecord* const found = by_sequence_.find(sequence)) return found;
  return runs_.find(sequence);
}

void Registry::add(std::shared_ptr<BatchRecord> record) {
  BatchRecord& added = *record;
  const bool is_new = by_id_.emplace(key_of(added), std::move(record));
  check(is_new, "two batches have one id");
  by_sequence_.add(added.sequence, added);
  active_.add(added.sequence, added);
  charges_.begin(added);
  stats_.active_batches.set(active_.size());
}

void Registry::add_run(const std::shared_ptr<BatchRecord>& record) {
  runs_.add(record);
  charges_.begin(*record);
}

bool Registry::forget(BatchRecord& record) {
  const auto* const found = by_id_.find(key_of(record));
  if (found == nullptr || found->get() != &record || record.is_active) return false;
  const std::shared_ptr<BatchRecord> held = *found;
  unschedule(record);
  if (record.due.forget != kNever) schedule(record, Due::kForget, kNever);
  charges_.set_jobs_and_memory(record, 0, 0);
  charges_.count_record(record, 0);
  by_sequence_.erase(record.sequence);
  by_id_.erase(key_of(record));
  count_retained();
  return true;
}

void Registry::retire(BatchRecord& record) {
  tenant_of(record).account.charge(Resource::kRecordBytes, kRetainedBytes);
  retained_.add({.sequence = record.sequence,
                 .id_hash = retained_.hash_of(tenant_of(record).number, record.id()),
                 .forget_at = record.due.forget,
                 .stored_bytes = record.stored.bytes,
                 .tenant = tenant_of(record).number,
                 .rows = rows_of(record.status(), record.stored.parts, record.stored.has_changes)});
  forget(record);
}

void Registry::restore(const RetainedBatch& batch) {
  tenants_.all()[batch.tenant].account.charge(Resource::kRecordBytes, kRetainedBytes);
  retained_.restore(batch);
}

void Registry::restored() {
  retained_.restored();
  count_retained();
}

std::optional<RetainedBatch> Registry::forget_retained(std::uint64_t sequence) {
  loaded_.remove(sequence);
  const auto forgotten = retained_.remove(sequence);
  if (forgotten) tenants_.all()[forgotten->tenant].account.refund(Resource::kRecordBytes, kRetainedBytes);
  count_retained();
  return forgotten;
}

bool Registry::update(BatchRecord& record, const BatchStatus& status, Instant now) {
  if (!record.is_active) return false;
  if (status.state != BatchState::kDone && status.state != BatchState::kCancelled) {
    // Payloads that are read back from the store count while they are in memory.
    charges_.set_jobs_and_memory(record, status.queued + status.running, record.payloads().memory_bytes());
    return false;
  }
  charges_.end(record);
  record.is_active = false;
  if (record.origin == BatchRecord::Origin::kRun) {
    charges_.count_record(record, 0);
    runs_.remove(record);  // the caller holds it
  }
  if (record.sequence == 0) return true;
  unschedule(record);
  if (record.origin == BatchRecord::Origin::kRun) return true;
  active_.erase(record.sequence);
  schedule(record, Due::kForget, now + record.terms.retain);
  stats_.active_batches.set(active_.size());
  count_retained();
  return true;
}

std::expected<std::uint64_t, std::string> Registry::list(const Listing& listing,
                                                         const std::function<bool(BatchRecord&)>& visit) {
  constexpr std::size_t kBetweenAsks = 256;  // some 100 us
  // Guess. A load may wait for a disk or a server; meanwhile the I/O thread serves no client.
  constexpr auto kLongestLoads = std::chrono::milliseconds(5);
  const Instant began = now();
  const auto& [cursor, active_only, tenant, max_looks, is_late] = listing;
  std::size_t most = max_looks;
  std::size_t passed_over = 0;
  const auto& batches = active_only ? active_ : by_sequence_;
  const std::uint64_t begin = cursor == 0 ? numbers_.next() : cursor;
  BatchRecord* in_memory = batches.before(begin);
  const auto retained_before = [&](std::uint64_t sequence) LOCKSLEY_REQUIRES(kIoThread) {
    return active_only ? nullptr : retained_.before(sequence);
  };
  const RetainedBatch* retained = retained_before(begin);
  std::uint64_t last = cursor;
  // Merges the two orders: the batch with the greater sequence number comes next.
  while (in_memory != nullptr || retained != nullptr) {
    const bool is_retained =
        retained != nullptr && (in_memory == nullptr || in_memory->sequence < retained->sequence);
    const bool is_wanted = tenant == nullptr || (is_retained ? retained->tenant == tenant->number
                                                             : &tenant_of(*in_memory) == tenant);
    const std::size_t cost = is_retained && is_wanted ? kLoadCost : 1;
    if (most < cost) return last;
    most -= cost;
    if (!is_wanted && ++passed_over % kBetweenAsks == 0 && is_late && is_late()) return last;
    if (is_retained && !is_wanted) {
      last = retained->sequence;
      retained = retained_before(last);
    } else if (is_retained) {
      const std::uint64_t sequence = retained->sequence;
      // Not kept in loaded_: a list would evict the batches that clients ask for.
      BatchRecord* const known = loaded_.find(sequence);
      const Loaded record = known != nullptr ? Loaded(known->shared()) : load_(sequence);
      if (!record) return std::unexpected(record.error());
      if (!visit(**record)) return last;
      last = sequence;
      if (now() - began > kLongestLoads) return last;
      retained = retained_before(last);
    } else {
      if (is_wanted && !visit(*in_memory)) return last;
      last = in_memory->sequence;
      in_memory = batches.before(last);
    }
  }
  return 0;
}

std::optional<RetainedBatch> Registry::go_on(const std::shared_ptr<BatchRecord>& record,
                                             const BatchStatus& status) {
  const auto retired = forget_retained(record->sequence);
  if (retired) {
    by_id_.emplace(key_of(*record), record);
    by_sequence_.add(record->sequence, *record);
    charges_.count_record(*record, BatchCharges::record_bytes(record->options(), 0));
  }
  record->is_active = true;
  charges_.begin(*record);
  active_.add(record->sequence, *record);
  schedule(*record, Due::kForget, kNever);
  charges_.add_jobs_set_memory(*record, 0, record->payloads().memory_bytes());
  charges_.set_jobs_and_memory(*record, status.queued + status.running, record->charged.memory_bytes);
  charges_.count_payloads(*record, std::max(record->stored.payload_bytes, record->charged.memory_bytes));
  stats_.active_batches.set(active_.size());
  count_retained();
  return retired;
}

Registry::Searched Registry::find_active(ActiveSearch& search, std::size_t most,
                                         const std::function<bool(const BatchRecord&)>& is_wanted) const {
  for (;;) {
    const BatchRecord* next = active_.from(search.at);
    if (next == nullptr && !std::exchange(search.has_wrapped, true)) next = active_.from(search.at = 0);
    if (next == nullptr || (search.has_wrapped && next->sequence >= search.begin)) return Searched::kNone;
    if (most-- == 0) return Searched::kNotYet;
    search.at = next->sequence;
    if (is_wanted(*next)) return Searched::kOne;
    ++search.at;
  }
}

bool Registry::visit_active(ActivePlace& at, std::size_t most,
                            const std::function<void(BatchRecord&)>& visit) {
  if (!at.runs_left) {
    BatchRecord* next = active_.from(at.sequence);
    for (; most != 0 && next != nullptr; --most) {
      at.sequence = next->sequence + 1;
      visit(*next);
      next = active_.from(at.sequence);
    }
    if (next != nullptr) return false;
    at.runs_left = runs_.size();
  }
  return runs_.visit(*at.runs_left, most, [&visit](BatchRecord& record) {
    if (record.sequence != 0) visit(record);
  });
}

Instant& Registry::instant_of(BatchRecord& record, Due kind) {
  switch (kind) {
    case Due::kDeadline:
      return record.due.deadline;
    case Due::kClose:
      return record.due.close;
    case Due::kForget:
      return record.due.forget;
    case Due::kStart:
      return record.due.start;
    case Due::kRetry:
      return record.due.retry;
    case Due::kProgress:
      break;
  }
  return record.due.progress;
}

void Registry::unschedule(BatchRecord& record) {
  for (const Due kind : {Due::kDeadline, Due::kClose, Due::kStart, Due::kRetry, Due::kProgress}) {
    if (instant_of(record, kind) != kNever) schedule(record, kind, kNever);
  }
}

void Registry::schedule(BatchRecord& record, Due kind, Instant at) {
  Instant& scheduled = instant_of(record, kind);
  const std::uint32_t tenant = tenant_of(record).number;
  if (scheduled != kNever) due_.remove({scheduled, record.sequence, kind, tenant});
  scheduled = at;
  if (at != kNever) due_.add({at, record.sequence, kind, tenant});
}

}  // namespace locksley::daemon
