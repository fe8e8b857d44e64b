#include "daemon/server/batches/stored/stored_batches.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>
#include <utility>

#include "core/batch/batch_attempts.h"
#include "core/batch/handler.h"
#include "daemon/server/batches/events/events.h"
#include "daemon/server/batches/stored/write_charges.h"
#include "daemon/server/payloads/fixed_payloads.h"
#include "daemon/server/records/refusals.h"
#include "daemon/store/rows/stored_rows.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

namespace {

constexpr std::string_view kEarlierRefusal = "an earlier write was refused";

}  // namespace

// Wakes the executors of a lane once for several batches that enter it, one after the other. On the
// stack of the I/O thread.
class StoredBatches::LaneWakes {
 public:
  LaneWakes() = default;
  ~LaneWakes() { wake(); }
  LaneWakes(const LaneWakes&) = delete;
  LaneWakes& operator=(const LaneWakes&) = delete;

  // The lane has work from now on.
  void add(Lane& lane) {
    if (lane_ != &lane) wake();
    lane_ = &lane;
    if (++batches_ == kMost) wake();
  }

 private:
  // Enqueuing this many takes some 30 us. With 16, workers ran out of jobs and parked twice as
  // often (100 clients).
  static constexpr int kMost = 64;

  void wake() {
    if (batches_ != 0) lane_->wake();
    batches_ = 0;
  }

  Lane* lane_ = nullptr;
  int batches_ = 0;
};

StoredBatches::StoredBatches(Parts parts) : parts_(std::move(parts)) {}
StoredBatches::~StoredBatches() = default;

std::string StoredBatches::error() const {
  const std::string error = parts_.store->error();
  if (!error.empty()) return cannot_store(error);
  return refusals_.are_any(settled_) ? cannot_store(kEarlierRefusal) : std::string();
}

std::string StoredBatches::error_of(const BatchRecord& record) const {
  return settled_ < record.stored.refused_until ? cannot_store(kEarlierRefusal) : std::string();
}

void StoredBatches::accept(const std::shared_ptr<BatchRecord>& record, Account& payer,
                           const proto::BatchOptions& options, AcceptedJobs accepted) {
  StoreWrite write(std::in_place_type<AcceptBatch>);
  auto& accept = std::get<AcceptBatch>(write);
  accept.sequence = record->sequence;
  accept.payloads = std::move(accepted.payloads);
  accept.settled = settled_;
  AcceptedRow& row = accept.row;
  row.handler = record->handler().name();
  row.options = record->options();
  row.id_is_chosen = record->terms.id_is_chosen;
  row.is_streamed = accepted.open;
  row.submitted_at = record->submitted_at();
  if (options.deadline) row.deadline_at = row.submitted_at + options.deadline->count();
  if (options.delay) row.start_at = row.submitted_at + options.delay->count();
  for (const Wait& wait : record->waits.all) row.after.push_back({wait.sequence, wait.id, wait.only_if_ok});
  row.retain_ms = record->terms.retain.count();
  row.jobs = accepted.jobs;
  if (accepted.range != nullptr) {
    row.range = {.low = accepted.range->low, .payload = accepted.range->pattern.text};
    if (lies_apart(*row.range)) row.payload_bytes = row.range->payload->size();
  }
  if (accept.payloads != nullptr) row.payload_bytes = accept.payloads->payload_bytes();
  if (accepted.digest) row.digest = {accepted.digest->low, accepted.digest->high};
  record->stored.text_bytes = text_bytes(row);
  record->stored.payload_bytes = row.payload_bytes;
  parts_.retention.update(*record, 0);
  record->terms.is_closed = !accepted.open;
  record->stored.ticket = put(std::move(write), payer);
  record->stored.jobs_ticket = record->stored.ticket;
  record->jobs_added(accepted.jobs);
  if (!accepted.open) record->Batch::close();
  wait_for_disk({.ticket = record->stored.ticket,
                 .kind = Unsettled::Kind::kAccept,
                 .record = record,
                 .jobs = {0, accepted.jobs},
                 .open = accepted.open,
                 .bytes = accepted.unsettled_bytes});
}

void StoredBatches::add(BatchRecord& record, Account& payer, IndexRange jobs, SharedPayloads payloads,
                        std::uint64_t unsettled_bytes) {
  const std::uint64_t payload_bytes = payloads->payload_bytes();
  record.stored.payload_bytes += payload_bytes;
  parts_.retention.update(record, record.status().result_bytes);
  record.stored.has_changes = true;
  record.stored.ticket =
      put(AddJobs{record.sequence, jobs.low, std::move(payloads), changes_of(record), settled_}, payer);
  record.stored.jobs_ticket = record.stored.ticket;
  wait_for_disk({.ticket = record.stored.ticket,
                 .kind = Unsettled::Kind::kAdd,
                 .record = record.shared(),
                 .jobs = jobs,
                 .bytes = unsettled_bytes,
                 .payload_bytes = payload_bytes});
}

