// Which batches make room in memory where readers discard their results.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/batches/retention/retention.h"
#include "tests/support/registry_fixture.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

// Batches in memory alone that charge their user some 1,000 bytes for results, and as many for
// notes of failed jobs; limits of one of the two.
class DiscardingReaderTest : public RegistryFixture,
                             public ::testing::WithParamInterface<ResultAccount& (Account::*)()> {
 protected:
  static constexpr std::uint64_t kEach = 1'000;

  // `discarded`: of its two rows, by a reader that is seen now.
  std::shared_ptr<BatchRecord> add_over(const std::string& id, std::uint64_t discarded,
                                        const std::string& user = "default") LOCKSLEY_REQUIRES(kIoThread) {
    BatchOptions options;
    options.id = id;
    options.tenant = user;
    options.results = &tenant(user).account.results();
    options.failures = &tenant(user).account.failures();
    auto record = std::make_shared<BatchRecord>(std::move(options), handler_,
                                                std::make_unique<RangedPayloads>(RangeJobs{}), nullptr, lane_,
                                                BatchRecord::Origin::kSubmit, registry_.numbers().take());
    registry_.add(record);
    BatchHistory history;
    history.jobs = 2;
    history.rows = 1;
    history.discarded = discarded;
    history.totals.by_status[static_cast<std::size_t>(JobStatus::kError)] = 1;
    history.failed = {{0, 1}};
    history.notes = {{0, std::string(kEach, 'n')}};
    record->restore(history);
    record->stop(std::string(kEach, 'x'));
    const IndexRange left{1, 2};
    record->jobs_dropped({&left, 1});
    record->discarder.seen = now();
    end(*record);
    retention_.add(*record);
    return record;
  }
  // Its reader has been given the last page now.
  bool give_last_page(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    record.discarder.seen = now();
    record.discarder.has_all = true;
    return retention_.returns_earlier(record);
  }
  // Its reader was last seen so long before, and the daemon looks.
  void let_pass(BatchRecord& record, Instant::duration time) LOCKSLEY_REQUIRES(kIoThread) {
    record.discarder.seen -= time;
    retention_.returns_earlier(record);
  }
  ResultAccount& account() LOCKSLEY_REQUIRES(kIoThread) { return (tenant().account.*GetParam())(); }
  ResultAccount& of_all() LOCKSLEY_REQUIRES(kIoThread) {
    return (registry_.tenants().account_of_all().*GetParam())();
  }
  bool is_there(const std::string& id, const std::string& user = "default") LOCKSLEY_REQUIRES(kIoThread) {
    return registry_.find(tenant(user), id).value() != nullptr;
  }
  void evict() LOCKSLEY_REQUIRES(kIoThread) { retention_.evict_results(Instant::max()); }
  // Evicts all that may leave.
  void evict_all() LOCKSLEY_REQUIRES(kIoThread) {
    account().set_limit(1);
    evict();
  }
  // Evicts one batch, if one may leave.
  void evict_first() LOCKSLEY_REQUIRES(kIoThread) {
    account().set_limit(account().bytes());
    evict();
  }

  Reader aside_;
  Retention retention_{registry_, stats_, nullptr, aside_};
};

TEST_P(DiscardingReaderTest, ABatchStaysForTenSecondsAfterItsLastPage) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto read = add_over("read", 1);
  evict_all();
  EXPECT_TRUE(is_there("read"));
  EXPECT_EQ(retention_.next_return(), read->discarder.seen + Retention::kReaderSilent);
  EXPECT_TRUE(give_last_page(*read)) << "it returns earlier";
  EXPECT_EQ(retention_.next_return(), read->discarder.seen + Retention::kAfterLastPage);
  EXPECT_FALSE(give_last_page(*read)) << "later than that";
  evict();
  EXPECT_TRUE(is_there("read"));
  let_pass(*read, Retention::kAfterLastPage);
  evict();
  EXPECT_FALSE(is_there("read"));
  EXPECT_EQ(retention_.next_return(), kNever);
}

TEST_P(DiscardingReaderTest, ABatchThatWasReadBeforeTheRoomWasNeededStaysForTheRestOfThatTime) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto read = add_over("read", 1);
  EXPECT_FALSE(give_last_page(*read)) << "no room is needed";
  EXPECT_EQ(retention_.next_return(), kNever);
  evict_all();
  EXPECT_TRUE(is_there("read"));
  EXPECT_EQ(retention_.next_return(), read->discarder.seen + Retention::kAfterLastPage);
}

TEST_P(DiscardingReaderTest, ABatchOfASilentReaderStaysForFiveMinutes) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto silent = add_over("silent", 1);
  let_pass(*silent, Retention::kReaderSilent - std::chrono::minutes(1));
  evict_all();
  EXPECT_TRUE(is_there("silent"));
  let_pass(*silent, std::chrono::minutes(1));
  evict();
  EXPECT_FALSE(is_there("silent"));
}

