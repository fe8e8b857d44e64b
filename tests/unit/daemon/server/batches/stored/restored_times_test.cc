// Batches of an earlier process, on a machine whose wall clock has jumped.
#include "daemon/server/batches/stored/restored_times.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <asio/io_context.hpp>
#include <memory>
#include <optional>
#include <utility>

#include "config/config.h"
#include "daemon/server/batches/handlers/handler_directory.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/batches/stored/restored_batches.h"
#include "daemon/store/read/reader.h"
#include "tests/support/next_to_forget.h"
#include "tests/support/registry_fixture.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

constexpr std::int64_t kSubmitted = 1'700'000'000'000;
constexpr std::int64_t kEnded = 1'700'000'100'000;  // by StepMaker::as_last(): the newest time in the store
constexpr milliseconds kLasting = hours(2);         // of the retention, the delay and the deadline
constexpr milliseconds kJump = hours(21 * 24);
enum : std::uint64_t { kOver = 1, kDelayed, kWithDeadline };

ClockReading the_clocks{};  // as the daemon reads them

class RestoredTimesTest : public RegistryFixture {
 protected:
  class SilentObserver final : public BatchObserver {
    void batch_changed(const std::shared_ptr<Batch>&) override {}
    void handler_threw(const Batch&, std::uint64_t, std::string_view) override {}
    void attempt_failed(const Batch&, std::uint64_t, JobStatus, std::string_view) override {}
  };

  RestoredTimesTest() {
    bench_.open();
    for (const std::uint64_t sequence : {kOver, kDelayed, kWithDeadline}) {
      AcceptBatch accept = testing::accept_batch(sequence, 1);
      accept.row.submitted_at = kSubmitted;
      accept.row.retain_ms = kLasting.count();
      if (sequence == kDelayed) accept.row.start_at = kSubmitted + kLasting.count();
      if (sequence == kWithDeadline) accept.row.deadline_at = kSubmitted + kLasting.count();
      bench_.commit(std::move(accept));
    }
    bench_.put(testing::StepMaker::as_last(testing::StepMaker(kOver).end_jobs({0, 1})));
    bench_.flush();
    bench_.close();
  }
  ~RestoredTimesTest() override {
    lane_.detach_all();
    if (store_) store_->stop();
  }

  // A start while the wall clock stands so far after the newest time in the store.
  void start(milliseconds after_newest) LOCKSLEY_REQUIRES(kIoThread) {
    set_clocks(after_newest);
    store_ = std::move(Store::open(bench_.options(), testing::silent_log()).value());
    handlers_.add({.handler = handlers_.handler_of("echo"), .lane = lane_, .kind = HandlerKind::kBuiltin});
    times_.emplace(RestoredTimes::Parts{.io = io_,
                                        .slices = slices_,
                                        .registry = registry_,
                                        .log = testing::silent_log(),
                                        .changed = [this] { has_changed_ = true; }},
                   [] { return the_clocks; });
    batches_.emplace(RestoredBatches::Parts{.config = config_,
                                            .store = store_.get(),
                                            .discards = discards_,
                                            .registry = registry_,
                                            .retention = retention_,
                                            .observer = observer_,
                                            .handlers = handlers_,
                                            .times = *times_,
                                            .polls = polls_,
                                            .log = testing::silent_log()});
    const auto restored = batches_->restore(
        [this](StoredBatch stored) {
          kIoThread.assert_held();
          const auto due = times_->due_of(stored);
          const auto record = batches_->record_of(stored);
          registry_.add(record);
          if (stored.sequence == kDelayed) registry_.schedule(*record, Due::kStart, due.start);
          registry_.schedule(*record, Due::kDeadline, due.deadline);
        },
        [](const Outcome&) {});
    ASSERT_TRUE(restored.has_value()) << restored.error().what;
  }
  // The second look, at which the wall clock stands so far after the newest time in the store.
  void look_again(milliseconds after_newest) LOCKSLEY_REQUIRES(kIoThread) {
    the_clocks.steady += StoreClock::kSecondLook;
    set_clocks(after_newest);
    times_->look_again();
    for (int i = 0; i < 100 && !has_changed_; ++i) {
      io_.restart();
      io_.poll();
    }
  }
  static void set_clocks(milliseconds after_newest) { the_clocks.unix_ms = kEnded + after_newest.count(); }

