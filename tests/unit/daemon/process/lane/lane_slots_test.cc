// Which slot of a lane a turn gets, and which process has to end for it.
#include "daemon/process/lane/lane_slots.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/sync/thread_role.h"

namespace locksley::daemon {
namespace {

using State = ProcessRunner::State;
using namespace std::chrono_literals;

// Is in the state that the test has given it.
class PretendedRunner final : public ProcessRunner {
 public:
  explicit PretendedRunner(LaneSlot& slot) : slot_(slot) {}

  Program::Kind kind() const override { return Program::Kind::kWorker; }
  State state() const override { return state_; }
  LaneSlot& slot() const override { return slot_; }
  LaneHandler* handler() const override { return nullptr; }
  Nanoseconds idle_since() const override { return idle_since_; }
  Nanoseconds stays_until() const override { return stays_until_; }
  bool may_serve(const LaneHandler& /*handler*/) const override { return true; }
  std::uint64_t begin(LaneHandler& /*handler*/, std::unique_ptr<ExternalExecutor> /*turn*/,
                      std::uint64_t /*most*/) override {
    return 0;
  }
  void check_cancelled() override {}
  void release_process() override { state_ = State::kEnding; }
  void reset_failures() override {}
  void stop() override {}
  void abandon() override {}

  void set(State state, Nanoseconds idle_since = {}) {
    state_ = state;
    idle_since_ = idle_since;
  }
  void stay(Nanoseconds until) { stays_until_ = until; }

 private:
  LaneSlot& slot_;
  State state_ = State::kEmpty;
  Nanoseconds idle_since_{};
  Nanoseconds stays_until_{};
};

constexpr Nanoseconds kNow = 100s;

class LaneSlotsTest : public ::testing::Test {
 protected:
  void configure(std::uint32_t count, std::vector<std::string> names = {}) {
    kProcessThread.assert_held();
    slots_.configure({.count = count, .names = std::move(names)});
  }
  LaneSlot& slot(std::size_t number) { return *slots_.all().at(number); }
  // A process in that slot.
  PretendedRunner& add(std::size_t number, State state, Nanoseconds idle_since = {}) {
    kProcessThread.assert_held();
    auto runner = std::make_unique<PretendedRunner>(slot(number));
    PretendedRunner& result = *runner;
    slot(number).runners.push_back(std::move(runner));
    change(result, state, idle_since);
    return result;
  }
  void change(PretendedRunner& runner, State state, Nanoseconds idle_since = {}) {
    kProcessThread.assert_held();
    runner.set(state, idle_since);
    slots_.update(runner.slot());
  }
  LaneSlots::Choice choose(const std::vector<ProcessRunner*>& idle = {}) {
    kProcessThread.assert_held();
    return slots_.choose(idle, kNow);
  }

