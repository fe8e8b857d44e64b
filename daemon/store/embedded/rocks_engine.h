// RocksDB as the store uses it: the only place that opens it, sets its options and words its
// errors. Internal to daemon/store/embedded.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/write_batch.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/embedded/compactor.h"
#include "daemon/store/embedded/disk_reserve.h"
#include "daemon/store/embedded/embedded_engine.h"
#include "daemon/store/embedded/spare_batches.h"
#include "daemon/store/engine/disk_space.h"
#include "daemon/store/engine/engine.h"
#include "daemon/store/engine/reading_gate.h"
#include "daemon/store/engine/writer_thread.h"

namespace locksley::daemon {

// The embedded engine: a RocksDB database in a folder, with a column family for each table.
//
// Owned by the Store. Threads, blocking and errors: as Engine says. After a write or a sync has
// failed, reopen() lets RocksDB replay its log and write the rows to new files, synced. That is
// needed because after a failed fsync the kernel may take pages for clean that never reached the
// disk.
class RocksEngine final : public Engine {
 public:
  // If another process has the folder open, waits for some seconds until it has closed it. `env`
  // null: the system's.
  static std::expected<std::unique_ptr<RocksEngine>, StoreRefusal> open(EngineOptions options,
                                                                        rocksdb::Env* env);
  // Makes a sound database from the readable part of a damaged one: the records of a log before the
  // first damaged one, and the table blocks whose checksums match. A sound database stays as it is.
  // RocksDB moves a table that it cannot open into the folder `lost`, so nothing is repaired if a
  // file cannot be opened for a reason other than its content.
  static std::expected<RepairReport, StoreRefusal> repair(const EngineOptions& options, rocksdb::Env* env);
  // Flushes the memtables, so that the next start is quick, and closes the database.
  ~RocksEngine() override;
  RocksEngine(const RocksEngine&) = delete;
  RocksEngine& operator=(const RocksEngine&) = delete;

  std::unique_ptr<Group> new_group() override;
  EngineDone commit(Group& group, Sync sync) override LOCKSLEY_REQUIRES(kStoreWriter);
  EngineDone write_ahead(Group& group) override LOCKSLEY_REQUIRES(kStoreWriter);
  std::size_t write_ahead_bytes() const override { return sizes_.write_bytes; }
  EngineDone sync() override LOCKSLEY_REQUIRES(kStoreWriter);
  // If it fails, the files are those that were there before. Deletes the reserve first, if the disk
  // is full.
  EngineDone reopen() override LOCKSLEY_REQUIRES(kStoreWriter);

  EngineDone check_room(std::uint64_t bytes) override LOCKSLEY_REQUIRES(kStoreWriter);
  bool has_last_room(std::uint64_t bytes) override LOCKSLEY_REQUIRES(kStoreWriter) {
    return reserve_.has_last_room(bytes);
  }
  void use_reserve() override LOCKSLEY_REQUIRES(kStoreWriter) { reserve_.release(); }
  EngineDone reclaim(std::uint64_t first, std::uint64_t last) override LOCKSLEY_REQUIRES(kStoreWriter);

  const std::string& place() const override { return options_.path; }
  const std::string& id() const override { return id_; }
  std::string_view remedy(Damage damage) const override;
  // Reads the folder.
  Usage usage() const override;
  void start_upkeep() override { compactor_.start(); }
  void stop_upkeep() override { compactor_.stop(); }
  void set_live_bytes(std::uint64_t bytes) override { compactor_.set_live_bytes(bytes); }
  std::string_view why_no_copies() const override { return {}; }
  // While it runs, RocksDB deletes no files.
  EngineDone copy_to(const std::string& folder, const std::stop_token& stop) override;

  // ---- For the Compactor, on its thread ----

  // Compacts all column families, so that deleted rows take no space.
  EngineDone compact();
  // Makes a compact() that is under way, and all later ones, fail, until allow_compaction() or
  // reopen().
  void abort_compaction();
  // Once that thread has ended: other compactions may run again.
  void allow_compaction();
  const StoreSizes& sizes() const { return sizes_; }

