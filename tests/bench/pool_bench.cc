// Measured here: what the pool costs a task and a job, beside a single-lock pool, oneTBB and
// asio::thread_pool in the same run. The first two workloads are those of Duffy's article (10,000
// items that each queue 100, and 100 that each queue 10,000), with empty bodies: all of the time is
// the pool's. Not measured: bodies that do something, and the network. Wall time; `ns/task` is the
// counter to compare.
#include <benchmark/benchmark.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <asio/post.hpp>
#include <asio/thread_pool.hpp>
#include <atomic>
#include <memory>
#include <thread>

#include "core/base/check.h"
#include "core/batch/handler.h"
#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "core/sync/parker.h"
#include "core/tasks/context.h"
#include "core/tasks/task_group.h"
#include "tests/bench/single_lock_pool.h"

namespace locksley::bench {
namespace {

// Counts what has run without a shared line or a locked operation: a counter a thread, added up by
// the thread that waits. At most kShards threads count in a program.
class RunCounter {
 public:
  void add() {
    std::atomic<std::uint64_t>& count = shards_[own_shard()].count;
    // [bench-count] relaxed: this thread alone writes it; the waiting thread looks again.
    count.store(count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  void await(std::uint64_t total) const {
    for (;;) {
      std::uint64_t sum = 0;
      for (const Shard& shard : shards_) sum += shard.count.load();
      if (sum >= total) return;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

 private:
  struct alignas(64) Shard {
    std::atomic<std::uint64_t> count{0};
  };
  static constexpr std::size_t kShards = 512;
  static std::size_t own_shard() {
    static thread_local constinit std::size_t shard = 0;
    if (shard == 0) [[unlikely]] {
      static std::atomic<std::size_t> next{0};
      shard = next.fetch_add(1) + 1;
      check(shard < kShards, "more threads than counters");
    }
    return shard;
  }

  Shard shards_[kShards];
};

struct Locksley {
  explicit Locksley(std::uint32_t workers) { pool.start(workers); }
  ~Locksley() { pool.stop(); }
  Lane lane{"cpu", FairRing::Options{}};
  Pool pool{lane};
};

void report(benchmark::State& state, std::uint64_t tasks) {
  state.SetItemsProcessed(static_cast<std::int64_t>(tasks) * state.iterations());
  state.counters["ns/task"] =
      benchmark::Counter(static_cast<double>(tasks) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

// ---- Items from outside that queue more ----

void BM_Pool_Nested(benchmark::State& state) {
  Locksley locksley(static_cast<std::uint32_t>(state.range(0)));
  const int outer = static_cast<int>(state.range(1));
  const int inner = static_cast<int>(state.range(2));
  for (auto _ : state) {
    RunCounter ran;
    for (int i = 0; i < outer; ++i) {
      locksley.pool.post([&ran, inner](Context& context) {
        TaskGroup group(context);
        for (int j = 0; j < inner; ++j) group.spawn([&ran](Context&) { ran.add(); });
      });
    }
    ran.await(static_cast<std::uint64_t>(outer) * static_cast<std::uint64_t>(inner));
  }
  report(state, static_cast<std::uint64_t>(outer) * static_cast<std::uint64_t>(inner));
}

void BM_SingleLockPool_Nested(benchmark::State& state) {
  SingleLockPool pool(static_cast<std::uint32_t>(state.range(0)));
  const int outer = static_cast<int>(state.range(1));
  const int inner = static_cast<int>(state.range(2));
  for (auto _ : state) {
    RunCounter ran;
    for (int i = 0; i < outer; ++i) {
      pool.post([&ran, &pool, inner] {
        for (int j = 0; j < inner; ++j) pool.post([&ran] { ran.add(); });
      });
    }
    ran.await(static_cast<std::uint64_t>(outer) * static_cast<std::uint64_t>(inner));
  }
  report(state, static_cast<std::uint64_t>(outer) * static_cast<std::uint64_t>(inner));
}

void BM_AsioPool_Nested(benchmark::State& state) {
  asio::thread_pool pool(static_cast<std::size_t>(state.range(0)));
  const int outer = static_cast<int>(state.range(1));
  const int inner = static_cast<int>(state.range(2));
  for (auto _ : state) {
    RunCounter ran;
    for (int i = 0; i < outer; ++i) {
      asio::post(pool, [&ran, &pool, inner] {
        for (int j = 0; j < inner; ++j) asio::post(pool, [&ran] { ran.add(); });
      });
    }
    ran.await(static_cast<std::uint64_t>(outer) * static_cast<std::uint64_t>(inner));
  }
  report(state, static_cast<std::uint64_t>(outer) * static_cast<std::uint64_t>(inner));
}

void BM_Tbb_Nested(benchmark::State& state) {
  tbb::global_control control(tbb::global_control::max_allowed_parallelism,
                              static_cast<std::size_t>(state.range(0)) + 1);
  tbb::task_arena arena(static_cast<int>(state.range(0)) + 1, 1);
  const int outer = static_cast<int>(state.range(1));
  const int inner = static_cast<int>(state.range(2));
  for (auto _ : state) {
    RunCounter ran;
    for (int i = 0; i < outer; ++i) {
      arena.enqueue([&ran, inner] {
        tbb::task_group group;
        for (int j = 0; j < inner; ++j) group.run([&ran] { ran.add(); });
        group.wait();
      });
    }
    ran.await(static_cast<std::uint64_t>(outer) * static_cast<std::uint64_t>(inner));
  }
  report(state, static_cast<std::uint64_t>(outer) * static_cast<std::uint64_t>(inner));
}

#define LOCKSLEY_NESTED(name)                   \
  BENCHMARK(name)                               \
      ->ArgNames({"workers", "outer", "inner"}) \
      ->UseRealTime()                           \
      ->Unit(benchmark::kMillisecond)           \
      ->Args({1, 10000, 100})                   \
      ->Args({2, 10000, 100})                   \
      ->Args({1, 100, 10000})                   \
      ->Args({2, 100, 10000})
LOCKSLEY_NESTED(BM_Pool_Nested);
LOCKSLEY_NESTED(BM_SingleLockPool_Nested);
LOCKSLEY_NESTED(BM_AsioPool_Nested);
LOCKSLEY_NESTED(BM_Tbb_Nested);

// ---- Spawn and join: fib(n), one task for each inner node ----

std::uint64_t fib(Context& context, unsigned n) {
  if (n < 2) return n;
  std::uint64_t left = 0;
  TaskGroup group(context);
  group.spawn([&left, n](Context& inner) { left = fib(inner, n - 1); });
  const std::uint64_t right = fib(context, n - 2);
  group.wait();
  return left + right;
}

std::uint64_t tbb_fib(unsigned n) {
  if (n < 2) return n;
  std::uint64_t left = 0;
  tbb::task_group group;
  group.run([&left, n] { left = tbb_fib(n - 1); });
  const std::uint64_t right = tbb_fib(n - 2);
  group.wait();
  return left + right;
}

std::uint64_t locked_fib(SingleLockPool& pool, unsigned n) {
  if (n < 2) return n;
  std::uint64_t left = 0;
  std::atomic<bool> done{false};
  pool.post([&] {
    left = locked_fib(pool, n - 1);
    done.store(true);
  });
  const std::uint64_t right = locked_fib(pool, n - 2);
  while (!done.load()) {
    if (!pool.run_one()) std::this_thread::yield();
  }
  return left + right;
}

constexpr unsigned kFib = 27;
constexpr std::uint64_t kFibSpawns = 317810;  // fib(28) - 1

void BM_Pool_Fib(benchmark::State& state) {
  Locksley locksley(static_cast<std::uint32_t>(state.range(0)));
  for (auto _ : state) {
    std::atomic<std::uint64_t> result{0};
    locksley.pool.post([&](Context& context) {
      result.store(fib(context, kFib));
      result.notify_one();
    });
    result.wait(0);
    if (result != 196418) state.SkipWithError("wrong sum");
  }
  report(state, kFibSpawns);
}
BENCHMARK(BM_Pool_Fib)
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->Arg(8)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void BM_Tbb_Fib(benchmark::State& state) {
  tbb::global_control control(tbb::global_control::max_allowed_parallelism,
                              static_cast<std::size_t>(state.range(0)));
  tbb::task_arena arena(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    if (arena.execute([] { return tbb_fib(kFib); }) != 196418) state.SkipWithError("wrong sum");
  }
  report(state, kFibSpawns);
}
BENCHMARK(BM_Tbb_Fib)->ArgName("workers")->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_SingleLockPool_Fib(benchmark::State& state) {
  SingleLockPool pool(static_cast<std::uint32_t>(state.range(0)));
  for (auto _ : state) {
    std::atomic<std::uint64_t> result{0};
    pool.post([&] {
      result.store(locked_fib(pool, kFib));
      result.notify_one();
    });
    result.wait(0);
    if (result != 196418) state.SkipWithError("wrong sum");
  }
  report(state, kFibSpawns);
}
BENCHMARK(BM_SingleLockPool_Fib)
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

// ---- A batch of trivial jobs, by claims: ring, accounting and results included ----

void BM_Pool_Batch(benchmark::State& state) {
  Locksley locksley(static_cast<std::uint32_t>(state.range(0)));
  const auto keep = static_cast<Keep>(state.range(1));
  Handler handler("trivial", "", [](JobContext&, std::string_view) {});
  constexpr std::uint64_t kJobs = 1'000'000;
  for (auto _ : state) {
    BatchOptions options;
    options.keep = keep;
    auto batch = std::make_shared<Batch>(options, handler, std::make_unique<RangePayloads>(0));
    locksley.lane.submit(batch, kJobs, /*open=*/false);
    while (!batch->is_over()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  report(state, kJobs);
}
BENCHMARK(BM_Pool_Batch)
    ->ArgNames({"workers", "keep"})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->Args({1, 0})
    ->Args({2, 0})
    ->Args({1, 2})
    ->Args({2, 2});

// ---- From a submission to an idle pool until the job runs, and the bare futex ----

void BM_Parker_WakeUp(benchmark::State& state) {
  Parker parker;
  std::atomic<std::uint64_t> ran{0};
  std::jthread sleeper([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      parker.park();
      ran.store(1);
    }
  });
  for (auto _ : state) {
    state.PauseTiming();
    std::this_thread::sleep_for(std::chrono::milliseconds(state.range(0)));
    ran.store(0);
    state.ResumeTiming();
    parker.unpark();
    while (ran.load() == 0) {
    }
  }
  sleeper.request_stop();
  parker.unpark();
}
BENCHMARK(BM_Parker_WakeUp)
    ->ArgName("rest_ms")
    ->Arg(1)
    ->Arg(20)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(200);

void BM_Pool_WakeUp(benchmark::State& state) {
  Locksley locksley(2);
  std::atomic<std::uint64_t> ran{0};
  Handler handler("wake", "", [&](JobContext&, std::string_view) { ran.store(1); });
  for (auto _ : state) {
    state.PauseTiming();
    std::this_thread::sleep_for(std::chrono::milliseconds(state.range(0)));
    ran.store(0);
    auto batch = std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(0));
    state.ResumeTiming();
    locksley.lane.submit(batch, 1, /*open=*/false);
    while (ran.load() == 0) {
    }
  }
}
BENCHMARK(BM_Pool_WakeUp)
    ->ArgName("rest_ms")
    ->Arg(1)
    ->Arg(20)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond)
    ->Iterations(200);

}  // namespace
}  // namespace locksley::bench

BENCHMARK_MAIN();
