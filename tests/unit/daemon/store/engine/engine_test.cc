// What the store relies on, of either engine.
#include "daemon/store/engine/engine.h"

#include <gmock/gmock.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "daemon/store/engine/key.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using Rows = Engine::Group::Rows;
using Sync = Engine::Sync;

// The test's thread is the writer's.
class EngineTest : public ::testing::Test {
 protected:
  EngineTest() { open(); }

  void open() {
    auto opened = disk->engine()({folder.path().string(), config::Durability::kFsync, testing::silent_log()});
    if (!opened) throw std::runtime_error(opened.error().what);
    engine = std::move(*opened);
  }
  EngineDone put(const std::vector<std::pair<std::string, std::string>>& rows, Table table = Table::kIndex,
                 Sync sync = Sync::kSynced) LOCKSLEY_REQUIRES(kStoreWriter) {
    const auto group = engine->new_group();
    for (const auto& [key, value] : rows) group->put(table, key, value);
    return engine->commit(*group, sync);
  }
  std::vector<std::string> keys(const RowRange& range) {
    const EngineReading reading(*engine);
    std::vector<std::string> found;
    const auto read = reading.visit(range, [&](std::string_view key, std::string_view) {
      found.emplace_back(key);
      return true;
    });
    EXPECT_TRUE(read.has_value());
    return found;
  }
  std::vector<std::string> keys(Table table = Table::kIndex) {
    return keys({.table = table, .low = "", .high = ""});
  }
  std::optional<std::string> value_of(std::string_view key) {
    const EngineReading reading(*engine);
    std::string value;
    const auto found = reading.get(Table::kIndex, key, value);
    EXPECT_TRUE(found.has_value());
    return found.value_or(false) ? std::optional(value) : std::nullopt;
  }

  const testing::TemporaryFolder folder;
  const std::unique_ptr<testing::StoreDisk> disk = testing::make_store_disk(folder.path(), 1);
  std::unique_ptr<Engine> engine;
};

TEST_F(EngineTest, ACursorStaysInItsRangeAndItsTable) {
  const ThreadRoleScope role(kStoreWriter);
  ASSERT_TRUE(put({{"a", "1"}, {"b", "2"}, {"c", "3"}, {"d", ""}}));
  ASSERT_TRUE(put({{"b", "payload"}}, Table::kPayloads));
  EXPECT_THAT(keys(), ElementsAre("a", "b", "c", "d"));
  EXPECT_THAT(keys(Table::kPayloads), ElementsAre("b"));
  EXPECT_THAT(keys(Table::kResults), IsEmpty());
  EXPECT_THAT(keys({.table = Table::kIndex, .low = "b", .high = "d"}), ElementsAre("b", "c"));
  EXPECT_THAT(keys({.table = Table::kIndex, .low = "bb", .high = ""}), ElementsAre("c", "d"));
  EXPECT_EQ(value_of("d"), "");
  EXPECT_EQ(value_of("e"), std::nullopt);
}

TEST_F(EngineTest, ACursorBeginsWithTheLastRowThatIsNotAboveAKey) {
  const ThreadRoleScope role(kStoreWriter);
  ASSERT_TRUE(put({{"a", ""}, {"c", ""}, {"e", ""}, {"g", ""}}));
  const auto from = [&](std::string_view low, std::string_view high, std::string_view key) {
    return keys({.table = Table::kIndex, .low = low, .high = high, .from_at_most = key});
  };
  EXPECT_THAT(from("", "", "d"), ElementsAre("c", "e", "g"));
  EXPECT_THAT(from("", "", "e"), ElementsAre("e", "g"));
  EXPECT_THAT(from("", "", "z"), ElementsAre("g"));
  EXPECT_THAT(from("c", "g", "z"), ElementsAre("e")) << "the last of the range";
  EXPECT_THAT(from("c", "g", "g"), ElementsAre("e")) << "the bound is a row, and not in the range";
  EXPECT_THAT(from("b", "f", "bb"), ElementsAre("c", "e")) << "none, so the first of the range";
  EXPECT_THAT(from("b", "f", "a"), ElementsAre("c", "e"));
  EXPECT_THAT(from("h", "", "k"), IsEmpty());
}

