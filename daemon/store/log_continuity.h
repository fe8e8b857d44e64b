// Whether RocksDB's log lacks something in its middle. Internal to daemon/store.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/types.h>
#include <rocksdb/wal_filter.h>

#include <optional>
#include <string>

namespace locksley::daemon {

// Sees each record of the logs that RocksDB replays, and calls the first behind a gap damaged. RocksDB
// numbers what it writes without gaps, and does not compare the numbers: a page that was never written,
// because the power failed before the pages around it were synced, reads as zeros; and where zeros are at the
// end or the beginning of one of the log's blocks it takes the rest of the block for empty, and goes on
// behind it.
//
// What it does not see: that the whole of the first log is missing; zeros in the last block, which are the
// log's end to RocksDB (after a power loss they are: what was synced is not zeros).
//
// For one opening of a database, which it must outlive; RocksDB calls it from the thread that opens.
class LogContinuity final : public rocksdb::WalFilter {
 public:
  // `env` null: the system's.
  explicit LogContinuity(rocksdb::Env* env) : env_(env != nullptr ? env : rocksdb::Env::Default()) {}

  using rocksdb::WalFilter::LogRecordFound;
  WalProcessingOption LogRecordFound(unsigned long long log_number, const std::string& log_file,
                                     const rocksdb::WriteBatch& record, rocksdb::WriteBatch* changed,
                                     bool* is_changed) override;
  const char* Name() const override { return "locksley.LogContinuity"; }

 private:
  bool begins_with_zeros(const std::string& log_file) const;

  rocksdb::Env* const env_;
  std::optional<rocksdb::SequenceNumber> next_;  // the number that the next record begins with
};

}  // namespace locksley::daemon
