// AFTER, AFTEROK and DELAY: what a batch waits for, and what the end of another batch does to it.
// Length: some short tests for each state in which the other batch may be.
#include "daemon/server/batches/changes/dependencies.h"
#include "daemon/base/loop/io_thread.h"

#include <gmock/gmock.h>
#include <spdlog/logger.h>

#include <asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/base/loop/processor_time.h"
#include "daemon/base/loop/slices.h"
#include "daemon/server/batches/changes/batch_changes.h"
#include "daemon/server/batches/events/events.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/batches/stored/stored_batches.h"
#include "daemon/server/batches/stored/write_charges.h"
#include "daemon/store/read/reader.h"
#include "daemon/store/rows/rows.h"
#include "tests/support/registry_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Without a store, so nothing is written.
class DependenciesTest : public RegistryFixture {
 protected:
  // Says nothing: what a batch tells its observer is not what is tested here.
  class SilentObserver final : public BatchObserver {
    void batch_changed(const std::shared_ptr<Batch>&) override {}
    void handler_threw(const Batch&, std::uint64_t, std::string_view) override {}
    void attempt_failed(const Batch&, std::uint64_t, JobStatus, std::string_view) override {}
  };

  ~DependenciesTest() override { lane_.detach_all(); }

  std::expected<StartCondition, std::string> resolve(std::vector<proto::AfterBatch> after)
      LOCKSLEY_REQUIRES(kIoThread) {
    return resolve(std::move(after), nullptr);
  }
  std::expected<StartCondition, std::string> resolve(std::vector<proto::AfterBatch> after,
                                                     const FoundDependencies* found)
      LOCKSLEY_REQUIRES(kIoThread) {
    proto::BatchOptions options;
    options.after = std::move(after);
    return dependencies_.resolve(user_, options, found);
  }
  // As for a command that is executed in parts: all are looked up, and other commands come before
  // it is accepted.
  FoundDependencies look_up(std::vector<proto::AfterBatch> after) LOCKSLEY_REQUIRES(kIoThread) {
    proto::BatchOptions options;
    options.after = std::move(after);
    FoundDependencies found;
    while (dependencies_.look_up_next(user_, options, found)) continue;
    return found;
  }
  // A batch of one job that waits for these.
  std::shared_ptr<BatchRecord> add_after(const std::string& id, std::vector<proto::AfterBatch> after)
      LOCKSLEY_REQUIRES(kIoThread) {
    const auto record = add(id);
    dependencies_.hold(*record, resolve(std::move(after)).value(), now_);
    lane_.submit(record, 1, /*open=*/false);
    return record;
  }
  // It is over, and those that wait for it are told.
  // Begins to tell; the rest, if there is one, is left to slices.
  void end_and_begin_to_tell(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    end(record);
    dependencies_.batch_ended(record, record.status());
  }
  void end_and_tell(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    end_and_begin_to_tell(record);
    io_.restart();
    io_.run();
  }
  void cancel_and_tell(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    record.stop("by the test");
    end_and_tell(record);
  }

  Reader aside_;
  Retention retention_{registry_, stats_, nullptr, aside_};
  std::shared_ptr<spdlog::logger> log_ = std::make_shared<spdlog::logger>("test");
  asio::io_context io_;
  Slices slices_{io_.get_executor()};
  Events events_{stats_, slices_};
  WriteCharges charges_;
  PendingDiscards discards_;
  StoredBatches stored_{{.store = nullptr,
                         .charges = charges_,
                         .discards = discards_,
                         .registry = registry_,
                         .retention = retention_,
                         .events = events_,
                         .stats = stats_,
                         .apply_news = {}}};
  BatchChanges changes_{stored_, aside_, log_};
  Dependencies dependencies_{registry_, stored_, changes_, slices_};
  User user_{tenant()};
};

