// Keys as columns, and back.
#include "daemon/store/postgres/row_place.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "daemon/store/engine/key.h"
#include "daemon/store/rows/rows.h"
#include "tests/support/seed.h"

namespace locksley::daemon {
namespace {

// Keys of batches, as the store has them, close to each other and to the limits of the numbers.
std::vector<std::string> keys(Table table) {
  std::vector<std::string> all;
  const std::uint64_t largest = (std::uint64_t{1} << 63) - 2;
  for (const std::uint64_t batch :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{255}, std::uint64_t{256}, largest}) {
    if (table == Table::kIndex) {
      for (const char kind : {kAcceptedKey, kChangesKey}) all.emplace_back(row_key(kind, batch));
      for (const std::uint64_t number :
           {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{255}, std::uint64_t{256}}) {
        all.emplace_back(step_key(batch, number));
      }
      continue;
    }
    for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{255}, std::uint64_t{256}}) {
      all.emplace_back(part_key(batch, first));
      all.emplace_back(mark_key(batch, first));
    }
    all.emplace_back(part_key(batch, ~std::uint64_t{0}));
  }
  std::ranges::sort(all);
  return all;
}

// Keys, cut, extended or changed.
std::string random_bound(const std::vector<std::string>& keys, std::mt19937_64& random) {
  std::string bound = keys[random() % keys.size()];
  switch (random() % 4) {
    case 0:
      bound.resize(random() % (bound.size() + 1));
      break;
    case 1:
      bound.append(random() % 10, random() % 2 == 0 ? '\xFF' : '\0');
      break;
    case 2:
      bound[random() % bound.size()] = static_cast<char>(random());
      break;
    default:
      break;
  }
  return bound;
}

TEST(RowPlaceTest, AKeyComesBackFromItsColumns) {
  for (const Table table : {Table::kIndex, Table::kPayloads, Table::kResults}) {
    for (const std::string& key : keys(table)) {
      const auto place = place_of(table, key);
      ASSERT_TRUE(place.has_value());
      EXPECT_EQ(key_of(table, *place), key);
    }
  }
}

TEST(RowPlaceTest, ColumnsSortAsKeysDo) {
  for (const Table table : {Table::kIndex, Table::kPayloads}) {
    const std::vector<std::string> sorted = keys(table);
    for (std::size_t i = 1; i < sorted.size(); ++i) {
      EXPECT_LT(*place_of(table, sorted[i - 1]), *place_of(table, sorted[i])) << i;
    }
  }
}

TEST(RowPlaceTest, ABoundCutsColumnsWhereItCutsKeys) {
  std::mt19937_64 random = testing::stress_random(1);
  for (const Table table : {Table::kIndex, Table::kResults}) {
    const std::vector<std::string> sorted = keys(table);
    for (int round = 0; round < 20'000; ++round) {
      const std::string bound = random_bound(sorted, random);
      const RowPlace first = first_from(table, bound);
      for (const std::string& key : sorted) {
        ASSERT_EQ(*place_of(table, key) >= first, key >= bound)
            << ::testing::PrintToString(key) << " and " << ::testing::PrintToString(bound);
      }
    }
  }
}

TEST(RowPlaceTest, KeysWithoutABatchAreNames) {
  EXPECT_FALSE(place_of(Table::kIndex, Key(kFormKey)).has_value());
  EXPECT_FALSE(place_of(Table::kIndex, customer_key("a", "b")).has_value());
  EXPECT_FALSE(place_of(Table::kIndex, customer_key("seven77", "")).has_value())
      << "as long as the key of a batch";
}

TEST(RowPlaceTest, WhatTheStoreReadsAndDeletesOfOneBatchIsARangeOfOneBatch) {
  for (const std::uint64_t batch : {1, 255, 256, 65'535}) {
    const auto is_one = [](Table table, std::string_view low, std::string_view high) {
      return places_in(table, low, high).is_of_one_batch();
    };
    EXPECT_TRUE(is_one(Table::kResults, part_key(batch, 7), part_key(batch, 9)));
    EXPECT_TRUE(is_one(Table::kPayloads, part_key(batch, 7), part_key(batch + 1, 0)));
    EXPECT_TRUE(is_one(Table::kPayloads, Key().append(batch),
                       std::string(Key().append(batch)) + std::string(9, '\xFF')));
    EXPECT_TRUE(is_one(Table::kIndex, row_key(kStepKey, batch), row_key(kStepKey, batch + 1)));
    EXPECT_FALSE(is_one(Table::kIndex, row_key(kStepKey, batch), row_key(kStepKey, batch + 2)));
    EXPECT_FALSE(is_one(Table::kIndex, Key(kStepKey), Key(kStepKey + 1)));
  }
}

}  // namespace
}  // namespace locksley::daemon
