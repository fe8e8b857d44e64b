// Which changes of batches wake the I/O thread.
#include "daemon/server/batches/news/change_queue.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <cstddef>
#include <memory>
#include <string>

#include "tests/support/registry_fixture.h"

namespace locksley::daemon {
namespace {

using enum ChangeQueue::NextTake;

class ChangeQueueTest : public RegistryFixture {
 protected:
  std::shared_ptr<BatchRecord> begin(const std::string& id, const std::string& tenant = "default")
      LOCKSLEY_REQUIRES(kIoThread) {
    const auto record = add(id, tenant);
    changes_.batch_changed(record);
    return record;
  }
  void finish(const std::shared_ptr<BatchRecord>& record) LOCKSLEY_REQUIRES(kIoThread) {
    end(*record);
    changes_.batch_changed(record);
  }

  int wakes_ = 0;
  ChangeQueue changes_{[this] { ++wakes_; }, std::make_shared<spdlog::logger>("test")};
};

TEST_F(ChangeQueueTest, AfterABatchThatGoesOnOnlyEndsWakeTheThread) {
  const ThreadRoleScope io_thread(kIoThread);
  begin("a");
  EXPECT_EQ(wakes_, 1);
  EXPECT_TRUE(changes_.take(kOnWake).must_call_again);
  const auto second = begin("b");
  EXPECT_EQ(wakes_, 1) << "the thread comes by itself";
  finish(second);
  EXPECT_EQ(wakes_, 2);
  EXPECT_EQ(changes_.take(kOnWake).records.size(), 1u);
}

TEST_F(ChangeQueueTest, TheStartOfABatchDoesNotWakeAThreadThatComesBySelf) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto first = begin("a");
  changes_.take(kOnWake);
  finish(first);
  EXPECT_EQ(wakes_, 2);
  EXPECT_FALSE(changes_.take(kScheduled).must_call_again) << "all that was taken is over";
  const auto second = begin("b");
  EXPECT_EQ(wakes_, 2);
  finish(second);
  EXPECT_EQ(wakes_, 3) << "a client may wait for the end";
  changes_.take(kOnWake);
}

TEST_F(ChangeQueueTest, TheStartOfABatchWakesAThreadThatDoesNotComeBySelf) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto first = begin("a");
  changes_.take(kOnWake);
  finish(first);
  EXPECT_FALSE(changes_.take(kOnWake).must_call_again);
  begin("b");
  EXPECT_EQ(wakes_, 3);
}

TEST_F(ChangeQueueTest, ManyBatchesOfAUserDoNotDelayThoseOfAnother) {
  const ThreadRoleScope io_thread(kIoThread);
  for (std::size_t count = 0; count < 10 * ChangeQueue::kMostAtOnce; ++count) {
    begin("of many " + std::to_string(count), "many");
  }
  const auto single = begin("single", "few");
  const ChangeQueue::Taken taken = changes_.take(kOnWake);
  EXPECT_TRUE(taken.has_more);
  ASSERT_EQ(taken.records.size(), ChangeQueue::kMostAtOnce);
  EXPECT_EQ(taken.records[1], single);
}

}  // namespace
}  // namespace locksley::daemon