TEST_F(DependenciesTest, AnUnknownBatchIsAnErrorThatNamesIt) {
  const ThreadRoleScope io_thread(kIoThread);
  add("a");
  const auto condition = resolve({{"a", false}, {"unknown", false}});
  ASSERT_FALSE(condition.has_value());
  EXPECT_THAT(condition.error(), StartsWith("NOBATCH"));
  EXPECT_THAT(condition.error(), HasSubstr("unknown"));
}

TEST_F(DependenciesTest, ABatchThatIsOverNeedNotBeWaitedFor) {
  const ThreadRoleScope io_thread(kIoThread);
  end(*add("ok"));
  const auto cancelled = add("cancelled");
  cancelled->stop("by the test");
  end(*cancelled);
  EXPECT_TRUE(resolve({{"ok", true}, {"cancelled", false}})->is_immediate());
}

TEST_F(DependenciesTest, AfterOkOfABatchThatWasNotOkIsBroken) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto cancelled = add("cancelled");
  cancelled->stop("by the test");
  end(*cancelled);
  const auto condition = resolve({{"cancelled", true}});
  ASSERT_TRUE(condition.has_value());
  EXPECT_THAT(condition->broken, HasSubstr("cancelled"));
  EXPECT_FALSE(condition->is_immediate());
}

TEST_F(DependenciesTest, ABatchStartsWhenTheLastOfThoseItWaitsForIsOver) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto first = add("first");
  const auto second = add("second");
  const auto record = add_after("c", {{"second", false}, {"first", true}});
  EXPECT_TRUE(record->is_held());
  EXPECT_EQ(record->waits.unsatisfied, 2u);
  end_and_tell(*second);
  EXPECT_TRUE(record->is_held());
  EXPECT_EQ(record->waits.unsatisfied, 1u);
  end_and_tell(*first);
  EXPECT_FALSE(record->is_held());
  EXPECT_FALSE(record->is_stopping());
}

TEST_F(DependenciesTest, ABatchThatIsNamedInTwoWaysIsWaitedForOnce) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto first = add("first");
  const auto record = add_after("b", {{"first", true}, {"default/first", false}});
  const auto strict = add_after("c", {{"default/first", false}, {"first", true}});
  ASSERT_EQ(record->waits.all.size(), 1u);
  EXPECT_EQ(record->waits.unsatisfied, 1u);
  end_and_tell(*first);
  EXPECT_FALSE(record->is_held());
  EXPECT_FALSE(strict->is_held());
}

TEST_F(DependenciesTest, OfTwoConditionsForOneBatchTheStricterCounts) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto first = add("first");
  const auto record = add_after("b", {{"first", false}, {"default/first", true}});
  cancel_and_tell(*first);
  EXPECT_TRUE(record->is_stopping());
}

// An earlier version wrote such rows.
TEST_F(DependenciesTest, ARestoredBatchThatWaitsTwiceForOneBatchStartsAtItsEnd) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto first = add("first");
  const auto record = add("b");
  AcceptedRow row;
  row.after = {{first->sequence, "first", false}, {first->sequence, "default/first", true}};
  dependencies_.hold(*record, dependencies_.resolve_restored(row, false, {}), now_);
  lane_.submit(record, 1, /*open=*/false);
  EXPECT_TRUE(record->is_held());
  end_and_tell(*first);
  EXPECT_FALSE(record->is_held());
  EXPECT_FALSE(record->is_stopping());
}

TEST_F(DependenciesTest, OneEndStartsAllThatWaitForIt) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto first = add("first");
  const auto b = add_after("b", {{"first", false}});
  const auto c = add_after("c", {{"first", true}});
  end_and_tell(*first);
  EXPECT_FALSE(b->is_held());
  EXPECT_FALSE(c->is_held());
}

// It never ran, and its client may submit it again.
TEST_F(DependenciesTest, ABatchThatTheStoreRefusedCancelsAllThatWaitForIt) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto refused = add("refused");
  const auto needs_ok = add_after("needs ok", {{"refused", true}});
  const auto any_end = add_after("any end", {{"refused", false}});
  refused->stored.is_rejected = true;
  cancel_and_tell(*refused);
  for (const auto& dependent : {needs_ok, any_end}) {
    EXPECT_EQ(dependent->terms.stop_reason, "the batch 'refused' was refused");
    EXPECT_EQ(dependent->status().cancelled, 1u);
  }
}

