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
// Calls change(account, resource, amount) for each part of the charge. Jobs, batches and payloads
// that have not ended are the customer's. The rest is the user's, since a batch that is over keeps
// no customer in memory.
template <class Change>
void for_each_part(Customer& customer, const Registry::Charge& charge, Change change) {
  Account& of_customer = *customer.account;
  change(of_customer, Resource::kQueuedJobs, charge.jobs);
  change(of_customer, Resource::kBatches, charge.batches);
  change(of_customer, Resource::kPayloadBytes, charge.payload_bytes);
  Account& of_user = customer.tenant->account;
  change(of_user, Resource::kQueuedBytes, charge.memory_bytes);
  change(of_user, Resource::kRecordBytes, charge.record_bytes);
}
}  // namespace

Registry::Registry(ServerStats& stats) : stats_(stats), customers_(tenants_), retained_(random_seed()) {}

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
  const auto run = runs_.find(sequence);
  return run == runs_.end() ? nullptr : run->second.get();
}

void Registry::add(std::shared_ptr<BatchRecord> record) {
  BatchRecord& added = *record;
  const bool is_new = by_id_.emplace(key_of(added), std::move(record));
  check(is_new, "two batches have one id");
  by_sequence_.add(added.sequence, added);
  active_.add(added.sequence, added);
  use_customer(added);
  stats_.active_batches.set(active_.size());
}

void Registry::add_run(const std::shared_ptr<BatchRecord>& record) {
  record->place_among_runs = active_run_records_.size();
  active_run_records_.push_back(record.get());
  use_customer(*record);
  if (record->sequence != 0) runs_.emplace(record->sequence, record);
}

bool Registry::visit_active_runs(std::size_t& left, std::size_t most,
                                 const std::function<void(BatchRecord&)>& visit) {
  // From the last to the first: when a RUN ends, the last one, visited already, takes its place.
  for (; most != 0; --most) {
    left = std::min(left, active_run_records_.size());
    if (left == 0) break;
    visit(*active_run_records_[--left]);
  }
  return left == 0;
}

