// RocksDB as the store uses it: the only place that opens it, sets its options and words its
// errors. Internal to daemon/store.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "config/config.h"
#include "core/sync/mutex.h"
#include "daemon/store/disk_reserve.h"
#include "daemon/store/disk_space.h"
#include "daemon/store/writer_thread.h"

namespace spdlog {
class logger;
}

namespace locksley::daemon {

// An open RocksDB database with three column families: the index (read as a whole at the start; one
// row a batch, and a few more), payloads, and results.
//
// Owned by the Store. Any thread may read, through a Reading; one thread writes (kStoreWriter).
// Reads, writes, compact() and reopen() block on the disk; reopen() and the destructor also wait
// for all Readings. After a write or a sync has failed, call reopen(): RocksDB then replays its log
// and writes the rows to new files, synced. That is needed because after a failed fsync the kernel
// may take pages for clean that never reached the disk.
class Database {
 public:
  struct Options {
    std::string path;
    config::Durability durability = config::Durability::kFsync;
    rocksdb::Env* env = nullptr;  // null: the system's
    std::shared_ptr<spdlog::logger> log;
  };

  // Creates the database if there is none. The error names the path, says what is wrong, and what
  // to do.
  static std::expected<std::unique_ptr<Database>, std::string> open(Options options);
  // Makes a sound database of what is still readable in a damaged one: the records of a log before
  // the first damaged one, and the table blocks whose checksums match. A sound database stays as it
  // is. The error is as in open().
  static std::expected<void, std::string> repair(const Options& options);
  // Flushes the memtables, so that the next start is quick, and closes the database. No Reading may
  // exist.
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // The error is RocksDB's or the system's.
  std::expected<void, std::string> write(rocksdb::WriteBatch& batch, bool sync)
      LOCKSLEY_REQUIRES(kStoreWriter);
  std::expected<void, std::string> sync() LOCKSLEY_REQUIRES(kStoreWriter);
  // [any thread] Compacts all column families, so that deleted rows take no space.
  std::expected<void, std::string> compact() LOCKSLEY_EXCLUDES(mutex_);
  // [any thread] Makes a compact() that is under way, and all later ones, fail, until reopen().
  void abort_compaction() LOCKSLEY_EXCLUDES(mutex_);
  // If it fails, the database is open for reading only, or closed if even that is impossible; and its files
  // are those that were there before. Deletes the reserve first, if the disk is full.
  std::expected<void, std::string> reopen() LOCKSLEY_REQUIRES(kStoreWriter) LOCKSLEY_EXCLUDES(mutex_);

  // The room that is left free on a full disk, for deletions.
  DiskReserve& reserve() LOCKSLEY_REQUIRES(kStoreWriter) { return reserve_; }
  // Gives the room of deleted rows back: those of the batches with these numbers, the last one included.
  std::expected<void, std::string> reclaim(std::uint64_t first, std::uint64_t last)
      LOCKSLEY_REQUIRES(kStoreWriter);
  const StoreSizes& sizes() const { return sizes_; }

 private:
  // RocksDB's handles, in the order index, payloads, results.
  struct Files {
    std::unique_ptr<rocksdb::DB> db;
    std::vector<rocksdb::ColumnFamilyHandle*> families;
  };

 public:
  // A lease on the open database: it stays open while a Reading exists. Not valid if the database
  // is not open: while it is being reopened, and after that has failed. By default the constructor
  // waits until it is open, or until abandon() is called.
  //
  // On the stack of the thread that reads; create it, use it and destroy it there.
  class Reading {
   public:
    enum class Wait { kUntilOpen, kBriefly, kNot };
    explicit Reading(Database& database, Wait wait = Wait::kUntilOpen) LOCKSLEY_EXCLUDES(database.mutex_);
    ~Reading();
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

    bool is_valid() const { return files_ != nullptr; }
    rocksdb::DB& db() const { return *files_->db; }
    rocksdb::ColumnFamilyHandle& index() const { return *files_->families[0]; }
    rocksdb::ColumnFamilyHandle& payloads() const { return *files_->families[1]; }
    rocksdb::ColumnFamilyHandle& results() const { return *files_->families[2]; }