TEST_F(DependenciesTest, ACancelledBatchCancelsThoseThatNeedItOkAndStartsTheOthers) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto first = add("first");
  const auto needs_ok = add_after("needs ok", {{"first", true}});
  const auto any_end = add_after("any end", {{"first", false}});
  cancel_and_tell(*first);
  EXPECT_TRUE(needs_ok->is_stopping());
  EXPECT_THAT(needs_ok->terms.stop_reason, HasSubstr("first"));
  EXPECT_EQ(needs_ok->status().cancelled, 1u);
  EXPECT_FALSE(any_end->is_stopping());
  EXPECT_FALSE(any_end->is_held());
}

TEST_F(DependenciesTest, ABatchThatIsOverIsNotToldOfLaterEnds) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto first = add("first");
  const auto second = add("second");
  const auto record = add_after("c", {{"first", true}, {"second", true}});
  lane_.cancel(*record, "by the test");
  EXPECT_TRUE(registry_.update(*record, record->status(), now_));
  dependencies_.batch_ended(*record, record->status());
  EXPECT_THAT(record->waits.all, IsEmpty());
  cancel_and_tell(*first);
  end_and_tell(*second);
  EXPECT_EQ(record->terms.stop_reason, "") << "the failure of `first` did not reach it";
}

TEST_F(DependenciesTest, ALaterBatchWithTheSameIdIsNotMeant) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto first = add("a");
  const StartCondition condition = resolve({{"a", false}}).value();
  end(*first);
  registry_.forget(*first);
  const auto later = add("a");
  ASSERT_EQ(condition.waits.all.size(), 1u);
  EXPECT_EQ(condition.waits.all[0].sequence, first->sequence);
  EXPECT_NE(condition.waits.all[0].sequence, later->sequence);
}

TEST_F(DependenciesTest, ADelayedBatchIsHeldAndDueWhenItsDelayEnds) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add("a");
  proto::BatchOptions options;
  options.delay = std::chrono::milliseconds(5);
  const Instant start_at = now_ + std::chrono::milliseconds(5);
  dependencies_.hold(*record, dependencies_.resolve(user_, options, nullptr).value(), start_at);
  EXPECT_TRUE(record->is_held());
  EXPECT_EQ(record->due.start, start_at);
}

TEST_F(DependenciesTest, TheEndOfABatchForWhichVeryManyWaitIsToldInSlices) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto first = add("first");
  std::vector<std::shared_ptr<BatchRecord>> waiting;
  for (int i = 0; i < 20'000; ++i) waiting.push_back(add_after(std::to_string(i), {{"first", false}}));
  // One of them ends and leaves before it is its turn.
  const auto gone = waiting.back();
  waiting.pop_back();
  const auto begin = processor_time();
  end_and_begin_to_tell(*first);
  EXPECT_TRUE(dependencies_.is_notifying(first->sequence));
  EXPECT_LT(processor_time() - begin, std::chrono::milliseconds(50)) << "of 200 us";
  EXPECT_TRUE(waiting.back()->is_held());
  changes_.cancel(*gone, registry_.tenant_of(*gone).account, "by the test");
  end_and_begin_to_tell(*gone);
  registry_.forget(*gone);
  io_.run();
  for (const auto& each : waiting) ASSERT_FALSE(each->is_held());
  EXPECT_FALSE(dependencies_.is_notifying(first->sequence));
}