bool Registry::forget(BatchRecord& record) {
  const auto* const found = by_id_.find(key_of(record));
  if (found == nullptr || found->get() != &record || record.is_active) return false;
  const std::shared_ptr<BatchRecord> held = *found;
  unschedule(record);
  if (record.due.forget != kNever) schedule(record, Due::kForget, kNever);
  set_counts(record, 0, 0);
  count_record(record, 0);
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

std::uint64_t Registry::record_bytes_with(std::size_t text_bytes, std::size_t waits) {
  // The record; its nodes in the registry's maps and in the ring; the small parts of its payloads
  // and journal.
  constexpr std::uint64_t kOthers = 768;  // measured: 2,000 to 2,300 bytes in all for a batch of one job
  // A wait in the record, one in Dependencies, and its part in the store's row.
  constexpr std::uint64_t kWaitBytes = 256;
  return sizeof(BatchRecord) + kOthers + text_bytes + waits * kWaitBytes;
}

void Registry::charge(Customer& customer, const Charge& charge) {
  for_each_part(customer, charge, [](Account& account, Resource resource, std::uint64_t amount) {
    account.charge(resource, amount);
  });
}

void Registry::refund(Customer& customer, const Charge& charge) {
  for_each_part(customer, charge, [](Account& account, Resource resource, std::uint64_t amount) {
    account.refund(resource, amount);
  });
}

Account& Registry::account_of(BatchRecord& record) {
  Customer* const customer = record.charged.customer;
  return customer == nullptr ? tenant_of(record).account : *customer->account;
}

void Registry::use_customer(BatchRecord& record) {
  record.charged.customer = &customers_.use(tenant_of(record), record.options().customer);
}

void Registry::publish_counts() {
  stats_.queued_jobs.set(account_of_all().used(Resource::kQueuedJobs));
  stats_.queued_bytes.set(account_of_all().used(Resource::kQueuedBytes));
}

void Registry::assign(BatchRecord& record, const Charge& charge) {
  BatchRecord::Charged& charged = record.charged;
  Account& account = tenant_of(record).account;
  charged.is_counted = true;
  charged.jobs += charge.jobs;
  charged.payload_bytes += charge.payload_bytes;
  charged.record_bytes += charge.record_bytes;
  const std::uint64_t memory = record.payloads().memory_bytes();
  account.charge(Resource::kQueuedBytes, memory);
  account.refund(Resource::kQueuedBytes, std::exchange(charged.memory_bytes, memory) + charge.memory_bytes);
  publish_counts();
}

void Registry::count(BatchRecord& record, std::uint64_t jobs, std::uint64_t bytes) {
  if (record.is_active && !std::exchange(record.charged.is_counted, true)) {
    account_of(record).charge(Resource::kBatches, 1);
  }
  set_counts(record, record.charged.jobs + jobs, bytes);
}

void Registry::count_payloads(BatchRecord& record, std::uint64_t bytes) {
  Account& account = account_of(record);
  account.charge(Resource::kPayloadBytes, bytes);
  account.refund(Resource::kPayloadBytes, std::exchange(record.charged.payload_bytes, bytes));
}

void Registry::count_record(BatchRecord& record, std::uint64_t bytes) {
  Account& account = tenant_of(record).account;
  account.charge(Resource::kRecordBytes, bytes);
  account.refund(Resource::kRecordBytes, std::exchange(record.charged.record_bytes, bytes));
}

void Registry::set_counts(BatchRecord& record, std::uint64_t jobs, std::uint64_t bytes) {
  Account& jobs_account = account_of(record);
  jobs_account.charge(Resource::kQueuedJobs, jobs);
  jobs_account.refund(Resource::kQueuedJobs, std::exchange(record.charged.jobs, jobs));
  Account& account = tenant_of(record).account;
  account.charge(Resource::kQueuedBytes, bytes);
  account.refund(Resource::kQueuedBytes, std::exchange(record.charged.memory_bytes, bytes));
  publish_counts();
}

bool Registry::update(BatchRecord& record, const BatchStatus& status, Instant now) {
  if (!record.is_active) return false;
  if (status.state != BatchState::kDone && status.state != BatchState::kCancelled) {
    // Payloads that are read back from the store count while they are in memory.
    set_counts(record, status.queued + status.running, record.payloads().memory_bytes());
    return false;
  }
  set_counts(record, 0, 0);
  count_payloads(record, 0);
  if (std::exchange(record.charged.is_counted, false)) {
    account_of(record).refund(Resource::kBatches, 1);
  }
  if (Customer* const customer = std::exchange(record.charged.customer, nullptr); customer != nullptr)
    customers_.drop(*customer);
  record.is_active = false;
  if (record.origin == BatchRecord::Origin::kRun) {
    count_record(record, 0);
    BatchRecord* const last = active_run_records_.back();
    active_run_records_[last->place_among_runs = record.place_among_runs] = last;
    active_run_records_.pop_back();
  }
  if (record.sequence == 0) return true;
  unschedule(record);
  if (record.origin == BatchRecord::Origin::kRun) {
    // The caller holds it.
    runs_.erase(record.sequence);
    return true;
  }
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
  const std::uint64_t begin = cursor == 0 ? next_sequence_ : cursor;
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
    count_record(*record, record_bytes(record->options(), 0));
  }
  record->is_active = true;
  use_customer(*record);
  active_.add(record->sequence, *record);
  schedule(*record, Due::kForget, kNever);
  count(*record, 0, record->payloads().memory_bytes());
  set_counts(*record, status.queued + status.running, record->charged.memory_bytes);
  count_payloads(*record, std::max(record->stored.payload_bytes, record->charged.memory_bytes));
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
    at.runs_left = active_run_records_.size();
  }
  return visit_active_runs(*at.runs_left, most, [&visit](BatchRecord& record) {
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
