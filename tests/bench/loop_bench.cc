// A parallel loop over 10^7 indexes as a handler writes it, beside oneTBB's and OpenMP's in the
// same run: bodies of equal cost, and bodies whose cost rises with the index. All are started from
// a thread that already runs; the other workers have to be found. Not measured: the container alone
// (containers_bench).
#include <benchmark/benchmark.h>
#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>
#include <latch>

#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "core/tasks/context.h"
#include "core/tasks/parallel_for.h"

namespace locksley::bench {
namespace {

constexpr std::uint64_t kLoopLen = 10'000'000;

// Tiny bodies of equal cost.
struct Uniform {
  static std::uint64_t body(std::uint64_t index) { return index ^ (index >> 3); }
};
// From one step of a random number generator, about a nanosecond that no compiler can shorten, to
// 32.
struct Triangular {
  static std::uint64_t body(std::uint64_t index) {
    std::uint64_t x = index;
    for (std::uint64_t i = 0; i <= index * 32 / kLoopLen; ++i) {
      x = x * 6364136223846793005u + 1442695040888963407u;
    }
    return x;
  }
};

// Not inlined: all candidates are to run the same instructions at the same addresses, since their
// alignment alone makes a tight loop up to twice as slow.
template <class Body>
[[gnu::noinline]] void run_burst(std::uint64_t low, std::uint64_t high) {
  std::uint64_t sum = 0;
  for (std::uint64_t i = low; i < high; ++i) sum += Body::body(i);
  benchmark::DoNotOptimize(sum);
}

template <class Body>
void BM_Loop_Locksley(benchmark::State& state) {
  Lane lane("cpu", FairRing::Options{});
  Pool pool(lane);
  pool.start(static_cast<std::uint32_t>(state.range(0)));
  std::latch done(1);
  pool.post([&](Context& context) {
    for (auto _ : state) {
      context.parallel_for(0, kLoopLen,
                           [](const IndexRange& burst) { run_burst<Body>(burst.low, burst.high); });
    }
    done.count_down();
  });
  done.wait();
  pool.stop();
}

template <class Body>
void BM_Loop_Tbb(benchmark::State& state) {
  tbb::task_arena arena(static_cast<int>(state.range(0)));
  arena.execute([&] {
    for (auto _ : state) {
      tbb::parallel_for(tbb::blocked_range<std::uint64_t>(0, kLoopLen),
                        [](const auto& burst) { run_burst<Body>(burst.begin(), burst.end()); });
    }
  });
}

// OpenMP's schedules hand out chunks of 1,024 indexes, so that all candidates run the same compiled
// body.
constexpr std::uint64_t kChunk = 1'024;
constexpr std::uint64_t kChunks = (kLoopLen + kChunk - 1) / kChunk;

template <class Body>
void run_chunk(std::uint64_t chunk) {
  run_burst<Body>(chunk * kChunk, std::min((chunk + 1) * kChunk, kLoopLen));
}

template <class Body>
void BM_Loop_OpenMpStatic(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
#pragma omp parallel for schedule(static) num_threads(threads)
    for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) run_chunk<Body>(chunk);
  }
}

template <class Body>
void BM_Loop_OpenMpDynamic(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
#pragma omp parallel for schedule(dynamic) num_threads(threads)
    for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) run_chunk<Body>(chunk);
  }
}

template <class Body>
void BM_Loop_OpenMpGuided(benchmark::State& state) {
  const int threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
#pragma omp parallel for schedule(guided) num_threads(threads)
    for (std::uint64_t chunk = 0; chunk < kChunks; ++chunk) run_chunk<Body>(chunk);
  }
}

#define LOCKSLEY_LOOP(name)            \
  BENCHMARK(name<Uniform>)             \
      ->ArgName("workers")             \
      ->Arg(1)                         \
      ->Arg(2)                         \
      ->UseRealTime()                  \
      ->Unit(benchmark::kMillisecond); \
  BENCHMARK(name<Triangular>)          \
      ->ArgName("workers")             \
      ->Arg(1)                         \
      ->Arg(2)                         \
      ->UseRealTime()                  \
      ->Unit(benchmark::kMillisecond)

LOCKSLEY_LOOP(BM_Loop_Locksley);
LOCKSLEY_LOOP(BM_Loop_Tbb);
LOCKSLEY_LOOP(BM_Loop_OpenMpStatic);
LOCKSLEY_LOOP(BM_Loop_OpenMpDynamic);
LOCKSLEY_LOOP(BM_Loop_OpenMpGuided);

}  // namespace
}  // namespace locksley::bench

BENCHMARK_MAIN();