Ticket StoredBatches::put(StoreWrite&& write, Account& payer) {
  const std::size_t cost = cost_of(write);
  const Ticket ticket = parts_.store->put(std::move(write), Urgency::kAwaited);
  parts_.charges.charge(payer, ticket, cost);
  return ticket;
}

Account& StoredBatches::owner_of(BatchRecord& record) const {
  return parts_.registry.tenant_of(record).account;
}

void StoredBatches::wait_for_disk(Unsettled item) {
  owner_of(*item.record).charge(Resource::kUnsettledBytes, item.bytes);
  // Large writes have tickets of later groups.
  const auto behind = std::ranges::upper_bound(unsettled_, item.ticket, {}, &Unsettled::ticket);
  unsettled_.insert(behind, std::move(item));
}

void StoredBatches::close(BatchRecord& record, Account& payer) {
  write_changes(record, payer);
  record.Batch::close();
  wait_for_disk({.ticket = record.stored.ticket, .kind = Unsettled::Kind::kClose, .record = record.shared()});
}

ChangesRow StoredBatches::changes_of(const BatchRecord& record) const {
  const BatchStatus status = record.status();
  ChangesRow row{.jobs = record.terms.jobs,
                 .payload_bytes = record.stored.payload_bytes,
                 .is_closed = record.terms.is_closed,
                 .is_paused = status.paused,
                 .is_cancelled = record.is_stopping(),
                 .stop_reason = record.terms.stop_reason,
                 .weight = status.weight,
                 .attempt = record.attempts().first(),
                 .has_no_deadline = record.terms.has_no_deadline,
                 .is_released = record.waits.were_any && record.waits.unsatisfied == 0,
                 .satisfied = {},
                 .discarded_rows = status.discarded,
                 .discarded_bytes = status.discarded_bytes,
                 .slots = std::nullopt};
  if (status.slots != record.options().slots) row.slots = status.slots;
  if (record.waits.unsatisfied != 0) {
    for (std::size_t i = 0; i < record.waits.all.size(); ++i) {
      if (record.waits.all[i].is_satisfied) row.set_satisfied(i);
    }
  }
  return row;
}

void StoredBatches::write_changes(BatchRecord& record, Account& payer, std::uint64_t ranges) {
  if (!record.is_stored()) return;
  record.stored.has_changes = true;
  ChangeBatch change{record.sequence, changes_of(record)};
  // Of the changes of a batch in one group only the last is written.
  if (record.stored.ticket == parts_.store->gathering()) {
    record.stored.ticket = parts_.store->put(std::move(change), Urgency::kAwaited);
  } else {
    record.stored.ticket = put(std::move(change), payer);
  }
  if (ranges != 0) parts_.charges.charge(payer, record.stored.ticket, ranges * kCostOfRange);
}

Ticket StoredBatches::ticket_of_changes(BatchRecord& record, Account& payer) {
  const Ticket last = record.stored.ticket;
  if (is_settled(last) && !record.stored.is_rejected && parts_.store != nullptr &&
      !parts_.store->is_written(last)) {
    write_changes(record, payer);
  }
  return record.stored.ticket;
}

void StoredBatches::discard(BatchRecord& record, IndexRange freed) {
  record.stored.has_changes = true;
  const BatchStatus status = record.status();
  // For a loaded batch, which has no steps, this is not known, so it may.
  const bool may_be_inside = status.finished_at != 0 && (status.steps == 0 || has_results_inside(status));
  const Ticket ticket = parts_.store->put(ChangeBatch{.sequence = record.sequence,
                                                      .changes = changes_of(record),
                                                      .freed_rows = freed,
                                                      .may_have_marks = may_have_marks(status),
                                                      .may_have_results_inside = may_be_inside},
                                          Urgency::kWithNext);
  // A batch in memory is not retired before the store has this write. For a retired batch, load()
  // applies the discard to what it reads.
  if (record.is_active) return;
  record.stored.end_ticket = ticket;
  if (parts_.registry.by_sequence(record.sequence) == &record) return;
  parts_.discards.add(record.sequence, ticket, {.rows = status.discarded, .bytes = status.discarded_bytes});
  parts_.registry.loaded().outdate(record.sequence);
}

