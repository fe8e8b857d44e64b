#include "daemon/store/store.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <utility>

#include "daemon/store/engine/engine.h"
#include "daemon/store/journal.h"
#include "daemon/store/read/stored_payloads.h"

namespace locksley::daemon {
namespace {

// The rows of a batch that load() reads.
constexpr std::array kLoadedKinds{kAcceptedKey, kChangesKey, kEndKey};

// The pattern of a range that lies apart. None if its row cannot be read: then its jobs fail with
// the reason.
SharedText read_pattern(const EngineReading& reading, std::uint64_t sequence) {
  std::string bytes;
  if (!reading.get(Table::kPayloads, part_key(sequence, 0), bytes).value_or(false)) return {};
  const auto chunk = PayloadChunk::of(bytes);
  if (!chunk || chunk->size() != 1) return {};
  return std::string((*chunk)[0]);
}

// Guess: as for payloads (PayloadFetcher). A server may take seconds for the rows of one user.
constexpr std::size_t kReadersOfServer = 4;

}  // namespace

Store::Store(std::unique_ptr<Engine> engine, const Options& options, std::shared_ptr<spdlog::logger> log)
    : engine_(std::move(engine)),
      failed_ranges_(options.rows.failed_ranges),
      log_(log),
      group_(new GroupCommit(*engine_, options.durability, log, options.rows, options.patience)),
      reader_(
          std::make_unique<Reader>(engine_->is_on_network() ? kReadersOfServer : 1, Reader::OfUser::kOne)),
      short_reader_(engine_->is_on_network() ? std::make_unique<Reader>() : nullptr),
      reachability_(std::make_unique<Reachability>(*engine_)),
      fetcher_(engine_->is_on_network()
                   ? std::make_unique<PayloadFetcher>(*engine_, *reachability_, options.fetching)
                   : nullptr),
      backups_(std::make_unique<Backups>(*engine_, log_)) {}

Store::~Store() = default;

std::expected<std::unique_ptr<Store>, StoreRefusal> Store::open(const Options& options,
                                                                std::shared_ptr<spdlog::logger> log) {
  auto engine = options.engine({options.path, options.durability, log});
  if (!engine) return std::unexpected(std::move(engine.error()));
  std::unique_ptr<Store> store(new Store(std::move(*engine), options, std::move(log)));
  if (auto checked = store->check_form(); !checked) return std::unexpected(std::move(checked.error()));
  if (auto read = store->read_first_marked(); !read) return std::unexpected(std::move(read.error()));
  return store;
}

std::expected<void, std::string> Store::may_load() const {
  if (reachability_->is_reachable() && steady_now() >= next_load_.load()) return {};
  return std::unexpected("the database does not reply; retry later");
}

std::expected<RowValues, std::string> Store::rows_to_load(std::uint64_t sequence,
                                                          std::chrono::milliseconds patience,
                                                          ReadingConnection connection) {
  constexpr auto kPauseAfterNoReply = std::chrono::seconds(1);  // guess
  const EngineReading reading(*engine_, EngineReading::Wait::kNot);
  if (!reading.is_valid()) return std::unexpected("the store cannot be read now; retry later");
  std::array<Key, kLoadedKinds.size()> keys;
  std::ranges::transform(kLoadedKinds, keys.begin(), [&](char kind) { return row_key(kind, sequence); });
  auto rows = reading.get_within(Table::kIndex, keys, patience, connection);
  if (rows) return *std::move(rows);
  using Kind = EngineError::Kind;
  const Kind kind = rows.error().kind;
  if (kind == Kind::kAway) next_load_ = steady_now() + kPauseAfterNoReply;
  const bool must_ask = kind == Kind::kAway || (kind == Kind::kNotOpen && is_on_network());
  if (must_ask && !is_asking_.exchange(true)) {
    reader_->post([this, sequence] {
      reachability_->note_away(sequence);
      is_asking_ = false;
    });
  }
  return std::unexpected(fmt::format("batch number {}: {}", sequence, rows.error().what));
}

std::expected<StoredBatch, std::string> Store::load(std::uint64_t sequence,
                                                    std::chrono::milliseconds patience,
                                                    ReadingConnection connection) {
  if (auto may = may_load(); !may) return std::unexpected(std::move(may.error()));
  const auto rows = rows_to_load(sequence, patience, connection);
  if (!rows) return std::unexpected(rows.error());
  if (!rows->front() || !rows->back())
    return std::unexpected(fmt::format("batch number {}: its rows are missing", sequence));
  StoredBatch batch;
  batch.sequence = sequence;
  BatchAssembly assembly(batch);
  for (std::size_t i = 0; i < kLoadedKinds.size(); ++i) {
    const auto& value = (*rows)[i];
    if (!value) continue;
    if (auto added = assembly.add(row_key(kLoadedKinds[i], sequence), *value); !added) {
      return std::unexpected(fmt::format("batch number {}: {}", sequence, added.error()));
    }
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
  const EngineReading reading(*engine_);
  if (!reading.is_valid()) return std::unexpected("cannot read the store: the disk fails; retry later");
  const Key wanted = part_key(sequence, row);
  const auto at = reading.first_row({.table = Table::kResults,
                                     .low = part_key(sequence, 0),
                                     .high = part_key(sequence + 1, 0),
                                     .from_at_most = wanted});
  if (!at) return std::unexpected(fmt::format("cannot read the store: {}", at.error().what));
  if (!*at || (*at)->key > std::string_view(wanted)) {
    std::string end;
    const auto found = reading.get(Table::kIndex, row_key(kEndKey, sequence), end);
    const auto split = found && *found ? split_row(end) : std::nullopt;
    if (split && !split->inside.empty()) return ResultLog::Place{0, 0};
    return std::unexpected(fmt::format("the store lacks result {} of a batch", row));
  }
  return ResultLog::Place{last_number((*at)->key), bytes_before((*at)->value)};
}

std::expected<void, StoreRefusal> Store::read_customers(const std::function<void(CustomerRow)>& visit) {
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
  if (!visited) return std::unexpected(cannot_read("", visited.error()));
  if (!is_whole) {
    return std::unexpected(damaged("the settings of a customer are damaged", Engine::Damage::kContradictory));
  }
  return {};
}

std::expected<void, StoreRefusal> Store::recover(const std::function<void(StoredBatch&&)>& visit) {
  const auto damaged = [this](std::uint64_t sequence, std::string_view what) {
    return std::unexpected(
        this->damaged(fmt::format("batch number {}: {}", sequence, what), Engine::Damage::kContradictory));
  };
  const auto cannot_read = [this](const EngineError& error) {
    return std::unexpected(this->cannot_read(fmt::format("batch number {}: ", next_sequence_), error));
  };
  const EngineReading reading(*engine_);
  const auto row = reading.scan_batches(kRecoveredKinds);
  while (row->is_valid()) {
    StoredBatch batch;
    batch.sequence = batch_in(row->key());
    BatchAssembly assembly(batch);
    for (; row->is_valid() && batch_in(row->key()) == batch.sequence; row->next()) {
      if (auto added = assembly.add(row->key(), row->value()); !added) {
        return damaged(batch.sequence, added.error());
      }
    }
    if (!row->status()) break;  // other rows of this batch may be missing
    if (!assembly.is_accepted()) {
      // Looked up by itself: if the row of the acceptance is there, the rows that were read are
      // incomplete.
      std::string accepted;
      const auto found = reading.get(Table::kIndex, row_key(kAcceptedKey, batch.sequence), accepted);
      if (!found) return cannot_read(found.error());
      if (*found)
        return cannot_read({EngineError::Kind::kAway, "the rows that were read lack its first one"});
      orphans_.push_back(batch.sequence);
      continue;
    }
    if (auto finished = assembly.finish(); !finished) return damaged(batch.sequence, finished.error());
    if (assembly.is_over() && batch.history.failed.size() > failed_ranges_) {
      long_ends_.push_back(batch.sequence);
    }
    if (AcceptedRow::Range* const range = batch.accepted.range ? &*batch.accepted.range : nullptr) {
      const bool may_run = !assembly.is_over() || batch.history.totals.failed() != 0;
      if (!range->is_apart && lies_apart(*range)) long_patterns_.push_back({batch.sequence, may_run});
      if (range->is_apart && !assembly.is_over()) range->payload = read_pattern(reading, batch.sequence);
    }
    next_sequence_ = batch.sequence + 1;
    visit(std::move(batch));
  }
  if (const auto status = row->status(); !status) return cannot_read(status.error());
  // A crash may leave payloads of a batch that was not accepted, or of an ADD to a batch that was
  // evicted. No new batch gets such a number, and start() deletes the payloads.
  const auto highest = reading.highest_batch(kBatchKinds);
  if (!highest) return cannot_read(highest.error());
  if (*highest < next_sequence_) return {};
  auto orphans = numbers_with_rows(reading, next_sequence_, *highest);
  if (!orphans) return cannot_read(orphans.error());
  orphans_.insert(orphans_.end(), orphans->begin(), orphans->end());
  next_sequence_ = *highest + 1;
  return {};
}

// Goes from row to row: between two numbers there may be a billion that were reserved and not used.
// If one of the numbers has the row of an acceptance, the rows that recover() read before were
// incomplete.
std::expected<std::vector<std::uint64_t>, EngineError> Store::numbers_with_rows(const EngineReading& reading,
                                                                                std::uint64_t first,
                                                                                std::uint64_t last) const {
  std::set<std::uint64_t> numbers;
  const auto add_those_of = [&](Table table, auto key_of, std::size_t at) -> EngineDone {
    for (std::uint64_t next = first; next <= last;) {
      const auto row = reading.first_row({.table = table, .low = key_of(next), .high = key_of(last + 1)});
      if (!row) return std::unexpected(row.error());
      if (!*row) break;
      next = key_number(std::string_view((*row)->key).substr(at, sizeof(std::uint64_t)));
      numbers.insert(next++);
    }
    return {};
  };
  for (const Table table : {Table::kPayloads, Table::kResults}) {
    const auto key_of = [](std::uint64_t number) { return Key().append(number); };
    if (auto added = add_those_of(table, key_of, 0); !added) return std::unexpected(added.error());
  }
  for (const char kind : kBatchKinds) {
    const auto key_of = [kind](std::uint64_t number) { return row_key(kind, number); };
    if (kind != kAcceptedKey) {
      if (auto added = add_those_of(Table::kIndex, key_of, 1); !added) return std::unexpected(added.error());
      continue;
    }
    const auto unread =
        reading.first_row({.table = Table::kIndex, .low = key_of(first), .high = key_of(last + 1)});
    if (!unread) return std::unexpected(unread.error());
    if (*unread)
      return std::unexpected(
          EngineError{EngineError::Kind::kAway, "the batches that were read lack this one"});
  }
  return std::vector(numbers.begin(), numbers.end());
}

std::expected<Store::Numbers, StoreRefusal> Store::begin_numbers() {
  std::string bytes;
  std::uint64_t first = next_sequence_;
  {
    const EngineReading reading(*engine_);
    if (!reading.is_valid())
      return std::unexpected(cannot_open({EngineError::Kind::kNotOpen, "it is not open"}));
    const auto found = reading.get(Table::kIndex, Key(kNumbersKey), bytes);
    if (!found) return std::unexpected(cannot_open(found.error()));
    if (*found && bytes.size() == sizeof(std::uint64_t)) first = std::max(first, key_number(bytes));
  }
  const std::uint64_t below = first + kNumbersAhead;
  const ThreadRoleScope role(kStoreWriter);
  const bool has_room = engine_->check_room(sizeof(below)).has_value();
  if (!has_room || !write_once(kNumbersKey, Key().append(below), Engine::Sync::kSynced)) {
    numbers_to_take_ = TakeNumbers{below};
    if (has_room) (void)engine_->reopen();  // the writer retries the write
  }
  return Numbers{first, first + kNumbersAhead / 2};
}

std::uint64_t Store::renew_numbers(std::uint64_t next) {
  put(TakeNumbers{next + kNumbersAhead}, Urgency::kWithNext);
  return next + kNumbersAhead / 2;
}

void Store::start(std::function<void(Outcome)> on_outcome) {
  reader_->start();
  if (short_reader_ != nullptr) short_reader_->start();
  if (fetcher_ != nullptr) fetcher_->start();
  group_->start(std::move(on_outcome));
  engine_->start_upkeep();
  if (numbers_to_take_) put(*std::exchange(numbers_to_take_, std::nullopt), Urgency::kWithNext);
  for (const std::uint64_t orphan : std::exchange(orphans_, {})) put(ForgetBatch{orphan}, Urgency::kWithNext);
  move_failed_apart();
  move_patterns_apart();
}

void Store::stop() {
  backups_->stop();
  reader_->stop();
  if (short_reader_ != nullptr) short_reader_->stop();
  if (fetcher_ != nullptr) fetcher_->stop();
  reachability_->stop();
  engine_->stop_upkeep();
  group_->stop();
}

void Store::set_live_bytes(std::uint64_t bytes) { engine_->set_live_bytes(bytes); }

std::unique_ptr<BatchJournal> Store::journal(std::uint64_t sequence, PayloadParts parts, Reader::User user) {
  std::shared_ptr<PendingOfUser> pending;
  if (user != Reader::kNoUser) {
    const MutexLock lock(users_mutex_);
    std::shared_ptr<PendingOfUser>& known = pending_of_users_[user];
    if (known == nullptr) known = std::make_shared<PendingOfUser>();
    pending = known;
  } else {
    pending = std::make_shared<PendingOfUser>();
  }
  return std::make_unique<StoredJournal>(*group_, *engine_, sequence, first_marked_, parts,
                                         std::move(pending));
}

std::unique_ptr<PayloadSource> Store::payloads(std::uint64_t sequence, Reader::User user,
                                               std::string inside) {
  if (fetcher_ == nullptr) {
    return std::make_unique<StoredPayloads>(*engine_, *reachability_, sequence, std::move(inside));
  }
  return std::make_unique<StoredPayloads>(*fetcher_, sequence, user, std::move(inside));
}

std::unique_ptr<PayloadSource> Store::payloads_for_reader(std::uint64_t sequence) {
  return std::make_unique<StoredPayloads>(*engine_, *reachability_, sequence, std::string(),
                                          ChunkPatience::kMost);
}

std::unique_ptr<StoredRange> Store::range_payloads(std::uint64_t sequence, std::int64_t low,
                                                   Reader::User user, Fetched fetched) {
  return std::make_unique<StoredRange>(
      fetched == Fetched::kByReader ? payloads_for_reader(sequence) : payloads(sequence, user), low);
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
