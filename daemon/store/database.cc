#include "daemon/store/database.h"

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "daemon/base/time.h"
#include "daemon/store/clean_end.h"
#include "daemon/store/codec.h"
#include "daemon/store/log_continuity.h"
#include "daemon/store/open_attempt.h"

namespace locksley::daemon {
namespace {

// The format of the rows. A store of another format is refused.
constexpr std::string_view kFormKey = "m";
constexpr std::string_view kForm = "locksley 1";

constexpr std::size_t kBlockCache = 32U << 20;

// Forwards RocksDB's warnings to the daemon's log. (RocksDB's default is a log file in the store's
// folder, which ends the process when the disk is full: an assertion of Debian's build.)
class RocksLog final : public rocksdb::Logger {
 public:
  explicit RocksLog(std::shared_ptr<spdlog::logger> log)
      : rocksdb::Logger(rocksdb::InfoLogLevel::WARN_LEVEL), log_(std::move(log)) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    std::array<char, 512> text;
    const int length = std::vsnprintf(text.data(), text.size(), format, arguments);
    if (length > 0 && log_ != nullptr) log_->debug("store: rocksdb: {}", text.data());
  }
  void LogHeader(const char*, va_list) override {}

 private:
  const std::shared_ptr<spdlog::logger> log_;
};

rocksdb::DBOptions database_options(const Database::Options& options, const StoreSizes& sizes,
                                    LogContinuity* continuity = nullptr) {
  rocksdb::DBOptions db;
  db.wal_filter = continuity;
  db.info_log = std::make_shared<RocksLog>(options.log);
  if (options.env != nullptr) db.env = options.env;
  db.create_if_missing = true;
  db.create_missing_column_families = true;
  db.paranoid_checks = true;
  // After a crash the last record of the log may be torn: it was not acknowledged. With durability
  // fsync, damage before the last record is corruption; with the others, a power loss may leave
  // gaps, and everything after the first gap is dropped.
  db.wal_recovery_mode = options.durability == config::Durability::kFsync
                             ? rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords
                             : rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  // Few: RocksDB 7.8 has bugs with many parallel flushes (fixed in 7.9 and 8.7).
  db.max_background_jobs = 3;
  db.db_write_buffer_size = 3 * sizes.memtable;  // of all column families
  db.max_total_wal_size = 2 * sizes.memtable;
  db.max_open_files = 512;
  db.bytes_per_sync = 1U << 20;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  db.max_manifest_file_size = 16U << 20;
  return db;
}

rocksdb::ColumnFamilyOptions family_options(const std::shared_ptr<rocksdb::Cache>& cache,
                                            const StoreSizes& sizes) {
  rocksdb::ColumnFamilyOptions family;
  family.write_buffer_size = sizes.memtable;
  family.target_file_size_base = sizes.memtable;
  family.max_bytes_for_level_base = 4 * sizes.memtable;
  // On a large disk as usual: 25.
  if (sizes.is_small) family.max_compaction_bytes = 8 * sizes.memtable;
  family.max_write_buffer_number = 2;
  family.arena_block_size = std::min<std::uint64_t>(256U << 10, sizes.memtable / 8);
  family.level_compaction_dynamic_level_bytes = true;  // space: about 1.1 times the live bytes
  family.compression = rocksdb::kNoCompression;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.block_size = 16U << 10;
  table.format_version = 5;
  family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return family;
}

const std::array<std::string, 3> kFamilies{rocksdb::kDefaultColumnFamilyName, "payloads", "results"};

std::vector<rocksdb::ColumnFamilyDescriptor> families(const StoreSizes& sizes) {
  const auto cache = rocksdb::NewLRUCache(kBlockCache);
  std::vector<rocksdb::ColumnFamilyDescriptor> result;
  for (const std::string& name : kFamilies) result.emplace_back(name, family_options(cache, sizes));
  return result;
}

std::expected<void, std::string> outcome(const rocksdb::Status& status) {
  if (status.ok()) return {};
  return std::unexpected(status.ToString());
}

}  // namespace

std::string Database::explain(const rocksdb::Status& status) const {
  const std::string reason = status.ToString();
  if (reason.find("While lock file") != std::string::npos ||
      reason.find("lock hold by") != std::string::npos) {
    return fmt::format("the store {} is in use by another daemon: two cannot share one ({})", options_.path,
                       reason);
  }
  if (status.IsCorruption() || status.IsNotFound() || status.IsInvalidArgument() || status.IsPathNotFound()) {
    return damage(reason);
  }
  return fmt::format("cannot open the store {}: {}", options_.path, reason);
}

std::string Database::damage(std::string_view what) const {
  return fmt::format(
      "the store {} is damaged, so nothing was started: {}. Restore it from a copy; or `locksleyd --repair` "
      "with the "
      "same configuration keeps what can still be read; or set store.path to another folder to begin anew",
      options_.path, what);
}

