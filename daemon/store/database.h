// RocksDB as the store uses it: the one place that opens it, sets its options and words its errors. Internal
// to daemon/store.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <condition_variable>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>

#include "config/config.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// Three families of rows: the index (all of it is read at start: one row a batch and a few more), payloads,
// and results.
//
// Owned by the Store. Any thread may read (Reading); one thread writes. A database that failed to write is
// opened anew by reopen(): RocksDB then reads its log again and writes what it finds to new files, synced, so
// that nothing rests on pages that the kernel may believe to be on the disk after a sync has failed.
class Database {
 public:
  struct Options {
    std::string path;
    config::Durability durability = config::Durability::kFsync;
    rocksdb::Env* env = nullptr;  // null: the system's
    std::shared_ptr<spdlog::logger> log;
  };

  // Creates it if there is none. The error names the path, says what is wrong, and what to do.
  static std::expected<std::unique_ptr<Database>, std::string> open(Options options);
  // Makes what can still be read of a damaged one a sound one: of a damaged log what comes before the damage;
  // of tables what their checksums vouch for. One that is sound stays as it is. The error as in open().
  static std::expected<void, std::string> repair(const Options& options);
  // Writes out what is in memory, so that the next start is quick, and closes.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // [the writer] The error says what the system said.
  std::expected<void, std::string> write(rocksdb::WriteBatch& batch, bool sync);
  std::expected<void, std::string> sync();
  // [any thread] Merges all files of payloads and results, so that what was deleted takes no space.
  std::expected<void, std::string> merge();
  // [any thread] A merge() under way returns, with an error, and no other begins.
  void give_up_merging();
  // [the writer] Waits for those that read. If it fails, what is there can be read all the same, if at all
  // possible.
  std::expected<void, std::string> reopen();

  // A lease on the open database; while one is held, it stays open. Not valid if it is not open: while it is
  // being opened anew, and if that failed. By default it waits for that, until abandon() is called; or
  // briefly.
  class Reading {
   public:
    enum class Wait { until_open, briefly };
    explicit Reading(Database& database, Wait wait = Wait::until_open);
    bool is_valid() const { return database_.db_ != nullptr; }
    rocksdb::DB& db() const { return *database_.db_; }
    rocksdb::ColumnFamilyHandle& index() const { return *database_.families_[0]; }
    rocksdb::ColumnFamilyHandle& payloads() const { return *database_.families_[1]; }
    rocksdb::ColumnFamilyHandle& results() const { return *database_.families_[2]; }

   private:
    Database& database_;
    std::shared_lock<std::shared_mutex> lock_;
  };
  // Whoever waits for it to be opened shall wait no longer.
  void abandon();

  rocksdb::ColumnFamilyHandle* index() { return families_[0]; }
  rocksdb::ColumnFamilyHandle* payloads() { return families_[1]; }
  rocksdb::ColumnFamilyHandle* results() { return families_[2]; }

  const std::string& path() const { return options_.path; }
  // Bytes of all files in its folder. Reads the folder.
  std::uint64_t disk_bytes() const;

 private:
  explicit Database(Options options) : options_(std::move(options)) {}
  std::expected<void, std::string> open_files();
  void open_for_reading();
  bool has_lost_its_index() const;
  void close_files();
  std::string explain(const rocksdb::Status& status) const;
  std::string damage(std::string_view what) const;

  const Options options_;
  std::shared_mutex mutex_;
  std::condition_variable_any opened_;
  // Written under mutex_, exclusively, by the writer.
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> families_;
  bool abandoned_ = false;
  bool read_only_ = false;          // the writer's thread only
  bool drops_damaged_log_ = false;  // of a log that is damaged, what is behind the damage; for repair()
};

// Visits the rows whose keys begin with `prefix`, in order, until `visit` returns false. The error as of
// write().
std::expected<void, std::string> visit_prefix(
    const Database::Reading& reading, rocksdb::ColumnFamilyHandle& family, std::string_view prefix,
    const std::function<bool(std::string_view key, std::string_view value)>& visit);

}  // namespace locksley::daemon
