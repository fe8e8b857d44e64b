// The ring under real threads: every job is run once, every keepalive released once, and the hints tell the
// truth.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/fair_ring.h"
#include "tests/support/seed.h"

namespace locksley {
namespace {

struct Totals {
  std::atomic<std::uint64_t> added{0};
  std::atomic<std::uint64_t> run{0};
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<std::uint64_t> alive{0};
};

// What is known of a batch; outlives it.
struct Record {
  std::atomic<std::uint64_t> sum{0};  // of the indexes run or dropped, each + 1
  std::uint64_t expected_sum = 0;     // written by its submitter, read at the end
};

struct Batch {
  Batch(Totals& t, Record& r) : totals(t), record(r) { ++totals.alive; }
  ~Batch() { --totals.alive; }
  RingQueue queue;
  Totals& totals;
  Record& record;
};

// The sum of the indexes, each + 1.
std::uint64_t sum_of(IndexRange range) { return (range.low + 1 + range.high) * range.size() / 2; }

TEST(FairRingStressTest, EveryJobIsRunOrDroppedOnceAndEveryBatchIsFreed) {
  constexpr int kWorkers = 3;
  constexpr int kSubmitters = 2;
  constexpr int kBatches = 1000;
  FairRing ring({.parallelism = kWorkers, .set_back_at = 100'000'000});
  Totals totals;
  std::atomic<std::uint64_t> clock{1};
  const auto now = [&clock] { return Nanoseconds{static_cast<std::int64_t>(clock.fetch_add(1000))}; };
  std::atomic<int> submitters_left{kSubmitters};
  std::vector<std::vector<std::shared_ptr<Batch>>> kept(
      kSubmitters);  // every other batch is kept by the ring alone
  std::vector<Record> records(kSubmitters * kBatches);

  // Parts of claims that were stolen, whose thieves have not joined yet. Only the ring keeps their batches.
  struct Stolen {
    Batch* batch;
    IndexRange range;
  };
  std::mutex stolen_mutex;
  std::vector<Stolen> stolen_parts;
  const auto take_stolen = [&]() -> std::optional<Stolen> {
    const std::lock_guard lock(stolen_mutex);
    if (stolen_parts.empty()) return std::nullopt;
    const Stolen part = stolen_parts.back();
    stolen_parts.pop_back();
    return part;
  };

  const auto submit = [&](int me) {
    std::mt19937_64 random = testing::stress_random(static_cast<std::uint64_t>(me));
    std::vector<std::shared_ptr<Batch>>& mine = kept[static_cast<std::size_t>(me)];
    for (int i = 0; i < kBatches; ++i) {
      Record& record = records[static_cast<std::size_t>(me * kBatches + i)];
      auto batch = std::make_shared<Batch>(totals, record);
      QueueOptions options{.tenant = std::to_string(random() % 5),
                           .weight = static_cast<std::uint32_t>(1 + random() % 10)};
      options.slots = static_cast<std::uint32_t>(random() % 3);
      options.cost_hint = Nanoseconds(random() % 100'000);
      options.owner = batch.get();
      ring.attach(batch->queue, options, batch);
      std::uint64_t jobs = 0;
      for (std::uint64_t piece = 0, pieces = 1 + random() % 3; piece < pieces; ++piece) {
        const std::uint64_t n = random() % 200;
        totals.added += n;
        jobs += n;
        EXPECT_TRUE(ring.add_jobs(batch->queue, n, now()));
        if (random() % 4 == 0) ring.pause(batch->queue, now());
        ring.set_weight(batch->queue, static_cast<std::uint32_t>(1 + random() % 10));
        if (random() % 16 == 0) (void)ring.snapshot(3, now());
        (void)ring.view(batch->queue, now());
        ring.resume(batch->queue, now());
      }
      record.expected_sum = sum_of({0, jobs});
      if (random() % 8 == 0) {
        for (const IndexRange& range : ring.cancel(batch->queue, now())) {
          totals.dropped += range.size();
          record.sum += sum_of(range);
        }
      } else {
        ring.close(batch->queue, now());
      }
      if (random() % 2 == 0) mine.push_back(std::move(batch));
    }
    --submitters_left;
  };

  const auto work = [&](int me) {
    std::mt19937_64 random = testing::stress_random(1000 + static_cast<std::uint64_t>(me));
    // Runs `range`, or most of it; the account of it.
    const auto run = [&](Record& record, IndexRange range, const Charge& charged) {
      const std::uint64_t executed = range.size() - random() % (range.size() + 1) / 4;
      const IndexRange done{range.low, range.low + executed};
      record.sum += sum_of(done);
      totals.run += executed;
      return Settlement{.charged = charged,
                        .actual = Nanoseconds(random() % 300'000),
                        .executed = executed,
                        .left = {done.high, range.high}};
    };
    const auto settle = [&](Batch& batch, const Settlement& settlement) {
      Record& record = batch.record;
      const Settled settled = random() % 2 == 0 ? ring.settle_and_claim(batch.queue, settlement, now())
                                                : ring.settle(batch.queue, settlement, now());
      record.sum += sum_of(settled.dropped);
      totals.dropped += settled.dropped.size();
      return settled.claim;
    };
    std::optional<Claim> claim;
    for (;;) {
      if (!claim) {
        if (const std::optional<Stolen> stolen = take_stolen()) {
          Batch& batch = *stolen->batch;
          const Charge charged = ring.join(batch.queue, now());
          claim = settle(batch, run(batch.record, stolen->range, charged));
          continue;
        }
      }
      if (!claim) {
        const bool last = submitters_left == 0;
        claim = ring.try_claim(now());
        if (!claim && last && ring.snapshot(0, now()).queues == 0) return;
        if (!claim) {
          std::this_thread::yield();
          continue;
        }
      }
      auto& batch = *static_cast<Batch*>(claim->queue->owner());
      IndexRange range = claim->range;
      if (random() % 4 == 0) {
        // A thief takes the upper part, all of it perhaps, and joins when it gets round to it.
        const std::uint64_t middle = range.low + random() % range.size();
        const std::lock_guard lock(stolen_mutex);
        stolen_parts.push_back({&batch, {middle, range.high}});
        range.high = middle;
      }
      claim = settle(batch, run(batch.record, range, claim->charged));
    }
  };

  std::vector<std::jthread> threads;
  for (int i = 0; i < kSubmitters; ++i) threads.emplace_back(submit, i);
  for (int i = 0; i < kWorkers; ++i) threads.emplace_back(work, i);
  threads.clear();

  EXPECT_EQ(totals.run + totals.dropped, totals.added);
  for (const Record& record : records) EXPECT_EQ(record.sum, record.expected_sum);
  EXPECT_FALSE(ring.has_work());
  const RingSnapshot snapshot = ring.snapshot(1, now());
  EXPECT_EQ(snapshot.queued, 0U);
  EXPECT_EQ(snapshot.executors, 0U);
  kept.clear();
  EXPECT_EQ(totals.alive, 0U) << "batches that the ring still holds";
}

}  // namespace
}  // namespace locksley
