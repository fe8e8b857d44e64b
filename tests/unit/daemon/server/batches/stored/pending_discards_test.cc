// The discards of retired batches that the store has yet to write.
#include "daemon/server/batches/stored/pending_discards.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "daemon/base/loop/io_thread.h"

namespace locksley::daemon {
namespace {

TEST(PendingDiscardsTest, ADiscardIsFoundUntilTheStoreHasWrittenIt) {
  const ThreadRoleScope role(kIoThread);
  PendingDiscards discards;
  discards.add(7, 10, {.rows = 3, .bytes = 30});
  ASSERT_TRUE(discards.find(7, 9));
  EXPECT_EQ(discards.find(7, 9)->rows, 3U);
  EXPECT_EQ(discards.find(7, 9)->bytes, 30U);
  EXPECT_FALSE(discards.find(8, 9));
  EXPECT_FALSE(discards.find(7, 10));
  EXPECT_EQ(discards.size(), 0U);
}

TEST(PendingDiscardsTest, ALaterDiscardOfABatchTakesThePlaceOfTheEarlierOne) {
  const ThreadRoleScope role(kIoThread);
  PendingDiscards discards;
  discards.add(7, 10, {.rows = 3, .bytes = 30});
  discards.add(7, 12, {.rows = 5, .bytes = 50});
  EXPECT_EQ(discards.size(), 1U);
  ASSERT_TRUE(discards.find(7, 11)) << "although the earlier one is written";
  EXPECT_EQ(discards.find(7, 11)->rows, 5U);
  discards.add(7, 12, {.rows = 6, .bytes = 60});
  EXPECT_EQ(discards.find(7, 11)->rows, 6U);
  EXPECT_FALSE(discards.find(7, 12));
  EXPECT_EQ(discards.size(), 0U);
}

// One call must not forget all: after a long failure of the disk there may be very many.
TEST(PendingDiscardsTest, WrittenOnesAreForgottenAFewAtATimeAndAreNotFound) {
  const ThreadRoleScope role(kIoThread);
  constexpr std::uint64_t kMany = 10'000;
  constexpr std::uint64_t kFew = 100;
  PendingDiscards discards;
  for (std::uint64_t i = 0; i < kMany; ++i) discards.add(kMany - i, i, {.rows = 1, .bytes = 1});
  EXPECT_TRUE(discards.find(1, 0));
  EXPECT_FALSE(discards.find(1, kMany));
  EXPECT_GT(discards.size(), kMany - kFew);
  EXPECT_FALSE(discards.find(2, kMany));
  for (std::uint64_t i = 0; i < kMany; ++i) {
    discards.add(i, kMany + 1 + i, {.rows = 1, .bytes = 1});
    EXPECT_FALSE(discards.find(i, kMany + 1 + i));
  }
  EXPECT_LE(discards.size(), kFew) << "a call forgets more than one";
}

}  // namespace
}  // namespace locksley::daemon