 protected:
  bool begin_reading(ReadingWait wait) override { return gate_.enter(wait); }
  void end_reading() override { gate_.leave(); }
  std::expected<bool, EngineError> get(Table table, std::string_view key, std::string& value) override;
  std::unique_ptr<RowCursor> scan(const RowRange& range) override;

 private:
  class RocksGroup;

  // RocksDB's handles, in the order of Table.
  struct Files {
    std::unique_ptr<rocksdb::DB> db;
    std::vector<rocksdb::ColumnFamilyHandle*> families;
  };

  RocksEngine(EngineOptions options, rocksdb::Env* env)
      : options_(std::move(options)),
        padded_(padded_env(options_, env)),
        env_(padded_ ? padded_.get() : env),
        sizes_(StoreSizes::of(disk_space(options_.path))),
        reserve_(options_.path, sizes_),
        compactor_(*this, options_.log) {}
  // Null: the log is not synced after each group.
  static std::unique_ptr<rocksdb::Env> padded_env(const EngineOptions& options, rocksdb::Env* env);
  struct OpenFailure {
    enum class Kind : std::uint8_t {
      kContent,  // damage, or what RocksDB words like it
      kInUse,    // by another process
      kSystem,   // an error of the system; the files may be sound
    };
    Kind kind;
    StoreRefusal refusal;
  };
  std::expected<void, OpenFailure> open_files() LOCKSLEY_REQUIRES(kStoreWriter);
  std::expected<void, OpenFailure> try_open_files() LOCKSLEY_REQUIRES(kStoreWriter);
  std::expected<RepairReport, StoreRefusal> report_repair(RepairReport report);
  void open_for_reading() LOCKSLEY_REQUIRES(kStoreWriter);
  bool has_lost_its_index() const;
  // Waits for all readings.
  void close_files() LOCKSLEY_REQUIRES(kStoreWriter);
  bool is_writable() const LOCKSLEY_REQUIRES(kStoreWriter) { return files_.db != nullptr && !read_only_; }
  EngineDone write(rocksdb::WriteBatch& batch) LOCKSLEY_REQUIRES(kStoreWriter);
  OpenFailure explain(const rocksdb::Status& status) const;
  OpenFailure in_use(std::string_view reason) const;
  OpenFailure damage(std::string_view what) const;
  OpenFailure error_of_system(std::string_view words) const;
  // Names the remedy, if the failure is an error of the system.
  StoreRefusal refusal_of(OpenFailure failure) const;

  rocksdb::ColumnFamilyHandle* family(Table table) LOCKSLEY_REQUIRES(kStoreWriter) {
    return files_.families[static_cast<std::size_t>(table)];
  }

  const EngineOptions options_;
  const std::unique_ptr<rocksdb::Env> padded_;  // has PaddedLogs
  rocksdb::Env* const env_;                     // null: the system's
  const StoreSizes sizes_;
  std::string id_;  // RocksDB's, in its file IDENTITY; constant after open()
  DiskReserve reserve_ LOCKSLEY_GUARDED_BY(kStoreWriter);
  const std::shared_ptr<SpareBatches> spares_ =
      std::make_shared<SpareBatches>();  // groups may outlive the engine

  Files files_ LOCKSLEY_GUARDED_BY(kStoreWriter);
  // files_, for readings: changes, as files_ does, only while there is none.
  const Files* opened_ = nullptr;
  bool read_only_ LOCKSLEY_GUARDED_BY(kStoreWriter) = false;
  // For repair(): of a damaged log, drop the records after the damage.
  bool drops_damaged_log_ LOCKSLEY_GUARDED_BY(kStoreWriter) = false;
  ReadingGate gate_;
  // The writer sets it, to end a copy_to() that it would have to wait for.
  std::atomic<bool> is_closing_{false};
  Compactor compactor_;  // last: its thread uses all of the above
};

}  // namespace locksley::daemon
