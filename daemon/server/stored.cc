// Batches and the store: what is written of them, what becomes of it, and what an earlier process has left.
#include <fmt/format.h>
#include <spdlog/logger.h>

#include <asio/post.hpp>
#include <chrono>
#include <utility>

#include "daemon/log_line.h"
#include "daemon/server/batches.h"
#include "daemon/server/received_payloads.h"
#include "daemon/server/streamed_payloads.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

namespace {

constexpr auto kTellPeriod = std::chrono::seconds(2);  // of reading a large store

AcceptedRow::Digest row_of(const Digest& digest) { return {digest.low, digest.high}; }

// The instant that is so far from now as `unix_ms` is.
Instant instant_of(std::int64_t unix_ms) {
  return now() + std::chrono::milliseconds(unix_ms - unix_milliseconds());
}

}  // namespace

void Batches::accept_stored(const std::shared_ptr<BatchRecord>& record, const proto::BatchOptions& options,
                            std::uint64_t jobs, bool open, SharedPayloads payloads) {
  AcceptBatch accept{.sequence = record->sequence, .row = {}, .payloads = nullptr};
  AcceptedRow& row = accept.row;
  row.handler = record->handler().name();
  row.options = record->options();
  row.id_is_chosen = record->id_is_chosen;
  row.is_streamed = open;
  row.submitted_at = record->status().submitted_at;
  if (options.deadline) row.deadline_at = row.submitted_at + options.deadline->count();
  if (options.delay) row.start_at = row.submitted_at + options.delay->count();
  for (const Wait& wait : record->waits.all) row.after.push_back({wait.sequence, wait.id, wait.only_if_ok});
  row.retain_ms = record->retain.count();
  row.jobs = jobs;
  Content& content = record->content;
  if (content.range != nullptr) row.range = {content.range->low, content.range->payload};
  std::uint64_t unsettled = 0;
  if (payloads != nullptr) {
    row.payload_bytes = payloads->payload_bytes();
    if (record->id_is_chosen) {
      content.digest = digest_of(*payloads);
      row.digest = row_of(*content.digest);
    }
    if (content.received == nullptr) unsettled = payloads->memory_bytes();
    accept.payloads = std::move(payloads);
  }
  record->stored_payload_bytes = row.payload_bytes;
  count_stored(*record, 0);
  unsettled_bytes_ += unsettled;
  record->is_closed = !open;
  record->ticket = store_->put(std::move(accept), Urgency::kAwaited);
  // The record has its jobs at once; the ring gets them when they are on the disk.
  record->jobs_added(jobs);
  if (!open) record->Batch::close();
  unsettled_.push_back({.ticket = record->ticket,
                        .kind = Unsettled::Kind::kAccept,
                        .record = record,
                        .jobs = {0, jobs},
                        .open = open,
                        .bytes = unsettled});
}

void Batches::count_stored(BatchRecord& record, std::uint64_t result_bytes) {
  const std::uint64_t bytes = kRowBytes + record.stored_payload_bytes + result_bytes;
  stored_bytes_ += bytes - std::exchange(record.stored_bytes, bytes);
  tell_stored_bytes();
}

void Batches::tell_stored_bytes() {
  stats_.stored_bytes.set(stored_bytes_);
  store_->set_live_bytes(stored_bytes_);
}

ChangesRow Batches::changes_of(const BatchRecord& record) const {
  const BatchStatus status = record.status();
  ChangesRow row{.jobs = record.content.jobs,
                 .payload_bytes = record.stored_payload_bytes,
                 .is_closed = record.is_closed,
                 .is_paused = status.paused,
                 .is_cancelled = record.is_stopping(),
                 .stop_reason = record.stop_reason,
                 .weight = status.weight,
                 .attempt = record.attempt(),
                 .has_no_deadline = record.has_no_deadline,
                 .is_released = record.waits.were_any && record.waits.open == 0,
                 .satisfied = {}};
  if (record.waits.open != 0) {
    for (std::size_t i = 0; i < record.waits.all.size(); ++i) {
      if (record.waits.all[i].is_satisfied) row.set_satisfied(i);
    }
  }
  return row;
}

