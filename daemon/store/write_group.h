#pragma once

#include <rocksdb/write_batch.h>

#include <cstdint>
#include <expected>
#include <string>
#include <unordered_set>
#include <variant>

#include "daemon/store/writer_thread.h"
#include "daemon/store/writes.h"

namespace rocksdb {
class ColumnFamilyHandle;
}

namespace locksley::daemon {

class Database;
class StepCompactor;

// Puts the writes of a group into RocksDB's write batches. The payloads of large batches are
// written while they are encoded, so that they are not in memory twice. All other rows go into one
// last write, and payloads do not count without these rows: a group that fails has no effect, and a
// crash leaves no half of a group.
//
// Lives on the stack of the writer's thread: add() each write, then finish(). Both block on the
// disk. After a failure, add() does nothing more and finish() returns the error.
class WriteGroup {
 public:
  // Both outlive it. `failed_ranges`: as kFailedRangesInRow; fewer in tests.
  WriteGroup(Database& database, StepCompactor& compactor, std::uint64_t failed_ranges)
      : database_(database), compactor_(compactor), failed_ranges_(failed_ranges) {}

  void add(const StoreWrite& write) LOCKSLEY_REQUIRES(kStoreWriter);

  // The error is that of the first write that failed.
  std::expected<void, std::string> finish(bool sync) LOCKSLEY_REQUIRES(kStoreWriter);

 private:
  void put(std::monostate) {}
  void put(const AcceptBatch& accept) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const AddJobs& add) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const ChangeBatch& change) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const RecordStep& record) LOCKSLEY_REQUIRES(kStoreWriter);
  void put(const ForgetBatch& forget) LOCKSLEY_REQUIRES(kStoreWriter);

  void put_changes(std::uint64_t sequence, const ChangesRow& changes) LOCKSLEY_REQUIRES(kStoreWriter);
  void put_payloads(std::uint64_t sequence, std::uint64_t first, const proto::ArgumentList& payloads)
      LOCKSLEY_REQUIRES(kStoreWriter);
  void flush_payloads() LOCKSLEY_REQUIRES(kStoreWriter);
  void put_end(const RecordStep& end) LOCKSLEY_REQUIRES(kStoreWriter);
  void delete_failed(std::uint64_t sequence) LOCKSLEY_REQUIRES(kStoreWriter);
  void delete_steps(std::uint64_t sequence, std::uint64_t count) LOCKSLEY_REQUIRES(kStoreWriter);
  void delete_payloads(std::uint64_t sequence, PayloadParts parts) LOCKSLEY_REQUIRES(kStoreWriter);
  void delete_parts(rocksdb::ColumnFamilyHandle& family, std::uint64_t sequence);
  void delete_prefix(rocksdb::ColumnFamilyHandle& family, const std::string& prefix, std::uint64_t sequence);
  // The rows of this batch from `low` on and below `high`.
  void delete_between(rocksdb::ColumnFamilyHandle& family, const std::string& low, const std::string& high,
                      std::uint64_t sequence);

  Database& database_;
  StepCompactor& compactor_;
  const std::uint64_t failed_ranges_;
  rocksdb::WriteBatch payloads_;
  rocksdb::WriteBatch last_;
  std::unordered_set<std::uint64_t> touched_;  // batches that this group has rows of
  std::string failure_;
};

}  // namespace locksley::daemon
