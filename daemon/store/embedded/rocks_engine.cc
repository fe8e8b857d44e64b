// Length: one class; what stands alone of it is in files of its own.
#include "daemon/store/embedded/rocks_engine.h"

#include <fmt/format.h>
#include <rocksdb/convenience.h>
#include <rocksdb/perf_level.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/store/embedded/clean_end.h"
#include "daemon/store/embedded/embedded_engine.h"
#include "daemon/store/embedded/fast_checksum.h"
#include "daemon/store/embedded/insert_hints.h"
#include "daemon/store/embedded/live_copy.h"
#include "daemon/store/embedded/log_continuity.h"
#include "daemon/store/embedded/open_attempt.h"
#include "daemon/store/embedded/padded_logs.h"
#include "daemon/store/embedded/rocks_options.h"
#include "daemon/store/embedded/store_access.h"
#include "daemon/store/embedded/store_lock.h"
#include "daemon/store/embedded/torn_log.h"
#include "daemon/store/engine/key.h"
#include "daemon/store/rows/rows.h"

namespace locksley::daemon {
namespace {

// Rows deleted one by one. More of them are deleted as a range, which slows down later reads.
constexpr std::size_t kMostDeletes = 16;

EngineError::Kind kind_of(const rocksdb::Status& status) {
  if (status.IsNoSpace()) return EngineError::Kind::kFull;
  const bool is_damage = status.IsCorruption() && !is_of_the_system(status.ToString());
  return is_damage ? EngineError::Kind::kDamaged : EngineError::Kind::kFailed;
}
EngineError error_of(const rocksdb::Status& status) { return {kind_of(status), status.ToString()}; }
EngineDone outcome(const rocksdb::Status& status) {
  if (status.ok()) return {};
  return std::unexpected(error_of(status));
}
EngineDone not_open() {
  return std::unexpected(EngineError{EngineError::Kind::kNotOpen, "the database is not open"});
}

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

// The names of the tables that RocksDB's repair has set aside.
std::set<std::string> tables_aside(const std::string& store) {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(store + "/lost", none)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".sst")) names.insert(name);
  }
  return names;
}

class RocksCursor final : public RowCursor {
 public:
  RocksCursor(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* family, const RowRange& range)
      : low_(range.low), high_(range.high), lower_(low_), upper_(high_) {
    rocksdb::ReadOptions options;
    options.verify_checksums = true;
    options.fill_cache = !range.is_read_once;
    // The bounds keep the iterator from stepping over deleted rows outside of them.
    if (!low_.empty()) options.iterate_lower_bound = &lower_;
    if (!high_.empty()) options.iterate_upper_bound = &upper_;
    at_.reset(db.NewIterator(options, family));
    if (!range.from_at_most.empty()) at_->SeekForPrev(slice(range.from_at_most));
    if (range.from_at_most.empty() || (!at_->Valid() && at_->status().ok())) at_->Seek(lower_);
  }

  bool is_valid() const override { return at_->Valid(); }
  void next() override { at_->Next(); }
  std::string_view key() const override { return at_->key().ToStringView(); }
  std::string_view value() const override { return at_->value().ToStringView(); }
  EngineDone status() const override { return outcome(at_->status()); }

 private:
  const std::string low_;
  const std::string high_;
  const rocksdb::Slice lower_;
  const rocksdb::Slice upper_;
  std::unique_ptr<rocksdb::Iterator> at_;
};

}  // namespace

// A write batch of RocksDB's.
class RocksEngine::RocksGroup final : public Engine::Group {
 public:
  explicit RocksGroup(RocksEngine& engine)
      : engine_(engine), spares_(engine.spares_), batch_(spares_->take()) {}
  ~RocksGroup() override { spares_->give_back(std::move(batch_)); }
  RocksGroup(const RocksGroup&) = delete;
  RocksGroup& operator=(const RocksGroup&) = delete;

