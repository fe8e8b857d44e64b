#include "daemon/store/embedded/spare_batches.h"

#include <utility>

namespace locksley::daemon {

rocksdb::WriteBatch SpareBatches::take() {
  const MutexLock lock(mutex_);
  if (spare_.empty()) return rocksdb::WriteBatch();
  rocksdb::WriteBatch batch = std::move(spare_.back());
  spare_.pop_back();
  return batch;
}

void SpareBatches::give_back(rocksdb::WriteBatch batch) {
  if (batch.Data().capacity() > kMostBytes) return;
  batch.Clear();
  const MutexLock lock(mutex_);
  if (spare_.size() < kMost) spare_.push_back(std::move(batch));
}

}  // namespace locksley::daemon
