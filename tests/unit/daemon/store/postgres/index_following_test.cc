// A daemon that stands by keeps a copy of the index, and reads only what has changed when it takes
// over.
#include "daemon/store/postgres/index_following.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/store/engine/key.h"
#include "daemon/store/postgres/postgres_engine.h"
#include "tests/support/postgres_disk.h"
#include "tests/support/postgres_server.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr auto kKinds = "bes";
constexpr IndexFollowing::Pauses kNoPause{.after_loss = std::chrono::milliseconds(0),
                                          .if_busy = std::chrono::milliseconds(0)};

class IndexFollowingTest : public ::testing::Test {
 protected:
  using Group = Engine::Group;

  // The row of a daemon that stands by.
  int enroll() {
    open().reset();  // the tables are there
    return std::stoi(testing::TestConnection(disk.url())
                         .value("insert into locksley_node (alive, beat, committed) values (false, 0, -1) "
                                "returning node"));
  }
  std::unique_ptr<Engine> open() {
    PostgresOptions options = disk.options();
    options.lease = std::chrono::hours(1);  // it looks at the other daemons once, and sees one that stands by
    auto opened = postgres_engine(options)({"", config::Durability::kFsync, testing::silent_log()});
    if (!opened) throw std::runtime_error(opened.error().what);
    return std::move(*opened);
  }
  void commit(const auto& change) LOCKSLEY_REQUIRES(kStoreWriter) {
    const auto group = active->new_group();
    change(*group);
    if (const auto done = active->commit(*group, Engine::Sync::kSynced); !done)
      throw std::runtime_error(done.error().what);
  }
  void put(std::uint64_t batch, std::string_view value) LOCKSLEY_REQUIRES(kStoreWriter) {
    commit([&](Group& group) { group.put(Table::kIndex, Key('b').append(batch), value); });
  }
  void run(const std::string& sql) { testing::TestConnection(disk.url()).run(sql); }
  // The rows of the copy, each as "kind batch part value".
  using Rows = std::vector<std::string>;
  std::optional<Rows> take_over() {
    run(fmt::format(
        "update locksley_node set alive = false; "
        "update locksley_node set alive = true, committed = 0, beat = 1::bigint << 40 where node = {}",
        own));
    following.catch_up();  // one that was under way
    auto copy = following.finish();
    if (copy == nullptr) return std::nullopt;
    Rows rows;
    for (const auto row = IndexCopy::read(std::move(copy)); row->is_valid(); row->next()) {
      const auto place = place_of(Table::kIndex, row->key());
      rows.push_back(fmt::format("{} {} {} {}", static_cast<char>(place->kind), place->batch, place->part,
                                 row->value()));
    }
    return rows;
  }
  Rows rows_of_the_table() {
    Rows rows;
    for (const auto& row :
         testing::TestConnection(disk.url())
             .run("select kind::text || ' ' || batch || ' ' || part || ' ' || convert_from(value, "
                  "'utf8') from locksley_index where kind in ('b', 'e', 's') order by "
                  "batch, kind, part")) {
      rows.push_back(row[0]);
    }
    return rows;
  }
  // Behind the back of the daemons: who reads the table sees it, who has a copy does not.
  void forge(std::uint64_t batch) {
    run(fmt::format("update locksley_index set value = 'forged' where batch = {}", batch));
  }

  testing::PostgresDisk disk;
  const int own = enroll();
  std::unique_ptr<Engine> active = open();
  PrimaryFinder primary{disk.url()};
  std::shared_ptr<spdlog::logger> log = testing::silent_log();
  IndexFollowing following{primary, own, "follows", kKinds, *log, kNoPause};
};

TEST_F(IndexFollowingTest, ATakeoverReadsWhatHasChangedAndNothingElse) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  put(2, "two");
  put(3, "three");
  following.catch_up();
  EXPECT_EQ(following.batches(), 3U);
  forge(1);
  commit([](Group& group) {
    group.put(Table::kIndex, Key('b').append(2), "other");
    group.put(Table::kIndex, Key('s').append(2).append(7), "step");
    group.put(Table::kIndex, Key('x').append(2), "of another kind");
    group.erase(Table::kIndex, Key('b').append(3));
    group.put(Table::kPayloads, Key().append(1).append(0), "");
  });
  put(4, "four");
  EXPECT_THAT(take_over().value(), ElementsAre("b 1 -1 one", "b 2 -1 other", "s 2 7 step", "b 4 -1 four"));
}