   private:
    Database& database_;
    const Files* files_ = nullptr;  // null: not valid
  };
  // Readings that wait for the database to be opened stop waiting, now and later.
  void abandon() LOCKSLEY_EXCLUDES(mutex_);

  rocksdb::ColumnFamilyHandle* index() LOCKSLEY_REQUIRES(kStoreWriter) { return files_.families[0]; }
  rocksdb::ColumnFamilyHandle* payloads() LOCKSLEY_REQUIRES(kStoreWriter) { return files_.families[1]; }
  rocksdb::ColumnFamilyHandle* results() LOCKSLEY_REQUIRES(kStoreWriter) { return files_.families[2]; }

  const std::string& path() const { return options_.path; }
  // Batches from this number on have marks (mark_key()) for all their results; those before it may lack some, because an
  // earlier version wrote them. [any thread, while a Reading exists]
  std::uint64_t first_marked() const { return first_marked_; }
  // [any thread] Bytes of all files in the database's folder. Reads the folder.
  std::uint64_t disk_bytes() const;

 private:
  explicit Database(Options options)
      : options_(std::move(options)),
        sizes_(StoreSizes::of(disk_space(options_.path))),
        reserve_(options_.path, sizes_) {}
  std::expected<void, std::string> open_files() LOCKSLEY_REQUIRES(kStoreWriter);
  std::expected<void, std::string> try_open_files() LOCKSLEY_REQUIRES(kStoreWriter);
  rocksdb::Status read_first_marked() LOCKSLEY_REQUIRES(kStoreWriter);
  void open_for_reading() LOCKSLEY_REQUIRES(kStoreWriter);
  bool has_lost_its_index() const;
  // From now on Readings are valid.
  void admit_readers() LOCKSLEY_REQUIRES(kStoreWriter) LOCKSLEY_EXCLUDES(mutex_);
  // Waits for all Readings.
  void close_files() LOCKSLEY_REQUIRES(kStoreWriter) LOCKSLEY_EXCLUDES(mutex_);
  std::string explain(const rocksdb::Status& status) const;
  std::string damage(std::string_view what) const;

  const Options options_;
  const StoreSizes sizes_;
  DiskReserve reserve_ LOCKSLEY_GUARDED_BY(kStoreWriter);

  Files files_ LOCKSLEY_GUARDED_BY(kStoreWriter);   // does not change while there is a Reading
  std::uint64_t first_marked_ = ~std::uint64_t{0};  // changes only while there is no Reading
  bool read_only_ LOCKSLEY_GUARDED_BY(kStoreWriter) = false;
  // For repair(): of a damaged log, drop the records after the damage.
  bool drops_damaged_log_ LOCKSLEY_GUARDED_BY(kStoreWriter) = false;

  Mutex mutex_;
  CondVar changed_;                                            // opened_, readings_ or abandoned_
  const Files* opened_ LOCKSLEY_GUARDED_BY(mutex_) = nullptr;  // files_; null: not to be read
  std::size_t readings_ LOCKSLEY_GUARDED_BY(mutex_) = 0;       // that are valid
  bool abandoned_ LOCKSLEY_GUARDED_BY(mutex_) = false;
};

// Visits the rows whose keys begin with `prefix`, in the order of their keys, until `visit` returns
// false. The error is as in Database::write().
std::expected<void, std::string> visit_prefix(
    const Database::Reading& reading, rocksdb::ColumnFamilyHandle& family, std::string_view prefix,
    const std::function<bool(std::string_view key, std::string_view value)>& visit);
// The same for keys from `low` on and below `high`; empty: without this end.
std::expected<void, std::string> visit_between(
    const Database::Reading& reading, rocksdb::ColumnFamilyHandle& family, std::string_view low,
    std::string_view high, const std::function<bool(std::string_view key, std::string_view value)>& visit);

}  // namespace locksley::daemon