TEST_F(EngineTest, TheFirstRowOfARangeIsThatOfItsCursor) {
  const ThreadRoleScope role(kStoreWriter);
  const auto group = engine->new_group();
  for (const Table table : {Table::kIndex, Table::kPayloads, Table::kResults}) {
    const auto key = [&](std::uint64_t batch, std::uint64_t part) {
      return (table == Table::kIndex ? Key('s') : Key()).append(batch).append(part);
    };
    for (const std::uint64_t batch : {7U, 9U}) {
      for (const std::uint64_t part : {0U, 5U, 10U})
        group->put(table, key(batch, part), std::to_string(batch + part));
    }
  }
  ASSERT_TRUE(engine->commit(*group, Sync::kSynced));
  const EngineReading reading(*engine);
  for (const Table table : {Table::kIndex, Table::kPayloads, Table::kResults}) {
    const auto key = [&](std::uint64_t batch, std::uint64_t part) {
      return (table == Table::kIndex ? Key('s') : Key()).append(batch).append(part);
    };
    const auto check = [&](const Key& low, const Key& high, std::string_view from_at_most) {
      const RowRange range{.table = table, .low = low, .high = high, .from_at_most = from_at_most};
      const auto found = reading.first_row(range);
      ASSERT_TRUE(found);
      const auto at = reading.scan(range);
      ASSERT_EQ(found->has_value(), at->is_valid());
      if (!*found) return;
      EXPECT_EQ((*found)->key, at->key());
      EXPECT_EQ((*found)->value, at->value());
    };
    for (const std::uint64_t batch : {6U, 7U, 8U, 9U}) {
      check(key(batch, 0), key(batch + 1, 0), {});
      check(key(batch, 3), key(batch, 10), {});
      check(key(batch, 6), key(batch, 9), {});
      for (const std::uint64_t part : {0U, 3U, 5U, 9U, 10U, 100U}) {
        check(key(batch, 0), key(batch + 1, 0), key(batch, part));
        check(key(batch, 2), key(batch, 8), key(batch, part));
      }
    }
    check(key(7, 6), key(9, 3), key(9, 1));
  }
}

// So many that an engine on another machine gets them in several pieces.
TEST_F(EngineTest, RowsOfSeveralKindsComeInTheOrderOfTheirBatches) {
  const ThreadRoleScope role(kStoreWriter);
  constexpr std::uint64_t kBatches = 5000;
  const auto group = engine->new_group();
  std::vector<std::pair<std::string, std::string>> wanted;
  const auto put = [&](const Key& key, bool is_wanted = true) {
    const std::string value = std::to_string(wanted.size());
    group->put(Table::kIndex, key, value);
    if (is_wanted) wanted.emplace_back(key, value);
  };
  for (std::uint64_t batch = 1; batch <= kBatches; ++batch) {
    if (batch % 7 != 0) put(Key('b').append(batch));
    if (batch % 2 == 0) put(Key('e').append(batch));
    if (batch % 5 == 0) put(Key('f').append(batch).append(0), false);
    for (std::uint64_t step = 0; batch % 3 == 0 && step < batch % 4; ++step)
      put(Key('s').append(batch).append(step));
  }
  group->put(Table::kIndex, "m", "no batch's");
  group->put(Table::kIndex, "uanna/one", "a customer's");
  ASSERT_TRUE(engine->commit(*group, Sync::kSynced));
  const EngineReading reading(*engine);
  const auto row = reading.scan_batches(std::array{'b', 'c', 'e', 's'});
  for (const auto& [key, value] : wanted) {
    ASSERT_TRUE(row->is_valid());
    ASSERT_EQ(row->key(), key);
    ASSERT_EQ(row->value(), value);
    row->next();
  }
  EXPECT_FALSE(row->is_valid());
  EXPECT_TRUE(row->status());
  // One that is left in the middle.
  const auto left = reading.scan_batches(std::array{'b', 'e'});
  for (int i = 0; i < 100; ++i) left->next();
  EXPECT_TRUE(left->is_valid());
}

