// One long piece of work of an owner, in slices.
#include "daemon/base/loop/sliced_work.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <memory>
#include <string>

namespace locksley::daemon {
namespace {

struct SlicedWorkTest : ::testing::Test {
  // Work that notes its name in each of so many slices.
  Slices::Work noting(char name, int slices_needed) {
    return [this, name, left = slices_needed](Instant) mutable {
      order += name;
      return --left == 0;
    };
  }
  void run() {
    io.run();
    io.restart();
  }

  asio::io_context io;
  Slices slices{io.get_executor()};
  SlicedWork work{slices};
  std::string order;
};

TEST_F(SlicedWorkTest, ItIsUnderWayFromItsBeginToItsLastSlice) {
  EXPECT_FALSE(work.is_under_way());
  work.start([this, left = 3](Instant) mutable {
    EXPECT_TRUE(work.is_under_way());
    order += 'a';
    return --left == 0;
  });
  EXPECT_TRUE(work.is_under_way());
  EXPECT_EQ(order, "") << "not within the call";
  run();
  EXPECT_EQ(order, "aaa");
  EXPECT_FALSE(work.is_under_way());
}

TEST_F(SlicedWorkTest, WorkThatIsUnderWayGoesOnInsteadOfAnother) {
  work.start(noting('a', 2));
  work.start(noting('b', 1));
  run();
  EXPECT_EQ(order, "aa");
  work.start(noting('b', 1));
  run();
  EXPECT_EQ(order, "aab");
}

TEST_F(SlicedWorkTest, ACallFromWithinTheWorkHasItCalledOnceMore) {
  work.start([this, left = 3](Instant) mutable {
    order += 'a';
    if (--left != 0) work.start(noting('b', 1));
    return true;
  });
  run();
  EXPECT_EQ(order, "aaa");
  EXPECT_FALSE(work.is_under_way());
}

TEST_F(SlicedWorkTest, ARestartAbandonsWhatIsUnderWay) {
  work.restart(noting('a', 2));
  slices.add([this](Instant) {
    work.restart(noting('b', 2));
    return true;
  });
  run();
  EXPECT_EQ(order, "abb");
  EXPECT_FALSE(work.is_under_way());
}

TEST_F(SlicedWorkTest, ARestartFromWithinTheWorkAbandonsIt) {
  work.restart([this](Instant) {
    order += 'a';
    work.restart(noting('b', 2));
    return false;
  });
  run();
  EXPECT_EQ(order, "abb");
}

TEST_F(SlicedWorkTest, WorkMayCancelItselfAndBeginAnew) {
  work.start([this](Instant) {
    order += 'a';
    work.cancel();
    EXPECT_FALSE(work.is_under_way());
    work.start(noting('b', 1));
    return false;
  });
  run();
  EXPECT_EQ(order, "ab");
}

TEST_F(SlicedWorkTest, ItDoesNotOutliveItsOwner) {
  auto owner = std::make_unique<SlicedWork>(slices);
  owner->start(noting('a', 1));
  owner.reset();
  run();
  EXPECT_EQ(order, "");
  // Nor if its own work destroys the owner.
  owner = std::make_unique<SlicedWork>(slices);
  owner->start([this, &owner, left = 3](Instant) mutable {
    order += 'b';
    owner.reset();
    return --left == 0;
  });
  run();
  EXPECT_EQ(order, "b");
}

TEST_F(SlicedWorkTest, ItWaitsInTheLineThatIsGiven) {
  SlicedWork other(slices), third(slices);
  work.start(noting('a', 2), line_of_tenant(0));
  other.start(noting('b', 2), line_of_tenant(0));
  third.start(noting('c', 1), line_of_tenant(1));
  run();
  EXPECT_EQ(order, "acbab") << "round robin between users, and then between the work of each";
}

}  // namespace
}  // namespace locksley::daemon
