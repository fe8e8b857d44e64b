// Zeros ahead of the end of RocksDB's log, so that its syncs are quick. Internal to
// daemon/store/embedded.
#pragma once

#include <rocksdb/file_system.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "core/sync/mutex.h"

namespace locksley::daemon {

// The file system of a database that syncs its log after each group.
//
// When a file has grown, a sync also waits for the file system's journal. A sync of bytes that were
// overwritten in place does not, and takes about 0.6 times as long (tests/bench/README.md, "one-job
// batches"). So once the groups are small, zeros are written ahead of the log's end, and the next
// records overwrite them. The write-ahead log of etcd does the same. A large group gains nothing:
// before it, the zeros are cut off, and it is appended as usual.
//
// RocksDB takes zeros for the end of a log. After a power failure, any sectors of the last record
// may still be zeros, because overwritten pages reach the disk in any order. torn_log.h cuts off
// such a record. That works for one record only. So before another record is written, in the same
// log or in a new one, a record that may have overwritten zeros is synced.
//
// Owned by the Env of a database, and outlives its files. Any thread may call it. It blocks on the
// disk as the file system below does. Zeros that cannot be written are no error: the log goes on
// without them.
class PaddedLogs final : public rocksdb::FileSystemWrapper {
 public:
  static constexpr std::uint64_t kSmallGroup = 16U << 10;  // bytes; a guess
  static constexpr std::uint64_t kZeros = 128U << 10;      // bytes, each time; a guess

  // Of the logs in `folder`.
  PaddedLogs(const std::shared_ptr<rocksdb::FileSystem>& files, const std::string& folder);
  ~PaddedLogs() override;

  const char* Name() const override { return "locksley.PaddedLogs"; }
  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* result,
                                    rocksdb::IODebugContext* debug) override;
  // Of a log that is open: without the zeros. RocksDB asks for it when a backup lists the files.
  rocksdb::IOStatus GetFileSize(const std::string& name, const rocksdb::IOOptions& options,
                                std::uint64_t* size, rocksdb::IODebugContext* debug) override;

 private:
  class Log;

  bool is_log(const std::string& name) const;

  const std::filesystem::path folder_;
  Mutex mutex_;
  std::map<std::string, Log*> open_ LOCKSLEY_GUARDED_BY(mutex_);
};

}  // namespace locksley::daemon