  void put(Table table, std::string_view key, std::string_view value) override {
    kStoreWriter.assume_held();
    note(batch_.Put(engine_.family(table), slice(key), slice(value)));
  }
  void erase(Table table, std::string_view key) override {
    kStoreWriter.assume_held();
    note(batch_.Delete(engine_.family(table), slice(key)));
  }
  void erase_range(Table table, std::string_view low, std::string_view high, Rows rows) override {
    kStoreWriter.assume_held();
    std::vector<std::string> keys;
    bool are_few = rows == Rows::kAllCommitted;
    if (are_few) {
      const EngineDone found = find_few(table, low, high, keys);
      if (!found && !failure_) failure_ = found.error();
      if (failure_) return;
      are_few = keys.size() <= kMostDeletes;
    }
    if (!are_few) return delete_range(table, low, high);
    for (const std::string& key : keys) erase(table, key);
  }
  std::size_t size_bytes() const override { return batch_.GetDataSize(); }
  bool empty() const override { return batch_.Count() == 0; }
  void clear() override {
    batch_.Clear();
    failure_.reset();
  }

  rocksdb::WriteBatch& batch() { return batch_; }
  // Why it cannot be written.
  const std::optional<EngineError>& failure() const { return failure_; }

 private:
  // At most one more than are deleted one by one.
  EngineDone find_few(Table table, std::string_view low, std::string_view high,
                      std::vector<std::string>& keys) const {
    const EngineReading reading(engine_, ReadingWait::kNot);
    if (!reading.is_valid()) return not_open();
    return reading.visit({.table = table, .low = low, .high = high},
                         [&keys](std::string_view key, std::string_view) {
                           keys.emplace_back(key);
                           return keys.size() <= kMostDeletes;
                         });
  }
  void delete_range(Table table, std::string_view low, std::string_view high)
      LOCKSLEY_REQUIRES(kStoreWriter) {
    std::string begin(low);
    // RocksDB would put the range into the wrong list.
    if (table == Table::kIndex && InsertHints::has_hint(low) && low < high) {
      erase(table, low);
      begin += '\0';  // the next key
    }
    note(batch_.DeleteRange(engine_.family(table), begin, slice(high)));
  }
  void note(const rocksdb::Status& status) {
    if (!status.ok() && !failure_) failure_ = error_of(status);
  }

  RocksEngine& engine_;
  const std::shared_ptr<SpareBatches> spares_;
  rocksdb::WriteBatch batch_;
  std::optional<EngineError> failure_;
};

RocksEngine::OpenFailure RocksEngine::explain(const rocksdb::Status& status) const {
  const std::string reason = status.ToString();
  if (is_lock_held(status)) return in_use(reason);
  if (is_of_the_system(reason)) return error_of_system(reason);
  if (status.IsCorruption() || status.IsNotFound() || status.IsInvalidArgument() || status.IsPathNotFound()) {
    return damage(reason);
  }
  return {OpenFailure::Kind::kContent, {fmt::format("cannot open the store {}: {}", options_.path, reason)}};
}

RocksEngine::OpenFailure RocksEngine::in_use(std::string_view reason) const {
  return {OpenFailure::Kind::kInUse,
          {fmt::format("the store {} is in use by another daemon: two cannot share one ({})", options_.path,
                       reason)}};
}

RocksEngine::OpenFailure RocksEngine::damage(std::string_view what) const {
  return {OpenFailure::Kind::kContent,
          {.what = fmt::format("the store {} is damaged, so nothing was started: {}. {}", options_.path, what,
                               remedy(Damage::kUnreadable)),
           .lasts = true}};
}

RocksEngine::OpenFailure RocksEngine::error_of_system(std::string_view words) const {
  return {OpenFailure::Kind::kSystem,
          {.what = fmt::format("cannot open the store {}: {}", options_.path, words),
           .lasts = is_forbidden(words)}};
}

