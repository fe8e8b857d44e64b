#include "daemon/store/store.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/index_ranges.h"
#include "daemon/base/log_line.h"
#include "daemon/store/codec.h"
#include "daemon/store/compactor.h"
#include "daemon/store/database.h"
#include "daemon/store/journal.h"
#include "daemon/store/step_replay.h"
#include "daemon/store/stored_payloads.h"

namespace locksley::daemon {
namespace {

// Iterates over all rows of one kind that has one row a batch, in the order of the batches.
class RowCursor {
 public:
  RowCursor(const Database::Reading& reading, char kind)
      : prefix_(1, kind), end_(1, static_cast<char>(kind + 1)), bound_(end_) {
    rocksdb::ReadOptions options;
    options.verify_checksums = true;
    options.iterate_upper_bound = &bound_;
    at_.reset(reading.db().NewIterator(options, &reading.index()));
    at_->Seek(prefix_);
  }

  // The row of this batch, if there is one. Call it with ascending batches.
  std::optional<std::string_view> of(std::uint64_t sequence) {
    while (at_->Valid() && this->sequence() < sequence) at_->Next();
    if (!at_->Valid() || this->sequence() != sequence) return std::nullopt;
    return value();
  }

  bool is_valid() const { return at_->Valid(); }
  void next() { at_->Next(); }
  std::uint64_t sequence() const { return key_number(at_->key().ToStringView().substr(1)); }
  std::string_view value() const { return at_->value().ToStringView(); }
  rocksdb::Status status() const { return at_->status(); }

