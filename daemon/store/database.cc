#include "daemon/store/database.h"

#include <fmt/format.h>
#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/table.h>
#include <spdlog/logger.h>

#include <array>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "daemon/store/clean_end.h"
#include "daemon/store/log_continuity.h"

namespace locksley::daemon {
namespace {

// The form of the rows. A store of another form is refused.
constexpr std::string_view kFormKey = "m";
constexpr std::string_view kForm = "locksley 1";

constexpr std::size_t kBlockCache = 32U << 20;
constexpr std::size_t kMemtable = 64U << 20;
constexpr std::size_t kMemtables = 192U << 20;  // of all families
constexpr std::uint64_t kLog = 128U << 20;

// RocksDB's own log, into ours: what it warns of. (Its usual one is a file in the store's folder, and ends
// the process when the disk is full: an assertion of Debian's build.)
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

rocksdb::DBOptions database_options(const Database::Options& options, LogContinuity* continuity = nullptr) {
  rocksdb::DBOptions db;
  db.wal_filter = continuity;
  db.info_log = std::make_shared<RocksLog>(options.log);
  if (options.env != nullptr) db.env = options.env;
  db.create_if_missing = true;
  db.create_missing_column_families = true;
  db.paranoid_checks = true;
  // After a crash the last record of the log may be torn: it was not acknowledged. Where each was synced,
  // damage anywhere else is damage; where they were not, power loss may leave gaps, and all behind the first
  // is dropped.
  db.wal_recovery_mode = options.durability == config::Durability::kFsync
                             ? rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords
                             : rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  // Few: RocksDB 7.8 has bugs with many parallel flushes (fixed in 7.9 and 8.7).
  db.max_background_jobs = 3;
  db.db_write_buffer_size = kMemtables;
  db.max_total_wal_size = kLog;
  db.max_open_files = 512;
  db.bytes_per_sync = 1U << 20;
  db.stats_dump_period_sec = 0;
  db.stats_persist_period_sec = 0;
  db.max_manifest_file_size = 16U << 20;
  return db;
}

rocksdb::ColumnFamilyOptions family_options(const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::ColumnFamilyOptions family;
  family.write_buffer_size = kMemtable;
  family.max_write_buffer_number = 2;
  family.arena_block_size = 256U << 10;
  family.level_compaction_dynamic_level_bytes = true;  // space: about 1.1 times what is live
  family.compression = rocksdb::kNoCompression;
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = cache;
  table.block_size = 16U << 10;
  table.format_version = 5;
  family.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return family;
}

const std::array<std::string, 3> kFamilies{rocksdb::kDefaultColumnFamilyName, "payloads", "results"};

std::vector<rocksdb::ColumnFamilyDescriptor> families() {
  const auto cache = rocksdb::NewLRUCache(kBlockCache);
  std::vector<rocksdb::ColumnFamilyDescriptor> result;
  for (const std::string& name : kFamilies) result.emplace_back(name, family_options(cache));
  return result;
}

std::expected<void, std::string> outcome(const rocksdb::Status& status) {
  if (status.ok()) return {};
  return std::unexpected(status.ToString());
}

}  // namespace

std::string Database::explain(const rocksdb::Status& status) const {
  const std::string said = status.ToString();
  if (said.find("While lock file") != std::string::npos || said.find("lock hold by") != std::string::npos) {
    return fmt::format("the store {} is in use by another daemon: two cannot share one ({})", options_.path,
                       said);
  }
  if (status.IsCorruption() || status.IsNotFound() || status.IsInvalidArgument() || status.IsPathNotFound()) {
    return damage(said);
  }
  return fmt::format("the store {} cannot be opened: {}", options_.path, said);
}

std::string Database::damage(std::string_view what) const {
  return fmt::format(
      "the store {} is damaged, so nothing was started: {}. Restore it from a copy; or `locksleyd --repair` "
      "with the "
      "same configuration keeps what can still be read; or set store.path to another folder to begin anew",
      options_.path, what);
}

// RocksDB takes a folder without CURRENT for a new one, and what is in it for rubbish. (When it makes a new
// one, CURRENT is on the disk before the first log.)
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
  std::unique_ptr<Database> database(new Database(std::move(options)));
  std::error_code error;
  std::filesystem::create_directories(database->options_.path, error);
  if (error) {
    return std::unexpected(
        fmt::format("the store's folder {} cannot be made: {}", database->options_.path, error.message()));
  }
  if (auto opened = database->open_files(); !opened) return std::unexpected(std::move(opened.error()));
  return database;
}

std::expected<void, std::string> Database::open_files() {
  if (has_lost_its_index()) return std::unexpected(damage("the file CURRENT is missing"));
  const CleanEndNote note(options_.env, options_.path);
  if (const auto whole = note.check(); !whole) return std::unexpected(damage(whole.error().what));
  // Before RocksDB changes anything: a crash from here on leaves no note.
  if (const auto removed = note.remove(); !removed) {
    return std::unexpected(fmt::format("the store {} cannot be opened: {}", options_.path, removed.error()));
  }
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  LogContinuity continuity(options_.env);
  rocksdb::DBOptions options = database_options(options_, &continuity);
  if (drops_damaged_log_) options.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  const rocksdb::Status status = rocksdb::DB::Open(options, options_.path, families(), &handles, &db);
  if (!status.ok()) return std::unexpected(explain(status));
  {
    const std::lock_guard lock(mutex_);
    db_.reset(db);
    families_ = std::move(handles);
  }
  std::string form;
  rocksdb::Status read = db_->Get({}, index(), kFormKey, &form);
  if (read.IsNotFound()) {
    rocksdb::WriteOptions sync;
    sync.sync = true;
    read = db_->Put(sync, index(), kFormKey, kForm);
    form = kForm;
  }
  if (!read.ok()) return std::unexpected(explain(read));
  if (form != kForm) {
    return std::unexpected(
        fmt::format("the store {} was written by another version of Locksley (its form is '{}', this one's "
                    "is '{}'): use that "
                    "version, or another store.path",
                    options_.path, form, kForm));
  }
  opened_.notify_all();
  return {};
}

