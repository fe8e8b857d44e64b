// What one turn costs: claim and settle, by number of waiting queues, one thread. Queues of one
// tenant, of a thousand tenants, of customers of these, with limits and without; and with a second
// thread that does the same. Not measured: jobs, wake-ups, the clock (time is simulated and free).
// Baseline: a ring that looks at each queue in turn under a mutex, as Toub's pool does, where one
// queue in all has work.
#include <benchmark/benchmark.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_gates.h"
#include "core/ring/fair_ring_groups.h"

namespace locksley {
namespace {

constexpr std::uint64_t kManyJobs = std::uint64_t{1} << 50;

struct Lane {
  // `customers`: of all tenants together; 0: no queue names one.
  Lane(std::size_t queue_count, std::size_t tenants, std::size_t customers = 0, GroupLimits limits = {})
      : ring({.parallelism = 2}), queues(queue_count) {
    ring.groups().on_customer([limits](std::string_view, std::string_view) { return limits; });
    for (std::size_t i = 0; i < queue_count; ++i) {
      const std::string customer = customers == 0 ? "" : std::to_string(i % customers);
      ring.attach(queues[i],
                  {.tenant = std::to_string(i % tenants),
                   .customer = customer,
                   .weight = static_cast<std::uint32_t>(1 + i % 3)},
                  nullptr);
      ring.add_jobs(queues[i], kManyJobs, Nanoseconds{0});
    }
  }
  ~Lane() { ring.detach_all(); }

