#include "daemon/store/embedded/log_continuity.h"

#include <rocksdb/write_batch.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <memory>

namespace locksley::daemon {
namespace {

// A record begins with the number of its first entry, 64 bits, little-endian.
rocksdb::SequenceNumber sequence_of(const rocksdb::WriteBatch& record) {
  static_assert(std::endian::native == std::endian::little);
  rocksdb::SequenceNumber sequence = 0;
  std::memcpy(&sequence, record.Data().data(), sizeof sequence);
  return sequence;
}

}  // namespace

rocksdb::WalFilter::WalProcessingOption LogContinuity::LogRecordFound(unsigned long long,
                                                                      const std::string& log_file,
                                                                      const rocksdb::WriteBatch& record,
                                                                      rocksdb::WriteBatch*, bool*) {
  const rocksdb::SequenceNumber sequence = sequence_of(record);
  const bool is_whole = next_ ? sequence == *next_ : !begins_with_zeros(log_file);
  if (!is_whole) return WalProcessingOption::kCorruptedRecord;
  next_ = sequence + record.Count();
  if (log_file != log_file_) {
    log_file_ = log_file;
    records_ = 0;
  }
  ++records_;
  return WalProcessingOption::kContinueProcessing;
}

std::uint64_t LogContinuity::whole_records(std::string_view log) const {
  return std::filesystem::path(log_file_).filename() == log ? records_ : 0;
}

// Reads the checksum, length and kind of the log's first record, which are never all zero.
bool LogContinuity::begins_with_zeros(const std::string& log_file) const {
  std::unique_ptr<rocksdb::SequentialFile> file;
  std::array<char, 7> head;
  rocksdb::Slice read;
  if (!env_->NewSequentialFile(log_file, &file, {}).ok()) return false;
  if (!file->Read(head.size(), &read, head.data()).ok() || read.size() < head.size()) return false;
  return std::all_of(read.data(), read.data() + read.size(), [](char c) { return c == 0; });
}

}  // namespace locksley::daemon
