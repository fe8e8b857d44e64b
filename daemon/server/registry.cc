#include "daemon/server/registry.h"

#include <algorithm>
#include <random>
#include <utility>

#include "core/check.h"

namespace locksley::daemon {

namespace {
std::uint64_t random_seed() {
  std::random_device random;
  return std::uint64_t{random()} << 32 | random();
}
}  // namespace

Registry::Registry(ServerStats& stats) : stats_(stats), retained_(random_seed()) {}

Tenant& Registry::tenant_of(BatchRecord& record) {
  if (record.tenant == nullptr) record.tenant = &tenants_.of(record.options().tenant);
  return *record.tenant;
}

Registry::Found Registry::find(const Tenant& tenant, std::string_view id) {
  if (const auto found = by_id_.find({tenant.number, id}); found != by_id_.end()) return found->second.get();
  for (const std::uint64_t sequence : retained_.with_hash(retained_.hash_of(tenant.number, id))) {
    auto record = loaded(sequence);
    if (!record) return std::unexpected(std::move(record.error()));
    if ((*record)->id() == id && (*record)->options().tenant == tenant.name) return record->get();
  }
  return nullptr;
}

Registry::Found Registry::find(std::uint64_t sequence) {
  if (const auto found = by_sequence_.find(sequence); found != by_sequence_.end()) return found->second;
  if (retained_.find(sequence) == nullptr) return nullptr;
  auto record = loaded(sequence);
  if (!record) return std::unexpected(std::move(record.error()));
  return record->get();
}

bool Registry::may_be_taken(const Tenant& tenant, std::string_view id) const {
  return by_id_.contains({tenant.number, id}) ||
         !retained_.with_hash(retained_.hash_of(tenant.number, id)).empty();
}

Registry::Loaded Registry::loaded(std::uint64_t sequence) {
  const auto known = std::ranges::find(loaded_, sequence, &BatchRecord::sequence);
  if (known != loaded_.end()) {
    std::rotate(known, known + 1, loaded_.end());
    return loaded_.back();
  }
  Loaded record = load_(sequence);
  if (!record) return record;
  if (loaded_.size() == kMostLoaded) loaded_.erase(loaded_.begin());
  loaded_.push_back(*record);
  return record;
}

BatchRecord* Registry::by_sequence(std::uint64_t sequence) const {
  if (const auto found = by_sequence_.find(sequence); found != by_sequence_.end()) return found->second;
  const auto run = runs_.find(sequence);
  return run == runs_.end() ? nullptr : run->second.get();
}

void Registry::add(std::shared_ptr<BatchRecord> record) {
  BatchRecord& added = *record;
  const bool is_new = by_id_.emplace(key_of(added), std::move(record)).second;
  check(is_new, "two batches have one id");
  by_sequence_.emplace_hint(by_sequence_.end(), added.sequence, &added);
  active_.emplace_hint(active_.end(), added.sequence, &added);
  stats_.active_batches.set(active_.size());
}

void Registry::add_run(std::shared_ptr<BatchRecord> record) {
  const std::uint64_t sequence = record->sequence;
  runs_.emplace(sequence, std::move(record));
}

bool Registry::forget(BatchRecord& record) {
  const auto found = by_id_.find(key_of(record));
  if (found == by_id_.end() || found->second.get() != &record || record.is_active) return false;
  const std::shared_ptr<BatchRecord> held = found->second;
  for (const Due kind : {Due::kDeadline, Due::kClose, Due::kForget, Due::kStart, Due::kRetry, Due::kProgress})
    schedule(record, kind, kNever);
  set_counts(record, 0, 0);
  by_sequence_.erase(record.sequence);
  by_id_.erase(found);
  count_retained();
  return true;
}

void Registry::retire(BatchRecord& record) {
  retained_.add({.sequence = record.sequence,
                 .id_hash = retained_.hash_of(tenant_of(record).number, record.id()),
                 .forget_at = record.forget_at,
                 .stored_bytes = record.stored_bytes,
                 .tenant = tenant_of(record).number,
                 .parts = record.stored_parts,
                 .has_one_step = record.status().steps == 1});
  forget(record);
}

void Registry::retain(const RetainedBatch& batch) {
  retained_.add(batch);
  count_retained();
}

std::optional<RetainedBatch> Registry::forget_retained(std::uint64_t sequence) {
  std::erase_if(loaded_, [sequence](const auto& record) { return record->sequence == sequence; });
  const auto forgotten = retained_.remove(sequence);
  count_retained();
  return forgotten;
}

void Registry::count_retained() {
  stats_.retained_batches.set(by_id_.size() - active_.size() + retained_.size());
}

void Registry::count(BatchRecord& record, std::uint64_t jobs, std::uint64_t bytes) {
  if (record.is_active && !std::exchange(record.is_counted, true)) ++tenant_of(record).active_batches;
  set_counts(record, record.counted_jobs + jobs, bytes);
}

void Registry::count_payloads(BatchRecord& record, std::uint64_t bytes) {
  tenant_of(record).queued_bytes += bytes - std::exchange(record.quota_bytes, bytes);
}

void Registry::set_counts(BatchRecord& record, std::uint64_t jobs, std::uint64_t bytes) {
  tenant_of(record).queued_jobs += jobs - record.counted_jobs;
  queued_jobs_ += jobs - std::exchange(record.counted_jobs, jobs);
  queued_bytes_ += bytes - std::exchange(record.counted_bytes, bytes);
  stats_.queued_jobs.set(queued_jobs_);
  stats_.queued_bytes.set(queued_bytes_);
}

bool Registry::update(BatchRecord& record, const BatchStatus& status, Instant now) {
  if (!record.is_active) return false;
  if (status.state != BatchState::done && status.state != BatchState::cancelled) {
    set_counts(record, status.queued + status.running, record.counted_bytes);
    return false;
  }
  set_counts(record, 0, 0);
  count_payloads(record, 0);
  if (std::exchange(record.is_counted, false)) --tenant_of(record).active_batches;
  record.is_active = false;
  if (record.sequence == 0) return true;
  for (const Due kind : {Due::kDeadline, Due::kClose, Due::kStart, Due::kRetry, Due::kProgress})
    schedule(record, kind, kNever);
  if (record.origin == BatchRecord::Origin::kRun) {
    // The caller holds it.
    runs_.erase(record.sequence);
    return true;
  }
  active_.erase(record.sequence);
  schedule(record, Due::kForget, now + record.retain);
  stats_.active_batches.set(active_.size());
  count_retained();
  return true;
}

std::expected<std::uint64_t, std::string> Registry::list(const Listing& listing,
                                                         const std::function<bool(BatchRecord&)>& visit) {
  const auto [cursor, active_only, tenant, max_looks] = listing;
  std::size_t most = max_looks;
  const auto& batches = active_only ? active_ : by_sequence_;
  const std::uint64_t begin = cursor == 0 ? next_sequence_ : cursor;
  auto in_memory = batches.lower_bound(begin);
  const auto retained_before = [&](std::uint64_t sequence) {
    return active_only ? nullptr : retained_.before(sequence);
  };
  const RetainedBatch* retained = retained_before(begin);
  std::uint64_t last = cursor;
  // Of the two orders, the later one each time.
  while (in_memory != batches.begin() || retained != nullptr) {
    const bool is_retained = retained != nullptr && (in_memory == batches.begin() ||
                                                     std::prev(in_memory)->first < retained->sequence);
    const bool is_wanted =
        tenant == nullptr || (is_retained ? retained->tenant == tenant->number
                                          : &tenant_of(*std::prev(in_memory)->second) == tenant);
    const std::size_t cost = is_retained && is_wanted ? kLoadCost : 1;
    if (most < cost) return last;
    most -= cost;
    if (is_retained && !is_wanted) {
      last = retained->sequence;
      retained = retained_before(last);
    } else if (is_retained) {
      const std::uint64_t sequence = retained->sequence;
      // Not to be kept: a list would drive out what is asked for.
      const auto known = std::ranges::find(loaded_, sequence, &BatchRecord::sequence);
      const Loaded record = known != loaded_.end() ? Loaded(*known) : load_(sequence);
      if (!record) return std::unexpected(record.error());
      if (!visit(**record)) return last;
      last = sequence;
      retained = retained_before(last);
    } else {
      const auto next = std::prev(in_memory);
      if (is_wanted && !visit(*next->second)) return last;
      in_memory = next;
      last = next->first;
    }
  }
  return 0;
}

std::optional<RetainedBatch> Registry::go_on(const std::shared_ptr<BatchRecord>& record,
                                             const BatchStatus& status) {
  const auto retired = forget_retained(record->sequence);
  if (retired) {
    by_id_.emplace(key_of(*record), record);
    by_sequence_.emplace(record->sequence, record.get());
  }
  record->is_active = true;
  active_.emplace(record->sequence, record.get());
  schedule(*record, Due::kForget, kNever);
  count(*record, 0, record->payloads().memory_bytes());
  set_counts(*record, status.queued + status.running, record->counted_bytes);
  count_payloads(*record, std::max(record->stored_payload_bytes, record->counted_bytes));
  stats_.active_batches.set(active_.size());
  count_retained();
  return retired;
}

bool Registry::all_active(const std::function<bool(const BatchRecord&)>& is_true) const {
  return std::ranges::all_of(active_, [&](const auto& entry) { return is_true(*entry.second); });
}

void Registry::change_active(const std::function<void(BatchRecord&)>& change) {
  for (const auto& [sequence, record] : active_) change(*record);
  for (const auto& [sequence, record] : runs_) change(*record);
}

void Registry::visit_active(const std::function<void(const BatchRecord&)>& visit) const {
  for (const auto& [sequence, record] : active_) visit(*record);
}

Instant& Registry::instant_of(BatchRecord& record, Due kind) {
  switch (kind) {
    case Due::kDeadline:
      return record.deadline_at;
    case Due::kClose:
      return record.close_at;
    case Due::kForget:
      return record.forget_at;
    case Due::kStart:
      return record.start_at;
    case Due::kRetry:
      return record.retry_at;
    case Due::kProgress:
      break;
  }
  return record.progress_at;
}

void Registry::schedule(BatchRecord& record, Due kind, Instant at) {
  Instant& scheduled = instant_of(record, kind);
  if (scheduled != kNever) due_.remove({scheduled, record.sequence, kind});
  scheduled = at;
  if (at != kNever) due_.add({at, record.sequence, kind});
}

}  // namespace locksley::daemon