void Batches::write_changes(BatchRecord& record) {
  if (record.is_stored())
    record.ticket = store_->put(ChangeBatch{record.sequence, changes_of(record)}, Urgency::kAwaited);
}

void Batches::drop_rejected(BatchRecord& record) {
  // While jobs that were to be added wait for their outcome, it is not over.
  if (!record.is_over()) return;
  changed(record, now());
  forget(record, Urgency::kWithNext);
}

void Batches::settle(const Outcome& outcome) {
  settled_ = outcome.up_to;
  while (!unsettled_.empty() && unsettled_.front().ticket <= outcome.up_to) {
    const Unsettled item = std::move(unsettled_.front());
    unsettled_.pop_front();
    unsettled_bytes_ -= item.bytes;
    BatchRecord& record = *item.record;
    const bool is_stored = outcome.error.empty();
    switch (item.kind) {
      case Unsettled::Kind::kAccept:
        if (is_stored) {
          record.lane->enqueue(item.record, {&item.jobs, item.jobs.empty() ? 0U : 1U}, item.open);
          if (events_.has_listener(record)) events_.publish(record, EventKind::kAccepted, record.status());
        } else {
          stats_.count_batch(record.handler().name(), BatchEvent::kRejected);
          record.stop("the store could not take it");
          record.Batch::close();
          record.jobs_dropped({&item.jobs, item.jobs.empty() ? 0U : 1U});
          record.is_rejected = true;
          drop_rejected(record);
        }
        break;
      case Unsettled::Kind::kAdd:
        if (is_stored) {
          record.lane->enqueue_jobs(record, item.jobs);
        } else if (registry_.by_sequence(record.sequence) == &record) {
          static_cast<StreamedPayloads&>(record.payloads()).withdraw(item.jobs.size());
          record.content.jobs -= item.jobs.size();
          record.jobs_withdrawn(item.jobs.size());
          if (record.is_rejected) {
            drop_rejected(record);
            break;
          }
          changed(record, now());
          record.ticket = store_->put(
              ChangeBatch{.sequence = record.sequence, .changes = changes_of(record), .trims_payloads = true},
              Urgency::kAwaited);
        }
        break;
      case Unsettled::Kind::kClose:
        record.lane->enqueue_close(record);
        break;
    }
  }
  if (stored_told_) stored_told_(outcome);
  arm_timer();
  look_whether_idle();
}

std::expected<void, std::string> Batches::restore_all() {
  if (store_ == nullptr) return {};
  const Instant began = now();
  std::vector<StoredBatch> unfinished;
  std::uint64_t over = 0;
  Instant told = began;
  if (auto read = store_->recover([&](StoredBatch stored) {
        if (stored.history.finished_at == 0) {
          unfinished.push_back(std::move(stored));
        } else {
          ++over;
          restore_finished(stored);
        }
        // Now and then: the clock costs as much as a batch.
        if (const std::uint64_t batches = over + unfinished.size();
            batches % 1024 == 0 && now() >= told + kTellPeriod) {
          told = now();
          log_->info("store: reading: {} batches so far", batches);
        }
      });
      !read) {
    return read;
  }
  tell_stored_bytes();
  registry_.begin_at(store_->next_sequence());
  store_->start([this](Outcome outcome) {
    asio::post(io_, [this, outcome = std::move(outcome)] { settle(outcome); });
  });
  std::uint64_t jobs = 0;
  for (StoredBatch& stored : unfinished) {
    for (const IndexRange& range : stored.left) jobs += range.size();
    restore(std::move(stored));
  }
  arm_timer();
  log_->info("store: read in {} ms; batches_over={} batches_unfinished={} jobs_left={}",
             std::chrono::duration_cast<std::chrono::milliseconds>(now() - began).count(), over,
             unfinished.size(), jobs);
  return {};
}

const HandlerDirectory::Entry& Batches::entry_for(const std::string& handler) {
  if (const HandlerDirectory::Entry* entry = handlers_.find_any(handler)) return *entry;
  LogLine("store: there are batches for a handler that is not configured: they are kept, and wait for it")
      .with("handler", handler)
      .write(*log_, spdlog::level::warn);
  return handlers_.for_batch(handler);
}