TEST_F(DependenciesTest, ABatchThatEndsAgainMeanwhileTellsTheDependentsOfBothEnds) {
  const ThreadRoleScope io_thread(kIoThread);
  constexpr int kMany = 20'000;  // more than are told at once
  const auto first = add("first");
  std::vector<std::shared_ptr<BatchRecord>> waiting;
  for (int i = 0; i < kMany; ++i) waiting.push_back(add_after(std::to_string(i), {{"first", false}}));
  std::vector<std::uint64_t> told;
  dependencies_.on_all_told([&told](std::uint64_t sequence) { told.push_back(sequence); });
  end_and_begin_to_tell(*first);
  ASSERT_TRUE(dependencies_.is_notifying(first->sequence));
  // RETRY lets it go on, others wait for it, and it ends again.
  std::vector<std::shared_ptr<BatchRecord>> later;
  for (int i = 0; i < kMany; ++i) {
    StartCondition condition;
    condition.waits = {.all = {{first->sequence, "first", false}}, .unsatisfied = 1, .were_any = true};
    later.push_back(add("later" + std::to_string(i)));
    dependencies_.hold(*later.back(), std::move(condition), now_);
    lane_.submit(later.back(), 1, /*open=*/false);
  }
  dependencies_.batch_ended(*first, first->status());
  io_.run();
  for (const auto* all : {&waiting, &later}) {
    for (const auto& each : *all) ASSERT_FALSE(each->is_held());
  }
  EXPECT_FALSE(dependencies_.is_notifying(first->sequence));
  EXPECT_THAT(told, ElementsAre(first->sequence)) << "once, after the last of all";
}

// ---- Between the look-up and the acceptance ----

TEST_F(DependenciesTest, OneLookUpIsOneBatchAndEndsAtTheFirstThatIsUnknown) {
  const ThreadRoleScope io_thread(kIoThread);
  end(*add("over"));
  const auto unfinished = add("unfinished");
  proto::BatchOptions options;
  options.after = {{"over", true}, {"unfinished", false}, {"unknown", false}, {"unfinished", false}};
  FoundDependencies found;
  EXPECT_TRUE(dependencies_.look_up_next(user_, options, found));
  EXPECT_EQ(found.all.size(), 1U);
  EXPECT_EQ(found.all[0].unfinished, nullptr) << "no memory is kept of what is over";
  EXPECT_TRUE(found.all[0].is_all_ok);
  EXPECT_TRUE(dependencies_.look_up_next(user_, options, found));
  EXPECT_EQ(found.all[1].unfinished, unfinished);
  EXPECT_FALSE(dependencies_.look_up_next(user_, options, found));
  EXPECT_FALSE(dependencies_.look_up_next(user_, options, found));
  add("unknown");
  EXPECT_THAT(dependencies_.resolve(user_, options, &found).error(), HasSubstr("unknown"))
      << "it came after the command";
}

TEST_F(DependenciesTest, WhatWasNotLookedUpIsLookedUpAtTheAcceptance) {
  const ThreadRoleScope io_thread(kIoThread);
  add("a");
  const auto b = add("b");
  const FoundDependencies found = look_up({{"a", false}});
  const StartCondition condition = resolve({{"a", false}, {"b", false}}, &found).value();
  ASSERT_EQ(condition.waits.unsatisfied, 2U);
  EXPECT_EQ(condition.waits.all[1].sequence, b->sequence);
}

TEST_F(DependenciesTest, TheEndOfABatchAfterItsLookUpDecides) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto ok = add("ok");
  const auto cancelled = add("cancelled");
  const FoundDependencies found = look_up({{"ok", true}, {"cancelled", false}});
  const FoundDependencies needs_ok = look_up({{"cancelled", true}});
  end_and_tell(*ok);
  cancel_and_tell(*cancelled);
  EXPECT_TRUE(resolve({{"ok", true}, {"cancelled", false}}, &found)->is_immediate());
  EXPECT_THAT(resolve({{"cancelled", true}}, &needs_ok)->broken, HasSubstr("cancelled"));
}