// RocksDB takes a folder without CURRENT for an empty one, and deletes the files in it. (When
// RocksDB creates a database, CURRENT is on the disk before the first log.)
bool Database::has_lost_its_index() const {
  std::error_code error;
  if (std::filesystem::exists(options_.path + "/CURRENT", error)) return false;
  for (const auto& entry : std::filesystem::directory_iterator(options_.path, error)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".sst") || name.ends_with(".log")) return true;
  }
  return false;
}

std::expected<std::unique_ptr<Database>, std::string> Database::open(Options options) {
  std::error_code error;
  std::filesystem::create_directories(options.path, error);
  if (error) {
    return std::unexpected(
        fmt::format("cannot create the store's folder {}: {}", options.path, error.message()));
  }
  std::unique_ptr<Database> database(new Database(std::move(options)));
  const ThreadRoleScope role(kStoreWriter);
  if (!database->reserve_.check(0)) database->reserve_.release();
  if (auto opened = database->open_files(); !opened) return std::unexpected(std::move(opened.error()));
  return database;
}

std::expected<void, std::string> Database::open_files() {
  const OpenAttempt attempt(options_.env, options_.path);
  auto opened = try_open_files();
  if (!opened) attempt.clean_up();
  return opened;
}

std::expected<void, std::string> Database::try_open_files() {
  if (has_lost_its_index()) return std::unexpected(damage("the file CURRENT is missing"));
  const CleanEndNote note(options_.env, options_.path);
  if (const auto whole = note.check(); !whole) return std::unexpected(damage(whole.error().what));
  // The note is removed before RocksDB changes anything: after a crash there is none.
  if (const auto removed = note.remove(); !removed) {
    return std::unexpected(fmt::format("cannot open the store {}: {}", options_.path, removed.error()));
  }
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  LogContinuity continuity(options_.env);
  rocksdb::DBOptions options = database_options(options_, sizes_, &continuity);
  if (drops_damaged_log_) options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  const rocksdb::Status status = rocksdb::DB::Open(options, options_.path, families(sizes_), &handles, &db);
  if (!status.ok()) return std::unexpected(explain(status));
  files_ = {std::unique_ptr<rocksdb::DB>(db), std::move(handles)};
  std::string form;
  rocksdb::Status read = db->Get({}, index(), kFormKey, &form);
  if (read.IsNotFound()) {
    rocksdb::WriteOptions sync;
    sync.sync = true;
    read = db->Put(sync, index(), kFormKey, kForm);
    form = kForm;
  }
  if (!read.ok()) return std::unexpected(explain(read));
  if (form != kForm) {
    return std::unexpected(
        fmt::format("the store {} was written by another version of Locksley (its format is '{}', this "
                    "version's is '{}'): use that version, or another store.path",
                    options_.path, form, kForm));
  }
  if (const auto marked = read_first_marked(); !marked.ok()) return std::unexpected(explain(marked));
  admit_readers();
  return {};
}

void Database::admit_readers() {
  {
    const MutexLock lock(mutex_);
    opened_ = &files_;
  }
  changed_.notify_all();
}

void Database::close_files() {
  {
    const MutexLock lock(mutex_);
    opened_ = nullptr;
    while (readings_ != 0) changed_.wait(mutex_);
  }
  if (files_.db == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* family : std::exchange(files_.families, {})) {
    files_.db->DestroyColumnFamilyHandle(family);
  }
  files_.db->Close();
  files_.db.reset();
}

Database::~Database() {
  const ThreadRoleScope role(kStoreWriter);
  if (files_.db != nullptr && !read_only_ && files_.db->Flush({}, files_.families).ok()) {
    // Before close_files(): RocksDB's lock still keeps other daemons out.
    rocksdb::CancelAllBackgroundWork(files_.db.get(), true);
    CleanEndNote(options_.env, options_.path).leave();
  }
  close_files();
}

std::expected<void, std::string> Database::reopen() {
  abort_compaction();
  close_files();
  read_only_ = false;
  if (!reserve_.check(0)) reserve_.release();
  auto opened = open_files();
  if (!opened) open_for_reading();
  return opened;
}

void Database::open_for_reading() {
  close_files();
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  if (!rocksdb::DB::OpenForReadOnly(database_options(options_, sizes_), options_.path, families(sizes_),
                                    &handles, &db)
           .ok()) {
    return;
  }
  read_only_ = true;
  files_ = {std::unique_ptr<rocksdb::DB>(db), std::move(handles)};
  admit_readers();
}

std::expected<void, std::string> Database::repair(const Options& options) {
  Database database(options);
  const ThreadRoleScope role(kStoreWriter);
  const CleanEndNote note(options.env, options.path);
  const auto whole = note.check();
  if (const auto removed = note.remove(); !removed) return std::unexpected(removed.error());
  // If RocksDB opened a manifest that has lost its end, it would delete the tables that the end
  // named.
  const bool has_its_manifest = whole || whole.error().is_of_the_note;
  for (const bool drops_damaged_log : {false, true}) {
    database.drops_damaged_log_ = drops_damaged_log;
    if (has_its_manifest && database.open_files()) return {};  // the destructor flushes it
  }
  const rocksdb::Status status =
      rocksdb::RepairDB(options.path, database_options(options, database.sizes_), families(database.sizes_),
                        family_options(nullptr, database.sizes_));
  if (!status.ok()) return std::unexpected(database.explain(status));
  return {};
}

