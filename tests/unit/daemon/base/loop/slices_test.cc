// Long work of the I/O thread in slices, and the time between two polls.
#include "daemon/base/loop/slices.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <chrono>
#include <string>

#include "daemon/base/loop/io_loop.h"
#include "daemon/base/loop/processor_time.h"

namespace locksley::daemon {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

void work_for(Nanoseconds time) {
  for (const Instant end = now() + time; now() < end;) {
  }
}

// The same by the time that the thread has the processor.
void use_processor_for(Nanoseconds time) {
  for (const Nanoseconds end = processor_time() + time; processor_time() < end;) {
  }
}

TEST(SlicesTest, WorkThatIsNotDoneGoesToTheEndOfTheLine) {
  asio::io_context io;
  Slices slices(io.get_executor());
  std::string order;
  for (const char name : {'a', 'b'}) {
    slices.add([&order, name, left = 3](Instant) mutable {
      order += name;
      return --left == 0;
    });
  }
  EXPECT_EQ(order, "");
  io.run();
  EXPECT_EQ(order, "ababab");
}

TEST(SlicesTest, AnyAmountOfWorkLeavesRoomForOthersAfterARound) {
  asio::io_context io;
  Slices slices(io.get_executor());
  int done = 0;
  for (int i = 0; i < 100; ++i) {
    slices.add([&done](Instant until) {
      EXPECT_LE(until - now(), Slices::kSlice);
      work_for(microseconds(300));
      ++done;
      return true;
    });
  }
  int done_before = -1;
  asio::post(io, [&] { asio::post(io, [&] { done_before = done; }); });
  io.run();
  EXPECT_EQ(done, 100);
  EXPECT_LE(done_before, 2 * 2) << "two rounds, each of two times 300 us at most";
}

TEST(SlicesTest, ASliceHasTimeUntilItsEndThoughOthersWait) {
  asio::io_context io;
  Slices slices(io.get_executor());
  for (int i = 0; i < 2; ++i) {
    slices.add([&](Instant until) {
      const bool has_time = slices.has_time();
      EXPECT_TRUE(has_time || now() >= until);
      while (now() < until) {
      }
      EXPECT_FALSE(slices.has_time());
      return true;
    });
  }
  EXPECT_FALSE(slices.has_time()) << "others wait";
  io.run();
  EXPECT_TRUE(slices.has_time());
}

TEST(SlicesTest, WhatWasSentIsChargedToTheRound) {
  asio::io_context io;
  Slices slices(io.get_executor());
  slices.charge_sending(100'000);
  EXPECT_TRUE(slices.has_time());
  slices.charge_sending(1'000'000);
  EXPECT_FALSE(slices.has_time());
  io.run();
  EXPECT_TRUE(slices.has_time()) << "another round";
}

TEST(SlicesTest, WorkThatWasDoneAtOnceIsChargedToTheRound) {
  asio::io_context io;
  Slices slices(io.get_executor());
  EXPECT_TRUE(slices.has_time());
  slices.charge(Slices::kRound);
  EXPECT_FALSE(slices.has_time());
  io.run();
  io.restart();
  EXPECT_TRUE(slices.has_time());
  slices.add([](Instant) { return true; });
  EXPECT_FALSE(slices.has_time()) << "who came before has the first slice";
  io.run();
  EXPECT_TRUE(slices.has_time());
}

TEST(IoLoopTest, TheLongestStretchBetweenTwoPollsIsMeasured) {
  asio::io_context io(1);
  IoStretches stretches;
  Nanoseconds began{}, ended{};
  const auto work = [&] {
    if (began.count() == 0) began = processor_time();
    use_processor_for(milliseconds(4));
    ended = processor_time();
  };
  // In the second round, and the end in the fourth: the first begins without a poll.
  asio::post(io, [&] {
    for (int i = 0; i < 3; ++i) asio::post(io, work);
    asio::post(io, [&io] { asio::post(io, [&io] { asio::post(io, [&io] { io.stop(); }); }); });
  });
  run_io_loop(io, {.may_poll = [] { return false; }, .awaits_worker = [] { return false; }}, stretches);
  EXPECT_GE(stretches.longest_ns.get(), 12'000'000u);
  // What the host of a virtual machine has taken away meanwhile counts as used, too.
  const Nanoseconds used = ended - began + milliseconds(1);
  EXPECT_LT(stretches.longest_ns.get(), static_cast<std::uint64_t>(used.count()));
  EXPECT_GE(stretches.long_ones.get(), 1u);
}

TEST(IoLoopTest, WhatWasPutOffIsDoneBeforeAWait) {
  asio::io_context io(1);
  const auto work = asio::make_work_guard(io);
  IoStretches stretches;
  run_io_loop(io,
              {.may_poll = [] { return false; },
               .awaits_worker = [] { return false; },
               .do_deferred = [&io] { io.stop(); }},
              stretches);
  EXPECT_TRUE(io.stopped());
}

TEST(IoLoopTest, WhatWasPutOffMayStaySoForOneWait) {
  asio::io_context io(1);
  const auto work = asio::make_work_guard(io);
  IoStretches stretches;
  int asked = 0;
  run_io_loop(io,
              {.may_poll = [] { return false; },
               .awaits_worker = [] { return false; },
               .do_deferred = [&io] { io.stop(); },
               .may_stay_deferred = [&asked] { return ++asked, true; }},
              stretches);
  EXPECT_EQ(asked, 1) << "after a wait in which nothing has come, it is done";
}

TEST(IoLoopTest, WhatWasPutOffIsDoneSoonIfTheThreadNeverWaits) {
  asio::io_context io(1);
  IoStretches stretches;
  int rounds = 0;
  std::function<void()> busy = [&] {
    if (++rounds == 10 * IoLoopHooks::kMostBusyRounds) return io.stop();
    asio::post(io, [&busy] { busy(); });
  };
  asio::post(io, [&busy] { busy(); });
  int calls = 0;
  run_io_loop(io,
              {.may_poll = [] { return false; },
               .awaits_worker = [] { return false; },
               .do_deferred = [&calls] { ++calls; }},
              stretches);
  EXPECT_GE(calls, 5);
}

}  // namespace
}  // namespace locksley::daemon