TEST_F(EngineTest, OfNoBatchesThereAreNoRows) {
  const EngineReading reading(*engine);
  const auto row = reading.scan_batches(std::array{'b', 's'});
  EXPECT_FALSE(row->is_valid());
  EXPECT_TRUE(row->status());
}

TEST_F(EngineTest, TheHighestBatchMayHaveItsOnlyRowInAnyTable) {
  const ThreadRoleScope role(kStoreWriter);
  const auto highest = [&] {
    const EngineReading reading(*engine);
    return reading.highest_batch(std::array{'b', 'e', 's'}).value();
  };
  EXPECT_EQ(highest(), 0U);
  ASSERT_TRUE(put({{"a", "no batch's"}}));
  EXPECT_EQ(highest(), 0U);
  const auto with = [&](Table table, const Key& key) {
    kStoreWriter.assert_held();
    return put({{std::string(std::string_view(key)), "value"}}, table).has_value();
  };
  ASSERT_TRUE(with(Table::kIndex, Key('s').append(3).append(900)));
  EXPECT_EQ(highest(), 3U);
  ASSERT_TRUE(with(Table::kIndex, Key('b').append(70)));
  EXPECT_EQ(highest(), 70U) << "of another kind";
  ASSERT_TRUE(with(Table::kPayloads, Key().append(130).append(1)));
  EXPECT_EQ(highest(), 130U);
  ASSERT_TRUE(with(Table::kResults, Key().append(131).append(0)));
  EXPECT_EQ(highest(), 131U);
}

TEST_F(EngineTest, AdvisesWhatCanBeDoneWithThisEngine) {
  const std::string other = disk->key_of_place() == "store.path" ? "store.url" : "store.path";
  for (const auto damage : {Engine::Damage::kUnreadable, Engine::Damage::kContradictory}) {
    const std::string advice(engine->remedy(damage));
    EXPECT_THAT(advice, HasSubstr(disk->key_of_place()));
    EXPECT_THAT(advice, Not(HasSubstr(other)));
  }
}

TEST_F(EngineTest, ItsNameStaysTheSameAndNoOtherHasIt) {
  const std::string name = engine->id();
  EXPECT_THAT(name, Not(IsEmpty()));
  engine.reset();
  open();
  EXPECT_EQ(engine->id(), name);
  const testing::TemporaryFolder elsewhere;
  const auto other_disk = testing::make_store_disk(elsewhere.path(), 2);
  const auto other =
      other_disk->engine()({elsewhere.path().string(), config::Durability::kFsync, testing::silent_log()});
  ASSERT_TRUE(other.has_value()) << other.error().what;
  EXPECT_NE((*other)->id(), name);
}

TEST_F(EngineTest, AGroupIsAppliedInItsOrder) {
  const ThreadRoleScope role(kStoreWriter);
  ASSERT_TRUE(put({{"a", "old"}, {"b", "old"}, {"c", "old"}}));
  const auto group = engine->new_group();
  EXPECT_TRUE(group->empty());
  group->put(Table::kIndex, "b", "gone");
  group->erase_range(Table::kIndex, "a", "c", Rows::kSomeOfThisGroup);
  group->put(Table::kIndex, "a", "new");
  group->erase(Table::kIndex, "c");
  EXPECT_FALSE(group->empty());
  EXPECT_GT(group->size_bytes(), 0U);
  ASSERT_TRUE(engine->commit(*group, Sync::kSynced));
  EXPECT_THAT(keys(), ElementsAre("a"));
  EXPECT_EQ(value_of("a"), "new");
}

TEST_F(EngineTest, ARangeOfFewOrManyRowsIsDeleted) {
  const ThreadRoleScope role(kStoreWriter);
  for (const int count : {3, 100}) {
    std::vector<std::pair<std::string, std::string>> rows;
    for (int i = 0; i < count; ++i) rows.emplace_back(Key('x').append(static_cast<std::uint64_t>(i)), "");
    ASSERT_TRUE(put(rows));
    ASSERT_TRUE(put({{"w", ""}, {"y", ""}}));
    const auto group = engine->new_group();
    group->erase_range(Table::kIndex, "x", "y", Rows::kAllCommitted);
    ASSERT_TRUE(engine->commit(*group, Sync::kSynced));
    EXPECT_THAT(keys(), ElementsAre("w", "y"));
  }
}

