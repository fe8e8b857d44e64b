// The count of tasks by which their owner parks: it never sleeps when all have ended, and what they
// wrote is seen.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/tasks/task.h"
#include "tests/model/atomics.h"
#include "tests/model/expect.h"
#include "tests/model/explorer.h"

namespace locksley::model::task_count_model {
namespace {

// An owner, and tasks that others run.
struct Group {
  void spawn(int n) {
    for (int i = 0; i < n; ++i) count.spawned();
  }

  // As Worker::run_task() on another thread.
  void finish() {
    ++ended;
    if (count.finished()) parker.unpark();
  }

  // As Worker::wait_for_thieves(), without tasks to help with.
  void wait() {
    while (!count.is_done()) {
      if (count.park_begin() || !heeds_park_begin) {
        parker.park();
        count.park_end();
      }
    }
  }

  BasicTaskCount<ModelAtomics> count;
  TokenParker parker;
  int ended = 0;
  bool heeds_park_begin = true;  // not to park if all have ended
};

Program owner_of_two(bool heeds_park_begin) {
  return [=](Explorer& explorer) {
    Group group;
    group.heeds_park_begin = heeds_park_begin;
    group.spawn(2);
    int seen = 0;
    explorer.run({[&] {
                    group.wait();
                    seen = group.ended;
                  },
                  [&] { group.finish(); }, [&] { group.finish(); }});
    return seen == 2;
  };
}

TEST(TaskCountModelTest, OwnerSleepsUntilAllHaveEndedAndNoLonger) {
  expect_right(owner_of_two(true), {.preemptions = 12});
}

TEST(TaskCountModelTest, TokenThatIsLeftOverDoesNoHarm) {
  expect_right(
      [](Explorer& explorer) {
        Group group;
        group.spawn(2);
        group.parker.unpark();
        int seen = 0;
        explorer.run({[&] {
                        group.wait();
                        seen = group.ended;
                      },
                      [&] { group.finish(); }, [&] { group.finish(); }});
        return seen == 2;
      },
      {.preemptions = 12});
}

// The owner is awake for another reason when the last task ends: the token comes too late, and into
// the next wait.
TEST(TaskCountModelTest, SecondWaitIsNotMisledByTheFirst) {
  expect_right(
      [](Explorer& explorer) {
        Group group;
        group.spawn(1);
        bool right = true;
        TokenParker next;
        explorer.run({[&] {
                        group.wait();
                        right = group.ended == 1;
                        group.spawn(2);
                        next.unpark();
                        group.count.finished_by_owner();
                        group.wait();
                        right = right && group.ended == 2;
                      },
                      [&] {
                        group.finish();
                        next.park();
                        group.finish();
                      },
                      [&] { group.parker.unpark(); }});
        return right;
      },
      {.preemptions = 5});
}

TEST(TaskCountModelTest, WhatTheTasksWroteIsSeen) {
  expect_right(
      [](Explorer& explorer) {
        Group group;
        group.spawn(2);
        std::array<Atomic<std::uint64_t>, 2> written;
        bool right = true;
        const auto task = [&](std::size_t i) {
          return [&, i] {
            // relaxed: the count orders it.
            written[i].store(1, std::memory_order_relaxed);
            group.finish();
          };
        };
        explorer.run({[&] {
                        group.wait();
                        for (const auto& word : written) {
                          // relaxed: as above, the count orders it.
                          right = right && word.load(std::memory_order_relaxed) == 1;
                        }
                      },
                      task(0), task(1)});
        return right;
      },
      {.preemptions = 5});
}

TEST(TaskCountModelTest, ExplorerFindsTheOwnerThatParksWhenAllHaveEnded) {
  EXPECT_EQ(failure_of(owner_of_two(false), {}), Failure::kDeadlock);
}

}  // namespace
}  // namespace locksley::model::task_count_model
