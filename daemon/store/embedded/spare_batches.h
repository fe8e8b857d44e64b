// RocksDB's write batches, used again.
#pragma once

#include <rocksdb/write_batch.h>

#include <cstddef>
#include <vector>

#include "core/sync/mutex.h"

namespace locksley::daemon {

// Used write batches of RocksDB, emptied, which keep their memory: without them a large group would
// touch some hundred new pages, and copy its rows each time that it grows.
//
// Shared by the engine and its groups. Any thread; a mutex, held for some instructions. Only
// allocation fails.
class SpareBatches {
 public:
  // An empty batch.
  rocksdb::WriteBatch take() LOCKSLEY_EXCLUDES(mutex_);
  // Frees it if it has much memory, or if there are spare ones enough.
  void give_back(rocksdb::WriteBatch batch) LOCKSLEY_EXCLUDES(mutex_);

  // A commit has two: the payloads of large batches, and all else. Guess: the results of a few
  // large batches.
  static constexpr std::size_t kMost = 2;
  static constexpr std::size_t kMostBytes = std::size_t{8} << 20;

 private:
  Mutex mutex_;
  std::vector<rocksdb::WriteBatch> spare_ LOCKSLEY_GUARDED_BY(mutex_);
};

}  // namespace locksley::daemon