TEST_F(EngineTest, WhatGoesAheadIsAsDurableAsTheCommitThatFollows) {
  const ThreadRoleScope role(kStoreWriter);
  const auto large = engine->new_group();
  large->put(Table::kPayloads, "p", std::string(1 << 20, 'x'));
  ASSERT_TRUE(engine->write_ahead(*large));
  EXPECT_TRUE(large->empty());
  ASSERT_TRUE(put({{"a", ""}}));
  ASSERT_TRUE(put({{"b", ""}}, Table::kIndex, Sync::kWritten));
  disk->cut_power();
  engine.reset();
  disk->lose_power();
  open();
  if (disk->loses_all_unsynced()) {
    EXPECT_THAT(keys(), ElementsAre("a")) << "what was not synced is gone";
  } else {
    EXPECT_THAT(keys(), Contains("a"));
  }
  EXPECT_THAT(keys(Table::kPayloads), ElementsAre("p"));
}

TEST_F(EngineTest, SyncKeepsWhatWasWrittenAndAnOrderlyEndAllOfIt) {
  const ThreadRoleScope role(kStoreWriter);
  ASSERT_TRUE(put({{"a", ""}}, Table::kIndex, Sync::kWritten));
  ASSERT_TRUE(engine->sync());
  disk->cut_power();
  engine.reset();
  disk->lose_power();
  open();
  EXPECT_THAT(keys(), ElementsAre("a"));
  ASSERT_TRUE(put({{"b", ""}}, Table::kIndex, Sync::kWritten));
  engine.reset();
  disk->lose_power();
  open();
  EXPECT_THAT(keys(), ElementsAre("a", "b"));
}

TEST_F(EngineTest, AReadingSeesWhatThereWasWhenItsCursorWasMade) {
  const ThreadRoleScope role(kStoreWriter);
  ASSERT_TRUE(put({{"a", ""}, {"b", ""}}));
  const EngineReading reading(*engine);
  const auto at = reading.scan({.table = Table::kIndex, .low = "", .high = ""});
  const auto group = engine->new_group();
  group->erase(Table::kIndex, "b");
  group->put(Table::kIndex, "c", "");
  ASSERT_TRUE(engine->commit(*group, Sync::kSynced));
  std::vector<std::string> found;
  for (; at->is_valid(); at->next()) found.emplace_back(at->key());
  EXPECT_TRUE(at->status().has_value());
  EXPECT_THAT(found, ElementsAre("a", "b"));
}

TEST_F(EngineTest, AFailureIsAKindAndWordsAndAReopeningMakesTheCommittedSafe) {
  const ThreadRoleScope role(kStoreWriter);
  ASSERT_TRUE(put({{"a", ""}}));
  disk->fail_next_sync();
  const auto failed = put({{"b", ""}});
  ASSERT_FALSE(failed.has_value());
  EXPECT_EQ(failed.error().kind, EngineError::Kind::kFailed);
  EXPECT_THAT(failed.error().what, ::testing::HasSubstr("injected"));
  ASSERT_TRUE(engine->reopen().has_value());
  ASSERT_TRUE(put({{"c", ""}}));
  disk->cut_power();
  engine.reset();
  disk->lose_power();
  open();
  EXPECT_THAT(keys(), ::testing::IsSupersetOf({"a", "c"}));
}

// The writer's last groups come after the end of the upkeep, and a full disk needs the room.
TEST_F(EngineTest, RoomIsReclaimedAfterTheUpkeepHasEnded) {
  const ThreadRoleScope role(kStoreWriter);
  ASSERT_TRUE(put({{"a", ""}}));
  engine->start_upkeep();
  engine->stop_upkeep();
  const auto reclaimed = engine->reclaim(0, ~std::uint64_t{0} - 1);
  EXPECT_TRUE(reclaimed.has_value()) << reclaimed.error().what;
}

TEST_F(EngineTest, TwoCannotHaveTheSameFolder) {
  const auto second =
      disk->engine()({folder.path().string(), config::Durability::kFsync, testing::silent_log()});
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error().what, ::testing::HasSubstr("in use"));
}

}  // namespace
}  // namespace locksley::daemon
