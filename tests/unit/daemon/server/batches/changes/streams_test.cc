// Which connection streams which open batch in, and what becomes of a batch whose connection ends.
#include "daemon/server/batches/changes/streams.h"
#include "daemon/base/loop/io_thread.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/registry_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class StreamsTest : public RegistryFixture {
 protected:
  std::vector<std::string> visited() LOCKSLEY_REQUIRES(kIoThread) {
    std::vector<std::string> ids;
    streams_.for_each([&](const BatchRecord& record) { ids.push_back(record.id()); });
    return ids;
  }

  static constexpr std::uint64_t kAlice = 7;
  static constexpr std::uint64_t kBob = 8;
  static constexpr std::size_t kAll = 1000;
  const Instant later_ = now_ + std::chrono::seconds(60);
  Streams streams_{registry_};
};

TEST_F(StreamsTest, TheEndOfAConnectionSchedulesTheCloseOfAllItsBatchesAndOfNoOther) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto a = add("a");
  const auto b = add("b");
  const auto of_bob = add("of bob");
  streams_.take_over(*a, kAlice);
  streams_.take_over(*b, kAlice);
  streams_.take_over(*of_bob, kBob);
  EXPECT_EQ(a->streamed.connection, kAlice);
  EXPECT_EQ(a->due.close, kNever);
  streams_.connection_ended(kAlice, later_, kAll);
  EXPECT_EQ(a->streamed.connection, 0u);
  EXPECT_EQ(a->due.close, later_);
  EXPECT_EQ(b->due.close, later_);
  EXPECT_EQ(of_bob->due.close, kNever);
  EXPECT_EQ(of_bob->streamed.connection, kBob);
}

TEST_F(StreamsTest, TheEndOfAConnectionAbandonsAFewOfItsBatchesAtATime) {
  const ThreadRoleScope io_thread(kIoThread);
  std::vector<std::shared_ptr<BatchRecord>> batches;
  for (const char* id : {"a", "b", "c", "d", "e"}) {
    batches.push_back(add(id));
    streams_.take_over(*batches.back(), kAlice);
  }
  const auto abandoned = [&] {
    kIoThread.assert_held();
    return std::ranges::count_if(batches, [&](const auto& each) {
      kIoThread.assert_held();
      return each->due.close == later_;
    });
  };
  EXPECT_FALSE(streams_.connection_ended(kAlice, later_, 2));
  EXPECT_EQ(abandoned(), 2);
  // Meanwhile one of the others ends, or is taken over.
  const auto left = std::ranges::find(batches, kNever, [](const auto& each) {
    kIoThread.assert_held();
    return each->due.close;
  });
  ASSERT_NE(left, batches.end());
  streams_.take_over(**left, kBob);
  EXPECT_TRUE(streams_.connection_ended(kAlice, later_, 2));
  EXPECT_EQ(abandoned(), 4);
  EXPECT_EQ((*left)->streamed.connection, kBob);
  EXPECT_TRUE(streams_.connection_ended(kAlice, later_, 2)) << "it has none any more";
  EXPECT_THAT(visited(), UnorderedElementsAre("a", "b", "c", "d", "e"));
}

TEST_F(StreamsTest, ABatchThatAnotherConnectionTookOverDoesNotEndWithTheFirst) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add("a");
  streams_.take_over(*record, kAlice);
  streams_.take_over(*record, kBob);
  streams_.connection_ended(kAlice, later_, kAll);
  EXPECT_EQ(record->streamed.connection, kBob);
  EXPECT_EQ(record->due.close, kNever);
}

TEST_F(StreamsTest, AnAbandonedBatchThatIsTakenOverIsNotClosed) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add("a");
  streams_.abandon(*record, later_);
  EXPECT_EQ(record->due.close, later_);
  ASSERT_EQ(registry_.due().earliest(), later_);
  streams_.take_over(*record, kBob);
  EXPECT_EQ(record->due.close, kNever);
  EXPECT_EQ(registry_.due().earliest(), Instant::max());
}

TEST_F(StreamsTest, AnAbandonedBatchKeepsItsTimeWhenAnyConnectionEnds) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add("a");
  streams_.take_over(*record, kAlice);
  streams_.connection_ended(kAlice, later_, kAll);
  streams_.connection_ended(kAlice, later_ + std::chrono::seconds(60), kAll);
  streams_.connection_ended(kBob, later_ + std::chrono::seconds(60), kAll);
  EXPECT_EQ(record->due.close, later_);
}

TEST_F(StreamsTest, ABatchThatIsOverIsNotVisitedAndNotClosed) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto over = add("over");
  const auto open = add("open");
  const auto abandoned = add("abandoned");
  streams_.take_over(*over, kAlice);
  streams_.take_over(*open, kAlice);
  streams_.abandon(*abandoned, later_);
  EXPECT_THAT(visited(), UnorderedElementsAre("over", "open", "abandoned"));
  streams_.remove(*over);
  streams_.remove(*abandoned);
  EXPECT_THAT(visited(), UnorderedElementsAre("open"));
  streams_.connection_ended(kAlice, later_, kAll);
  EXPECT_EQ(over->due.close, kNever);
  streams_.remove(*open);
  EXPECT_THAT(visited(), IsEmpty());
}

TEST_F(StreamsTest, AfterAllAreDetachedTheEndOfAConnectionClosesNothing) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto a = add("a");
  const auto b = add("b");
  streams_.take_over(*a, kAlice);
  streams_.take_over(*b, kBob);
  streams_.detach_all();
  streams_.connection_ended(kAlice, later_, kAll);
  streams_.connection_ended(kBob, later_, kAll);
  EXPECT_EQ(a->due.close, kNever);
  EXPECT_EQ(b->due.close, kNever);
  EXPECT_EQ(a->streamed.connection, 0u);
  EXPECT_THAT(visited(), UnorderedElementsAre("a", "b")) << "they are open all the same";
}

}  // namespace
}  // namespace locksley::daemon