 private:
  const std::string prefix_;
  const std::string end_;
  const rocksdb::Slice bound_;
  std::unique_ptr<rocksdb::Iterator> at_;
};

// The highest batch number of any row; 0: there are no rows.
std::uint64_t highest_sequence(const Database::Reading& reading) {
  std::uint64_t highest = 0;
  const auto scan = [&](rocksdb::ColumnFamilyHandle& family, std::string_view prefix) {
    const std::unique_ptr<rocksdb::Iterator> at(reading.db().NewIterator({}, &family));
    std::string behind(prefix);
    behind.append(sizeof(std::uint64_t) * 2 + 1, '\xFF');
    at->SeekForPrev(behind);
    if (!at->Valid() || !at->key().ToStringView().starts_with(prefix)) return;
    highest =
        std::max(highest, key_number(at->key().ToStringView().substr(prefix.size(), sizeof(std::uint64_t))));
  };
  for (const char kind : {kAcceptedKey, kChangesKey, kEndKey, kFailedKey, kStepKey})
    scan(reading.index(), {&kind, 1});
  scan(reading.payloads(), "");
  scan(reading.results(), "");
  return highest;
}

void apply(const StepRow& step, BatchHistory& history) {
  history.totals = step.totals;
  history.rows = step.rows;
  history.result_bytes = step.result_bytes;
  history.started_at = step.started_at;
  history.finished_at = step.finished_at;
  history.retried = step.retried;
  history.superseded = step.superseded;
  history.superseded_jobs = step.superseded_jobs;
  history.retry_rounds = step.retry_rounds;
  if (step.cancelled) {
    history.cancelled = true;
    history.stop_reason = step.stop_reason;
  }
}

// The same step, to be written again.
BatchStep step_of(StepRow row) {
  BatchStep step;
  step.ended = std::move(row.ended);
  step.failed = std::move(row.failed);
  step.requeued = std::move(row.requeued);
  step.job_attempts = std::move(row.job_attempts);
  step.totals = row.totals;
  step.row_count = row.rows;
  step.result_bytes = row.result_bytes;
  step.started_at = row.started_at;
  step.finished_at = row.finished_at;
  step.cancelled = row.cancelled;
  step.stop_reason = std::move(row.stop_reason);
  step.retried = row.retried;
  step.superseded = row.superseded;
  step.superseded_jobs = std::move(row.superseded_jobs);
  step.retry_rounds = row.retry_rounds;
  return step;
}

// The rows of the index that describe a batch, without its steps.
struct BatchRows {
  std::string_view accepted;
  std::optional<std::string_view> changes;
  std::optional<std::string_view> end;
};

// Fills in what the rows say about the batch. The error says which row is damaged.
std::expected<void, std::string> assemble(const BatchRows& rows, StoredBatch& batch) {
  auto row = decode_accepted(rows.accepted);
  if (!row) return std::unexpected("its first row is damaged");
  batch.accepted = std::move(*row);
  BatchHistory& history = batch.history;
  history.jobs = batch.accepted.jobs;
  history.closed = !batch.accepted.is_streamed;
  history.weight = batch.accepted.options.weight;
  history.submitted_at = batch.accepted.submitted_at;
  batch.payload_bytes = batch.accepted.payload_bytes;
  if (rows.changes) {
    auto changed = decode_changes(*rows.changes);
    if (!changed) return std::unexpected("its changes are damaged");
    history.weight = changed->weight;
    history.paused = changed->is_paused;
    history.cancelled = changed->is_cancelled;
    history.stop_reason = changed->stop_reason;
    history.attempt = changed->attempt;
    history.discarded = changed->discarded_rows;
    history.discarded_bytes = changed->discarded_bytes;
    if (batch.accepted.is_streamed) {
      history.jobs = changed->jobs;
      batch.payload_bytes = changed->payload_bytes;
      history.closed = changed->is_closed;
    }
    batch.changes = std::move(*changed);
  }
  if (rows.end) {
    auto end = decode_step(*rows.end);
    if (!end || end->finished_at == 0) return std::unexpected("the row of its end is damaged");
    apply(*end, history);
    history.failed = std::move(end->failed);
    history.failed_unread = end->failed_apart != 0;
    history.closed = true;
    history.jobs = history.totals.total();
    if (history.totals.failed() == 0) batch.payload_bytes = 0;
  }
  return {};
}

}  // namespace

Store::Store(std::unique_ptr<Database> database, const Options& options, std::shared_ptr<spdlog::logger> log)
    : database_(std::move(database)),
      failed_ranges_(options.rows.failed_ranges),
      log_(log),
      group_(std::make_unique<GroupCommit>(*database_, options.durability, log, options.rows)),
      compactor_(std::make_unique<Compactor>(*database_, log)),
      reader_(std::make_unique<Reader>()) {}

Store::~Store() = default;

std::expected<std::unique_ptr<Store>, std::string> Store::open(const Options& options,
                                                               std::shared_ptr<spdlog::logger> log) {
  auto database = Database::open({options.path, options.durability, options.env, log});
  if (!database) return std::unexpected(std::move(database.error()));
  return std::unique_ptr<Store>(new Store(std::move(*database), options, std::move(log)));
}

std::expected<void, std::string> Store::repair(const Options& options) {
  return Database::repair({options.path, options.durability, options.env, nullptr});
}

std::expected<StoredBatch, std::string> Store::load(std::uint64_t sequence) const {
  const Database::Reading reading(*database_, Database::Reading::Wait::kBriefly);
  if (!reading.is_valid()) return std::unexpected("the disk fails");
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  std::string error;
  const auto row = [&](char kind, rocksdb::PinnableSlice& bytes) -> std::optional<std::string_view> {
    const auto status = reading.db().Get(options, &reading.index(), row_key(kind, sequence), &bytes);
    if (status.ok()) return bytes.ToStringView();
    if (!status.IsNotFound()) error = status.ToString();
    return std::nullopt;
  };
  rocksdb::PinnableSlice accepted_bytes;
  rocksdb::PinnableSlice changes_bytes;
  rocksdb::PinnableSlice end_bytes;
  const auto accepted = row(kAcceptedKey, accepted_bytes);
  const auto changes = row(kChangesKey, changes_bytes);
  const auto end = row(kEndKey, end_bytes);
  if (error.empty() && (!accepted || !end)) error = "its rows are missing";
  if (!error.empty()) return std::unexpected(fmt::format("batch number {}: {}", sequence, error));
  StoredBatch batch;
  batch.sequence = sequence;
  if (auto put_together = assemble({*accepted, changes, end}, batch); !put_together) {
    return std::unexpected(fmt::format("batch number {}: {}", sequence, put_together.error()));
  }
  return batch;
}

void Store::read_failed_jobs(std::uint64_t sequence, Reader::User user, OnFailedJobs on_read) {
  read_failed_part(std::make_unique<FailedJobsReading>(*database_, *reader_, sequence), user,
                   std::move(on_read));
}

void Store::read_failed_part(std::unique_ptr<FailedJobsReading> reading, Reader::User user,
                             OnFailedJobs on_read) {
  reader_->post(
      [this, reading = std::move(reading), user, on_read = std::move(on_read)]() mutable {
        const auto is_last = reading->read_part();
        if (!is_last) return on_read(std::unexpected(is_last.error()));
        if (*is_last) return on_read(reading->take());
        read_failed_part(std::move(reading), user, std::move(on_read));
      },
      user);
}

std::expected<ResultLog::Place, std::string> Store::place_of_result(std::uint64_t sequence,
                                                                    std::uint64_t row) const {
  const Database::Reading reading(*database_, Database::Reading::Wait::kBriefly);
  if (!reading.is_valid()) return std::unexpected("cannot read the store: the disk fails; retry later");
  const std::string low = part_key(sequence, 0);
  const rocksdb::Slice lower(low);
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  options.iterate_lower_bound = &lower;
  const std::unique_ptr<rocksdb::Iterator> at(reading.db().NewIterator(options, &reading.results()));
  at->SeekForPrev(part_key(sequence, row));
  if (!at->status().ok()) {
    return std::unexpected(fmt::format("cannot read the store: {}", at->status().ToString()));
  }
  if (!at->Valid()) return std::unexpected(fmt::format("the store lacks result {} of a batch", row));
  return ResultLog::Place{key_number(at->key().ToStringView().substr(sizeof(std::uint64_t))),
                          bytes_before(at->value().ToStringView())};
}

std::expected<void, std::string> Store::recover(const std::function<void(StoredBatch)>& visit) {
  const auto damaged = [this](std::uint64_t sequence, std::string_view what) {
    return std::unexpected(fmt::format(
        "the store {} is damaged, so nothing was started: batch number {}: {}. Restore it from a copy, or "
        "set store.path to another folder to begin anew",
        database_->path(), sequence, what));
  };
  const Database::Reading reading(*database_);
  RowCursor accepted(reading, kAcceptedKey);
  RowCursor changes(reading, kChangesKey);
  RowCursor ends(reading, kEndKey);
  for (; accepted.is_valid(); accepted.next()) {
    StoredBatch batch;
    batch.sequence = accepted.sequence();
    const BatchRows rows{accepted.value(), changes.of(batch.sequence), ends.of(batch.sequence)};
    if (auto put_together = assemble(rows, batch); !put_together) {
      return damaged(batch.sequence, put_together.error());
    }
    BatchHistory& history = batch.history;
    if (history.failed.size() > failed_ranges_) long_ends_.push_back(batch.sequence);
    if (!rows.end) {
      StepReplay replay;
      bool is_whole = true;
      const auto visited = visit_prefix(reading, reading.index(), row_key(kStepKey, batch.sequence),
                                        [&](std::string_view key, std::string_view value) {
                                          auto step = decode_step(value);
                                          const std::uint64_t number =
                                              key_number(key.substr(1 + sizeof(std::uint64_t)));
                                          is_whole = step && replay.apply(number, std::move(*step));
                                          return is_whole;
                                        });
      if (!visited) return damaged(batch.sequence, visited.error());
      const auto ended = replay.ended(history.jobs);
      if (!is_whole || !ended || count_of(*ended) != replay.last().totals.total()) {
        return damaged(batch.sequence, "its results and its counters disagree");
      }
      if (replay.steps() != 0) apply(replay.last(), history);
      history.superseded_jobs = replay.superseded_jobs();
      history.steps = replay.steps();
      history.failed = replay.failed();
      history.job_attempts = replay.job_attempts();
      const IndexRange whole{0, history.jobs};
      batch.left = difference({&whole, 1}, *ended);
    }
    next_sequence_ = batch.sequence + 1;
    visit(std::move(batch));
  }
  // A crash may leave payloads of a batch that was not accepted, or of an ADD to a batch that was
  // evicted. No new batch gets such a number, and start() deletes the payloads.
  first_orphan_ = next_sequence_;
  next_sequence_ = std::max(next_sequence_, highest_sequence(reading) + 1);
  for (const RowCursor* cursor : {&accepted, &changes, &ends}) {
    if (!cursor->status().ok()) return damaged(next_sequence_, cursor->status().ToString());
  }
  return {};
}

void Store::start(std::function<void(Outcome)> on_outcome) {
  group_->start(std::move(on_outcome));
  compactor_->start();
  for (std::uint64_t orphan = first_orphan_; orphan < next_sequence_; ++orphan)
    put(ForgetBatch{orphan}, Urgency::kWithNext);
  move_failed_apart();
}

void Store::move_failed_apart() {
  std::uint64_t moved = 0;
  for (const std::uint64_t sequence : std::exchange(long_ends_, {})) {
    // A few megabytes at a time.
    group_->wait_for_room();
    if (!group_->error().empty()) break;
    const Database::Reading reading(*database_, Database::Reading::Wait::kBriefly);
    std::string bytes;
    if (!reading.is_valid()) break;
    if (!reading.db().Get({}, &reading.index(), row_key(kEndKey, sequence), &bytes).ok()) continue;
    if (auto end = decode_step(bytes)) {
      put(RecordStep{sequence, step_of(std::move(*end))}, Urgency::kWithNext);
      ++moved;
    }
  }
  if (moved == 0) return;
  LogLine("store: lists of failed jobs of an earlier version get rows of their own")
      .with("batches", moved)
      .write(*log_, spdlog::level::info);
}

void Store::stop() {
  reader_->stop();
  compactor_->stop();
  group_->stop();
  database_->abandon();
}

void Store::set_live_bytes(std::uint64_t bytes) { compactor_->set_live_bytes(bytes); }

std::unique_ptr<BatchJournal> Store::journal(std::uint64_t sequence, PayloadParts parts) {
  return std::make_unique<StoredJournal>(*group_, *database_, sequence, parts);
}

std::unique_ptr<PayloadSource> Store::payloads(std::uint64_t sequence) {
  return std::make_unique<StoredPayloads>(*database_, sequence);
}

std::uint64_t Store::disk_bytes() const {
  const MutexLock lock(measuring_);
  const Nanoseconds now = steady_now();
  if (now - measured_at_ >= kMeasurePeriod) {
    disk_bytes_ = database_->disk_bytes();
    measured_at_ = now;
  }
  return disk_bytes_;
}

Store::Stats Store::stats() const {
  return {.commit_time = group_->commit_time(),
          .disk_bytes = disk_bytes(),
          .errors = group_->errors(),
          .disk = disk_space(database_->path())};
}

}  // namespace locksley::daemon