std::expected<void, std::string> Database::write(rocksdb::WriteBatch& batch, bool sync) {
  if (files_.db == nullptr || read_only_) return std::unexpected("the database is not open");
  const rocksdb::Status written = files_.db->Write({}, &batch);
  // Not by WriteOptions::sync: if the sync of a log fails that was just closed, a flush that waits for it syncs it
  // again, and an assertion of Debian's build of RocksDB 7.8 ends the process (pull requests 10555, 12448 of RocksDB).
  return written.ok() && sync ? this->sync() : outcome(written);
}

std::expected<void, std::string> Database::sync() {
  if (files_.db == nullptr || read_only_) return std::unexpected("the database is not open");
  return outcome(files_.db->SyncWAL());
}

std::expected<void, std::string> Database::compact() {
  const Reading reading(*this);
  if (!reading.is_valid()) return std::unexpected("the database is not open");
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  for (rocksdb::ColumnFamilyHandle* family : {&reading.payloads(), &reading.results(), &reading.index()}) {
    if (const auto status = reading.db().CompactRange(options, family, nullptr, nullptr); !status.ok()) {
      return outcome(status);
    }
  }
  return {};
}

std::expected<void, std::string> Database::reclaim(std::uint64_t first, std::uint64_t last) {
  if (files_.db == nullptr || read_only_) return std::unexpected("the database is not open");
  // The deletions become a small file of their own, and the log that had the rows goes.
  if (const auto flushed = files_.db->Flush({}, files_.families); !flushed.ok()) return outcome(flushed);
  std::string begin;
  std::string end;
  append_key_number(begin, first);
  append_key_number(end, last + 1);
  const rocksdb::Slice from(begin);
  const rocksdb::Slice to(end);
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  for (rocksdb::ColumnFamilyHandle* family : {payloads(), results()}) {
    if (const auto status = files_.db->CompactRange(options, family, &from, &to); !status.ok()) {
      return outcome(status);
    }
  }
  return outcome(files_.db->CompactRange(options, index(), nullptr, nullptr));
}

void Database::abort_compaction() {
  const Reading reading(*this, Reading::Wait::kNot);
  if (reading.is_valid()) reading.db().DisableManualCompaction();
}

Database::Reading::Reading(Database& database, Wait wait) : database_(database) {
  // About the time that opening takes: a caller that waits briefly must not be held up by a failing
  // disk.
  constexpr auto kBrief = std::chrono::milliseconds(200);
  const MutexLock lock(database.mutex_);
  if (wait == Wait::kUntilOpen) {
    while (database.opened_ == nullptr && !database.abandoned_) database.changed_.wait(database.mutex_);
  } else if (wait == Wait::kBriefly && database.opened_ == nullptr) {
    const auto deadline = now() + kBrief;
    while (database.opened_ == nullptr &&
           database.changed_.wait_until(database.mutex_, deadline) == std::cv_status::no_timeout) {
    }
  }
  files_ = database.opened_;
  if (files_ != nullptr) ++database.readings_;
}

Database::Reading::~Reading() {
  if (files_ == nullptr) return;
  const MutexLock lock(database_.mutex_);
  // Under the mutex: the database may be destroyed as soon as it is released.
  if (--database_.readings_ == 0 && database_.opened_ == nullptr) database_.changed_.notify_all();
}

void Database::abandon() {
  {
    const MutexLock lock(mutex_);
    abandoned_ = true;
  }
  changed_.notify_all();
}

std::uint64_t Database::disk_bytes() const {
  std::uint64_t sum = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(options_.path, ignored)) {
    if (entry.path().filename() == DiskReserve::kFile) continue;
    const std::uintmax_t size = entry.file_size(ignored);
    if (!ignored) sum += size;
  }
  return sum;
}

std::expected<void, std::string> visit_prefix(
    const Database::Reading& reading, rocksdb::ColumnFamilyHandle& family, std::string_view prefix,
    const std::function<bool(std::string_view key, std::string_view value)>& visit) {
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xFF) end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  return visit_between(reading, family, prefix, end, visit);
}

std::expected<void, std::string> visit_between(
    const Database::Reading& reading, rocksdb::ColumnFamilyHandle& family, std::string_view low,
    std::string_view high, const std::function<bool(std::string_view key, std::string_view value)>& visit) {
  // The bound keeps the iterator from stepping over deleted rows after the last one.
  const rocksdb::Slice bound(high.data(), high.size());
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  if (!high.empty()) options.iterate_upper_bound = &bound;
  const std::unique_ptr<rocksdb::Iterator> at(reading.db().NewIterator(options, &family));
  for (at->Seek(rocksdb::Slice(low.data(), low.size())); at->Valid(); at->Next()) {
    if (!visit(at->key().ToStringView(), at->value().ToStringView())) break;
  }
  return outcome(at->status());
}

}  // namespace locksley::daemon