  Instant forgotten_at() LOCKSLEY_REQUIRES(kIoThread) { return registry_.retained().find(kOver)->forget_at; }
  Instant starts_at() LOCKSLEY_REQUIRES(kIoThread) { return registry_.by_sequence(kDelayed)->due.start; }
  Instant deadline_at() LOCKSLEY_REQUIRES(kIoThread) {
    return registry_.by_sequence(kWithDeadline)->due.deadline;
  }
  // Between the submission and the end that is the newest time.
  static constexpr milliseconds kBefore{kEnded - kSubmitted};

  config::Config config_;
  testing::StoreBench bench_;
  std::unique_ptr<Store> store_;
  Reader aside_;
  Retention retention_{registry_, stats_, nullptr, aside_};
  SilentObserver observer_;
  HandlerDirectory handlers_;
  asio::io_context io_;
  Slices slices_{io_.get_executor()};
  bool has_changed_ = false;
  OwnedCounter polls_;
  std::optional<RestoredTimes> times_;
  PendingDiscards discards_;
  std::optional<RestoredBatches> batches_;
  const Instant begin_ = the_clocks.steady = Instant(hours(1000));
  const Instant earliest_ = begin_ + StoreClock::kSecondLook + StoreClock::kMargin;
};

TEST_F(RestoredTimesTest, TimesGoOnAsTheyWere) {
  const ThreadRoleScope io_thread(kIoThread);
  start(minutes(30));
  EXPECT_EQ(forgotten_at(), begin_ + kLasting - minutes(30));
  EXPECT_EQ(starts_at(), begin_ + kLasting - kBefore - minutes(30));
  EXPECT_EQ(deadline_at(), begin_ + kLasting - kBefore - minutes(30));
}

// As before the restart: an output that no reply has room for could never be read.
TEST_F(RestoredTimesTest, ARestoredBatchKeepsTheBoundOfItsOutputs) {
  const ThreadRoleScope io_thread(kIoThread);
  config_.limits.output_buffer = config::kibibytes(7);
  start(minutes(30));
  EXPECT_EQ(registry_.by_sequence(kDelayed)->options().max_output_bytes, 7 * 1024U);
}

TEST_F(RestoredTimesTest, AClockThatJumpedForwardDeletesNothingAtTheFirstLook) {
  const ThreadRoleScope io_thread(kIoThread);
  start(kJump);
  EXPECT_EQ(testing::next_to_forget(registry_.retained())->forget_at, earliest_);
  EXPECT_EQ(deadline_at(), earliest_);
  look_again(kJump + StoreClock::kSecondLook);
  EXPECT_EQ(forgotten_at(), earliest_) << "the daemon was away for weeks";
}

TEST_F(RestoredTimesTest, AClockThatIsSetBackToTheTruthCounts) {
  const ThreadRoleScope io_thread(kIoThread);
  start(kJump);
  look_again(minutes(40));
  EXPECT_TRUE(has_changed_);
  const Instant second = begin_ + StoreClock::kSecondLook;
  EXPECT_EQ(testing::next_to_forget(registry_.retained())->forget_at, second + kLasting - minutes(40));
  EXPECT_EQ(deadline_at(), second + kLasting - kBefore - minutes(40));
  EXPECT_EQ(starts_at(), second + kLasting - kBefore - minutes(40));
}

TEST_F(RestoredTimesTest, AClockThatWasSetBackMakesNothingWaitForWeeks) {
  const ThreadRoleScope io_thread(kIoThread);
  start(-kJump);
  EXPECT_EQ(starts_at(), begin_ + kLasting - kBefore);
  EXPECT_EQ(forgotten_at(), begin_ + kLasting);
  EXPECT_EQ(deadline_at(), begin_ + kLasting);
}

TEST_F(RestoredTimesTest, WhatWasRetriedMeanwhileKeepsItsNewTimes) {
  const ThreadRoleScope io_thread(kIoThread);
  start(kJump);
  RetainedBatch batch = registry_.retained().remove(kOver).value();
  batch.forget_at = begin_ + hours(7);
  registry_.retained().add(batch);
  look_again(minutes(40));
  EXPECT_EQ(forgotten_at(), begin_ + hours(7));
}

}  // namespace
}  // namespace locksley::daemon