StoreRefusal RocksEngine::refusal_of(OpenFailure failure) const {
  if (failure.kind == OpenFailure::Kind::kSystem) {
    failure.refusal.what += advice_about(failure.refusal.what, options_.path);
  }
  return std::move(failure.refusal);
}

std::string_view RocksEngine::remedy(Damage damage) const {
  if (damage == Damage::kContradictory) {
    return "Restore it from a copy, or set store.path to another folder to begin anew";
  }
  return "Restore it from a copy; or `locksleyd --repair` with the same configuration keeps what can "
         "still be read; or set store.path to another folder to begin anew";
}

// RocksDB takes a folder without CURRENT for an empty one, and deletes the files in it. (When
// RocksDB creates a database, CURRENT is on the disk before the first log.)
bool RocksEngine::has_lost_its_index() const {
  std::error_code error;
  if (std::filesystem::exists(options_.path + "/CURRENT", error)) return false;
  for (const auto& entry : std::filesystem::directory_iterator(options_.path, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".sst") || name.ends_with(".log")) return true;
  }
  return false;
}

std::expected<std::unique_ptr<RocksEngine>, StoreRefusal> RocksEngine::open(EngineOptions options,
                                                                            rocksdb::Env* env) {
  if (auto made = make_store_folder(options.path); !made) return std::unexpected(std::move(made.error()));
  std::unique_ptr<RocksEngine> engine(new RocksEngine(std::move(options), env));
  const ThreadRoleScope role(kStoreWriter);
  const auto holder = await_unlocked(engine->options_.path, [&] {
    LogLine("store: another process has it open, and may be ending: waiting for it")
        .with("store", engine->options_.path)
        .with("patience_ms", kLockPatience.count())
        .write(*engine->options_.log, spdlog::level::info);
  });
  if (holder) return std::unexpected(engine->refusal_of(engine->in_use(*holder)));
  if (auto access = check_access(engine->options_.path, Held::kOne); !access) {
    return std::unexpected(std::move(access.error()));
  }
  if (!engine->reserve_.check(0)) engine->reserve_.release();
  if (auto opened = engine->open_files(); !opened) {
    return std::unexpected(engine->refusal_of(std::move(opened.error())));
  }
  if (is_open_to_others(engine->options_.path)) {
    LogLine(fmt::format("store: other users of this machine can enter its folder, and may read payloads and "
                        "results. As its owner, the daemon's user forbids it by `chmod 700 {}`",
                        engine->options_.path))
        .write(*engine->options_.log, spdlog::level::warn);
  }
  static_cast<void>(engine->files_.db->GetDbIdentity(engine->id_));  // which RocksDB has read when it opened
  if (!has_fast_checksums()) {
    LogLine("store: slow checksums: this build of RocksDB does not call those of the program")
        .with("store", engine->options_.path)
        .write(*engine->options_.log, spdlog::level::info);
  }
  return engine;
}

std::unique_ptr<rocksdb::Env> RocksEngine::padded_env(const EngineOptions& options, rocksdb::Env* env) {
  if (options.durability != config::Durability::kFsync) return nullptr;
  const auto files = env != nullptr ? env->GetFileSystem() : rocksdb::FileSystem::Default();
  return rocksdb::NewCompositeEnv(std::make_shared<PaddedLogs>(files, options.path));
}

std::expected<void, RocksEngine::OpenFailure> RocksEngine::open_files() {
  const OpenAttempt attempt(env_, options_.path);
  auto opened = try_open_files();
  // The files of another process are not this attempt's, however new they are.
  if (!opened && opened.error().kind != OpenFailure::Kind::kInUse) attempt.clean_up();
  return opened;
}

