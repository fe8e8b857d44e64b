// Detects gaps in RocksDB's log. Internal to daemon/store/embedded.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/types.h>
#include <rocksdb/wal_filter.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace locksley::daemon {

// RocksDB passes each record that it replays to this filter, which reports the first record after a
// gap as damaged. RocksDB numbers its entries consecutively, but does not compare the numbers.
// After a power failure, a page that was not synced may read as zeros. RocksDB takes zeros at the
// beginning or the end of a block of the log for an empty rest of the block, and continues with the
// next block.
//
// Two gaps are not detected: that the first log is missing entirely; and zeros in the last block,
// which RocksDB takes for the end of the log. After a power failure they are that: synced pages are
// not zeros.
//
// For one opening of a database, which it must outlive. RocksDB calls it on the thread that opens
// the database. LogRecordFound() reads the log's file.
class LogContinuity final : public rocksdb::WalFilter {
 public:
  // `env` null: the system's.
  explicit LogContinuity(rocksdb::Env* env) : env_(env != nullptr ? env : rocksdb::Env::Default()) {}

  using rocksdb::WalFilter::LogRecordFound;
  WalProcessingOption LogRecordFound(unsigned long long log_number, const std::string& log_file,
                                     const rocksdb::WriteBatch& record, rocksdb::WriteBatch* changed,
                                     bool* is_changed) override;
  const char* Name() const override { return "locksley.LogContinuity"; }

  // How many records of the log with this name, without its folder, were whole. 0 if another log
  // was replayed after it.
  std::uint64_t whole_records(std::string_view log) const;

 private:
  bool begins_with_zeros(const std::string& log_file) const;

  rocksdb::Env* const env_;
  std::optional<rocksdb::SequenceNumber> next_;  // the expected number of the next record's first entry
  // The log that is being replayed, and how many of its records were whole.
  std::string log_file_;
  std::uint64_t records_ = 0;
};

}  // namespace locksley::daemon