TEST_F(IndexFollowingTest, ListsThatWereReadBeforeTheEndCount) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  following.catch_up();
  put(1, "two");
  following.catch_up();
  run("delete from locksley_change");  // as if both halves had been used since
  EXPECT_THAT(take_over().value(), ElementsAre("b 1 -1 two"));
}

TEST_F(IndexFollowingTest, AMissingListIsNoticedAndAllIsReadAgain) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  following.catch_up();
  put(1, "two");
  run("delete from locksley_change");
  put(2, "two");
  following.catch_up();
  EXPECT_FALSE(following.batches());
  following.catch_up();
  EXPECT_EQ(following.batches(), 2U);
  EXPECT_EQ(take_over(), rows_of_the_table());
}

TEST_F(IndexFollowingTest, AMissingListIsNoticedAtTheTakeover) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  following.catch_up();
  put(1, "two");
  run("delete from locksley_change");
  EXPECT_FALSE(take_over());
}

TEST_F(IndexFollowingTest, ADaemonThatWritesNoListsIsNotReadAgainAndAgain) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  run("delete from locksley_change");
  following.catch_up();
  following.catch_up();
  EXPECT_EQ(following.batches(), 1U) << "it has written nothing since: there is nothing to miss";
  put(2, "two");
  run("delete from locksley_change");
  following.catch_up();
  following.catch_up();
  EXPECT_FALSE(following.batches());
  put(3, "three");
  following.catch_up();
  EXPECT_EQ(following.batches(), 3U) << "now it writes lists";
}

TEST_F(IndexFollowingTest, NothingIsReadBeforeTheActiveDaemonKnowsOfThisOne) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  run("delete from locksley_change");
  following.catch_up();
  EXPECT_FALSE(following.batches());
  put(2, "two");
  run("delete from locksley_change");
  following.catch_up();
  EXPECT_FALSE(following.batches()) << "it writes, and no lists";
  put(3, "three");
  following.catch_up();
  EXPECT_EQ(following.batches(), 3U);
  EXPECT_EQ(take_over(), rows_of_the_table());
}

TEST_F(IndexFollowingTest, NothingIsReadWithoutTheTableOfLists) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  run("drop table locksley_change");  // an earlier version has made the tables
  following.catch_up();
  EXPECT_FALSE(following.batches());
  following.catch_up();
  EXPECT_FALSE(following.batches());
}

TEST_F(IndexFollowingTest, TheListsOfAnotherStoreAreNotTaken) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  const std::string other = disk.name() + "_other";
  run(fmt::format("create schema {0}; alter table locksley_change set schema {0}", other));
  PrimaryFinder both(testing::postgres_server().url(fmt::format("-csearch_path={},{}", disk.name(), other)));
  IndexFollowing follows(both, own, "follows", kKinds, *log, kNoPause);
  follows.catch_up();
  EXPECT_FALSE(follows.batches());
  run(fmt::format("drop schema {} cascade", other));
}

TEST_F(IndexFollowingTest, WhatIsNotKnownBatchByBatchMeansThatAllIsRead) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  put(2, "two");
  following.catch_up();
  commit([](Group& group) {
    group.erase_range(Table::kIndex, Key('b').append(1), Key('b').append(9), Group::Rows::kAllCommitted);
  });
  EXPECT_FALSE(take_over());
}

TEST_F(IndexFollowingTest, ADaemonThatIsNotTheActiveOneGetsNoCopy) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  following.catch_up();
  EXPECT_EQ(following.finish(), nullptr) << "the former one lives";
}

TEST_F(IndexFollowingTest, AServerOnWhichThisDaemonHasNotBegunToWriteIsNotTheOne) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  following.catch_up();
  run(
      fmt::format("update locksley_node set alive = false; "
                  "update locksley_node set alive = true, committed = 0 where node = {}",
                  own));
  EXPECT_EQ(following.finish(), nullptr);
}

TEST_F(IndexFollowingTest, ADaemonThatWasActiveMeanwhileIsNoticed) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  following.catch_up();
  active.reset();
  active = open();
  put(1, "two");
  active.reset();
  EXPECT_FALSE(take_over());
}

TEST_F(IndexFollowingTest, AnotherDaemonThatTakesOverIsFollowedFromTheBeginning) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  following.catch_up();
  forge(1);
  active.reset();
  active = open();
  following.catch_up();
  EXPECT_THAT(take_over().value(), ElementsAre("b 1 -1 forged"));
}

