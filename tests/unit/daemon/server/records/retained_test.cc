#include "daemon/server/records/retained.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "daemon/server/records/listing.h"
#include "tests/support/next_to_forget.h"
#include "tests/support/seed.h"

namespace locksley::daemon {
namespace {

using std::chrono::seconds;

RetainedBatch batch(const RetainedBatches& all, std::uint64_t sequence, Instant forget_at = {}) {
  return {.sequence = sequence,
          .id_hash = all.hash_of(0, "id " + std::to_string(sequence)),
          .forget_at = forget_at,
          .stored_bytes = sequence * 10,
          .rows = {.parts = PayloadParts::kOne, .has_one_step = sequence % 2 == 0}};
}

TEST(RetainedBatchesTest, KeepsWhatItIsGiven) {
  RetainedBatches all(1);
  all.add(batch(all, 7, Instant(seconds(5))));
  const RetainedBatch* found = all.find(7);
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(found->id_hash, all.hash_of(0, "id 7"));
  EXPECT_EQ(found->forget_at, Instant(seconds(5)));
  EXPECT_EQ(found->stored_bytes, 70U);
  EXPECT_EQ(found->rows.parts, PayloadParts::kOne);
  EXPECT_FALSE(found->rows.has_one_step);
  EXPECT_EQ(all.find(6), nullptr);
  EXPECT_EQ(all.find(8), nullptr);
  EXPECT_EQ(all.remove(7)->stored_bytes, 70U);
  EXPECT_EQ(all.remove(7), std::nullopt);
  EXPECT_EQ(all.size(), 0U);
  std::uint64_t from = 0;
  EXPECT_EQ(all.next_of(0, from), nullptr);
  EXPECT_EQ(testing::next_to_forget(all), nullptr);
}

TEST(RetainedBatchesTest, IdsOfOneHashAreAllFound) {
  RetainedBatches all(1);
  for (const std::uint64_t sequence : {1u, 2u, 3u}) {
    RetainedBatch each = batch(all, sequence);
    each.id_hash = 42;
    all.add(each);
  }
  all.remove(2);
  std::vector<std::uint64_t> found = all.with_hash(42);
  std::ranges::sort(found);
  EXPECT_EQ(found, (std::vector<std::uint64_t>{1, 3}));
}

TEST(RetainedBatchesTest, AnotherSeedGivesOtherHashes) {
  EXPECT_NE(RetainedBatches(1).hash_of(0, "a"), RetainedBatches(2).hash_of(0, "a"));
  EXPECT_NE(RetainedBatches(1).hash_of(0, "a"), RetainedBatches(1).hash_of(1, "a"));
}

TEST(RetainedBatchesTest, TheNextOfATenantIsSearchedAmongAFewOfTheOthersAtATime) {
  constexpr std::uint64_t kOthers = 10 * RetainedBatches::kMostSearched;
  RetainedBatches all(1);
  for (std::uint64_t sequence = 1; sequence <= kOthers + 1; ++sequence) {
    RetainedBatch each = batch(all, sequence);
    each.tenant = sequence <= kOthers ? 1 : 2;
    all.add(each);
  }
  for (const std::uint32_t tenant : {2U, 3U}) {
    std::uint64_t from = 0;
    int calls = 1;
    std::uint64_t before = from;
    while (all.next_of(tenant, from) == nullptr && from <= kOthers + 1) {
      ASSERT_GT(from, before);
      before = from;
      ++calls;
    }
    EXPECT_GE(calls, 10);
    EXPECT_EQ(from == kOthers + 1, tenant == 2);
  }
}

TEST(RetainedBatchesTest, AnInstantMovesOnlyFromWhereItIsSaidToBe) {
  RetainedBatches all(1);
  all.add(batch(all, 1, Instant(seconds(10))));
  all.add(batch(all, 2, Instant(seconds(20))));
  all.postpone(1, Instant(seconds(10)), Instant(seconds(30)));
  EXPECT_EQ(testing::next_to_forget(all)->sequence, 2u);
  all.postpone(2, Instant(seconds(19)), Instant(seconds(40)));
  EXPECT_EQ(all.find(2)->forget_at, Instant(seconds(20)));
  all.postpone(1, Instant(seconds(30)), Instant(seconds(5)));
  EXPECT_EQ(testing::next_to_forget(all)->sequence, 1u);
  all.postpone(77, Instant(seconds(1)), Instant(seconds(2)));
  EXPECT_EQ(all.size(), 2u);
}

TEST(RetainedBatchesTest, RestoredBatchesAreAsThoseThatWereAdded) {
  std::mt19937_64 random = locksley::testing::stress_random(1);
  RetainedBatches restored(1);
  RetainedBatches added(1);
  std::vector<std::uint64_t> sequences;
  // Pages that are full, that have a few entries, and that are not there.
  std::uint64_t sequence = 0;
  while (sequences.size() < 5000) {
    sequence += sequence % 300 == 299 ? 1 + random() % 2000 : std::uint64_t{1};
    sequences.push_back(sequence);
    const RetainedBatch each = batch(added, sequence, Instant(seconds(random() % 1000)));
    added.add(each);
    restored.restore(each);
  }
  EXPECT_EQ(restored.size(), sequences.size());
  restored.restored();
  for (const std::uint64_t each : sequences) {
    const RetainedBatch* const found = restored.find(each);
    ASSERT_NE(found, nullptr);
    EXPECT_EQ(found->stored_bytes, added.find(each)->stored_bytes);
    EXPECT_THAT(restored.with_hash(found->id_hash), ::testing::ElementsAre(each));
  }
  EXPECT_EQ(restored.before(sequences.front()), nullptr);
  EXPECT_EQ(restored.before(~std::uint64_t{0})->sequence, sequences.back());
  EXPECT_EQ(restored.find(sequences.back() + 1), nullptr);
  // They go in the same order; others come meanwhile.
  for (std::uint64_t left = sequences.size(); left != 0; --left) {
    if (left % 10 == 0) {
      const RetainedBatch each = batch(added, sequences.back() + left, Instant(seconds(2000)));
      added.add(each);
      restored.add(each);
    }
    ASSERT_EQ(testing::next_to_forget(restored)->forget_at, testing::next_to_forget(added)->forget_at);
    const std::uint64_t next = testing::next_to_forget(restored)->sequence;
    EXPECT_TRUE(restored.remove(next).has_value());
    EXPECT_TRUE(added.remove(next).has_value());
  }
  EXPECT_EQ(restored.size(), added.size());
}

TEST(RetainedBatchesTest, NothingIsRestored) {
  RetainedBatches all(1);
  all.restored();
  EXPECT_EQ(testing::next_to_forget(all), nullptr);
  all.add(batch(all, 1));
  EXPECT_EQ(all.with_hash(all.find(1)->id_hash).size(), 1U);
}

// Against a map, through growing and shrinking.
TEST(RetainedBatchesTest, IsAMapWhateverComesAndGoes) {
  std::mt19937_64 random = locksley::testing::stress_random(0);
  RetainedBatches all(random());
  std::map<std::uint64_t, RetainedBatch> model;
  const auto look = [&] {
    ASSERT_EQ(all.size(), model.size());
    std::uint64_t from = 0;
    ASSERT_EQ(all.next_of(0, from) == nullptr, model.empty());
    if (model.empty()) return;
    ASSERT_EQ(from, model.begin()->first);
    const auto earliest =
        std::ranges::min_element(model, {}, [](const auto& entry) { return entry.second.forget_at; });
    ASSERT_EQ(testing::next_to_forget(all)->forget_at, earliest->second.forget_at);
    const std::uint64_t at = random() % (model.rbegin()->first + 10);
    const auto behind = model.lower_bound(at);
    const RetainedBatch* before = all.before(at);
    ASSERT_EQ(before == nullptr, behind == model.begin());
    if (before != nullptr) {
      ASSERT_EQ(before->sequence, std::prev(behind)->first);
    }
    ASSERT_EQ(all.find(at) != nullptr, model.contains(at));
    ASSERT_EQ(all.with_hash(all.hash_of(0, "id " + std::to_string(at))),
              model.contains(at) ? std::vector<std::uint64_t>{at} : std::vector<std::uint64_t>{});
  };
  for (const std::size_t target : {3000U, 10U, 2000U, 0U}) {
    while (model.size() != target) {
      const bool grows = (random() % 4 != 0) == (model.size() < target);
      if (grows) {
        const std::uint64_t sequence = 1 + random() % 6000;
        if (model.contains(sequence)) continue;
        const RetainedBatch added = batch(all, sequence, Instant(seconds(random() % 500)));
        all.add(added);
        model.emplace(sequence, added);
      } else if (!model.empty()) {
        const auto leaves = model.lower_bound(random() % 6000);
        const std::uint64_t sequence = leaves == model.end() ? model.begin()->first : leaves->first;
        ASSERT_TRUE(all.remove(sequence));
        model.erase(sequence);
      }
      if (model.size() % 16 == 0) look();
    }
    look();
  }
}

}  // namespace
}  // namespace locksley::daemon