void Database::close_files() {
  const std::lock_guard lock(mutex_);
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle* family : std::exchange(families_, {}))
    db_->DestroyColumnFamilyHandle(family);
  db_->Close();
  db_.reset();
}

Database::~Database() {
  if (db_ != nullptr && !read_only_ && db_->Flush({}, families_).ok()) {
    // While it is still locked against other daemons.
    rocksdb::CancelAllBackgroundWork(db_.get(), true);
    CleanEndNote(options_.env, options_.path).leave();
  }
  close_files();
}

std::expected<void, std::string> Database::reopen() {
  give_up_merging();
  close_files();
  read_only_ = false;
  auto opened = open_files();
  if (!opened) open_for_reading();
  return opened;
}

void Database::open_for_reading() {
  close_files();
  rocksdb::DB* db = nullptr;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  if (!rocksdb::DB::OpenForReadOnly(database_options(options_), options_.path, families(), &handles, &db)
           .ok())
    return;
  read_only_ = true;
  {
    const std::lock_guard lock(mutex_);
    db_.reset(db);
    families_ = std::move(handles);
  }
  opened_.notify_all();
}

std::expected<void, std::string> Database::repair(const Options& options) {
  Database database(options);
  const CleanEndNote note(options.env, options.path);
  const auto whole = note.check();
  if (const auto removed = note.remove(); !removed) return std::unexpected(removed.error());
  // Opened with a manifest that has lost its end, RocksDB would remove what that named.
  const bool has_its_manifest = whole || whole.error().is_of_the_note;
  for (const bool drops_damaged_log : {false, true}) {
    database.drops_damaged_log_ = drops_damaged_log;
    if (has_its_manifest && database.open_files()) return {};  // the destructor writes it out
  }
  const rocksdb::Status status =
      rocksdb::RepairDB(options.path, database_options(options), families(), family_options(nullptr));
  if (!status.ok()) return std::unexpected(database.explain(status));
  return {};
}

std::expected<void, std::string> Database::write(rocksdb::WriteBatch& batch, bool sync) {
  if (db_ == nullptr || read_only_) return std::unexpected("it is not open");
  rocksdb::WriteOptions options;
  options.sync = sync;
  return outcome(db_->Write(options, &batch));
}

std::expected<void, std::string> Database::sync() {
  if (db_ == nullptr || read_only_) return std::unexpected("it is not open");
  return outcome(db_->SyncWAL());
}

std::expected<void, std::string> Database::merge() {
  const Reading reading(*this);
  if (!reading.is_valid()) return std::unexpected("it is not open");
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  for (rocksdb::ColumnFamilyHandle* family : {&reading.payloads(), &reading.results(), &reading.index()}) {
    if (const auto status = reading.db().CompactRange(options, family, nullptr, nullptr); !status.ok()) {
      return outcome(status);
    }
  }
  return {};
}

void Database::give_up_merging() {
  const std::shared_lock lock(mutex_);
  if (db_ != nullptr) db_->DisableManualCompaction();
}

Database::Reading::Reading(Database& database, Wait wait) : database_(database), lock_(database.mutex_) {
  if (wait == Wait::briefly) {
    // The time that it takes to open it; whoever asks has other things to do than to wait for a disk that
    // fails.
    database_.opened_.wait_for(lock_, std::chrono::milliseconds(200),
                               [&] { return database_.db_ != nullptr; });
    return;
  }
  database_.opened_.wait(lock_, [&] { return database_.db_ != nullptr || database_.abandoned_; });
}

void Database::abandon() {
  {
    const std::lock_guard lock(mutex_);
    abandoned_ = true;
  }
  opened_.notify_all();
}

std::uint64_t Database::disk_bytes() const {
  std::uint64_t sum = 0;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(options_.path, ignored)) {
    const std::uintmax_t size = entry.file_size(ignored);
    if (!ignored) sum += size;
  }
  return sum;
}

std::expected<void, std::string> visit_prefix(
    const Database::Reading& reading, rocksdb::ColumnFamilyHandle& family, std::string_view prefix,
    const std::function<bool(std::string_view key, std::string_view value)>& visit) {
  // The end, so that the iterator does not step over rows that are deleted behind it.
  std::string end(prefix);
  while (!end.empty() && static_cast<unsigned char>(end.back()) == 0xFF) end.pop_back();
  if (!end.empty()) end.back() = static_cast<char>(static_cast<unsigned char>(end.back()) + 1);
  const rocksdb::Slice bound(end);
  rocksdb::ReadOptions options;
  options.verify_checksums = true;
  if (!end.empty()) options.iterate_upper_bound = &bound;
  const std::unique_ptr<rocksdb::Iterator> at(reading.db().NewIterator(options, &family));
  for (at->Seek(rocksdb::Slice(prefix.data(), prefix.size())); at->Valid(); at->Next()) {
    if (!visit(at->key().ToStringView(), at->value().ToStringView())) break;
  }
  return outcome(at->status());
}

}  // namespace locksley::daemon
