// The groups in which writes wait.
#include "daemon/store/write_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;

constexpr std::size_t kMost = 5 * kCostOfWrite;

// While anything is staged, each reply that a remote worker waits for puts a marker.
TEST(WriteQueueTest, MarkersDoNotFillAGroup) {
  WriteQueue queue(kMost);
  const Ticket ticket = queue.put(accept_batch(1, 1), Urgency::kAwaited);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(queue.put(std::monostate(), Urgency::kAwaited), ticket);
  EXPECT_EQ(queue.awaited(), 101U);
  EXPECT_FALSE(queue.has_full_or_staged());
  EXPECT_EQ(queue.put(accept_batch(2, 1), Urgency::kAwaited), ticket);
}

TEST(WriteQueueTest, AMarkerComesAfterStepsInFullGroupsAndInStagedOnes) {
  WriteQueue queue(kMost);
  AcceptBatch large = accept_batch(1, 0);
  large.payloads = testing::payloads_of(std::vector(30, std::string(1'000, 'x')));
  const Ticket staged = queue.put(std::move(large), Urgency::kAwaited);
  EXPECT_EQ(queue.put(RecordStep{.sequence = 1, .step = {}}, Urgency::kWithNext), staged);
  EXPECT_EQ(queue.put(std::monostate(), Urgency::kAwaited), staged);
  Ticket last = 0;
  while (last <= staged) {
    last = queue.put(RecordStep{.sequence = 2, .step = {}}, Urgency::kWithNext);
  }
  EXPECT_EQ(queue.put(std::monostate(), Urgency::kAwaited), last) << "others have gone past it";
}

// A flood of small writes fills one group after the other: each would else grow in memory of its own.
TEST(WriteQueueTest, AGroupThatBeginsBehindAFullOneGetsTheSpareMemory) {
  WriteQueue queue(kMost);
  std::uint64_t sequence = 0;
  const auto fill_a_group = [&] {
    for (std::size_t cost = 0; cost < kMost; cost += kCostOfWrite) {
      queue.put(ForgetBatch{.sequence = ++sequence}, Urgency::kAwaited);
    }
  };
  const auto take = [&](WriteQueue::Writes spare) { return queue.take_first(std::move(spare)).value(); };
  fill_a_group();
  WriteQueue::Writes spare;
  spare.reserve(100);
  const StoreWrite* const memory = spare.data();
  take(std::move(spare));
  fill_a_group();
  fill_a_group();
  take({});
  EXPECT_EQ(take({}).writes.data(), memory);
}

}  // namespace
}  // namespace locksley::daemon
