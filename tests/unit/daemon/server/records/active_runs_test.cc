#include "daemon/server/records/active_runs.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <vector>

#include "core/batch/handler.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/server/payloads/fixed_payloads.h"

namespace locksley::daemon {
namespace {

class ActiveRunsTest : public ::testing::Test {
 protected:
  // A RUN that is not over; 0: without a sequence number.
  BatchRecord& add(std::uint64_t sequence) LOCKSLEY_REQUIRES(kIoThread) {
    records_.push_back(std::make_shared<BatchRecord>(BatchOptions{}, handler_,
                                                     std::make_unique<RangedPayloads>(RangeJobs{}), nullptr,
                                                     lane_, BatchRecord::Origin::kRun, sequence));
    runs_.add(records_.back());
    return *records_.back();
  }

  Handler handler_{"echo", "", [](JobContext&, std::string_view) {}};
  Lane lane_{"cpu", FairRing::Options{}};
  std::vector<std::shared_ptr<BatchRecord>> records_;
  ActiveRuns runs_;
};

TEST_F(ActiveRunsTest, ThoseWithANumberAreFoundByItUntilTheyAreOver) {
  const ThreadRoleScope io_thread(kIoThread);
  BatchRecord& without = add(0);
  BatchRecord& with = add(7);
  EXPECT_EQ(runs_.size(), 2U);
  EXPECT_EQ(runs_.find(7), &with);
  EXPECT_EQ(runs_.find(0), nullptr);
  runs_.remove(with);
  EXPECT_EQ(runs_.find(7), nullptr);
  runs_.remove(without);
  EXPECT_EQ(runs_.size(), 0U);
}

TEST_F(ActiveRunsTest, OneWithANumberIsHeld) {
  const ThreadRoleScope io_thread(kIoThread);
  add(7);
  records_.clear();
  EXPECT_EQ(runs_.find(7)->sequence, 7U);
}

TEST_F(ActiveRunsTest, EachIsVisitedOnceAFewAtATime) {
  const ThreadRoleScope io_thread(kIoThread);
  for (std::uint64_t sequence = 1; sequence <= 5; ++sequence) add(sequence);
  std::multiset<std::uint64_t> visited;
  const auto visit = [&](BatchRecord& record) { visited.insert(record.sequence); };
  std::size_t left = runs_.size();
  EXPECT_FALSE(runs_.visit(left, 2, visit));
  EXPECT_FALSE(runs_.visit(left, 2, visit));
  EXPECT_EQ(visited.size(), 4U);
  EXPECT_TRUE(runs_.visit(left, 2, visit));
  EXPECT_EQ(visited, (std::multiset<std::uint64_t>{1, 2, 3, 4, 5}));
}

TEST_F(ActiveRunsTest, NoneIsPassedOverWhileSomeEnd) {
  const ThreadRoleScope io_thread(kIoThread);
  for (std::uint64_t sequence = 1; sequence <= 6; ++sequence) add(sequence);
  std::set<std::uint64_t> visited;
  std::size_t left = runs_.size();
  // Each visit ends the RUN that is visited; between two calls another one ends.
  const auto end = [&](BatchRecord& record) {
    kIoThread.assert_held();
    visited.insert(record.sequence);
    runs_.remove(record);
  };
  EXPECT_FALSE(runs_.visit(left, 2, end));
  EXPECT_EQ(visited, (std::set<std::uint64_t>{5, 6}));
  runs_.remove(*records_[1]);
  while (!runs_.visit(left, 2, end)) {
  }
  EXPECT_EQ(visited, (std::set<std::uint64_t>{1, 3, 4, 5, 6}));
  EXPECT_EQ(runs_.size(), 0U);
}

}  // namespace
}  // namespace locksley::daemon
