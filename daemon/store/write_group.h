#pragma once

#include <rocksdb/write_batch.h>

#include <cstdint>
#include <expected>
#include <string>
#include <unordered_set>

#include "daemon/store/writes.h"

namespace rocksdb {
class ColumnFamilyHandle;
}

namespace locksley::daemon {

class Database;

// Puts the writes of a group into RocksDB's batches. Payloads of large batches are written while they are put
// together, so that they are not held twice; everything else, and with it all that makes them count, goes in
// one last write: so a group that fails leaves nothing that counts, and a crash nothing by half.
//
// Lives on the stack of the writer's thread: each write in turn, then finish().
class WriteGroup {
 public:
  explicit WriteGroup(Database& database) : database_(database) {}

  void operator()(const AcceptBatch& accept);
  void operator()(const AddJobs& add);
  void operator()(const ChangeBatch& change);
  void operator()(const RecordStep& record);
  void operator()(const ForgetBatch& forget);

  // The error is what the system said of the first write that failed.
  std::expected<void, std::string> finish(bool sync);

 private:
  void put_changes(std::uint64_t sequence, const ChangesRow& changes);
  void put_payloads(std::uint64_t sequence, std::uint64_t first, const proto::ArgumentList& payloads);
  void flush_payloads();
  void delete_steps(std::uint64_t sequence, std::uint64_t count);
  void delete_payloads(std::uint64_t sequence, PayloadParts parts);
  void delete_parts(rocksdb::ColumnFamilyHandle& family, std::uint64_t sequence);
  void delete_prefix(rocksdb::ColumnFamilyHandle& family, const std::string& prefix, std::uint64_t sequence);

  Database& database_;
  rocksdb::WriteBatch payloads_;
  rocksdb::WriteBatch last_;
  std::unordered_set<std::uint64_t> touched_;  // batches that this group has written of
  std::string failure_;
};

}  // namespace locksley::daemon
