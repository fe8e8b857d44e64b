// The stealing range under real threads: each index goes to exactly one taker, with the payload of
// its range.
#include "core/steal/steal_range.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "core/sync/mutex.h"
#include "tests/support/seed.h"
#include "tests/support/threads.h"

namespace locksley::steal_range_stress {
namespace {

using testing::Deadline;
using testing::Patience;
using testing::run_together;
using testing::stress_random;
using testing::stress_time;

constexpr std::size_t kThieves = 3;
constexpr std::size_t kMost = 4'000'000;

// Checks that each index is taken once.
class Ledger {
 public:
  explicit Ledger(std::size_t n) : taken_(n) {}

  void take(const IndexRange& range) {
    ASSERT_LE(range.high, taken_.size());
    for (std::uint64_t i = range.low; i != range.high; ++i) {
      taken_[i].fetch_add(1);
    }
    count_.fetch_add(range.size());
  }

  std::size_t count() const { return count_.load(); }

  void expect_each_once(std::size_t n) const {
    ASSERT_EQ(count(), n);
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(taken_[i].load(), 1) << "index " << i;
    }
  }

 private:
  std::vector<std::atomic<std::uint8_t>> taken_;
  std::atomic<std::size_t> count_ = 0;
};

// The full length of a payload: four words that belong together, of the range that they were
// published with.
struct Tag {
  const IndexRange* range;  // points to plain memory, so that ThreadSanitizer sees whether it was published
  std::uint64_t low;
  std::uint64_t high;
  std::uint64_t sum;

  static Tag of(const IndexRange& range) {
    return {&range, range.low, range.high, range.low ^ (range.high << 20)};
  }