  LaneSlots slots_;
};

TEST_F(LaneSlotsTest, EachSlotHasOneTurnAtATime) {
  const ThreadRoleScope process_thread(kProcessThread);
  EXPECT_FALSE(slots_.has_free());
  configure(2);
  EXPECT_EQ(choose().slot, &slot(0));
  PretendedRunner& first = add(0, State::kRunning);
  EXPECT_EQ(choose().slot, &slot(1));
  add(1, State::kRunning);
  EXPECT_FALSE(slots_.has_free());
  change(first, State::kEmpty);
  EXPECT_TRUE(slots_.has_free());
  EXPECT_EQ(choose().slot, &slot(0));
}

TEST_F(LaneSlotsTest, AnIdleProcessOfTheHandlerComesFirstThenTheSlotWithTheFewest) {
  const ThreadRoleScope process_thread(kProcessThread);
  configure(3);
  PretendedRunner& old = add(0, State::kIdle, 1s);
  PretendedRunner& recent = add(1, State::kIdle, 2s);
  EXPECT_EQ(choose({&old, &recent}).idle, &recent);
  EXPECT_EQ(choose({&old}).slot, &slot(0));
  // Of another handler: the empty slot, then those that have room for one more.
  EXPECT_EQ(choose().slot, &slot(2));
  add(2, State::kRunning);
  EXPECT_EQ(choose().slot, &slot(0));
  EXPECT_EQ(choose().idle, nullptr);
  EXPECT_TRUE(choose().has_room);
}

TEST_F(LaneSlotsTest, AProcessWhoseSlotIsBusyWithAnotherIsNotUsed) {
  const ThreadRoleScope process_thread(kProcessThread);
  configure(2);
  PretendedRunner& idle = add(0, State::kIdle, 1s);
  add(0, State::kRunning);
  const LaneSlots::Choice choice = choose({&idle});
  EXPECT_EQ(choice.slot, &slot(1));
  EXPECT_EQ(choice.idle, nullptr);
}

TEST_F(LaneSlotsTest, WithoutRoomTheProcessThatIsIdleForLongestEnds) {
  const ThreadRoleScope process_thread(kProcessThread);
  configure(2);
  add(0, State::kIdle, 5s);
  add(0, State::kIdle, 3s);
  PretendedRunner& oldest = add(1, State::kIdle, 2s);
  add(1, State::kIdle, 9s);
  const LaneSlots::Choice choice = choose();
  EXPECT_FALSE(choice.has_room);
  EXPECT_EQ(choice.to_end, &oldest);
  EXPECT_EQ(choice.slot, &slot(1));
  // One that ends already makes room soon: no other has to.
  change(oldest, State::kEnding);
  EXPECT_EQ(choose().slot, &slot(1));
  EXPECT_EQ(choose().to_end, nullptr);
  EXPECT_FALSE(choose().has_room);
}

TEST_F(LaneSlotsTest, AProcessThatStaysEndsOnlyIfAllOthersStayToo) {
  const ThreadRoleScope process_thread(kProcessThread);
  configure(2, {"x", "y"});
  PretendedRunner& first = add(0, State::kIdle, 1s);
  first.stay(kNow + 1s);
  EXPECT_TRUE(slots_.staying(kNow).empty());  // the other slot has room
  PretendedRunner& second = add(1, State::kIdle, 2s);
  second.stay(kNow);
  EXPECT_TRUE(slots_.staying(kNow).empty());  // the second need not stay any more
  EXPECT_EQ(choose().to_end, &second);
  second.stay(kNow + 1s);
  EXPECT_EQ(slots_.staying(kNow), (std::vector<ProcessRunner*>{&first, &second}));
  EXPECT_EQ(choose().to_end, &first);
  // A process of a busy slot does not matter, nor does one where another ends already.
  change(first, State::kRunning);
  EXPECT_EQ(slots_.staying(kNow), (std::vector<ProcessRunner*>{&second}));
  change(first, State::kEnding);
  EXPECT_TRUE(slots_.staying(kNow).empty());
}

TEST_F(LaneSlotsTest, ASlotWithANameHasOneProcess) {
  const ThreadRoleScope process_thread(kProcessThread);
  configure(2, {"gpu0", "gpu1"});
  EXPECT_EQ(slot(0).name, "gpu0");
  PretendedRunner& idle = add(0, State::kIdle, 1s);
  EXPECT_EQ(choose().slot, &slot(1));
  add(1, State::kIdle, 2s);
  EXPECT_EQ(choose().to_end, &idle);
  EXPECT_EQ(choose({&idle}).idle, &idle);
}

TEST_F(LaneSlotsTest, SlotsThatAreNotWantedEndTheirTurnsAndCountUntilThen) {
  const ThreadRoleScope process_thread(kProcessThread);
  configure(3);
  add(0, State::kRunning);
  PretendedRunner& second = add(1, State::kRunning);
  PretendedRunner& third = add(2, State::kRunning);
  configure(2);
  EXPECT_FALSE(slots_.has_free());
  change(second, State::kIdle);
  EXPECT_FALSE(slots_.has_free());  // two others run
  change(third, State::kIdle);
  EXPECT_EQ(choose({&third}).slot, &slot(1));  // the third slot is not wanted
  configure(3);
  EXPECT_EQ(slots_.all().size(), 3U);
  EXPECT_EQ(choose({&third}).slot, &slot(2));
}

TEST_F(LaneSlotsTest, WhatWasNumberedAndGetsTheSameNamesHasOneProcessTooMany) {
  const ThreadRoleScope process_thread(kProcessThread);
  configure(1);
  add(0, State::kIdle);
  add(0, State::kIdle);
  EXPECT_FALSE(slots_.is_over(slot(0)));
  configure(1, {"0"});
  EXPECT_EQ(slots_.all().size(), 1U);
  EXPECT_TRUE(slots_.is_over(slot(0)));
}

}  // namespace
}  // namespace locksley::daemon
