// Two stores read side by side, with either engine.
#include "daemon/store/migration/pair_walk.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "daemon/store/rows/rows.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using PairRows = std::array<std::map<std::string, std::string>, kTables>;
// A key, and what the source and the target have there.
using Seen = std::tuple<std::string, std::optional<std::string>, std::optional<std::string>>;

constexpr std::array kAllTables{Table::kIndex, Table::kPayloads, Table::kResults};

class PairWalkTest : public ::testing::Test {
 protected:
  struct Place {
    const testing::TemporaryFolder folder;
    const std::unique_ptr<testing::StoreDisk> disk = testing::make_store_disk(folder.path(), 1);
    std::unique_ptr<Engine> engine;
    PairRows rows;

    Place() {
      auto opened =
          disk->engine()({folder.path().string(), config::Durability::kFsync, testing::silent_log()});
      if (!opened) throw std::runtime_error(opened.error().what);
      engine = *std::move(opened);
    }
    void put(Table table, std::string_view key, std::string_view value) {
      rows[static_cast<std::size_t>(table)].insert_or_assign(std::string(key), value);
    }
    void write() {
      const ThreadRoleScope role(kStoreWriter);
      const auto group = engine->new_group();
      for (const Table table : kAllTables) {
        for (const auto& [key, value] : rows[static_cast<std::size_t>(table)]) group->put(table, key, value);
      }
      ASSERT_TRUE(engine->commit(*group, Engine::Sync::kSynced).has_value());
    }
  };

  // Batches that are close to each other, far from each other and many, with few parts and many.
  void fill() {
    const std::vector<std::uint64_t> batches{1, 2, 3, 64, 65, 1000, 1001, 70'000, 90'000'000, 90'000'064};
    for (Place* const place : {&source, &target}) {
      const std::string own = place == &source ? "source" : "target";
      for (std::size_t i = 0; i < batches.size(); ++i) {
        const std::uint64_t batch = batches[i];
        // Every third batch is in the source alone, every fourth in the target alone.
        if ((i % 3 == 0 && place == &target) || (i % 4 == 1 && place == &source)) continue;
        place->put(Table::kIndex, row_key(kAcceptedKey, batch), i % 2 == 0 ? own : "both");
        if (i % 2 == 0) place->put(Table::kIndex, row_key(kEndKey, batch), "");
        for (std::uint64_t step = 0; step < i % 5; ++step)
          place->put(Table::kIndex, step_key(batch, step), "step");
        for (std::uint64_t part = 0; part < (batch == 65 ? 12U : 1U); ++part) {
          place->put(Table::kPayloads, part_key(batch, part * 4096), own);
        }
        place->put(Table::kResults, part_key(batch, 0), "both");
        place->put(Table::kResults, mark_key(batch, 0), "");
      }
      place->put(Table::kIndex, Key(kFormKey), "form");
      place->put(Table::kIndex, Key(kFirstMarkedKey), own);
      place->put(Table::kIndex, customer_key(own, "a customer whose name is long"), "settings");
      place->put(Table::kIndex, customer_key("shared", "c"), own);
      place->write();
    }
  }

  std::vector<Seen> expected(Table table, std::string_view after = {}) const {
    std::map<std::string, Seen> all;
    for (const auto& [key, value] : source.rows[static_cast<std::size_t>(table)]) all[key] = {key, value, {}};
    for (const auto& [key, value] : target.rows[static_cast<std::size_t>(table)]) {
      std::get<0>(all[key]) = key;
      std::get<2>(all[key]) = value;
    }
    std::vector<Seen> rows;
    for (const auto& [key, seen] : all) {
      if (after.empty() || key > after) rows.push_back(seen);
    }
    return rows;
  }
  // Stops after so many rows of each step.
  std::vector<Seen> walk(Table table, std::size_t most, std::string after = {}) {
    std::vector<Seen> rows;
    PairWalk walk(*source.engine, *target.engine, table, std::move(after));
    while (!walk.is_at_end()) {
      std::size_t left = most;
      const auto read = walk.step([&](const PairedRow& row) {
        rows.emplace_back(row.key, row.source, row.target);
        EXPECT_EQ(walk.after(), row.key);
        return --left != 0;
      });
      if (!read) throw std::runtime_error(read.error());
    }
    return rows;
  }

  Place source;
  Place target;
};

TEST_F(PairWalkTest, EachKeyIsVisitedOnceInOrderHoweverOftenAStepStops) {
  fill();
  for (const Table table : kAllTables) {
    ASSERT_GT(expected(table).size(), 10U);
    // Few walks through the index, each of which asks a PostgreSQL server some hundred times.
    const std::vector<std::size_t> stops =
        table == Table::kIndex ? std::vector<std::size_t>{5} : std::vector<std::size_t>{1, 7, 1000};
    for (const std::size_t most : stops) EXPECT_EQ(walk(table, most), expected(table)) << most;
  }
}

TEST_F(PairWalkTest, BeginsBehindAnyRow) {
  fill();
  for (const Table table : kAllTables) {
    const std::vector<Seen> all = expected(table);
    const std::string& after = std::get<0>(all[all.size() / 3]);
    EXPECT_EQ(walk(table, 1000, after), expected(table, after));
    EXPECT_THAT(walk(table, 1000, std::get<0>(all.back())), ::testing::IsEmpty());
  }
}

TEST_F(PairWalkTest, BatchesThatWereForgottenTakeFewSteps) {
  const std::vector<std::uint64_t> batches{3, 1'000'000'000'000, 1'000'000'000'001,
                                           4'000'000'000'000'000'000};
  for (const std::uint64_t batch : batches) {
    source.put(Table::kPayloads, part_key(batch, 0), "x");
    (batch % 2 == 0 ? source : target).put(Table::kIndex, row_key(kAcceptedKey, batch), "x");
  }
  source.write();
  target.write();
  for (const Table table : {Table::kIndex, Table::kPayloads}) {
    PairWalk walk(*source.engine, *target.engine, table);
    std::vector<std::string> keys;
    std::size_t steps = 0;
    for (; !walk.is_at_end(); ++steps) {
      const auto read = walk.step([&](const PairedRow& row) {
        keys.emplace_back(row.key);
        return true;
      });
      ASSERT_TRUE(read.has_value()) << read.error();
    }
    EXPECT_EQ(keys.size(), batches.size());
    EXPECT_LT(steps, 60U);
  }
}

TEST_F(PairWalkTest, TwoEmptyStoresHaveNoRows) {
  for (const Table table : kAllTables) EXPECT_THAT(walk(table, 1000), ::testing::IsEmpty());
}

// Rows that were visited may change between two steps.
TEST_F(PairWalkTest, ACommitBetweenTwoStepsIsNotInTheWay) {
  fill();
  std::vector<Seen> rows;
  PairWalk walk(*source.engine, *target.engine, Table::kPayloads);
  while (!walk.is_at_end()) {
    const auto read = walk.step([&](const PairedRow& row) {
      rows.emplace_back(row.key, row.source, row.target);
      return false;
    });
    ASSERT_TRUE(read.has_value()) << read.error();
    if (walk.after().empty()) continue;
    const ThreadRoleScope role(kStoreWriter);
    const auto group = target.engine->new_group();
    group->put(Table::kPayloads, walk.after(), "copied");
    ASSERT_TRUE(target.engine->commit(*group, Engine::Sync::kSynced).has_value());
  }
  EXPECT_EQ(rows, expected(Table::kPayloads));
}

}  // namespace
}  // namespace locksley::daemon