TEST_F(DependenciesTest, ABatchThatIsForgottenAfterItsLookUpCountsAsItEndedAndALaterOneOfItsIdIsNotMeant) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto over = add("over");
  end(*over);
  const auto unfinished = add("unfinished");
  const FoundDependencies found = look_up({{"over", true}, {"unfinished", true}});
  end_and_tell(*unfinished);
  for (const auto& each : {over, unfinished}) ASSERT_TRUE(registry_.forget(*each));
  add("over");
  add("unfinished");
  EXPECT_TRUE(resolve({{"over", true}, {"unfinished", true}}, &found)->is_immediate());
}

TEST_F(DependenciesTest, ABatchThatGoesOnAfterItsLookUpCountsAsItWas) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto cancelled = add("cancelled");
  cancelled->stop("by the test");
  end(*cancelled);
  const FoundDependencies found = look_up({{"cancelled", false}});
  const FoundDependencies needs_ok = look_up({{"cancelled", true}});
  registry_.go_on(cancelled, cancelled->status());
  EXPECT_TRUE(resolve({{"cancelled", false}}, &found)->is_immediate());
  EXPECT_THAT(resolve({{"cancelled", true}}, &needs_ok)->broken, HasSubstr("cancelled"));
}

TEST_F(DependenciesTest, ABatchThatTheStoreRefusesAfterItsLookUpWasNeverThere) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto refused = add("refused");
  const FoundDependencies found = look_up({{"refused", false}});
  refused->stored.is_rejected = true;
  refused->stop("by the store");
  end(*refused);
  registry_.forget(*refused);
  EXPECT_THAT(resolve({{"refused", false}}, &found).error(), StartsWith("NOBATCH"));
}

// It is not over yet: jobs that were to be added to it wait for an outcome of their own. After a
// crash it is unknown, and what waits for it would start.
TEST_F(DependenciesTest, ABatchThatTheStoreHasRefusedIsUnknown) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto refused = add("refused");
  const FoundDependencies found = look_up({{"refused", false}});
  refused->stored.is_rejected = true;
  EXPECT_THAT(resolve({{"refused", false}}).error(), StartsWith("NOBATCH"));
  EXPECT_THAT(resolve({{"refused", false}}, &found).error(), StartsWith("NOBATCH"));
}

// ---- Restored ----

TEST_F(DependenciesTest, ARestoredBatchWaitsOnlyForWhatIsNotSatisfied) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto active = add("active");
  const auto over = add("over");
  end(*over);
  AcceptedRow row;
  row.after = {{active->sequence, "active", true}, {over->sequence, "over", true}};
  const StartCondition condition = dependencies_.resolve_restored(row, false, {});
  EXPECT_EQ(condition.waits.unsatisfied, 1u);
  ASSERT_EQ(condition.waits.all.size(), 2u) << "the store counts them by their places";
  EXPECT_FALSE(condition.waits.all[0].is_satisfied);
  EXPECT_TRUE(condition.waits.all[1].is_satisfied);
  EXPECT_EQ(condition.broken, "");
}

TEST_F(DependenciesTest, ADependencyThatWentWithTheMemoryBreaksAfterOkAlone) {
  const ThreadRoleScope io_thread(kIoThread);
  AcceptedRow row;
  row.after = {{77, "gone", false}};
  EXPECT_EQ(dependencies_.resolve_restored(row, false, {}).waits.unsatisfied, 0u);
  row.after = {{77, "gone", true}};
  EXPECT_THAT(dependencies_.resolve_restored(row, false, {}).broken, HasSubstr("gone"));
}

TEST_F(DependenciesTest, ARestoredBatchThatWasReleasedOrCancelledWaitsForNothing) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto active = add("active");
  AcceptedRow row;
  row.after = {{active->sequence, "active", false}};
  ChangesRow released;
  released.is_released = true;
  EXPECT_TRUE(dependencies_.resolve_restored(row, false, released).is_immediate());
  EXPECT_TRUE(dependencies_.resolve_restored(row, true, {}).is_immediate());
  EXPECT_FALSE(dependencies_.resolve_restored(row, false, {}).is_immediate());
}

}  // namespace
}  // namespace locksley::daemon