TEST_F(IndexFollowingTest, AConnectionThatWasLostIsNoticed) {
  const ThreadRoleScope role(kStoreWriter);
  put(1, "one");
  following.catch_up();
  run("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'follows'");
  following.catch_up();
  EXPECT_FALSE(following.batches());
  following.catch_up();
  EXPECT_EQ(following.batches(), 1U);
  run("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'follows'");
  EXPECT_FALSE(take_over());
}

TEST_F(IndexFollowingTest, OfVeryManyChangedBatchesTheOldestAreReadAgain) {
  const ThreadRoleScope role(kStoreWriter);
  constexpr std::uint64_t kMany = 11'000;
  const auto put_all = [&](std::string_view value) {
    kStoreWriter.assert_held();
    commit([&](Group& group) {
      for (std::uint64_t batch = 1; batch <= kMany; ++batch)
        group.put(Table::kIndex, Key('b').append(batch), value);
    });
  };
  put_all("one");
  following.catch_up();
  put_all("two");
  following.catch_up();
  forge(1);
  forge(kMany);
  const auto rows = take_over().value();
  ASSERT_EQ(rows.size(), kMany);
  EXPECT_EQ(rows.front(), "b 1 -1 two") << "it was read again before the end";
  EXPECT_EQ(rows.back(), fmt::format("b {} -1 forged", kMany));
}

TEST_F(IndexFollowingTest, BatchesThatChangeAgainAndAgainDoNotKeepTheOthersFromBeingRead) {
  const ThreadRoleScope role(kStoreWriter);
  constexpr std::uint64_t kMany = 11'000;
  const auto put_first = [&](std::uint64_t count, std::string_view value) {
    kStoreWriter.assert_held();
    commit([&](Group& group) {
      for (std::uint64_t batch = 1; batch <= count; ++batch)
        group.put(Table::kIndex, Key('b').append(batch), value);
    });
  };
  put_first(kMany, "one");
  following.catch_up();
  put_first(kMany, "two");
  following.catch_up();
  put_first(2'000, "three");
  following.catch_up();
  forge(1);
  forge(4'000);
  const auto rows = take_over().value();
  ASSERT_EQ(rows.size(), kMany);
  EXPECT_EQ(rows.front(), "b 1 -1 forged");
  EXPECT_EQ(rows.at(3'999), "b 4000 -1 two") << "it was read before the end";
}

TEST_F(IndexFollowingTest, IfMoreChangesThanIsReadAgainTheCopyIsGivenUp) {
  const ThreadRoleScope role(kStoreWriter);
  following.catch_up();
  EXPECT_EQ(following.batches(), 0U);
  commit([&](Group& group) {
    for (std::uint64_t batch = 1; batch <= 11'000; ++batch)
      group.put(Table::kIndex, Key('b').append(batch), "");
  });
  following.catch_up();
  EXPECT_FALSE(following.batches());
}

class RandomChangesTest : public IndexFollowingTest, public ::testing::WithParamInterface<std::uint32_t> {};

TEST_P(RandomChangesTest, TheCopyIsTheIndex) {
  const ThreadRoleScope role(kStoreWriter);
  std::minstd_rand random(GetParam());
  const auto below = [&](std::uint64_t bound) { return random() % bound; };
  following.catch_up();
  for (int i = 0; i < 60; ++i) {
    commit([&](Group& group) {
      for (std::uint64_t change = below(4); change > 0; --change) {
        const std::uint64_t batch = 1 + below(200);
        const char kind = "besx"[below(4)];
        const Key key = kind == 's' ? Key('s').append(batch).append(below(5)) : Key(kind).append(batch);
        const std::uint64_t what = below(10);
        if (what < 6) {
          group.put(Table::kIndex, key, std::to_string(below(1000)));
        } else if (what < 8) {
          group.erase(Table::kIndex, key);
        } else {
          group.erase_range(Table::kIndex, Key('s').append(batch), Key('s').append(batch + 1),
                            Group::Rows::kSomeOfThisGroup);
        }
      }
    });
    if (below(4) == 0) following.catch_up();
  }
  const auto rows = take_over();
  ASSERT_TRUE(rows.has_value());
  EXPECT_EQ(*rows, rows_of_the_table());
  EXPECT_THAT(*rows, Not(IsEmpty()));
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomChangesTest, ::testing::Range(1U, 9U));

}  // namespace
}  // namespace locksley::daemon