std::expected<void, RocksEngine::OpenFailure> RocksEngine::try_open_files() {
  if (has_lost_its_index()) return std::unexpected(damage("the file CURRENT is missing"));
  const CleanEndNote note(env_, options_.path);
  if (const auto whole = note.check(); !whole) {
    const auto& [of, what] = whole.error();
    return std::unexpected(of == CleanEndNote::Mismatch::Of::kSystem ? error_of_system(what) : damage(what));
  }
  // The note is removed before RocksDB changes anything: after a crash there is none.
  if (const auto removed = note.remove(); !removed) return std::unexpected(error_of_system(removed.error()));
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  const bool drops_damaged_log = drops_damaged_log_;
  const auto open = [&](LogContinuity& continuity) {
    rocksdb::DBOptions options = database_options(options_, env_, sizes_, &continuity);
    if (drops_damaged_log) options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
    return rocksdb::DB::Open(options, options_.path, families(sizes_), &handles, &db);
  };
  LogContinuity continuity(env_);
  rocksdb::Status status = open(continuity);
  if (status.IsCorruption() && padded_) {
    if (const std::string torn = cut_torn_record(env_, options_.path, continuity); !torn.empty()) {
      if (options_.log != nullptr) {  // repair() has none
        LogLine("store: the power failed while the last record was being written; no client was told of it")
            .with("store", options_.path)
            .with("log", torn)
            .write(*options_.log, spdlog::level::info);
      }
      LogContinuity again(env_);
      status = open(again);
    }
  }
  if (!status.ok()) return std::unexpected(explain(status));
  files_ = {std::unique_ptr<rocksdb::DB>(db), std::move(handles)};
  opened_ = &files_;
  gate_.open();
  return {};
}

void RocksEngine::close_files() {
  is_closing_ = true;
  gate_.close();
  is_closing_ = false;
  opened_ = nullptr;
  if (files_.db == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* family : std::exchange(files_.families, {})) {
    files_.db->DestroyColumnFamilyHandle(family);
  }
  files_.db->Close();
  files_.db.reset();
}

RocksEngine::~RocksEngine() {
  compactor_.stop();
  const ThreadRoleScope role(kStoreWriter);
  if (is_writable() && files_.db->Flush({}, files_.families).ok()) {
    // Before close_files(): RocksDB's lock still keeps other daemons out.
    rocksdb::CancelAllBackgroundWork(files_.db.get(), true);
    CleanEndNote(env_, options_.path).leave();
  }
  close_files();
}

EngineDone RocksEngine::reopen() {
  abort_compaction();
  close_files();
  read_only_ = false;
  if (!reserve_.check(0)) reserve_.release();
  auto opened = open_files();
  if (opened) return {};
  open_for_reading();
  return std::unexpected(EngineError{EngineError::Kind::kFailed, std::move(opened.error().refusal.what)});
}

void RocksEngine::open_for_reading() {
  close_files();
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  if (!rocksdb::DB::OpenForReadOnly(database_options(options_, env_, sizes_), options_.path, families(sizes_),
                                    &handles, &db)
           .ok()) {
    return;
  }
  read_only_ = true;
  files_ = {std::unique_ptr<rocksdb::DB>(db), std::move(handles)};
  opened_ = &files_;
  gate_.open();
}

