// The memory of a write batch is used again, within a bound.
#include "daemon/store/embedded/spare_batches.h"

#include <gtest/gtest.h>
#include <rocksdb/write_batch.h>

#include <cstddef>
#include <string>

namespace locksley::daemon {
namespace {

rocksdb::WriteBatch batch_of(std::size_t bytes) {
  rocksdb::WriteBatch batch;
  EXPECT_TRUE(batch.Put("key", std::string(bytes, 'x')).ok());
  return batch;
}

TEST(SpareBatchesTest, ABatchHasTheMemoryOfOneThatWasGivenBackAndNothingElse) {
  SpareBatches spares;
  spares.give_back(batch_of(100'000));
  const rocksdb::WriteBatch taken = spares.take();
  EXPECT_EQ(taken.Count(), 0U);
  EXPECT_EQ(taken.GetDataSize(), rocksdb::WriteBatch().GetDataSize());
  EXPECT_GE(taken.Data().capacity(), 100'000U);
  EXPECT_LT(spares.take().Data().capacity(), 100'000U) << "it was given twice";
}

TEST(SpareBatchesTest, AVeryLargeOneIsFreed) {
  SpareBatches spares;
  spares.give_back(batch_of(SpareBatches::kMostBytes + 1));
  EXPECT_LT(spares.take().Data().capacity(), SpareBatches::kMostBytes);
}

TEST(SpareBatchesTest, NoMoreAreKeptThanACommitNeeds) {
  SpareBatches spares;
  for (std::size_t i = 0; i < SpareBatches::kMost + 1; ++i) spares.give_back(batch_of(100'000));
  for (std::size_t i = 0; i < SpareBatches::kMost; ++i) EXPECT_GE(spares.take().Data().capacity(), 100'000U);
  EXPECT_LT(spares.take().Data().capacity(), 100'000U);
}

}  // namespace
}  // namespace locksley::daemon