Ticket StoredBatches::ticket_of_rows(BatchRecord& record, std::uint64_t rows) {
  BatchRecord::Stored& stored = record.stored;
  if (!record.is_stored() || (!record.is_active && is_settled(stored.end_ticket))) return 0;
  if (rows <= stored.rows && is_settled(stored.rows_ticket)) return 0;
  if (!parts_.store->error().empty()) return 0;
  if (rows > stored.rows) {
    // First the rows, then the marker: a step is put into the store before its rows are counted, so
    // the marker comes after all of them.
    stored.rows = record.status().rows;
    stored.rows_ticket = parts_.store->put_marker();
  }
  return stored.rows_ticket;
}

void StoredBatches::write_restored(BatchRecord& record, Payloads payloads) {
  record.stored.has_changes = true;
  record.stored.ticket = put(ChangeBatch{.sequence = record.sequence,
                                         .changes = changes_of(record),
                                         .trims_payloads = payloads == Payloads::kTrim},
                             owner_of(record));
}

void StoredBatches::payloads_arrived(std::uint64_t sequence) {
  BatchRecord* const record = parts_.registry.by_sequence(sequence);
  if (record == nullptr || !record->is_active) return;
  parts_.registry.charges().add_jobs_set_memory(*record, 0, record->payloads().memory_bytes());
  record->lane->payloads_arrived(*record);
}

void StoredBatches::expect(const Outcome& outcome) {
  if (!outcome.error.empty()) refusals_.begin();
}

bool StoredBatches::settle_some(const Outcome& outcome, Instant until) {
  constexpr int kBetweenLooks = 16;  // at the clock; some 10 us; guess
  const bool is_stored = outcome.error.empty();
  LaneWakes wakes;
  bool had_listener = false;  // of the item before: its events take longer than all else
  for (int n = 0; !unsettled_.empty() && unsettled_.front().ticket <= outcome.up_to; ++n) {
    if (n != 0 && (n % kBetweenLooks == 0 || had_listener) && now() >= until) return false;
    const Unsettled item = std::move(unsettled_.front());
    had_listener = parts_.events.has_listener(*item.record);
    unsettled_.pop_front();
    owner_of(*item.record).refund(Resource::kUnsettledBytes, item.bytes);
    switch (item.kind) {
      case Unsettled::Kind::kAccept:
        is_stored ? enter_accepted(item, wakes) : undo_accept(item);
        break;
      case Unsettled::Kind::kAdd:
        is_stored ? item.record->lane->enqueue_jobs(*item.record, item.jobs) : undo_add(item);
        break;
      case Unsettled::Kind::kClose:
        item.record->lane->enqueue_close(*item.record);
        break;
    }
  }
  settled_ = outcome.up_to;
  if (is_stored) return true;
  const auto staged =
      std::ranges::upper_bound(unsettled_, parts_.store->last_unstaged(), {}, &Unsettled::ticket);
  refusals_.end(staged == unsettled_.begin() ? 0 : std::prev(staged)->ticket);
  return true;
}

void StoredBatches::enter_accepted(const Unsettled& item, LaneWakes& wakes) {
  BatchRecord& record = *item.record;
  record.lane->enqueue(item.record, item.ranges(), item.open, Lane::Start::kLater);
  if (!item.jobs.empty()) wakes.add(*record.lane);
  parts_.events.publish_accepted(record);
}

void StoredBatches::undo_accept(const Unsettled& item) {
  BatchRecord& record = *item.record;
  parts_.stats.count_batch(record.handler().name(), BatchEvent::kRejected);
  record.stop("the store refused the batch");
  record.Batch::close();
  record.jobs_dropped(item.ranges());
  record.stored.is_rejected = true;
  drop_rejected(record);
}

void StoredBatches::undo_add(const Unsettled& item) {
  BatchRecord& record = *item.record;
  if (parts_.registry.by_sequence(record.sequence) != &record) return;
  record.stored.refused_until = record.stored.jobs_ticket;
  record.payloads().withdraw(item.jobs.size());
  record.terms.jobs -= item.jobs.size();
  record.jobs_withdrawn(item.jobs.size());
  record.stored.payload_bytes -= std::min(record.stored.payload_bytes, item.payload_bytes);
  parts_.retention.update(record, record.status().result_bytes);
  parts_.registry.charges().count_payloads(
      record, record.charged.payload_bytes - std::min(record.charged.payload_bytes, item.payload_bytes));
  if (record.stored.is_rejected) return drop_rejected(record);
  parts_.apply_news(record);
  write_restored(record, Payloads::kTrim);
}

void StoredBatches::drop_rejected(BatchRecord& record) {
  // The batch is not over while jobs that were to be added wait for their outcome.
  if (!record.is_over()) return;
  parts_.apply_news(record);
  parts_.retention.forget(record, Urgency::kWithNext);
}

}  // namespace locksley::daemon