TEST_P(DiscardingReaderTest, AReaderThatAsksAgainKeepsItsBatch) {
  const ThreadRoleScope io_thread(kIoThread);
  constexpr auto kLeft = std::chrono::milliseconds(200);
  const auto read = add_over("read", 1);
  give_last_page(*read);
  let_pass(*read, Retention::kAfterLastPage - kLeft);
  evict_all();
  const Instant before = retention_.next_return();
  ASSERT_NE(before, kNever);
  read->discarder = {.seen = now(), .has_all = false, .returns = read->discarder.returns};
  while (now() < before) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  evict();
  EXPECT_TRUE(is_there("read"));
  EXPECT_EQ(retention_.next_return(), read->discarder.seen + Retention::kReaderSilent);
  // It is in one place.
  EXPECT_TRUE(retention_.forget(*read, Urgency::kWithNext).has_value());
  EXPECT_EQ(retention_.next_return(), kNever);
  add_over("other", 0);
  evict_all();
  EXPECT_FALSE(is_there("other"));
}

TEST_P(DiscardingReaderTest, ABatchStaysWhileAClientWaitsForItsRows) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto read = add_over("read", 1);
  let_pass(*read, Retention::kReaderSilent);
  ++read->waiters.for_rows;
  const Instant began = now();
  evict_all();
  EXPECT_TRUE(is_there("read"));
  EXPECT_GE(retention_.next_return(), began + Retention::kWaiterWakes);
  EXPECT_LE(retention_.next_return(), now() + Retention::kWaiterWakes);
  --read->waiters.for_rows;
  let_pass(*read, {});
  evict();
  EXPECT_FALSE(is_there("read"));
}

TEST_P(DiscardingReaderTest, BatchesThatWaitForTheirReadersNoLongerGoInTheOrderOfTheirAcceptance) {
  const ThreadRoleScope io_thread(kIoThread);
  add_over("1", 0);
  const auto second = add_over("2", 1);
  add_over("3", 0);
  const auto fourth = add_over("4", 1);
  add_over("5", 0);
  evict_first();
  EXPECT_FALSE(is_there("1"));
  evict_first();
  EXPECT_FALSE(is_there("3"));
  EXPECT_TRUE(is_there("2"));
  let_pass(*second, Retention::kReaderSilent);
  let_pass(*fourth, Retention::kReaderSilent);
  for (const char* const next : {"2", "4", "5"}) {
    EXPECT_TRUE(is_there(next));
    evict_first();
    EXPECT_FALSE(is_there(next));
  }
}

TEST_P(DiscardingReaderTest, ABatchThatGoesOnIsYetToBeRead) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add_over("a", 1);
  give_last_page(*record);
  evict_all();
  retention_.go_on(*record, record->status());
  EXPECT_EQ(retention_.next_return(), kNever);
  EXPECT_FALSE(record->discarder.has_all);
  EXPECT_FALSE(retention_.returns_earlier(*record));
  let_pass(*record, Retention::kAfterLastPage);
  EXPECT_TRUE(registry_.update(*record, record->status(), now_));
  retention_.add(*record);
  evict();
  EXPECT_TRUE(is_there("a"));
  let_pass(*record, Retention::kReaderSilent);
  evict();
  EXPECT_FALSE(is_there("a"));
}

// Each is looked at once, however many there are.
TEST_P(DiscardingReaderTest, ManyBatchesReturn) {
  const ThreadRoleScope io_thread(kIoThread);
  std::vector<std::shared_ptr<BatchRecord>> all;
  for (int each = 0; each < 100; ++each) all.push_back(add_over(std::to_string(each), 1));
  evict_all();
  EXPECT_TRUE(is_there("99"));
  for (const auto& record : all) let_pass(*record, Retention::kReaderSilent);
  int calls = 1;
  while (!retention_.evict_results(now())) ++calls;
  EXPECT_GT(calls, 1);
  EXPECT_LT(calls, 40);
  EXPECT_EQ(account().bytes(), 0U);
}

// Else they would never lose theirs where others hold nothing.
TEST_P(DiscardingReaderTest, AUserWhoseReadersAreSilentGivesToOthers) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto silent = add_over("silent", 1);
  add_over("under way", 1);
  add_over("light", 0, "light");
  of_all().set_limit(account().bytes());
  evict();
  EXPECT_FALSE(is_there("light", "light")) << "the batches of the heaviest wait for their readers";
  let_pass(*silent, Retention::kReaderSilent);
  evict();
  EXPECT_FALSE(is_there("silent"));
  EXPECT_TRUE(is_there("under way"));
  of_all().set_limit(ResultAccount::kNoLimit);
}