std::expected<RepairReport, StoreRefusal> RocksEngine::repair(const EngineOptions& options,
                                                              rocksdb::Env* env) {
  std::error_code failed;
  if (std::filesystem::status(options.path, failed).type() == std::filesystem::file_type::not_found) {
    return std::unexpected(StoreRefusal{
        .what = fmt::format("there is no store in {}: nothing was repaired", options.path), .lasts = true});
  }
  if (auto access = check_access(options.path, Held::kAsForRepair); !access) {
    return std::unexpected(std::move(access.error()));
  }
  RocksEngine engine(options, env);
  const ThreadRoleScope role(kStoreWriter);
  const CleanEndNote note(env, options.path);
  const auto whole = note.check();
  const auto of = whole ? CleanEndNote::Mismatch::Of::kNote : whole.error().of;
  if (of == CleanEndNote::Mismatch::Of::kSystem) {
    return std::unexpected(engine.refusal_of(engine.error_of_system(whole.error().what)));
  }
  // If RocksDB opened a manifest that has lost its end, it would delete the tables that the end
  // named. Until there is another manifest, the note keeps a start from doing that.
  const bool has_its_manifest = of == CleanEndNote::Mismatch::Of::kNote;
  if (has_its_manifest) {
    if (const auto removed = note.remove(); !removed)
      return std::unexpected(engine.refusal_of(engine.error_of_system(removed.error())));
  }
  for (const bool drops_damaged_log : {false, true}) {
    if (!has_its_manifest) break;
    engine.drops_damaged_log_ = drops_damaged_log;
    auto opened = engine.open_files();
    if (opened) return engine.report_repair({.has_cut_log = drops_damaged_log});
    if (opened.error().kind != OpenFailure::Kind::kContent) {
      return std::unexpected(engine.refusal_of(std::move(opened.error())));
    }
  }
  const std::set<std::string> before = tables_aside(options.path);
  const rocksdb::Status status =
      rocksdb::RepairDB(options.path, database_options(options, env, engine.sizes_), families(engine.sizes_),
                        family_options(nullptr, engine.sizes_));
  if (!status.ok()) return std::unexpected(engine.refusal_of(engine.explain(status)));
  if (const auto removed = note.remove(); !removed)
    return std::unexpected(engine.refusal_of(engine.error_of_system(removed.error())));
  RepairReport report;
  std::ranges::set_difference(tables_aside(options.path), before, std::back_inserter(report.aside));
  engine.drops_damaged_log_ = false;
  if (auto opened = engine.open_files(); !opened) {
    return std::unexpected(engine.refusal_of(std::move(opened.error())));
  }
  return engine.report_repair(std::move(report));
}

// The destructor flushes the repaired rows.
std::expected<RepairReport, StoreRefusal> RocksEngine::report_repair(RepairReport report) {
  const EngineReading reading(*this);
  const auto count = [&report](std::string_view, std::string_view) {
    ++report.batches;
    return true;
  };
  const auto counted = reading.visit_prefix(Table::kIndex, Key(kAcceptedKey), count);
  if (counted) return report;
  const std::string& what = counted.error().what;
  if (counted.error().kind != EngineError::Kind::kDamaged) {
    return std::unexpected(refusal_of(error_of_system(what)));
  }
  return std::unexpected(
      StoreRefusal{.what = fmt::format("the store {} cannot be repaired: {}. {}", options_.path, what,
                                       remedy(Damage::kContradictory)),
                   .lasts = true});
}

std::unique_ptr<Engine::Group> RocksEngine::new_group() { return std::make_unique<RocksGroup>(*this); }

EngineDone RocksEngine::commit(Group& group, Sync sync) {
  auto& rows = static_cast<RocksGroup&>(group);
  if (rows.failure()) return std::unexpected(*rows.failure());
  const EngineDone written = write(rows.batch());
  // Not by WriteOptions::sync: if the sync of a log fails that was just closed, a flush that waits
  // for it syncs it again, and an assertion of Debian's build of RocksDB 7.8 ends the process (pull
  // requests 10555, 12448 of RocksDB).
  return written && sync == Sync::kSynced ? this->sync() : written;
}

EngineDone RocksEngine::write_ahead(Group& group) {
  auto& rows = static_cast<RocksGroup&>(group);
  if (rows.failure()) return std::unexpected(*rows.failure());
  EngineDone written = write(rows.batch());
  rows.clear();
  return written;
}

EngineDone RocksEngine::write(rocksdb::WriteBatch& batch) {
  if (!is_writable()) return not_open();
  rocksdb::SetPerfLevel(rocksdb::PerfLevel::kDisable);  // the daemon reads none; they cost at each comparison
  return outcome(files_.db->Write({}, &batch));
}

