#include "daemon/store/store.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <initializer_list>
#include <utility>

#include "core/base/index_ranges.h"
#include "daemon/store/engine.h"
#include "daemon/store/journal.h"
#include "daemon/store/step_replay.h"
#include "daemon/store/stored_payloads.h"

namespace locksley::daemon {
namespace {

// Iterates over all rows of one kind that has one row a batch, in the order of the batches.
class KindCursor {
 public:
  // `at`: over all rows of the kind.
  explicit KindCursor(std::unique_ptr<RowCursor> at) : at_(std::move(at)) { look(); }

  // The row of this batch, if there is one. Call it with ascending batches.
  std::optional<std::string_view> of(std::uint64_t sequence) {
    while (sequence_ < sequence) next();
    if (sequence_ != sequence) return std::nullopt;
    return value();
  }

  bool is_valid() const { return sequence_ != kEnd; }
  void next() {
    at_->next();
    look();
  }
  std::uint64_t sequence() const { return sequence_; }
  std::string_view value() const { return at_->value(); }
  EngineDone status() const { return at_->status(); }

 private:
  static constexpr std::uint64_t kEnd = ~std::uint64_t{0};
  void look() { sequence_ = at_->is_valid() ? key_number(at_->key().substr(1)) : kEnd; }

  std::unique_ptr<RowCursor> at_;
  std::uint64_t sequence_ = kEnd;  // of the row at which it is
};

// One for each of these kinds.
std::vector<KindCursor> cursors_of_kinds(const EngineReading& reading, std::initializer_list<char> kinds) {
  std::vector<std::pair<Key, Key>> bounds;
  for (const char kind : kinds) bounds.emplace_back(Key(kind), Key(static_cast<char>(kind + 1)));
  std::vector<RowRange> ranges;
  for (const auto& [low, high] : bounds) {
    ranges.push_back({.table = Table::kIndex, .low = low, .high = high, .is_read_once = true});
  }
  std::vector<KindCursor> cursors;
  for (auto& at : reading.scan_several(ranges)) cursors.emplace_back(std::move(at));
  return cursors;
}

// The pattern of a range that lies apart. None if its row cannot be read: then its jobs find out what is wrong.
SharedText read_pattern(const EngineReading& reading, std::uint64_t sequence) {
  std::string bytes;
  if (!reading.get(Table::kPayloads, part_key(sequence, 0), bytes).value_or(false)) return {};
  const auto chunk = PayloadChunk::of(bytes);
  if (!chunk || chunk->size() != 1) return {};
  return std::string((*chunk)[0]);
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

// The rows of the index that describe a batch, without its steps.
struct BatchRows {
  std::string_view accepted;
  std::optional<std::string_view> changes;
  std::optional<std::string_view> end;
};

// Fills in what the rows say about the batch. The error says which row is damaged.
std::expected<void, std::string> assemble(const BatchRows& rows, StoredBatch& batch) {
  const auto accepted = split_row(rows.accepted);
  if (!accepted || !decode(accepted->row, batch.accepted)) return std::unexpected("its first row is damaged");
  if (!accepted->inside.empty()) batch.parts = PayloadParts::kInRow;
  if (batch.accepted.range && batch.accepted.range->is_apart) batch.parts = PayloadParts::kOne;
  batch.has_changes = rows.changes.has_value();
  BatchHistory& history = batch.history;
  history.jobs = batch.accepted.jobs;
  history.closed = !batch.accepted.is_streamed;
  history.weight = batch.accepted.options.weight;
  history.slots = batch.accepted.options.slots;
  history.submitted_at = batch.accepted.submitted_at;
  batch.payload_bytes = batch.accepted.payload_bytes;
  if (rows.changes) {
    auto changed = decode_changes(*rows.changes);
    if (!changed) return std::unexpected("its changes are damaged");
    history.weight = changed->weight;
    if (changed->slots) history.slots = *changed->slots;
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
    const auto split = split_row(*rows.end);
    StepRow end;
    if (!split || !decode(split->row, end) || end.finished_at == 0) {
      return std::unexpected("the row of its end is damaged");
    }
    apply(end, history);
    history.failed = std::move(end.failed);
    history.failed_unread = end.failed_apart != 0;
    history.notes = std::move(end.notes);
    history.closed = true;
    history.jobs = history.totals.total();
    batch.has_results_inside = !split->inside.empty();
    // Payloads inside the first row stay there.
    if (history.totals.failed() == 0 && batch.parts != PayloadParts::kInRow) batch.payload_bytes = 0;
  }
  return {};
}

}  // namespace

Store::Store(std::unique_ptr<Engine> engine, const Options& options, std::shared_ptr<spdlog::logger> log)
    : engine_(std::move(engine)),
      failed_ranges_(options.rows.failed_ranges),
      log_(log),
      group_(new GroupCommit(*engine_, options.durability, log, options.rows, options.patience)),
      reader_(std::make_unique<Reader>()),
      backups_(std::make_unique<Backups>(*engine_, log_)) {}

Store::~Store() = default;

std::expected<std::unique_ptr<Store>, std::string> Store::open(const Options& options,
                                                               std::shared_ptr<spdlog::logger> log) {
  auto engine = options.engine({options.path, options.durability, log});
  if (!engine) return std::unexpected(std::move(engine.error()));
  std::unique_ptr<Store> store(new Store(std::move(*engine), options, std::move(log)));
  if (auto checked = store->check_form(); !checked) return std::unexpected(std::move(checked.error()));
  if (auto read = store->read_first_marked(); !read) return std::unexpected(std::move(read.error()));
  return store;
}

std::expected<StoredBatch, std::string> Store::load(std::uint64_t sequence) const {
  const EngineReading reading(*engine_, ReadingWait::kBriefly);
  if (!reading.is_valid()) return std::unexpected("the disk fails");
  std::string error;
  const auto row = [&](char kind, std::string& bytes) -> std::optional<std::string_view> {
    const auto found = reading.get(Table::kIndex, row_key(kind, sequence), bytes);
    if (!found) error = found.error().what;
    if (!found || !*found) return std::nullopt;
    return bytes;
  };
  std::string accepted_bytes;
  std::string changes_bytes;
  std::string end_bytes;
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
  read_failed_part(std::make_unique<FailedJobsReading>(*engine_, *reader_, sequence), user,
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
  const EngineReading reading(*engine_, ReadingWait::kBriefly);
  if (!reading.is_valid()) return std::unexpected("cannot read the store: the disk fails; retry later");
  const Key wanted = part_key(sequence, row);
  const auto at = reading.scan({.table = Table::kResults,
                                .low = part_key(sequence, 0),
                                .high = part_key(sequence + 1, 0),
                                .from_at_most = wanted});
  if (const auto status = at->status(); !status) {
    return std::unexpected(fmt::format("cannot read the store: {}", status.error().what));
  }
  if (!at->is_valid() || at->key() > std::string_view(wanted)) {
    std::string end;
    const auto found = reading.get(Table::kIndex, row_key(kEndKey, sequence), end);
    const auto split = found && *found ? split_row(end) : std::nullopt;
    if (split && !split->inside.empty()) return ResultLog::Place{0, 0};
    return std::unexpected(fmt::format("the store lacks result {} of a batch", row));
  }
  return ResultLog::Place{last_number(at->key()), bytes_before(at->value())};
}

std::expected<void, std::string> Store::read_customers(const std::function<void(CustomerRow)>& visit) {
  const EngineReading reading(*engine_);
  bool is_whole = true;
  const auto visited = reading.visit_prefix(
      Table::kIndex, Key(kCustomerKey), [&](std::string_view key, std::string_view value) {
        const auto names = names_in(key);
        const auto settings = decode_settings(value);
        if (!names || !settings) {
          is_whole = false;
          return false;
        }
        visit({std::string(names->user), std::string(names->customer), *settings});
        return true;
      });
  if (!visited) return std::unexpected(damaged(visited.error().what, Engine::Damage::kUnreadable));
  if (!is_whole) {
    return std::unexpected(damaged("the settings of a customer are damaged", Engine::Damage::kContradictory));
  }
  return {};
}

std::expected<void, std::string> Store::recover(const std::function<void(StoredBatch&&)>& visit) {
  const auto damaged = [this](std::uint64_t sequence, std::string_view what,
                              Engine::Damage damage = Engine::Damage::kContradictory) {
    return std::unexpected(this->damaged(fmt::format("batch number {}: {}", sequence, what), damage));
  };
  const EngineReading reading(*engine_);
  std::vector<KindCursor> kinds = cursors_of_kinds(reading, {kAcceptedKey, kChangesKey, kEndKey});
  KindCursor &accepted = kinds[0], &changes = kinds[1], &ends = kinds[2];
  for (; accepted.is_valid(); accepted.next()) {
    StoredBatch batch;
    batch.sequence = accepted.sequence();
    const BatchRows rows{accepted.value(), changes.of(batch.sequence), ends.of(batch.sequence)};
    if (auto put_together = assemble(rows, batch); !put_together) {
      return damaged(batch.sequence, put_together.error());
    }
    BatchHistory& history = batch.history;
    if (history.failed.size() > failed_ranges_) long_ends_.push_back(batch.sequence);
    if (AcceptedRow::Range* const range = batch.accepted.range ? &*batch.accepted.range : nullptr) {
      const bool may_run = !rows.end || history.totals.failed() != 0;
      if (!range->is_apart && lies_apart(*range)) long_patterns_.push_back({batch.sequence, may_run});
      if (range->is_apart && !rows.end) range->payload = read_pattern(reading, batch.sequence);
    }
    if (!rows.end) {
      StepReplay replay;
      bool is_whole = true;
      const auto visited =
          reading.visit_prefix(Table::kIndex, row_key(kStepKey, batch.sequence),
                               [&](std::string_view key, std::string_view value) {
                                 auto step = decode_step(value);
                                 is_whole = step && replay.apply(last_number(key), std::move(*step));
                                 return is_whole;
                               });
      if (!visited) return damaged(batch.sequence, visited.error().what, Engine::Damage::kUnreadable);
      const auto ended = replay.ended(history.jobs);
      if (!is_whole || !ended || count_of(*ended) != replay.last().totals.total()) {
        return damaged(batch.sequence, "its results and its counters disagree");
      }
      if (replay.steps() != 0) apply(replay.last(), history);
      history.superseded_jobs = replay.superseded_jobs();
      history.steps = replay.steps();
      history.failed = replay.failed();
      history.job_attempts = replay.job_attempts();
      history.notes = replay.notes();
      // A cancelled batch takes no further jobs, although its last row of changes may say that it is open.
      history.closed = history.closed || history.cancelled;
      const IndexRange whole{0, history.jobs};
      batch.left = difference({&whole, 1}, *ended);
    }
    next_sequence_ = batch.sequence + 1;
    visit(std::move(batch));
  }
  // A crash may leave payloads of a batch that was not accepted, or of an ADD to a batch that was
  // evicted. No new batch gets such a number, and start() deletes the payloads.
  first_orphan_ = next_sequence_;
  const auto highest =
      reading.highest_batch(std::array{kAcceptedKey, kChangesKey, kEndKey, kFailedKey, kStepKey});
  if (!highest) return damaged(next_sequence_, highest.error().what, Engine::Damage::kUnreadable);
  next_sequence_ = std::max(next_sequence_, *highest + 1);
  for (const KindCursor& cursor : kinds) {
    if (const auto status = cursor.status(); !status) {
      return damaged(next_sequence_, status.error().what, Engine::Damage::kUnreadable);
    }
  }
  return {};
}

void Store::start(std::function<void(Outcome)> on_outcome) {
  group_->start(std::move(on_outcome));
  engine_->start_upkeep();
  for (std::uint64_t orphan = first_orphan_; orphan < next_sequence_; ++orphan)
    put(ForgetBatch{orphan}, Urgency::kWithNext);
  move_failed_apart();
  move_patterns_apart();
}

void Store::stop() {
  backups_->stop();
  reader_->stop();
  engine_->stop_upkeep();
  group_->stop();
  engine_->abandon();
}

void Store::set_live_bytes(std::uint64_t bytes) { engine_->set_live_bytes(bytes); }

std::unique_ptr<BatchJournal> Store::journal(std::uint64_t sequence, PayloadParts parts) {
  return std::make_unique<StoredJournal>(*group_, *engine_, sequence, first_marked_, parts);
}

std::unique_ptr<PayloadSource> Store::payloads(std::uint64_t sequence) {
  return std::make_unique<StoredPayloads>(*engine_, sequence);
}

std::unique_ptr<StoredRange> Store::range_payloads(std::uint64_t sequence, std::int64_t low) {
  return std::make_unique<StoredRange>(*engine_, sequence, low);
}

Engine::Usage Store::usage() const {
  const MutexLock lock(measuring_);
  const Nanoseconds now = steady_now();
  if (now - measured_at_ >= kMeasurePeriod) {
    usage_ = engine_->usage();
    measured_at_ = now;
  }
  return usage_;
}

Store::Stats Store::stats() const {
  const Engine::Usage usage = this->usage();
  return {.commit_time = group_->commit_time(),
          .disk_bytes = usage.bytes,
          .errors = group_->errors(),
          .disk = usage.space,
          .backups = engine_->why_no_copies().empty() ? std::optional(backups_->stats()) : std::nullopt};
}

}  // namespace locksley::daemon
