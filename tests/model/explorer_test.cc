// The explorer finds what each kind of memory allows, and no more; and what blocks.
#include "tests/model/explorer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <mutex>

#include "tests/model/atomics.h"
#include "tests/model/expect.h"

namespace locksley::model {
namespace {

using Word = Atomic<std::uint64_t>;
using std::memory_order;

// Both threads announce, then look. Right if one sees the other.
Program announce_and_look(memory_order announce, memory_order look) {
  return [=](Explorer& explorer) {
    Word first, second;
    std::uint64_t seen_by_first = 0, seen_by_second = 0;
    explorer.run({[&] {
                    first.store(1, announce);
                    seen_by_first = second.load(look);
                  },
                  [&] {
                    second.store(1, announce);
                    seen_by_second = first.load(look);
                  }});
    return seen_by_first == 1 || seen_by_second == 1;
  };
}

// One thread fills, then says so. Right if who was told finds it filled.
Program fill_and_tell(memory_order tell) {
  return [=](Explorer& explorer) {
    Word filled, told;
    bool right = true;
    explorer.run({[&] {
                    // relaxed: the point of the test is what `tell` makes of it.
                    filled.store(1, memory_order::relaxed);
                    told.store(1, tell);
                  },
                  // [litmus-fill] the thread that was told looks.
                  [&] { right = told.load() == 0 || filled.load() == 1; }});
    return right;
  };
}

Failure failure_under(Memory memory, const Program& program) {
  return failure_of(program, {.memory = memory});
}

TEST(ExplorerTest, AnnouncingAndLookingNeedsSequentialConsistency) {
  const Program right = announce_and_look(memory_order::seq_cst, memory_order::seq_cst);
  // [litmus-announce] release: what must not be enough; pairs with the look of the other thread.
  const Program weak_store = announce_and_look(memory_order::release, memory_order::seq_cst);
  for (const Memory memory : {Memory::kX86, Memory::kWeak}) {
    EXPECT_EQ(failure_under(memory, right), Failure::kNone);
    EXPECT_EQ(failure_under(memory, weak_store), Failure::kWrongOutcome);
  }
}

TEST(ExplorerTest, WeakLoadPassesASequentialStoreWhereMemoryIsWeak) {
  // [litmus-announce] acquire: what must not be enough; pairs with the other thread's announcement.
  const Program weak_load = announce_and_look(memory_order::seq_cst, memory_order::acquire);
  EXPECT_EQ(failure_under(Memory::kX86, weak_load), Failure::kNone);
  EXPECT_EQ(failure_under(Memory::kWeak, weak_load), Failure::kWrongOutcome);
}

TEST(ExplorerTest, StoresPassEachOtherWhereMemoryIsWeakAndNoneReleases) {
  // relaxed: what must not be enough.
  const Program relaxed = fill_and_tell(memory_order::relaxed);
  EXPECT_EQ(failure_under(Memory::kX86, relaxed), Failure::kNone);
  EXPECT_EQ(failure_under(Memory::kWeak, relaxed), Failure::kWrongOutcome);
  // [litmus-fill] release: what must be enough; pairs with the load of `told`.
  const Program release = fill_and_tell(memory_order::release);
  EXPECT_EQ(failure_under(Memory::kWeak, release), Failure::kNone);
  EXPECT_EQ(failure_of(release, {.memory = Memory::kWeak, .weaken_releases = true}), Failure::kWrongOutcome);
}

TEST(ExplorerTest, StoresToOneWordKeepTheirOrder) {
  const Program program = [](Explorer& explorer) {
    Word word;
    std::uint64_t before = 0, after = 0;
    explorer.run({[&] {
                    // relaxed: coherence alone is the point.
                    word.store(1, memory_order::relaxed);
                    word.store(2, memory_order::relaxed);
                  },
                  [&] {
                    before = word.load();
                    after = word.load();
                  }});
    return before <= after && word.load() == 2;
  };
  EXPECT_EQ(failure_under(Memory::kX86, program), Failure::kNone);
  EXPECT_EQ(failure_under(Memory::kWeak, program), Failure::kNone);
}

TEST(ExplorerTest, HeavyBarrierOfOneSideServesBoth) {
  const auto program = [](Explorer& explorer) {
    Word often, rarely;
    std::uint64_t seen_by_often = 0, seen_by_rarely = 0;
    explorer.run({[&] {
                    // relaxed: the other side makes the barrier.
                    often.store(1, memory_order::relaxed);
                    seen_by_often = rarely.load(memory_order::relaxed);
                  },
                  [&] {
                    // relaxed: the barrier follows.
                    rarely.store(1, memory_order::relaxed);
                    Barrier::heavy();
                    // relaxed: after the barrier.
                    seen_by_rarely = often.load(memory_order::relaxed);
                  }});
    return seen_by_often == 1 || seen_by_rarely == 1;
  };
  for (const Memory memory : {Memory::kX86, Memory::kWeak}) {
    EXPECT_EQ(failure_of(program, {.memory = memory}), Failure::kNone);
    EXPECT_EQ(failure_of(program, {.memory = memory, .weaken_barriers = true}), Failure::kWrongOutcome);
  }
}

TEST(ExplorerTest, MutexKeepsOthersOutAndShowsWhatWasWritten) {
  const Program program = [](Explorer& explorer) {
    Mutex mutex;
    Word word;
    const auto add = [&] {
      const std::lock_guard lock(mutex);
      // relaxed: the mutex orders it.
      word.store(word.load(memory_order::relaxed) + 1, memory_order::relaxed);
    };
    explorer.run({add, add, add});
    return word.load() == 3;
  };
  EXPECT_EQ(failure_under(Memory::kX86, program), Failure::kNone);
  EXPECT_EQ(failure_under(Memory::kWeak, program), Failure::kNone);
}

// A mutex that no other thread takes is no barrier.
TEST(ExplorerTest, MutexIsNoBarrierWhereMemoryIsWeak) {
  const Program program = [](Explorer& explorer) {
    Word words[2];
    Mutex mutexes[2];
    std::uint64_t seen[2] = {0, 0};
    const auto body = [&](int mine) {
      return [&, mine] {
        // relaxed: whether the mutex makes it visible is the point.
        words[mine].store(1, memory_order::relaxed);
        {
          const std::lock_guard lock(mutexes[mine]);
        }
        seen[mine] = words[1 - mine].load();
      };
    };
    explorer.run({body(0), body(1)});
    return seen[0] == 1 || seen[1] == 1;
  };
  EXPECT_EQ(failure_under(Memory::kX86, program), Failure::kNone);
  EXPECT_EQ(failure_under(Memory::kWeak, program), Failure::kWrongOutcome);
}

TEST(ExplorerTest, MutexesTakenInTwoOrdersAreADeadlock) {
  const Program program = [](Explorer& explorer) {
    Mutex a, b;
    const auto take = [](Mutex& first, Mutex& second) {
      return [&first, &second] {
        const std::lock_guard outer(first);
        const std::lock_guard inner(second);
      };
    };
    explorer.run({take(a, b), take(b, a)});
    return true;
  };
  EXPECT_EQ(failure_under(Memory::kX86, program), Failure::kDeadlock);
}

TEST(ExplorerTest, StoreThatIsMerelyLateIsNoDeadlock) {
  const Program program = [](Explorer& explorer) {
    Word word;
    // relaxed: nothing hurries it.
    explorer.run({[&] { word.store(1, memory_order::relaxed); },
                  [&] { Explorer::wait([&] { return word.peek() == 1; }); }});
    return true;
  };
  EXPECT_EQ(failure_under(Memory::kX86, program), Failure::kNone);
  EXPECT_EQ(failure_under(Memory::kWeak, program), Failure::kNone);
}

TEST(ExplorerTest, TokenThatNobodyGivesIsADeadlockUnlessThatIsRight) {
  for (const bool right : {false, true}) {
    const Program program = [right](Explorer& explorer) {
      TokenParker parker;
      explorer.run({[&] { parker.park(); }, [] {}}, [right] { return right; });
      return true;
    };
    EXPECT_EQ(failure_under(Memory::kX86, program), right ? Failure::kNone : Failure::kDeadlock);
  }
}

TEST(ExplorerTest, LoopWithoutEndIsAFailure) {
  const Program program = [](Explorer& explorer) {
    Word word;
    explorer.run({[&] {
      while (word.load() == 0) {
      }
    }});
    return true;
  };
  EXPECT_EQ(failure_under(Memory::kX86, program), Failure::kEndless);
}

TEST(ExplorerTest, TriesAllThatMayHappen) {
  Explorer explorer({});
  std::uint64_t seen = 0;
  explorer.explore([&] {
    explorer.run({[&] { seen |= std::uint64_t{1} << Explorer::any_of(5); }});
    return true;
  });
  EXPECT_TRUE(explorer.complete());
  EXPECT_EQ(explorer.executions(), 5u);
  EXPECT_EQ(seen, 0b11111u);
}

}  // namespace
}  // namespace locksley::model
