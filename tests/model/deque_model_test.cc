// The deque in every interleaving of a few operations: each value goes to exactly one taker.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/steal/deque.h"
#include "tests/model/atomics.h"
#include "tests/model/expect.h"
#include "tests/model/explorer.h"

namespace locksley::model::deque_model {
namespace {

using ModelDeque = Deque<std::uint64_t, ModelAtomics>;

// A deque with 1 … n inside, its owner, and what each thread took. The owner stops being strict
// after one pop without a theft.
struct Scene {
  explicit Scene(std::uint64_t n, std::size_t capacity = 4) : deque(capacity, 1), owner(deque.owner()) {
    while (pushed < n) {
      push();
    }
  }

  void push() { owner.push(++pushed); }

  void pop() {
    if (const auto value = owner.pop()) {
      taken.push_back(*value);
    }
  }

  void steal() {
    const auto got = deque.thief().steal();
    if (got.stolen()) {
      taken.push_back(got.value);
    }
  }

  // What is left is taken, too; then there must be each value once.
  bool each_once() {
    while (const auto value = owner.pop()) {
      taken.push_back(*value);
    }
    std::ranges::sort(taken);
    if (taken.size() != pushed) {
      return false;
    }
    for (std::uint64_t i = 0; i < pushed; ++i) {
      if (taken[i] != i + 1) {
        return false;
      }
    }
    return true;
  }

  ModelDeque deque;
  ModelDeque::Owner owner;
  std::uint64_t pushed = 0;
  std::vector<std::uint64_t> taken;
};

TEST(DequeModelTest, LastTaskGoesToExactlyOneTaker) {
  expect_right(
      [](Explorer& explorer) {
        Scene scene(1);
        explorer.run({[&] { scene.pop(); }, [&] { scene.steal(); }, [&] { scene.steal(); }});
        return scene.each_once();
      },
      {.preemptions = 4});
}

TEST(DequeModelTest, LastTwoTasksGoToOneTakerEach) {
  expect_right(
      [](Explorer& explorer) {
        Scene scene(2);
        explorer.run({[&] {
                        scene.pop();
                        scene.pop();
                      },
                      [&] { scene.steal(); }, [&] { scene.steal(); }});
        return scene.each_once();
      },
      {.preemptions = 3});
}

TEST(DequeModelTest, ValuePushedAgainAtTheSamePlaceIsNotConfusedWithTheOld) {
  expect_right(
      [](Explorer& explorer) {
        Scene scene(2);
        explorer.run({[&] {
                        scene.pop();
                        scene.push();
                        scene.pop();
                        scene.push();
                      },
                      [&] {
                        scene.steal();
                        scene.steal();
                      }});
        return scene.each_once();
      },
      {.preemptions = 3});
}

TEST(DequeModelTest, GrowthLosesNothing) {
  expect_right(
      [](Explorer& explorer) {
        Scene scene(1, 1);
        explorer.run({[&] {
                        scene.push();
                        scene.pop();
                      },
                      [&] {
                        scene.steal();
                        scene.steal();
                      }});
        return scene.each_once();
      },
      {.preemptions = 2});
}

TEST(DequeModelTest, FullArrayIsUsedAgainOnlyWhereValuesAreTaken) {
  expect_right(
      [](Explorer& explorer) {
        Scene scene(1, 2);
        explorer.run({[&] {
                        scene.push();
                        scene.push();
                      },
                      [&] { scene.steal(); }});
        return scene.each_once();
      },
      {.preemptions = 2});
}

// Four pops: the first sees nothing stolen, or a theft, after which it is strict, and then is not
// any more.
TEST(DequeModelTest, OwnerThatBecomesStrictAndStopsLosesNothing) {
  expect_right(
      [](Explorer& explorer) {
        Scene scene(5, 8);
        explorer.run({[&] {
                        for (int i = 0; i < 4; ++i) scene.pop();
                      },
                      [&] {
                        for (int i = 0; i < 3; ++i) scene.steal();
                      }});
        return scene.each_once();
      },
      {.preemptions = 3});
}

// One is stolen before, so that the owner is strict after its first pop.
TEST(DequeModelTest, ThiefThatSawAStrictOwnerMayBelieveIt) {
  expect_right(
      [](Explorer& explorer) {
        Scene scene(5, 8);
        scene.steal();
        scene.pop();
        explorer.run({[&] {
                        for (int i = 0; i < 3; ++i) scene.pop();
                      },
                      [&] { scene.steal(); }, [&] { scene.steal(); }});
        return scene.each_once();
      },
      {.preemptions = 3});
}

// The explorer would notice: without the heavy barrier in steal, or the sequentially consistent
// stores of an owner that is strict or becomes it, a value is taken twice.
TEST(DequeModelTest, ExplorerFindsTheDoubleTakeOfAStealWithoutItsBarrier) {
  const Program program = [](Explorer& explorer) {
    Scene scene(2);
    explorer.run({[&] { scene.pop(); },
                  [&] {
                    scene.steal();
                    scene.steal();
                  }});
    return scene.each_once();
  };
  EXPECT_EQ(failure_of(program, {.preemptions = 3, .weaken_barriers = true}), Failure::kWrongOutcome);
}

TEST(DequeModelTest, ExplorerFindsTheDoubleTakeOfAWeakerStrictPop) {
  const Program program = [](Explorer& explorer) {
    Scene scene(5, 8);
    scene.steal();
    scene.pop();
    explorer.run({[&] { scene.pop(); },
                  [&] {
                    scene.steal();
                    scene.steal();
                    scene.steal();
                  }});
    return scene.each_once();
  };
  EXPECT_EQ(failure_of(program, {.preemptions = 3, .weaken_stores = true}), Failure::kWrongOutcome);
}

// One is stolen before, so that the owner is strict and thieves make no barrier. Where memory is
// weak, a thief could then see a push, and the slot as it was before.
TEST(DequeModelTest, ExplorerFindsTheStaleSlotOfAWeakerPush) {
  const Program program = [](Explorer& explorer) {
    Scene scene(3);
    scene.steal();
    scene.pop();
    explorer.run({[&] { scene.push(); },
                  [&] {
                    scene.steal();
                    scene.steal();
                  }});
    return scene.each_once();
  };
  EXPECT_EQ(failure_of(program, {.memory = Memory::kWeak}), Failure::kNone);
  EXPECT_EQ(failure_of(program, {.memory = Memory::kWeak, .weaken_releases = true}), Failure::kWrongOutcome);
}

}  // namespace
}  // namespace locksley::model::deque_model
