// The deque under real threads: each value goes to exactly one taker, whatever owner and thieves
// do.
#include "core/steal/deque.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "core/sync/mutex.h"
#include "tests/support/mutex_deque.h"
#include "tests/support/seed.h"
#include "tests/support/threads.h"

namespace locksley {
namespace {

using testing::Deadline;
using testing::Patience;
using testing::run_together;
using testing::stress_random;
using testing::stress_time;

// What every value points to. `number` is plain memory, written before the push and read after the
// take, so that ThreadSanitizer sees whether the deque orders the two.
struct Node {
  explicit Node(std::uint64_t n) : number(n) {}

  std::uint64_t number;
};

// Checks that each of the numbers 0 … n - 1 is taken once.
class Ledger {
 public:
  explicit Ledger(std::size_t n) : taken_(n) {}

  void take(std::uint64_t number) {
    ASSERT_LT(number, taken_.size());
    taken_[number].fetch_add(1);
    count_.fetch_add(1);
  }

  std::size_t count() const { return count_.load(); }

  void expect_each_once(std::size_t n) const {
    ASSERT_EQ(count(), n);
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(taken_[i].load(), 1) << "number " << i;
    }
  }

 private:
  std::vector<std::atomic<std::uint8_t>> taken_;
  std::atomic<std::size_t> count_ = 0;
};

template <class D>
class DequeStressTest : public ::testing::Test {};

using Deques = ::testing::Types<Deque<Node*>, MutexDeque<Node*>>;
TYPED_TEST_SUITE(DequeStressTest, Deques);

constexpr std::size_t kThieves = 3;
constexpr std::size_t kMost = 2'000'000;

TYPED_TEST(DequeStressTest, SinglePairPassesEverythingInOrder) {
  TypeParam deque;
  const Deadline deadline(stress_time());
  std::atomic<std::uint64_t> pushed = 0;
  std::atomic<bool> over = false;
  run_together(2, [&](std::size_t thread) {
    if (thread == 0) {
      auto owner = deque.owner();
      std::uint64_t next = 0;
      while (next < kMost && !deadline.passed()) {
        for (int i = 0; i < 100; ++i) {
          owner.push(new Node(next++));
        }
      }
      pushed = next;
      over = true;
      return;
    }
    std::uint64_t next = 0;
    Patience patience("the thief to steal all");
    while (!over || next < pushed) {
      const auto got = deque.thief().steal();
      if (!got.stolen()) {
        // No other thread takes anything.
        ASSERT_EQ(got.outcome, StealOutcome::kEmpty);
        patience.wait();
        continue;
      }
      const std::unique_ptr<Node> node(got.value);
      ASSERT_EQ(node->number, next++);
    }
  });
  EXPECT_TRUE(deque.empty());
}

TYPED_TEST(DequeStressTest, OwnerAndThievesTakeEachValueOnce) {
  TypeParam deque;
  Ledger ledger(kMost);
  const Deadline deadline(stress_time());
  std::atomic<std::uint64_t> pushed = 0;
  std::atomic<bool> over = false;
  run_together(1 + kThieves, [&](std::size_t thread) {
    const auto take = [&](Node* value) {
      const std::unique_ptr<Node> node(value);
      ledger.take(node->number);
    };
    if (thread == 0) {
      auto owner = deque.owner();
      auto random = stress_random(thread);
      std::uint64_t next = 0;
      while (next + 64 < kMost && !deadline.passed()) {
        // Bursts around the limits at which pop changes its way: empty, one, two, many.
        for (std::uint64_t i = random() % (random() % 8 == 0 ? 64 : 4); i > 0; --i) {
          owner.push(new Node(next++));
        }
        for (std::uint64_t i = random() % 5; i > 0; --i) {
          if (const auto value = owner.pop()) {
            take(*value);
          }
        }
      }
      while (const auto value = owner.pop()) {
        take(*value);
      }
      pushed = next;
      over = true;
      return;
    }
    while (!over) {
      const auto got = deque.thief().steal();
      if (got.stolen()) {
        take(got.value);
      } else if (got.outcome == StealOutcome::kEmpty) {
        std::this_thread::yield();
      }
    }
  });
  // A pop that found the deque empty was right: nothing is left.
  ledger.expect_each_once(pushed);
}

TYPED_TEST(DequeStressTest, StampedeOfThievesEmptiesAFullDeque) {
  const Deadline deadline(stress_time());
  do {
    constexpr std::size_t kCount = 10'000;
    TypeParam deque;
    Ledger ledger(kCount);
    std::vector<Node> nodes;
    nodes.reserve(kCount);
    auto owner = deque.owner();
    for (std::size_t i = 0; i < kCount; ++i) {
      owner.push(&nodes.emplace_back(i));
    }
    run_together(1 + kThieves, [&](std::size_t thread) {
      if (thread == 0) {
        std::uint64_t last = kCount;
        while (const auto value = owner.pop()) {
          ASSERT_LT((*value)->number, last) << "the owner's values fall";
          last = (*value)->number;
          ledger.take(last);
        }
        return;
      }
      std::uint64_t next = 0;
      for (auto got = deque.thief().steal(); got.outcome != StealOutcome::kEmpty;
           got = deque.thief().steal()) {
        if (got.stolen()) {
          ASSERT_GE(got.value->number, next) << "a thief's values rise";
          next = got.value->number + 1;
          ledger.take(got.value->number);
        }
      }
    });
    ledger.expect_each_once(kCount);
  } while (!deadline.passed());
}

// One or two values at a time: owner and thieves fight for the last one, again and again.
TYPED_TEST(DequeStressTest, LastTaskGoesToExactlyOneTaker) {
  TypeParam deque;
  Ledger ledger(kMost);
  const Deadline deadline(stress_time());
  std::vector<Node> nodes;
  for (std::size_t i = 0; i < 1024; ++i) {
    nodes.emplace_back(i);
  }
  std::atomic<std::uint64_t> taken = 0;
  std::atomic<bool> over = false;
  run_together(1 + kThieves, [&](std::size_t thread) {
    if (thread == 0) {
      auto owner = deque.owner();
      auto random = stress_random(thread);
      std::uint64_t next = 0;
      while (!deadline.passed()) {
        const std::uint64_t count = 1 + random() % 2;
        const std::uint64_t before = taken;
        for (std::uint64_t i = 0; i < count; ++i) {
          owner.push(&nodes[next++ % nodes.size()]);
        }
        testing::spin(random() % 64);
        std::uint64_t popped = 0;
        while (owner.pop()) {
          ++popped;
        }
        // The deque is empty, so the others are with thieves, who count them soon.
        Patience patience("thieves to count what they took");
        while (taken - before + popped < count) {
          patience.wait();
        }
        ASSERT_EQ(taken - before + popped, count);
      }
      over = true;
      return;
    }
    while (!over) {
      if (deque.thief().steal().stolen()) {
        taken.fetch_add(1);
      }
    }
  });
  EXPECT_TRUE(deque.empty());
}

TYPED_TEST(DequeStressTest, GrowthUnderThievesLosesNothing) {
  const Deadline deadline(stress_time());
  do {
    // From 32 slots to 8,192, eight times, while thieves read.
    constexpr std::size_t kCount = 12'000;
    TypeParam deque;
    Ledger ledger(kCount);
    std::atomic<bool> over = false;
    run_together(1 + kThieves, [&](std::size_t thread) {
      const auto take = [&](Node* value) {
        const std::unique_ptr<Node> node(value);
        ledger.take(node->number);
      };
      if (thread == 0) {
        auto owner = deque.owner();
        for (std::size_t i = 0; i < kCount; ++i) {
          owner.push(new Node(i));
        }
        while (const auto value = owner.pop()) {
          take(*value);
        }
        over = true;
        return;
      }
      while (!over) {
        const auto got = deque.thief().steal();
        if (got.stolen()) {
          take(got.value);
        }
      }
    });
    ledger.expect_each_once(kCount);
  } while (!deadline.passed());
}

// Every thief gets something: no thief is shut out for ever by the owner or by other thieves.
TYPED_TEST(DequeStressTest, NobodyStarves) {
  TypeParam deque;
  Node node(0);
  std::vector<std::atomic<std::uint64_t>> taken(1 + kThieves);
  const auto all_have = [&](std::uint64_t n) {
    for (const auto& t : taken) {
      if (t < n) {
        return false;
      }
    }
    return true;
  };
  // Each may cost a time slice of every other program on the processor.
  constexpr std::uint64_t kEnough = 1'000;
  run_together(1 + kThieves, [&](std::size_t thread) {
    Patience patience("every taker to get something");
    if (thread == 0) {
      auto owner = deque.owner();
      auto random = stress_random(thread);
      while (!all_have(kEnough)) {
        for (std::uint64_t i = random() % 32; i > 0; --i) {
          owner.push(&node);
        }
        for (std::uint64_t i = random() % 16; i > 0; --i) {
          taken[0] += owner.pop().has_value() ? 1 : 0;
        }
        patience.wait();
      }
      while (owner.pop()) {
      }
      return;
    }
    // One steal at a time: else the first of the threads that share a processor takes all there is.
    while (!all_have(kEnough)) {
      taken[thread] += deque.thief().steal().stolen() ? 1 : 0;
      patience.wait();
    }
  });
  EXPECT_TRUE(all_have(kEnough));
}

// Threads own the deque in turns, handed on under a lock, while thieves steal.
TYPED_TEST(DequeStressTest, OwnershipIsHandedOverUnderThieves) {
  TypeParam deque;
  Ledger ledger(kMost);
  const Deadline deadline(stress_time());
  struct {
    Mutex mutex;  // its holder owns the deque
    std::uint64_t next LOCKSLEY_GUARDED_BY(mutex) = 0;
  } turn;
  std::atomic<int> owners_left = 2;
  run_together(2 + 2, [&](std::size_t thread) {
    const auto take = [&](Node* value) {
      const std::unique_ptr<Node> node(value);
      ledger.take(node->number);
    };
    if (thread < 2) {
      auto random = stress_random(thread);
      for (bool last = false; !last;) {
        const MutexLock lock(turn.mutex);
        last = deadline.passed() || turn.next + 300 > kMost;
        auto owner = deque.owner();
        for (std::uint64_t i = random() % 100; i > 0; --i) {
          owner.push(new Node(turn.next++));
        }
        for (std::uint64_t i = random() % 60; i > 0; --i) {
          if (const auto value = owner.pop()) {
            take(*value);
          }
        }
      }
      --owners_left;
      return;
    }
    while (owners_left > 0 || !deque.empty()) {
      const auto got = deque.thief().steal();
      if (got.stolen()) {
        take(got.value);
      } else {
        std::this_thread::yield();
      }
    }
  });
  const MutexLock lock(turn.mutex);
  ledger.expect_each_once(turn.next);
}

}  // namespace
}  // namespace locksley