// The batches of the heaviest that have nothing to give are no reason not to ask the others.
TEST_P(DiscardingReaderTest, AUserWithBatchesThatFreeNothingDoesNotKeepOthersFromGiving) {
  const ThreadRoleScope io_thread(kIoThread);
  add_over("read", 1);
  const auto nothing = add("nothing");
  end(*nothing);
  retention_.add(*nothing);
  add_over("light", 0, "light");
  of_all().set_limit(account().bytes());
  evict();
  EXPECT_TRUE(is_there("read"));
  EXPECT_FALSE(is_there("light", "light"));
  of_all().set_limit(ResultAccount::kNoLimit);
}

constexpr ResultAccount& (Account::*kResults)() = &Account::results;
constexpr ResultAccount& (Account::*kFailures)() = &Account::failures;
INSTANTIATE_TEST_SUITE_P(Accounts, DiscardingReaderTest, ::testing::Values(kResults, kFailures),
                         [](const auto& each) { return each.param == kResults ? "Results" : "Failures"; });

class ReaderOfServerTest : public ServerFixture {
 protected:
  static constexpr auto kLeft = std::chrono::milliseconds(700);

  void SetUp() override {
    start([](config::Config& config) { config.limits.max_result_bytes.count = 420'000; });
    ask("SUBMIT echo ID read RANGE 0 240 " + pattern_);
    ask("WAIT read");
  }
  // The first bytes of the reply, which is not read further.
  std::string ask(const std::string& command) { return Client(port_).ask(command); }
  // What `look` sees of the batch, or none.
  template <class Look>
  auto on_record(const std::string& id, Look look) {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return look(server_->batches().registry().find_in_memory(tenants_.of("default"), id));
    });
  }
  bool is_there(const std::string& id) {
    return on_record(id, [](const BatchRecord* record) { return record != nullptr; });
  }
  bool has_all(const std::string& id) {
    return on_record(id, [](const BatchRecord* record) {
      kIoThread.assert_held();
      return record->discarder.has_all;
    });
  }
  // From now on its reader is silent for so long that the batch may leave kLeft from now.
  void let_leave_soon(const std::string& id) {
    on_record(id, [](BatchRecord* record) {
      kIoThread.assert_held();
      auto& reader = record->discarder;
      reader.seen = now() + kLeft - (reader.has_all ? Retention::kAfterLastPage : Retention::kReaderSilent);
      return true;
    });
  }
  // The batch leaves once its reader is gone, where jobs wait for the room, and not before.
  void expect_to_leave() {
    const Instant began = now();
    let_leave_soon("read");
    ask(flood_);
    while (is_there("read")) {
      ASSERT_LT(now() - began, std::chrono::minutes(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_GE(now() - began, kLeft) << "its reader may come again";
  }

  const std::string pattern_ = std::string(1'000, 'x');
  // Its results alone are more than the limit.
  const std::string flood_ = "SUBMIT echo ID waits RANGE 0 20000 " + pattern_;
};

TEST_F(ReaderOfServerTest, ABatchMakesRoomOnceItsReaderHasBeenSilentForLong) {
  ask("RESULTS read FROM 11 COUNT 10 DISCARD");
  EXPECT_FALSE(has_all("read"));
  expect_to_leave();
}

TEST_F(ReaderOfServerTest, ABatchMakesRoomSomeTimeAfterItsLastPage) {
  ask("RESULTS read FROM 11 COUNT 240 DISCARD");
  EXPECT_TRUE(has_all("read"));
  expect_to_leave();
}

TEST_F(ReaderOfServerTest, OnlyAPageOfAllRowsIsTheLastOne) {
  ask("RESULTS read FROM 11 COUNT 240 FAILED DISCARD");
  EXPECT_FALSE(has_all("read")) << "rows that are ok are left";
  ask("RESULTS read FROM 11 COUNT 240");
  EXPECT_FALSE(has_all("read")) << "it does not discard";
  ask("RESULTS read FROM 11 COUNT 240 DISCARD");
  EXPECT_TRUE(has_all("read"));
  ask("RESULTS read FROM 11 COUNT 1 DISCARD");
  EXPECT_FALSE(has_all("read")) << "it asks again";
}

// The batch waits for its reader already, and the timer stands at a later instant.
TEST_F(ReaderOfServerTest, TheLastPageBringsTheEndOfTheWaitNearer) {
  ask("RESULTS read FROM 11 COUNT 10 DISCARD");
  ask(flood_);
  const auto returns = [this] {
    return on_record("read", [](const BatchRecord* record) {
      kIoThread.assert_held();
      return record->discarder.returns;
    });
  };
  while (returns() == kNever) ask("WAIT waits 10");  // until the account is full
  EXPECT_GT(returns(), now() + Retention::kAfterLastPage);
  ask("RESULTS read FROM 11 COUNT 240 DISCARD");
  EXPECT_LE(returns(), now() + Retention::kAfterLastPage);
}

}  // namespace
}  // namespace locksley::daemon
