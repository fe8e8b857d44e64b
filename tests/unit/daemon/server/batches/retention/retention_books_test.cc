#include "daemon/server/batches/retention/retention_books.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace locksley::daemon {
namespace {

class RetentionBooksTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kAlice = 0;
  static constexpr std::uint32_t kBob = 3;
  // What a batch takes, where the test does not say otherwise.
  static constexpr EvictableBytes kBytes{.stored = 1'000, .record = 50};
  static constexpr EvictableBytes kInMemoryAlone{.stored = 0, .record = 50};
  static constexpr EvictableBytes kRetired{.stored = 1'000, .record = 7};

  void expect_evictable(std::uint32_t tenant, std::uint64_t stored, std::uint64_t record) const {
    EXPECT_EQ(books_.evictable(tenant, Resource::kStoredBytes), stored);
    EXPECT_EQ(books_.evictable(tenant, Resource::kRecordBytes), record);
  }
  void expect_evictable_of_all(std::uint64_t stored, std::uint64_t record) const {
    EXPECT_EQ(books_.evictable_of_all(Resource::kStoredBytes), stored);
    EXPECT_EQ(books_.evictable_of_all(Resource::kRecordBytes), record);
  }

  RetentionBooks books_;
  std::set<std::uint64_t> must_stay_;
  const KeptBatches::IsPinned is_pinned_ = [this](std::uint64_t sequence) {
    return must_stay_.contains(sequence);
  };
};

TEST_F(RetentionBooksTest, WhatMayBeEvictedIsTheSumForEachTenantAndForAll) {
  books_.of(kBob).add_stored(1, kBytes);
  books_.of(kBob).add_ephemeral(2, kInMemoryAlone);
  books_.of(kAlice).add_retired(3, kRetired);
  expect_evictable(kBob, 1'000, 100);
  expect_evictable(kAlice, 1'000, 7);
  expect_evictable(/*tenant=*/1, 0, 0);
  expect_evictable(/*tenant=*/99, 0, 0);
  expect_evictable_of_all(2'000, 107);
  EXPECT_EQ(books_.find(99), nullptr);
}

TEST_F(RetentionBooksTest, ABatchThatLeavesIsTakenAwayOnceWhereverItIs) {
  KeptBatches& kept = books_.of(kAlice);
  kept.add_stored(1, kBytes);
  kept.add_stored(2, kBytes);
  kept.add_ephemeral(3, kInMemoryAlone);
  kept.add_ephemeral(4, kInMemoryAlone);
  must_stay_ = {1};
  EXPECT_EQ(kept.first_stored(is_pinned_), 2U) << "1 is pinned";
  kept.note_part_read(3);
  for (const int round : {1, 2}) {
    kept.remove(1, kBytes);
    kept.remove(2, kBytes);
    kept.remove(3, kInMemoryAlone);
    expect_evictable(kAlice, 0, 50);
    EXPECT_EQ(kept.first_ephemeral(is_pinned_), 4U) << round;
  }
  kept.remove(4, kInMemoryAlone);
  expect_evictable_of_all(0, 0);
  EXPECT_FALSE(kept.has_results_to_free());
}

TEST_F(RetentionBooksTest, BatchesOfAPlaceLeaveInTheOrderOfTheirAcceptance) {
  KeptBatches& kept = books_.of(kAlice);
  for (const std::uint64_t sequence : {500U, 20U, 100U}) kept.add_stored(sequence, kBytes);
  for (const std::uint64_t sequence : {30U, 10U}) kept.add_ephemeral(sequence, kInMemoryAlone);
  EXPECT_EQ(kept.first_stored(is_pinned_), 20U);
  EXPECT_EQ(kept.first_ephemeral(is_pinned_), 10U);
  EXPECT_EQ(kept.first_part_read(is_pinned_), KeptBatches::kNone);
  EXPECT_EQ(kept.stored_from(21), 100U);
  EXPECT_EQ(kept.stored_from(501), std::nullopt);
  EXPECT_TRUE(kept.note_part_read(10));
  EXPECT_EQ(kept.first_ephemeral(is_pinned_), 30U);
  EXPECT_EQ(kept.first_part_read(is_pinned_), 10U);
  EXPECT_TRUE(kept.note_not_read(10));
  EXPECT_EQ(kept.first_ephemeral(is_pinned_), 10U);
  EXPECT_EQ(kept.first_part_read(is_pinned_), KeptBatches::kNone);
}

TEST_F(RetentionBooksTest, OnlyWhatIsInAPlaceIsMovedFromIt) {
  KeptBatches& kept = books_.of(kAlice);
  kept.add_stored(1, kBytes);
  kept.add_ephemeral(2, kInMemoryAlone);
  EXPECT_FALSE(kept.note_part_read(1));
  EXPECT_FALSE(kept.note_not_read(2));
  must_stay_ = {2};
  EXPECT_EQ(kept.first_ephemeral(is_pinned_), KeptBatches::kNone);
  EXPECT_FALSE(kept.note_part_read(2)) << "it is pinned";
  EXPECT_FALSE(kept.note_not_read(2));
  EXPECT_EQ(kept.first_part_read(is_pinned_), KeptBatches::kNone);
  EXPECT_TRUE(kept.unpin(2, /*is_stored=*/false));
}

TEST_F(RetentionBooksTest, APinnedBatchIsPassedOverUntilItIsUnpinnedAndStaysEvictable) {
  KeptBatches& kept = books_.of(kAlice);
  kept.add_stored(1, kBytes);
  kept.add_ephemeral(2, kInMemoryAlone);
  must_stay_ = {1, 2};
  EXPECT_EQ(kept.first_stored(is_pinned_), KeptBatches::kNone);
  EXPECT_EQ(kept.first_ephemeral(is_pinned_), KeptBatches::kNone);
  EXPECT_FALSE(kept.has_results_to_free());
  expect_evictable(kAlice, 1'000, 100);

  must_stay_.clear();
  EXPECT_EQ(kept.first_stored(is_pinned_), KeptBatches::kNone) << "the books have yet to be told";
  EXPECT_TRUE(kept.unpin(1, /*is_stored=*/true));
  EXPECT_TRUE(kept.unpin(2, /*is_stored=*/false));
  EXPECT_FALSE(kept.unpin(2, /*is_stored=*/false));
  EXPECT_EQ(kept.first_stored(is_pinned_), 1U);
  EXPECT_EQ(kept.first_ephemeral(is_pinned_), 2U);
}

TEST_F(RetentionBooksTest, OnlyBatchesThatMayHaveBytesInTheStoreTakeOtherBytesThere) {
  KeptBatches& kept = books_.of(kAlice);
  kept.add_stored(1, kBytes);
  kept.add_stored(2, kBytes);
  kept.add_ephemeral(3, kInMemoryAlone);
  must_stay_ = {1};
  EXPECT_EQ(kept.first_stored(is_pinned_), 2U);
  kept.change_stored(1, 1'000, 400);
  kept.change_stored(2, 1'000, 1'300);
  kept.change_stored(3, 0, 500);
  kept.change_stored(4, 0, 500);
  expect_evictable(kAlice, 1'700, 150);
  expect_evictable_of_all(1'700, 150);
}

TEST_F(RetentionBooksTest, RetiredBatchesAreCountedFromTheFirstOneOn) {
  KeptBatches& kept = books_.of(kAlice);
  EXPECT_FALSE(kept.has_retired());
  kept.add_retired(40, kRetired);
  kept.add_retired(60, kRetired);
  kept.first_retired() = 40;
  kept.add_retired(50, kRetired);
  EXPECT_EQ(kept.first_retired(), 40U);
  kept.add_retired(30, kRetired);
  EXPECT_EQ(kept.first_retired(), 30U)
      << "a batch that was accepted before the others has been retired after them";
  kept.shrink_retired(100);
  expect_evictable(kAlice, 3'900, 28);
  for (int i = 0; i < 3; ++i) kept.remove_retired(kRetired);
  EXPECT_TRUE(kept.has_retired());
  kept.remove_retired({.stored = 900, .record = 7});
  EXPECT_FALSE(kept.has_retired());
  expect_evictable_of_all(0, 0);
}

}  // namespace
}  // namespace locksley::daemon