  bool fits(const IndexRange& stolen) const {
    return sum == (low ^ (high << 20)) && *range == IndexRange{low, high} && low <= stolen.low &&
           stolen.high <= high && stolen.low < stolen.high;
  }
};

// `longest`: the length of the longest range that is published. Short ones: fights for the last
// index, and publication after publication while thieves still look at the one before.
void publish_range_after_range(std::uint64_t longest) {
  StealRange<Tag> range;
  Ledger ledger(kMost);
  std::vector<IndexRange> published(kMost);
  const Deadline deadline(stress_time());
  std::atomic<bool> over = false;
  std::uint64_t next = 0;
  run_together(1 + kThieves, [&](std::size_t thread) {
    if (thread == 0) {
      auto owner = range.owner();
      auto random = stress_random(longest);
      for (std::size_t number = 0; next + longest < kMost && !deadline.passed(); ++number) {
        published[number] = {next, next + 1 + random() % longest};
        next = published[number].high;
        owner.publish(published[number], Tag::of(published[number]));
        while (true) {
          const std::uint64_t dice = random() % 16;
          const IndexRange got = dice == 0  ? owner.take_all()
                                 : dice < 8 ? owner.take_burst(1 + random() % 64)
                                            : owner.take(1 + random() % 8);
          if (got.empty()) {
            break;
          }
          ASSERT_LE(published[number].low, got.low);
          ASSERT_LE(got.high, published[number].high);
          ledger.take(got);
        }
      }
      over = true;
      return;
    }
    while (!over) {
      const auto got = range.thief().steal();
      if (got.stolen()) {
        ASSERT_TRUE(got.value.payload.fits(got.value.range));
        ledger.take(got.value.range);
      }
    }
  });
  ledger.expect_each_once(next);
}

TEST(StealRangeStressTest, OwnerAndThievesTakeEachIndexOnce) { publish_range_after_range(1'000); }

TEST(StealRangeStressTest, LastIndexGoesToExactlyOneTaker) { publish_range_after_range(2); }

TEST(StealRangeStressTest, ShortRangesInQuickSuccessionKeepTheirPayloads) { publish_range_after_range(12); }

TEST(StealRangeStressTest, StampedeOfThievesTakesALongRange) {
  const Deadline deadline(stress_time());
  do {
    constexpr std::size_t kCount = 100'000;
    StealRange<> range;
    Ledger ledger(kCount);
    auto owner = range.owner();
    owner.publish({0, kCount});
    run_together(1 + kThieves, [&](std::size_t thread) {
      if (thread == 0) {
        for (IndexRange got = owner.take(1); !got.empty(); got = owner.take(1)) {
          ledger.take(got);
        }
        return;
      }
      for (auto got = range.thief().steal(); got.outcome != StealOutcome::kEmpty;
           got = range.thief().steal()) {
        if (got.stolen()) {
          ledger.take(got.value.range);
        }
      }
    });
    ledger.expect_each_once(kCount);
  } while (!deadline.passed());
}

// A parallel loop as workers run it: what a thief steals it publishes in its own range, and others
// steal from there. All must end once every index has been run, and no thread may go without work
// for ever.
TEST(StealRangeStressTest, StolenRangesAreStolenAgainUntilAllIsDone) {
  const Deadline deadline(stress_time());
  do {
    constexpr std::size_t kWorkers = 4;
    constexpr std::size_t kCount = 50'000;
    std::vector<std::unique_ptr<StealRange<Tag>>> ranges;
    for (std::size_t i = 0; i < kWorkers; ++i) {
      ranges.push_back(std::make_unique<StealRange<Tag>>());
    }
    const IndexRange all{0, kCount};
    Ledger ledger(kCount);
    run_together(kWorkers, [&](std::size_t self) {
      auto own = ranges[self]->owner();
      auto random = stress_random(self);
      Patience patience("the loop to end");
      if (self == 0) {
        own.publish(all, Tag::of(all));
      }
      while (ledger.count() < kCount) {
        for (IndexRange got = own.take_burst(16); !got.empty(); got = own.take_burst(16)) {
          ledger.take(got);
        }
        const auto got = ranges[random() % kWorkers]->thief().steal();
        if (got.stolen()) {
          ASSERT_TRUE(got.value.payload.fits(got.value.range));
          own.publish(got.value.range, got.value.payload);
        } else {
          patience.wait();
        }
      }
    });
    ledger.expect_each_once(kCount);
  } while (!deadline.passed());
}

// Every thief gets something, although the owner never stops.
TEST(StealRangeStressTest, NobodyStarves) {
  StealRange<> range;
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
  constexpr std::uint64_t kEnough = 500;
  run_together(1 + kThieves, [&](std::size_t thread) {
    Patience patience("every taker to get something");
    if (thread == 0) {
      auto owner = range.owner();
      while (!all_have(kEnough)) {
        owner.publish({0, 1'000});
        // All may share one processor: then each must come to run while something is left. So a
        // thief steals once at a time.
        patience.wait();
        while (!owner.take(1).empty()) {
          ++taken[0];
          testing::spin(100);  // the work on the index
        }
      }
      return;
    }
    while (!all_have(kEnough)) {
      taken[thread] += range.thief().steal().stolen() ? 1 : 0;
      patience.wait();
    }
  });
  EXPECT_TRUE(all_have(kEnough));
}

TEST(StealRangeStressTest, OwnershipIsHandedOverUnderThieves) {
  StealRange<Tag> range;
  Ledger ledger(kMost);
  const Deadline deadline(stress_time());
  std::vector<IndexRange> published(kMost / 64);
  struct {
    Mutex mutex;  // its holder owns the range
    std::uint64_t next LOCKSLEY_GUARDED_BY(mutex) = 0;
    std::size_t number LOCKSLEY_GUARDED_BY(mutex) = 0;
  } turn;
  std::atomic<int> owners_left = 2;
  run_together(2 + 2, [&](std::size_t thread) {
    if (thread < 2) {
      auto random = stress_random(thread);
      for (bool last = false; !last;) {
        const MutexLock lock(turn.mutex);
        last = deadline.passed() || turn.number + 4 > published.size();
        auto owner = range.owner();
        // What the owner before has left is taken over.
        ledger.take(owner.take_all());
        IndexRange& range_of_turn = published[turn.number++];
        range_of_turn = {turn.next, turn.next + random() % 64};
        turn.next = range_of_turn.high;
        owner.publish(range_of_turn, Tag::of(range_of_turn));
        ledger.take(owner.take(random() % 64 + 1));
      }
      if (--owners_left == 0) {
        const MutexLock lock(turn.mutex);
        ledger.take(range.owner().take_all());
      }
      return;
    }
    while (owners_left > 0) {
      const auto got = range.thief().steal();
      if (got.stolen()) {
        ASSERT_TRUE(got.value.payload.fits(got.value.range));
        ledger.take(got.value.range);
      } else {
        std::this_thread::yield();
      }
    }
  });
  const MutexLock lock(turn.mutex);
  ledger.expect_each_once(turn.next);
}

}  // namespace
}  // namespace locksley::steal_range_stress
