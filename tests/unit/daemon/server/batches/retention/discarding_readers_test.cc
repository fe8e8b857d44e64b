// Which batches make room in memory where readers discard their results.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

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

  // `discarded`: of its two rows.
  std::shared_ptr<BatchRecord> add_charged(const std::string& id, std::uint64_t discarded)
      LOCKSLEY_REQUIRES(kIoThread) {
    BatchOptions options;
    options.id = id;
    options.results = &tenant().account.results();
    options.failures = &tenant().account.failures();
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
    return record;
  }
  std::shared_ptr<BatchRecord> add_over(const std::string& id, std::uint64_t discarded)
      LOCKSLEY_REQUIRES(kIoThread) {
    auto record = add_charged(id, discarded);
    record->discarder.seen = now();
    end(*record);
    retention_.add(*record);
    return record;
  }
  void has_read(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) { record.discarder.has_all = true; }
  ResultAccount& account() LOCKSLEY_REQUIRES(kIoThread) { return (tenant().account.*GetParam())(); }
  Account& all() LOCKSLEY_REQUIRES(kIoThread) { return registry_.tenants().account_of_all(); }
  bool is_there(const std::string& id) LOCKSLEY_REQUIRES(kIoThread) {
    return registry_.find(tenant(), id).value() != nullptr;
  }
  // Evicts until so many batches would fit.
  void leave(std::uint64_t batches) LOCKSLEY_REQUIRES(kIoThread) {
    account().set_limit((account().bytes() / there_) * batches + 1);
    retention_.evict_results(Instant::max());
    there_ = batches;
  }

  std::uint64_t there_ = 0;
  Reader aside_;
  Retention retention_{registry_, stats_, nullptr, aside_};
};

TEST_P(DiscardingReaderTest, WhatWasReadGoesFirst) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto under_way = add_over("under way", 1);
  const auto unread = add_over("unread", 0);
  const auto read = add_over("read", 1);
  const auto in_one_page = add_over("in one page", 0);
  there_ = 4;
  for (BatchRecord* const each : {in_one_page.get(), read.get()}) {
    has_read(*each);
    EXPECT_FALSE(retention_.was_read(*each)) << "the account is not full";
  }
  leave(3);
  EXPECT_FALSE(is_there("read"));
  EXPECT_TRUE(is_there("in one page")) << "accepted later";
  leave(2);
  EXPECT_FALSE(is_there("in one page"));
  leave(1);
  EXPECT_FALSE(is_there("unread"));
  account().set_limit(1);
  retention_.evict_results(Instant::max());
  EXPECT_TRUE(is_there("under way"));
  EXPECT_EQ(retention_.take_silent_at(), under_way->discarder.seen + Retention::kReaderSilent);
  EXPECT_EQ(retention_.take_silent_at(), kNever) << "once";
  has_read(*under_way);
  EXPECT_TRUE(retention_.was_read(*under_way)) << "there is room to be found";
  retention_.evict_results(Instant::max());
  EXPECT_FALSE(is_there("under way"));
}

// The page was read while the I/O thread had yet to learn of the end.
TEST_P(DiscardingReaderTest, WhatWasReadBeforeItsEndWasKnownGoesFirst) {
  const ThreadRoleScope io_thread(kIoThread);
  add_over("unread", 0);
  const auto read = add_charged("read", 1);
  there_ = 2;
  has_read(*read);
  EXPECT_FALSE(retention_.was_read(*read));
  end(*read);
  retention_.add(*read);
  leave(1);
  EXPECT_TRUE(is_there("unread"));
  EXPECT_FALSE(is_there("read"));
}

TEST_P(DiscardingReaderTest, WhereAReaderHasBeenSilentForLongItsBatchGoesLast) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto silent = add_over("silent", 1);
  silent->discarder.seen = now() - Retention::kReaderSilent;
  const auto under_way = add_over("under way", 1);
  add_over("unread", 0);
  there_ = 3;
  leave(2);
  EXPECT_FALSE(is_there("unread"));
  leave(1);
  EXPECT_FALSE(is_there("silent"));
  account().set_limit(1);
  retention_.evict_results(Instant::max());
  EXPECT_TRUE(is_there("under way"));
  EXPECT_EQ(retention_.take_silent_at(), under_way->discarder.seen + Retention::kReaderSilent);
}

TEST_P(DiscardingReaderTest, ABatchThatGoesOnIsYetToBeRead) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add_over("a", 1);
  has_read(*record);
  retention_.was_read(*record);
  retention_.go_on(*record, record->status());
  EXPECT_FALSE(record->discarder.has_all);
  EXPECT_TRUE(registry_.update(*record, record->status(), now_));
  retention_.add(*record);
  account().set_limit(1);
  retention_.evict_results(Instant::max());
  EXPECT_TRUE(is_there("a"));
}

// Else they would never lose theirs where others hold nothing.
TEST_P(DiscardingReaderTest, AUserWhoseReadersAreSilentGivesToOthers) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto silent = add_over("silent", 1);
  silent->discarder.seen = now() - Retention::kReaderSilent;
  add_over("under way", 1);
  ResultAccount& of_all = (all().*GetParam())();
  of_all.set_limit(1);
  retention_.evict_results(Instant::max());
  EXPECT_FALSE(is_there("silent"));
  EXPECT_TRUE(is_there("under way"));
  of_all.set_limit(ResultAccount::kNoLimit);
}

constexpr ResultAccount& (Account::*kResults)() = &Account::results;
constexpr ResultAccount& (Account::*kFailures)() = &Account::failures;
INSTANTIATE_TEST_SUITE_P(Accounts, DiscardingReaderTest, ::testing::Values(kResults, kFailures),
                         [](const auto& each) { return each.param == kResults ? "Results" : "Failures"; });

class SilentReaderTest : public ServerFixture {
 protected:
  // The first bytes of the reply, which is not read further.
  std::string ask(const std::string& command) { return Client(port_).ask(command); }
  bool is_there(const std::string& id) {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return server_->batches().registry().find_in_memory(tenants_.of("default"), id) != nullptr;
    });
  }
  // The reader of the batch was given its latest page at this instant.
  void set_seen(const std::string& id, Instant at) {
    on_io_thread([&] {
      kIoThread.assert_held();
      server_->batches().registry().find_in_memory(tenants_.of("default"), id)->discarder.seen = at;
      return true;
    });
  }
};

TEST_F(SilentReaderTest, JobsThatWaitForRoomStartOnceTheReaderHasBeenSilentForLong) {
  constexpr auto kLeft = std::chrono::milliseconds(700);
  start([](config::Config& config) { config.limits.max_result_bytes.count = 400'000; });
  const std::string pattern(1'000, 'x');
  ask("SUBMIT echo ID read RANGE 0 200 " + pattern);
  ask("WAIT read");
  ask("RESULTS read FROM 11 COUNT 10 DISCARD");
  const Instant began = now();
  set_seen("read", began + kLeft - Retention::kReaderSilent);
  ask("SUBMIT echo ID waits RANGE 0 300 " + pattern);
  ask("WAIT waits 100");
  const bool stays = is_there("read");
  const bool is_early = now() - began < kLeft;
  EXPECT_TRUE(stays || !is_early) << "its reader may come again";
  ask("WAIT waits");
  EXPECT_FALSE(is_there("read"));
  EXPECT_GE(now() - began, kLeft);
}

}  // namespace
}  // namespace locksley::daemon