EngineDone RocksEngine::sync() {
  if (!is_writable()) return not_open();
  return outcome(files_.db->SyncWAL());
}

EngineDone RocksEngine::check_room(std::uint64_t bytes) {
  auto room = reserve_.check(bytes);
  if (room) return {};
  return std::unexpected(EngineError{EngineError::Kind::kFull, std::move(room.error())});
}

EngineDone RocksEngine::compact() {
  const EngineReading reading(*this);
  if (!reading.is_valid()) return not_open();
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  for (const Table table : {Table::kPayloads, Table::kResults, Table::kIndex}) {
    rocksdb::ColumnFamilyHandle* const family = opened_->families[static_cast<std::size_t>(table)];
    if (const auto status = opened_->db->CompactRange(options, family, nullptr, nullptr); !status.ok()) {
      return outcome(status);
    }
  }
  return {};
}

EngineDone RocksEngine::reclaim(std::uint64_t first, std::uint64_t last) {
  if (!is_writable()) return not_open();
  // The deletions become a small file of their own, and the log that had the rows goes.
  if (const auto flushed = files_.db->Flush({}, files_.families); !flushed.ok()) return outcome(flushed);
  const Key begin = Key().append(first);
  const Key end = Key().append(last + 1);
  const rocksdb::Slice from = slice(begin);
  const rocksdb::Slice to = slice(end);
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  for (const Table table : {Table::kPayloads, Table::kResults}) {
    if (const auto status = files_.db->CompactRange(options, family(table), &from, &to); !status.ok()) {
      return outcome(status);
    }
  }
  return outcome(files_.db->CompactRange(options, family(Table::kIndex), nullptr, nullptr));
}

void RocksEngine::abort_compaction() {
  const EngineReading reading(*this, ReadingWait::kNot);
  if (reading.is_valid()) opened_->db->DisableManualCompaction();
}

void RocksEngine::allow_compaction() {
  const EngineReading reading(*this, ReadingWait::kNot);
  if (reading.is_valid()) opened_->db->EnableManualCompaction();
}

std::expected<bool, EngineError> RocksEngine::get(Table table, std::string_view key, std::string& value) {
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  const rocksdb::Status read =
      opened_->db->Get(options, opened_->families[static_cast<std::size_t>(table)], slice(key), &value);
  if (read.ok()) return true;
  if (read.IsNotFound()) return false;
  return std::unexpected(error_of(read));
}

std::unique_ptr<RowCursor> RocksEngine::scan(const RowRange& range) {
  return std::make_unique<RocksCursor>(*opened_->db, opened_->families[static_cast<std::size_t>(range.table)],
                                       range);
}

EngineDone RocksEngine::copy_to(const std::string& folder, const std::stop_token& stop) {
  const EngineReading reading(*this, ReadingWait::kNot);
  if (!reading.is_valid()) return not_open();
  const auto goes_on = [&] { return !is_closing_.load() && !stop.stop_requested(); };
  const auto copied = copy_live_files(*opened_->db, {.folder = folder, .goes_on = goes_on});
  if (!goes_on()) return not_open();
  return outcome(copied);
}

Engine::Usage RocksEngine::usage() const {
  Usage usage{.bytes = 0, .space = disk_space(options_.path)};
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(options_.path, ignored)) {
    if (entry.path().filename() == DiskReserve::kFile) continue;
    const std::uintmax_t size = entry.file_size(ignored);
    if (!ignored) usage.bytes += size;
  }
  return usage;
}

OpenEngine embedded_engine(rocksdb::Env* env) {
  return [env](const EngineOptions& options) -> std::expected<std::unique_ptr<Engine>, StoreRefusal> {
    return RocksEngine::open(options, env);
  };
}

std::expected<RepairReport, StoreRefusal> repair_embedded(const EngineOptions& options, rocksdb::Env* env) {
  return RocksEngine::repair(options, env);
}

}  // namespace locksley::daemon
