// Length: one class; what it writes, and what it does with the outcomes, share one queue.
#include "daemon/server/batches/stored/stored_batches.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "config/config.h"
#include "core/batch/batch_attempts.h"
#include "daemon/base/log/log_line.h"
#include "daemon/server/batches/events/events.h"
#include "daemon/server/batches/stored/restored_times.h"
#include "daemon/server/batches/stored/write_charges.h"
#include "daemon/server/payloads/fixed_payloads.h"
#include "daemon/server/payloads/streamed_payloads.h"
#include "daemon/store/rows/stored_rows.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

namespace {

constexpr std::string_view kEarlierRefusal = "an earlier write was refused";

std::string refusal(std::string_view error) {
  return fmt::format("STORE the write to the disk failed: nothing was accepted; retry later ({})", error);
}

constexpr auto kReportPeriod = std::chrono::seconds(2);  // of reading a large store

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
  // To enqueue so many takes some 30 us. With 16, workers ran out of jobs and parked twice as often
  // (100 clients).
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
  if (!error.empty()) return refusal(error);
  return refusals_ != 0 || settled_ < refused_until_ ? refusal(kEarlierRefusal) : std::string();
}

std::string StoredBatches::error_of(const BatchRecord& record) const {
  return settled_ < record.stored.refused_until ? refusal(kEarlierRefusal) : std::string();
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
  // Those of large writes have tickets of groups that come later.
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
  // For a batch that was loaded (it has no steps) it is not known, so it may.
  const bool may_be_inside = status.finished_at != 0 && (status.steps == 0 || has_results_inside(status));
  const Ticket ticket = parts_.store->put(ChangeBatch{.sequence = record.sequence,
                                                      .changes = changes_of(record),
                                                      .freed_rows = freed,
                                                      .may_have_marks = may_have_marks(status),
                                                      .may_have_results_inside = may_be_inside},
                                          Urgency::kWithNext);
  // A batch in memory is not retired before the store has this write. For a batch that is retired
  // already, load() adds the discard to what it reads.
  if (record.is_active) return;
  record.stored.end_ticket = ticket;
  if (parts_.registry.by_sequence(record.sequence) == &record) return;
  discarded_.add(record.sequence, ticket, {.rows = status.discarded, .bytes = status.discarded_bytes});
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

void StoredBatches::expect(const Outcome& outcome) {
  if (!outcome.error.empty()) ++refusals_;
}

bool StoredBatches::settle_some(const Outcome& outcome, Instant until) {
  constexpr int kBetweenLooks = 16;  // at the clock; some 10 us; guess
  const bool is_stored = outcome.error.empty();
  LaneWakes wakes;
  bool had_listener = false;  // the one before, whose events take longer than all else
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
  if (staged != unsettled_.begin()) refused_until_ = std::prev(staged)->ticket;
  --refusals_;
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
  parts_.registry.count_payloads(
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

std::expected<void, std::string> StoredBatches::restore(const std::function<void(StoredBatch)>& go_on,
                                                        std::function<void(Outcome)> on_outcome) {
  const Instant began = now();
  std::vector<StoredBatch> unfinished;
  std::uint64_t over = 0;
  Instant reported = began;
  if (auto read = parts_.store->recover([&](StoredBatch&& stored) {
        kIoThread.assert_held();
        parts_.times.see(stored);
        if (stored.history.finished_at == 0) {
          unfinished.push_back(std::move(stored));
        } else {
          ++over;
          index_finished(stored);
        }
        // Now and then: reading the clock costs as much as a batch.
        if (const std::uint64_t batches = over + unfinished.size();
            batches % 1024 == 0 && now() >= reported + kReportPeriod) {
          reported = now();
          LogLine("store: reading").with("batches_so_far", batches).write(*parts_.log, spdlog::level::info);
        }
      });
      !read) {
    return read;
  }
  parts_.registry.restored();
  parts_.times.judge();
  parts_.retention.publish_bytes();
  const auto numbers = parts_.store->begin_numbers();
  if (!numbers) return std::unexpected(numbers.error());
  parts_.registry.begin_at(numbers->first, numbers->renew_at,
                           [this](std::uint64_t next) { return parts_.store->renew_numbers(next); });
  try {
    parts_.store->start(std::move(on_outcome));
  } catch (const std::system_error& error) {
    return std::unexpected(fmt::format("could not start the threads of the store: {}", error.what()));
  }
  std::uint64_t jobs = 0;
  for (StoredBatch& stored : unfinished) {
    for (const IndexRange& range : stored.left) jobs += range.size();
    go_on(std::move(stored));
  }
  LogLine("store: read")
      .with("took_ms", std::chrono::duration_cast<std::chrono::milliseconds>(now() - began).count())
      .with("batches_over", over)
      .with("batches_unfinished", unfinished.size())
      .with("jobs_left", jobs)
      .with("newest_time_age_ms", parts_.times.difference().count())
      .write(*parts_.log, spdlog::level::info);
  return {};
}

void StoredBatches::index_finished(const StoredBatch& stored) {
  const Tenant& tenant = parts_.registry.tenants().of(stored.accepted.options.tenant);
  parts_.retention.add_restored(
      {.sequence = stored.sequence,
       .id_hash = parts_.registry.retained().hash_of(tenant.number, stored.accepted.options.id),
       .forget_at = parts_.times.forget_at(stored),
       .stored_bytes = Retention::kRowBytes + stored.payload_bytes + stored.history.result_bytes -
                       std::min(stored.history.result_bytes, stored.history.discarded_bytes),
       .tenant = tenant.number,
       .rows = {.parts = stored.parts,
                .has_one_step = stored.has_results_inside,
                .may_have_failed_rows = stored.history.totals.failed() > kFailedRangesInRow,
                .may_have_marks = !stored.has_results_inside,
                .may_have_changes = stored.has_changes,
                .has_results_inside = stored.has_results_inside}});
}

const HandlerDirectory::Entry& StoredBatches::entry_for(const std::string& handler) {
  if (const HandlerDirectory::Entry* entry = parts_.handlers.find_any(handler)) return *entry;
  LogLine("store: there are batches for a handler that is not configured: they are kept, and wait for it")
      .with("handler", handler)
      .write(*parts_.log, spdlog::level::warn);
  return parts_.handlers.for_batch(handler);
}

std::shared_ptr<BatchRecord> StoredBatches::record_of(StoredBatch& stored) {
  AcceptedRow& row = stored.accepted;
  BatchHistory& history = stored.history;
  const std::uint64_t sequence = stored.sequence;
  const HandlerDirectory::Entry& entry = entry_for(row.handler);
  std::optional<Digest> digest;
  if (row.digest) digest = Digest{row.digest->low, row.digest->high};
  const Reader::User user = parts_.registry.tenants().of(row.options.tenant).number;
  std::unique_ptr<BatchPayloads> payloads;
  if (row.range) {
    const auto high = static_cast<std::int64_t>(static_cast<std::uint64_t>(row.range->low) + history.jobs);
    const RangeJobs range{row.range->low, high, {.text = std::move(row.range->payload), .digest = digest}};
    if (row.range->is_apart && !range.pattern.text) {
      payloads = std::make_unique<StoredRangePayloads>(
          range, [store = parts_.store, sequence, low = range.low, user](Store::Fetched fetched) {
            return store->range_payloads(sequence, low, user, fetched);
          });
    } else {
      payloads = std::make_unique<RangedPayloads>(range);
    }
  } else if (row.is_streamed) {
    payloads = std::make_unique<StreamedPayloads>(parts_.store->payloads(sequence, user), history.jobs);
  } else {
    payloads = std::make_unique<UncachedPayloads>(
        parts_.store->payloads(sequence, user, std::move(stored.payloads_inside)), history.jobs, digest);
  }
  row.options.results = &parts_.registry.tenants().of(row.options.tenant).account.results();
  row.options.gate = entry.gate;
  row.options.max_output_bytes = entry.most_output(parts_.config.limits.output_buffer.count);
  // Not make_shared: the store's weak_ptr to it would hold its memory after its end.
  std::shared_ptr<BatchRecord> record(
      new BatchRecord(std::move(row.options), entry.handler, std::move(payloads), &parts_.observer,
                      entry.lane, row.is_streamed ? BatchRecord::Origin::kOpen : BatchRecord::Origin::kSubmit,
                      sequence, parts_.store->journal(sequence, stored.parts, user)));
  record->restore(history);
  if (entry.is_held) record->set_hold(Hold::kHandler);
  record->terms.id_is_chosen = row.id_is_chosen;
  record->terms.retain = std::chrono::milliseconds(row.retain_ms);
  record->terms.jobs = history.jobs;
  record->terms.is_closed = history.closed;
  record->terms.has_no_deadline = stored.changes.has_no_deadline;
  record->terms.stop_reason = history.stop_reason;
  record->stored.payload_bytes = stored.payload_bytes;
  record->stored.parts = stored.parts;
  record->stored.has_changes = true;  // soon, if it goes on
  record->stored.rows = history.rows;
  record->waits.were_any = !row.after.empty();
  record->published.accepted = true;
  return record;
}

Registry::Loaded StoredBatches::load(std::uint64_t sequence) {
  const PendingDiscard discard = before_load(sequence);
  auto stored = parts_.store->load(sequence);
  if (!stored) return std::unexpected(std::move(stored.error()));
  return after_load(*std::move(stored), discard);
}

StoredBatches::PendingDiscard StoredBatches::before_load(std::uint64_t sequence) {
  // What is written after this call is among what is read, or among the discards that are pending.
  return discarded_.find(sequence, parts_.store->written());
}

std::shared_ptr<BatchRecord> StoredBatches::after_load(StoredBatch stored, const PendingDiscard& discard) {
  if (discard) {
    stored.history.discarded = discard->rows;
    stored.history.discarded_bytes = discard->bytes;
  }
  auto record = record_of(stored);
  record->is_active = false;
  return record;
}

}  // namespace locksley::daemon