std::shared_ptr<BatchRecord> Batches::record_of(StoredBatch& stored) {
  AcceptedRow& row = stored.accepted;
  BatchHistory& history = stored.history;
  const std::uint64_t sequence = stored.sequence;
  const HandlerDirectory::Entry& entry = entry_for(row.handler);
  std::unique_ptr<PayloadSource> payloads;
  if (row.range) {
    payloads = std::make_unique<RangePayloads>(row.range->low, row.range->payload);
  } else if (row.is_streamed) {
    auto streamed = std::make_unique<StreamedPayloads>(store_->payloads(sequence));
    streamed->add_stored(history.jobs);
    payloads = std::move(streamed);
  } else {
    payloads = store_->payloads(sequence);
  }
  std::shared_ptr<BatchRecord> record(
      new BatchRecord(std::move(row.options), entry.handler, std::move(payloads), &changes_, entry.lane,
                      row.is_streamed ? BatchRecord::Origin::kOpen : BatchRecord::Origin::kSubmit, sequence,
                      store_->journal(sequence)));
  record->restore(history);
  if (entry.is_held) record->set_hold(Hold::handler);
  record->id_is_chosen = row.id_is_chosen;
  record->is_closed = history.closed;
  record->stop_reason = history.stop_reason;
  record->has_no_deadline = stored.changes.has_no_deadline;
  record->retain = std::chrono::milliseconds(row.retain_ms);
  record->content.jobs = history.jobs;
  if (row.range) {
    const auto high = static_cast<std::int64_t>(static_cast<std::uint64_t>(row.range->low) + history.jobs);
    record->content.range =
        std::make_unique<proto::RangeSource>(row.range->low, high, std::move(row.range->payload));
  }
  if (row.digest) record->content.digest = Digest{row.digest->low, row.digest->high};
  record->stored_payload_bytes = stored.payload_bytes;
  record->waits.were_any = !row.after.empty();
  return record;
}

void Batches::restore_finished(const StoredBatch& stored) {
  const std::uint64_t bytes = kRowBytes + stored.payload_bytes + stored.history.result_bytes;
  stored_bytes_ += bytes;
  const Tenant& tenant = registry_.tenants().of(stored.accepted.options.tenant);
  registry_.retain({.sequence = stored.sequence,
                    .id_hash = registry_.retained().hash_of(tenant.number, stored.accepted.options.id),
                    .forget_at = instant_of(stored.history.finished_at + stored.accepted.retain_ms),
                    .stored_bytes = bytes,
                    .tenant = tenant.number,
                    .parts = PayloadParts::kUnknown,
                    .has_one_step = false});
}

void Batches::restore(StoredBatch stored) {
  AcceptedRow& row = stored.accepted;
  BatchHistory& history = stored.history;
  const std::uint64_t sequence = stored.sequence;
  // Jobs that were running left no trace: so all that are left may have been tried.
  ++history.attempt;
  const auto record = record_of(stored);
  registry_.add(record);
  count_stored(*record, history.result_bytes);
  Order order = restored_order(row, history, stored.changes);
  const std::string broken = order.broken;
  hold(*record, std::move(order), instant_of(row.start_at));
  record->ticket = store_->put(
      ChangeBatch{.sequence = sequence, .changes = changes_of(*record), .trims_payloads = !history.closed},
      Urgency::kAwaited);
  if (row.deadline_at != 0 && !stored.changes.has_no_deadline) {
    registry_.schedule(*record, Due::kDeadline, instant_of(row.deadline_at));
    // Before its jobs are in the ring.
    if (record->deadline_at <= now()) cancel(*record, "deadline passed");
  }
  if (!broken.empty() && !record->is_stopping()) cancel(*record, broken);
  if (!history.closed) {
    streams_[0].insert(sequence);
    registry_.schedule(*record, Due::kClose, now() + config_.limits.open_timeout);
  }
  std::uint64_t jobs = 0;
  for (const IndexRange& range : stored.left) jobs += range.size();
  registry_.count(*record, jobs, record->payloads().memory_bytes());
  registry_.count_payloads(*record, record->stored_payload_bytes);
  record->lane->enqueue(record, stored.left, !history.closed, Lane::Start::later);
  // It may have been about to end.
  if (history.closed) record->Batch::close();
}

}  // namespace locksley::daemon
