#include "daemon/store/embedded/rocks_options.h"

#include <rocksdb/table.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <string>
#include <utility>

#include "daemon/store/embedded/insert_hints.h"

namespace locksley::daemon {
namespace {

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

// In the order of Table.
const std::array<std::string, kTables> kFamilies{rocksdb::kDefaultColumnFamilyName, "payloads", "results"};

}  // namespace

rocksdb::DBOptions database_options(const EngineOptions& options, rocksdb::Env* env, const StoreSizes& sizes,
                                    LogContinuity* continuity) {
  rocksdb::DBOptions db;
  db.wal_filter = continuity;
  db.info_log = std::make_shared<RocksLog>(options.log);
  if (env != nullptr) db.env = env;
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
  // The disk begins to write while large groups are still being put together; the sync after them
  // waits for less.
  db.bytes_per_sync = 1U << 20;
  db.wal_bytes_per_sync = 1U << 20;
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

std::vector<rocksdb::ColumnFamilyDescriptor> families(const StoreSizes& sizes) {
  const auto cache = rocksdb::NewLRUCache(kBlockCache);
  std::vector<rocksdb::ColumnFamilyDescriptor> result;
  for (const std::string& name : kFamilies) result.emplace_back(name, family_options(cache, sizes));
  rocksdb::ColumnFamilyOptions& index = result[static_cast<std::size_t>(Table::kIndex)].options;
  // A daemon that runs small batches writes to no other table, and so its memory stays below 100
  // MiB, and the log that a start replays is short.
  index.write_buffer_size = sizes.memtable / 2;
  index.memtable_insert_with_hint_prefix_extractor = std::make_shared<InsertHints>();
  return result;
}

}  // namespace locksley::daemon
