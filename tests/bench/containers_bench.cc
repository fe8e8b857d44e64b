// The lock-free containers against their simpler rivals.
//
// Measured: ns per operation of the deque beside the same deque with a mutex, alone and with a
// thief on another core; ns per index that a claim-sized stealing range costs its owner; and whole
// parallel loops over 10^7 indexes by four ways of partitioning (static halves, dynamic chunks from
// one counter, guided chunks, stealing ranges), on bodies of equal cost and on bodies whose cost
// rises with the index. Not measured: workers, waking, claims from a ring; that is what the pool's
// benchmark is for. The threads of the loops here wait actively, so that starting a loop costs next
// to nothing; they need a core each to mean anything.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <latch>
#include <memory>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/cache_line.h"
#include "core/steal/deque.h"
#include "core/steal/steal_range.h"
#include "tests/support/mutex_deque.h"

namespace locksley {
namespace {

using Value = std::uint64_t;

// Pushes `depth` values and pops them again. Depth 1: a lone spawn and its join; more: the usual
// way of pop.
template <class D>
void BM_Deque_PushPop(benchmark::State& state) {
  const auto depth = static_cast<Value>(state.range(0));
  D deque;
  auto owner = deque.owner();
  for (auto _ : state) {
    for (Value i = 0; i < depth; ++i) {
      owner.push(i);
    }
    for (Value i = 0; i < depth; ++i) {
      benchmark::DoNotOptimize(owner.pop());
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Deque_PushPop<Deque<Value>>)->Arg(1)->Arg(2)->Arg(100)->Arg(10'000);
BENCHMARK(BM_Deque_PushPop<MutexDeque<Value>>)->Arg(1)->Arg(2)->Arg(100)->Arg(10'000);

// Pushes alone, growth included: a new deque for each 10,000.
template <class D>
void BM_Deque_Push_Growing(benchmark::State& state) {
  constexpr Value kCount = 10'000;
  for (auto _ : state) {
    D deque;
    auto owner = deque.owner();
    for (Value i = 0; i < kCount; ++i) {
      owner.push(i);
    }
    benchmark::DoNotOptimize(deque.len());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kCount));
}
BENCHMARK(BM_Deque_Push_Growing<Deque<Value>>);
BENCHMARK(BM_Deque_Push_Growing<MutexDeque<Value>>);

template <class D>
void BM_Deque_PopEmpty(benchmark::State& state) {
  D deque;
  auto owner = deque.owner();
  for (auto _ : state) {
    benchmark::DoNotOptimize(owner.pop());
  }
}
BENCHMARK(BM_Deque_PopEmpty<Deque<Value>>);
BENCHMARK(BM_Deque_PopEmpty<MutexDeque<Value>>);

// A push and a steal, on one thread: what an uncontended steal costs.
template <class D>
void BM_Deque_Steal(benchmark::State& state) {
  constexpr Value kCount = 100;
  D deque;
  auto owner = deque.owner();
  const auto thief = deque.thief();
  for (auto _ : state) {
    for (Value i = 0; i < kCount; ++i) {
      owner.push(i);
    }
    for (Value i = 0; i < kCount; ++i) {
      benchmark::DoNotOptimize(thief.steal());
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kCount));
}
BENCHMARK(BM_Deque_Steal<Deque<Value>>);
BENCHMARK(BM_Deque_Steal<MutexDeque<Value>>);

// The owner pushes and pops while a thief on another thread steals without pause: ns per value that
// the owner pushes.
template <class D>
void BM_Deque_PushPop_UnderAThief(benchmark::State& state) {
  constexpr Value kCount = 100;
  D deque;
  auto owner = deque.owner();
  std::atomic<bool> over = false;
  std::uint64_t stolen = 0;
  std::jthread thread([&, thief = deque.thief()] {
    while (!over) {
      stolen += thief.steal().stolen() ? 1 : 0;
    }
  });
  for (auto _ : state) {
    for (Value i = 0; i < kCount; ++i) {
      owner.push(i);
    }
    while (owner.pop()) {
    }
  }
  over = true;
  thread.join();
  const std::int64_t pushed = state.iterations() * static_cast<std::int64_t>(kCount);
  state.SetItemsProcessed(pushed);
  state.counters["stolen"] = static_cast<double>(stolen) / static_cast<double>(pushed);
}
BENCHMARK(BM_Deque_PushPop_UnderAThief<Deque<Value>>)->UseRealTime();
BENCHMARK(BM_Deque_PushPop_UnderAThief<MutexDeque<Value>>)->UseRealTime();

// A claim of `len` indexes, published and taken in bursts by its owner alone, for several burst
// divisors: what a burst that leaves more for thieves costs the owner. Divisor 1: all in one burst.
void BM_StealRange_BurstDivisor(benchmark::State& state) {
  const auto len = static_cast<std::uint64_t>(state.range(0));
  const auto divisor = static_cast<std::uint64_t>(state.range(1));
  StealRange<> range;
  auto owner = range.owner();
  std::int64_t bursts = 0;
  for (auto _ : state) {
    owner.publish({0, len});
    while (!owner.take(std::max<std::uint64_t>(1, owner.len() / divisor)).empty()) {
      ++bursts;
    }
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["bursts"] = static_cast<double>(bursts) / static_cast<double>(state.iterations());
}
BENCHMARK(BM_StealRange_BurstDivisor)->ArgsProduct({{512, 10'000}, {1, 2, 3, 4, 8, 16}});

// The same index by index, as the partitioner article does.
void BM_StealRange_OneByOne(benchmark::State& state) {
  constexpr std::uint64_t kLen = 512;
  StealRange<> range;
  auto owner = range.owner();
  for (auto _ : state) {
    owner.publish({0, kLen});
    while (!owner.take(1).empty()) {
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kLen));
}
BENCHMARK(BM_StealRange_OneByOne);

// ---- Whole loops ----

constexpr std::uint64_t kLoopLen = 10'000'000;
// The longest burst or chunk. Of the peers' figures those with 1,024 are the best.
constexpr std::uint64_t kLongestBurst = 1'024;

// Threads that run a function together, again and again. Waits are active: see the head of the
// file.
class Team {
 public:
  explicit Team(std::size_t size) : size_(size) {
    for (std::size_t self = 1; self < size; ++self) {
      helpers_.emplace_back([this, self](const std::stop_token& stop) {
        for (std::uint64_t round = 1;; ++round) {
          while (round_.load() != round) {
            if (stop.stop_requested()) {
              return;
            }
          }
          body_(self);
          running_.fetch_sub(1);
        }
      });
    }
  }

  std::size_t size() const { return size_; }

  // body(0) … body(size - 1), each on a thread of its own, body(0) on this one. Returns when all
  // have returned.
  void run(std::function<void(std::size_t)> body) {
    body_ = std::move(body);
    running_.store(helpers_.size());
    round_.fetch_add(1);
    body_(0);
    while (running_.load() != 0) {
    }
  }

 private:
  const std::size_t size_;
  std::function<void(std::size_t)> body_;  // written by run() between rounds, published by round_
  std::atomic<std::uint64_t> round_ = 0;
  std::atomic<std::size_t> running_ = 0;
  std::vector<std::jthread> helpers_;
};

IndexRange static_part(std::size_t self, std::size_t size) {
  return {kLoopLen * self / size, kLoopLen * (self + 1) / size};
}

struct StaticHalves {
  template <class Run>
  static void loop(Team& team, const Run& run) {
    team.run([&](std::size_t self) { run(self, static_part(self, team.size())); });
  }
};

struct DynamicChunks {
  template <class Run>
  static void loop(Team& team, const Run& run) {
    std::atomic<std::uint64_t> next = 0;
    team.run([&](std::size_t self) {
      for (std::uint64_t low = next.fetch_add(kLongestBurst); low < kLoopLen;
           low = next.fetch_add(kLongestBurst)) {
        run(self, {low, std::min(low + kLongestBurst, kLoopLen)});
      }
    });
  }
};

// Chunks of what is left over twice the number of threads, down to 64.
struct GuidedChunks {
  template <class Run>
  static void loop(Team& team, const Run& run) {
    std::atomic<std::uint64_t> next = 0;
    team.run([&](std::size_t self) {
      std::uint64_t low = next.load();
      while (low < kLoopLen) {
        const std::uint64_t left = kLoopLen - low;
        const std::uint64_t len = std::min(left, std::max<std::uint64_t>(64, left / (2 * team.size())));
        if (next.compare_exchange_strong(low, low + len)) {
          run(self, {low, low + len});
          low = next.load();
        }
      }
    });
  }
};

// A part for each thread, and what is left of it for the thread that is done first. take(owner)
// takes a burst.
template <class Take>
struct StealingRanges {
  template <class Run>
  static void loop(Team& team, const Run& run) {
    std::vector<std::unique_ptr<StealRange<>>> ranges;
    for (std::size_t i = 0; i < team.size(); ++i) {
      ranges.push_back(std::make_unique<StealRange<>>());
      ranges.back()->owner().publish(static_part(i, team.size()));
    }
    team.run([&](std::size_t self) {
      auto own = ranges[self]->owner();
      while (true) {
        for (IndexRange burst = Take::take(own); !burst.empty(); burst = Take::take(own)) {
          run(self, burst);
        }
        if (!steal_into(own, self, ranges)) {
          return;
        }
      }
    });
  }

  // False: nothing was left anywhere.
  static bool steal_into(StealRange<>::Owner& own, std::size_t self,
                         const std::vector<std::unique_ptr<StealRange<>>>& ranges) {
    for (std::size_t i = 1; i < ranges.size(); ++i) {
      const auto thief = ranges[(self + i) % ranges.size()]->thief();
      auto got = thief.steal();
      while (got.outcome == StealOutcome::kLostRace) {
        got = thief.steal();
      }
      if (got.stolen()) {
        own.publish(got.value.range);
        return true;
      }
    }
    return false;
  }
};

struct ByBursts {
  static IndexRange take(StealRange<>::Owner& owner) { return owner.take_burst(kLongestBurst); }
};
struct ByHalves {
  static IndexRange take(StealRange<>::Owner& owner) {
    return owner.take(std::clamp<std::uint64_t>(owner.len() / 2, 1, kLongestBurst));
  }
};
struct BySixteenths {
  static IndexRange take(StealRange<>::Owner& owner) {
    return owner.take(std::clamp<std::uint64_t>(owner.len() / 16, 1, kLongestBurst));
  }
};
struct OneByOne {
  static IndexRange take(StealRange<>::Owner& owner) { return owner.take(1); }
};

// A step of a random number generator: about a nanosecond that no compiler can shorten.
std::uint64_t step(std::uint64_t x) { return x * 6364136223846793005u + 1442695040888963407u; }

// Tiny bodies of equal cost.
struct Uniform {
  static std::uint64_t body(std::uint64_t index) { return index ^ (index >> 3); }
};
// Cost rising with the index, from one step to 32: the upper half of the loop is three quarters of
// the work.
struct Triangular {
  static std::uint64_t body(std::uint64_t index) {
    std::uint64_t x = index;
    for (std::uint64_t i = 0; i <= index * 32 / kLoopLen; ++i) {
      x = step(x);
    }
    return x;
  }
};

template <class Body, class Partition>
void BM_StealRange_Loop(benchmark::State& state) {
  Team team(static_cast<std::size_t>(state.range(0)));
  struct alignas(kCacheLine) Sum {
    std::uint64_t value = 0;
  };
  std::vector<Sum> sums(team.size());
  for (auto _ : state) {
    Partition::loop(team, [&](std::size_t self, const IndexRange& range) {
      std::uint64_t sum = 0;
      for (std::uint64_t i = range.low; i != range.high; ++i) {
        sum += Body::body(i);
      }
      benchmark::DoNotOptimize(sum);
      sums[self].value += sum;
    });
  }
  benchmark::DoNotOptimize(sums.data());
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kLoopLen));
}

// With --benchmark_repetitions also the least time, which a busy machine disturbs least.
double least(const std::vector<double>& times) { return *std::min_element(times.begin(), times.end()); }

#define LOCKSLEY_LOOP(body, ...)                   \
  BENCHMARK(BM_StealRange_Loop<body, __VA_ARGS__>) \
      ->Arg(1)                                     \
      ->Arg(2)                                     \
      ->UseRealTime()                              \
      ->Unit(benchmark::kMillisecond)              \
      ->ComputeStatistics("min", least)

LOCKSLEY_LOOP(Uniform, StaticHalves);
LOCKSLEY_LOOP(Uniform, DynamicChunks);
LOCKSLEY_LOOP(Uniform, GuidedChunks);
LOCKSLEY_LOOP(Uniform, StealingRanges<ByBursts>);
LOCKSLEY_LOOP(Uniform, StealingRanges<ByHalves>);
LOCKSLEY_LOOP(Uniform, StealingRanges<BySixteenths>);
LOCKSLEY_LOOP(Uniform, StealingRanges<OneByOne>);
LOCKSLEY_LOOP(Triangular, StaticHalves);
LOCKSLEY_LOOP(Triangular, DynamicChunks);
LOCKSLEY_LOOP(Triangular, GuidedChunks);
LOCKSLEY_LOOP(Triangular, StealingRanges<ByBursts>);
LOCKSLEY_LOOP(Triangular, StealingRanges<ByHalves>);
LOCKSLEY_LOOP(Triangular, StealingRanges<BySixteenths>);
LOCKSLEY_LOOP(Triangular, StealingRanges<OneByOne>);

}  // namespace
}  // namespace locksley

int main(int argc, char** argv) {
  // While a process has a single thread, glibc's mutexes leave out their atomic operations.
  std::latch over(1);
  const std::jthread second([&] { over.wait(); });
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
    over.count_down();
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  over.count_down();
  return 0;
}
