// Very many connections that wait for one batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <cstddef>
#include <list>
#include <set>

#include "core/pool/worker_stats.h"
#include "daemon/base/loop/slices.h"
#include "daemon/base/loop/turns.h"
#include "daemon/base/loop/wakeup.h"
#include "daemon/server/session/waiter_place.h"
#include "tests/support/registry_fixture.h"

namespace locksley::daemon {
namespace {

class WaitersTest : public RegistryFixture {
 protected:
  struct Waiter {
    Waiter(Turns& turns, OwnedCounter& blocked, BatchRecord& record, std::uint64_t row)
        LOCKSLEY_REQUIRES(kIoThread)
        : wakeup(turns), place(wakeup, blocked, record, row) {}
    Wakeup wakeup;
    WaiterPlace place;
  };

  std::list<Waiter> waiters(BatchRecord& record, std::size_t count, std::uint64_t row)
      LOCKSLEY_REQUIRES(kIoThread) {
    std::list<Waiter> result;
    for (std::size_t i = 0; i < count; ++i) result.emplace_back(turns_, blocked_, record, row);
    return result;
  }
  static std::size_t woken(std::list<Waiter>& all) {
    return static_cast<std::size_t>(
        std::ranges::count_if(all, [](Waiter& waiter) { return waiter.wakeup.take(); }));
  }

  static constexpr std::size_t kAtOnce = BatchRecord::kWokenAtOnce;
  asio::io_context io_;
  OwnedCounter polls_, blocked_;
  Turns turns_{io_.get_executor(), polls_};
  Slices slices_{io_.get_executor()};
};

TEST_F(WaitersTest, AFewAreWokenAtOnceAndTheOthersInSlices) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add("a");
  auto others = waiters(*record, kAtOnce, BatchRecord::kItsEnd);
  auto readers = waiters(*record, 5 * kAtOnce, BatchRecord::kReadRows);
  record->wake_readers(slices_);
  EXPECT_EQ(woken(readers), kAtOnce);
  io_.run();
  EXPECT_EQ(woken(readers), 4 * kAtOnce) << "each once";
  EXPECT_EQ(woken(others), 0u);
}

TEST_F(WaitersTest, WhoIsLeftIsWokenThoughOthersHaveGoneMeanwhile) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add("a");
  auto readers = waiters(*record, 5 * kAtOnce, BatchRecord::kReadRows);
  record->wake_readers(slices_);
  // Of those that are woken, and of those that are not.
  for (std::size_t i = 0; i < kAtOnce / 2; ++i) {
    readers.pop_back();
    readers.pop_front();
  }
  std::set<const Waiter*> told;
  const auto note_woken = [&] {
    for (Waiter& reader : readers) {
      if (reader.wakeup.take()) told.insert(&reader);
    }
  };
  note_woken();
  EXPECT_EQ(told.size(), kAtOnce / 2);
  io_.run();
  note_woken();
  EXPECT_EQ(told.size(), readers.size());
}

TEST_F(WaitersTest, NewsWakeThoseWhoseRowIsThereAndTheEndWakesAll) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add("a");
  auto first = waiters(*record, 2 * kAtOnce, 0);
  auto later = waiters(*record, 2 * kAtOnce, 9);
  auto others = waiters(*record, 2 * kAtOnce, BatchRecord::kItsEnd);
  auto readers = waiters(*record, 2 * kAtOnce, BatchRecord::kReadRows);
  record->wake_for_news(0, slices_);
  io_.run();
  EXPECT_EQ(woken(first), 0u);
  record->wake_for_news(9, slices_);
  EXPECT_EQ(woken(first), kAtOnce);
  io_.restart();
  io_.run();
  EXPECT_EQ(woken(first), kAtOnce);
  EXPECT_EQ(woken(later) + woken(others) + woken(readers), 0u);
  end(*record);
  record->wake_for_news(9, slices_);
  io_.restart();
  io_.run();
  EXPECT_EQ(woken(first), 0u) << "they have not looked";
  EXPECT_EQ(woken(later), 2 * kAtOnce);
  EXPECT_EQ(woken(others), 2 * kAtOnce);
  EXPECT_EQ(woken(readers), 2 * kAtOnce);
}

TEST_F(WaitersTest, OneIsWokenAgainOnceItHasLooked) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add("a");
  auto readers = waiters(*record, 1, BatchRecord::kReadRows);
  for (int i = 0; i < 2; ++i) {
    record->wake_readers(slices_);
    record->wake_readers(slices_);
    EXPECT_EQ(woken(readers), 1u);
    readers.front().place.rearm();
  }
  record->wake_readers(slices_);
  EXPECT_EQ(woken(readers), 1u);
}

}  // namespace
}  // namespace locksley::daemon