  FairRing ring;
  std::vector<RingQueue> queues;
};

// Costs differ from job to job and from queue to queue, so that keys land all over the heap.
Settlement settlement(const Claim& claim, std::uint64_t& random) {
  random = random * 6364136223846793005U + 1442695040888963407U;
  const Nanoseconds actual{500'000 + static_cast<std::int64_t>(random >> 44)};
  return {.charged = claim.charged, .actual = actual, .executed = claim.range.size()};
}

void BM_FairRing_SettleAndClaim(benchmark::State& state) {
  Lane lane(static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)));
  std::uint64_t random = 1;
  Nanoseconds now{0};
  std::optional<Claim> claim = lane.ring.try_claim(now);
  for (auto _ : state) {
    now += std::chrono::milliseconds(1);
    claim = lane.ring.settle_and_claim(*claim->queue, settlement(*claim, random), now).claim;
  }
  (void)lane.ring.settle(*claim->queue, settlement(*claim, random), now);
}
BENCHMARK(BM_FairRing_SettleAndClaim)
    ->Args({1, 1})
    ->Args({10, 1})
    ->Args({1'000, 1})
    ->Args({100'000, 1})
    ->Args({1'000, 1'000})
    ->Args({100'000, 1'000})
    ->Args({100'000, 100'000});

// Three levels: queues, tenants, customers of all tenants; and whether each customer has a cap and
// a rate, neither of which binds.
void BM_FairRing_SettleAndClaimOfCustomers(benchmark::State& state) {
  GroupLimits limits;
  if (state.range(3) != 0) limits = {.slots = 64, .start_interval = Nanoseconds(1)};
  Lane lane(static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)),
            static_cast<std::size_t>(state.range(2)), limits);
  std::uint64_t random = 1;
  Nanoseconds now{0};
  std::optional<Claim> claim = lane.ring.try_claim(now);
  for (auto _ : state) {
    now += std::chrono::milliseconds(1);
    claim = lane.ring.settle_and_claim(*claim->queue, settlement(*claim, random), now).claim;
  }
  (void)lane.ring.settle(*claim->queue, settlement(*claim, random), now);
}
BENCHMARK(BM_FairRing_SettleAndClaimOfCustomers)
    ->Args({10, 1, 1, 0})
    ->Args({10, 1, 10, 0})
    ->Args({1'000, 1, 100, 0})
    ->Args({1'000, 10, 1'000, 0})
    ->Args({100'000, 1, 10'000, 0})
    ->Args({100'000, 100, 100'000, 0})
    ->Args({1'000, 1, 100, 1})
    ->Args({100'000, 1, 10'000, 1});

void BM_FairRing_ClaimThenSettle(benchmark::State& state) {
  Lane lane(static_cast<std::size_t>(state.range(0)), static_cast<std::size_t>(state.range(1)));
  std::uint64_t random = 1;
  Nanoseconds now{0};
  for (auto _ : state) {
    now += std::chrono::milliseconds(1);
    const std::optional<Claim> claim = lane.ring.try_claim(now);
    (void)lane.ring.settle(*claim->queue, settlement(*claim, random), now);
  }
}
BENCHMARK(BM_FairRing_ClaimThenSettle)
    ->Args({10, 1})
    ->Args({1'000, 1})
    ->Args({100'000, 1})
    ->Args({1'000, 1'000})
    ->Args({100'000, 1'000});

// The same where `tenants` tenants have a queue at each of `gates` gates, and one gate is at its
// concurrency all the time: a turn of it opens it and closes it again.
void BM_FairRing_SettleAndClaimAtGates(benchmark::State& state) {
  const auto gates = static_cast<GateId>(state.range(0));
  FairRing ring({.parallelism = 2});
  std::vector<RingQueue> queues(static_cast<std::size_t>(state.range(1)) * gates);
  for (GateId gate = 1; gate < gates; ++gate) ring.gates().add({.concurrency = gate == 1 ? 1U : 0U});
  for (std::size_t i = 0; i < queues.size(); ++i) {
    ring.attach(queues[i], {.tenant = std::to_string(i / gates), .gate = static_cast<GateId>(i % gates)},
                nullptr);
    ring.add_jobs(queues[i], kManyJobs, Nanoseconds{0});
  }
  std::uint64_t random = 1;
  Nanoseconds now{0};
  std::optional<Claim> claim = ring.try_claim(now);
  for (auto _ : state) {
    now += std::chrono::milliseconds(1);
    claim = ring.settle_and_claim(*claim->queue, settlement(*claim, random), now).claim;
  }
  (void)ring.settle(*claim->queue, settlement(*claim, random), now);
  ring.detach_all();
}
BENCHMARK(BM_FairRing_SettleAndClaimAtGates)
    ->Args({1, 1'000})
    ->Args({2, 1'000})
    ->Args({8, 1'000})
    ->Args({64, 1'000});

std::unique_ptr<Lane> shared_lane;

void BM_FairRing_SettleAndClaim_Contended(benchmark::State& state) {
  Lane& lane = *shared_lane;
  std::uint64_t random = 1 + static_cast<std::uint64_t>(state.thread_index());
  Nanoseconds now{0};
  std::optional<Claim> claim = lane.ring.try_claim(now);
  for (auto _ : state) {
    now += std::chrono::milliseconds(1);
    claim = lane.ring.settle_and_claim(*claim->queue, settlement(*claim, random), now).claim;
  }
  (void)lane.ring.settle(*claim->queue, settlement(*claim, random), now);
}
BENCHMARK(BM_FairRing_SettleAndClaim_Contended)
    ->Setup([](const benchmark::State&) { shared_lane = std::make_unique<Lane>(1'000, 10); })
    ->Teardown([](const benchmark::State&) { shared_lane.reset(); })
    ->Threads(2)
    ->UseRealTime();

// A batch of one job from its attachment to its end.
void BM_FairRing_WholeBatchOfOneJob(benchmark::State& state) {
  Lane lane(static_cast<std::size_t>(state.range(0)), 1);
  Nanoseconds now{0};
  for (auto _ : state) {
    RingQueue queue;
    lane.ring.attach(queue, {.tenant = "newcomer"}, nullptr);
    lane.ring.add_jobs(queue, 1, now);
    lane.ring.close(queue, now);
    while (const std::optional<Claim> claim = lane.ring.try_claim(now)) {
      now += std::chrono::milliseconds(1);
      const bool newcomer = claim->queue == &queue;
      (void)lane.ring.settle(*claim->queue,
                             {.charged = claim->charged,
                              .actual = std::chrono::milliseconds(1),
                              .executed = claim->range.size()},
                             now);
      if (newcomer) break;
    }
  }
}
BENCHMARK(BM_FairRing_WholeBatchOfOneJob)->Arg(1)->Arg(1'000);

// ---- Baseline: the ring that looks at each queue in turn ----

void BM_ScanningRing_ClaimOneJob(benchmark::State& state) {
  std::vector<std::uint64_t> queues(static_cast<std::size_t>(state.range(0)));
  queues.back() = kManyJobs;
  std::mutex mutex;
  std::size_t next = 0;
  for (auto _ : state) {
    const std::lock_guard lock(mutex);
    while (queues[next] == 0) next = next + 1 == queues.size() ? 0 : next + 1;
    benchmark::DoNotOptimize(--queues[next]);
    next = next + 1 == queues.size() ? 0 : next + 1;
  }
}
BENCHMARK(BM_ScanningRing_ClaimOneJob)->Arg(10)->Arg(1'000)->Arg(100'000);

}  // namespace
}  // namespace locksley

BENCHMARK_MAIN();
