// The ring under real threads: every job is run once, every keepalive released once, and the hints
// tell the truth.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_gates.h"
#include "core/ring/fair_ring_groups.h"
#include "core/ring/fair_ring_view.h"
#include "core/sync/mutex.h"
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

// One ring; threads that submit batches to it, and threads that work as the pool's workers do.
// Owned by the test; each thread calls submit() or work() once.
class RingUnderThreads {
 public:
  static constexpr int kWorkers = 3;
  static constexpr int kSubmitters = 2;
  static constexpr int kBatches = 1000;  // of each submitter
  static constexpr GateId kGates = 4;

  RingUnderThreads() {
    for (GateId gate = 1; gate < kGates; ++gate)
      EXPECT_EQ(ring_.gates().add({.concurrency = gate - 1}), gate);
  }

  // Submits batches of random sizes, cancels some, and keeps every other one.
  void submit(int me) {
    std::mt19937_64 random = testing::stress_random(static_cast<std::uint64_t>(me));
    std::vector<std::shared_ptr<Batch>>& mine = kept_[static_cast<std::size_t>(me)];
    for (int i = 0; i < kBatches; ++i) {
      Record& record = records_[static_cast<std::size_t>(me * kBatches + i)];
      auto batch = std::make_shared<Batch>(totals_, record);
      attach(batch, random);
      record.expected_sum = sum_of({0, add_jobs(*batch, random)});
      if (random() % 8 == 0) {
        for (const IndexRange& range : ring_.cancel(batch->queue, now())) {
          totals_.dropped += range.size();
          record.sum += sum_of(range);
        }
      } else {
        ring_.close(batch->queue, now());
      }
      if (random() % 2 == 0) mine.push_back(std::move(batch));
      ring_.gates().set_switch(static_cast<GateId>(random() % kGates), random() % 4 != 0);
      ring_.gates().set_concurrency(kGates - 1, static_cast<std::uint32_t>(random() % 3));
      const GroupLimits limits{.weight = 2, .slots = static_cast<std::uint32_t>(random() % 3)};
      ring_.groups().set_tenant_limits(std::to_string(random() % 5), limits, now());
      ring_.groups().set_customer_limits(std::to_string(random() % 5), "a", limits, now());
    }
    for (GateId gate = 0; gate < kGates; ++gate) ring_.gates().set_switch(gate, true);
    --submitters_left_;
  }

  // Claims, runs and settles until all submitters are done and the ring is empty.
  void work(int me) {
    std::mt19937_64 random = testing::stress_random(1000 + static_cast<std::uint64_t>(me));
    std::optional<Claim> claim;
    for (;;) {
      if (!claim) {
        if (const std::optional<Stolen> stolen = take_stolen()) {
          Batch& batch = *stolen->batch;
          const Charge charged = ring_.join(batch.queue, now());
          claim = settle(batch, run(batch.record, stolen->range, charged, random), random);
          continue;
        }
        const bool last = submitters_left_ == 0;
        const GateSet some(static_cast<GateId>(random() % kGates));
        const bool any = random() % 2 == 0;
        claim = ring_.try_claim(now(), ClaimFilter::kAny, FairRing::kAnyNumber, any ? nullptr : &some);
        if (!claim && last && ring_.view().snapshot(0, now()).queues == 0) return;
      }
      if (!claim) {
        std::this_thread::yield();
        continue;
      }
      auto& batch = *static_cast<Batch*>(claim->queue->batch());
      IndexRange range = claim->range;
      if (random() % 4 == 0) range.high = leave_to_thief(batch, range, random);
      claim = settle(batch, run(batch.record, range, claim->charged, random), random);
    }
  }

  // After all threads have ended.
  void check() {
    EXPECT_EQ(totals_.run + totals_.dropped, totals_.added);
    for (const Record& record : records_) EXPECT_EQ(record.sum, record.expected_sum);
    EXPECT_FALSE(ring_.hints().has_work());
    for (GateId gate = 0; gate < kGates; ++gate) {
      EXPECT_FALSE(ring_.hints().has_work(GateSet(gate)));
      EXPECT_EQ(ring_.gates().remove(gate), gate != 0);
    }
    const RingSnapshot snapshot = ring_.view().snapshot(1, now());
    EXPECT_EQ(snapshot.queued, 0U);
    EXPECT_EQ(snapshot.executors, 0U);
    kept_.clear();
    EXPECT_EQ(totals_.alive, 0U) << "batches that the ring still holds";
  }

 private:
  // The stolen part of a claim, whose thief has not joined yet. Only the ring keeps its batch.
  struct Stolen {
    Batch* batch;
    IndexRange range;
  };

  Nanoseconds now() { return Nanoseconds{static_cast<std::int64_t>(clock_.fetch_add(1000))}; }

  void attach(const std::shared_ptr<Batch>& batch, std::mt19937_64& random) {
    QueueOptions options{.tenant = std::to_string(random() % 5),
                         .customer = std::string(random() % 2, static_cast<char>('a' + random() % 3)),
                         .weight = static_cast<std::uint32_t>(1 + random() % 10)};
    options.slots = static_cast<std::uint32_t>(random() % 3);
    options.cost_hint = Nanoseconds(random() % 100'000);
    options.batch = batch.get();
    options.gate = static_cast<GateId>(random() % kGates);
    ring_.attach(batch->queue, options, batch);
  }

  // In one to three parts, with changes of the queue between them. Returns their number.
  std::uint64_t add_jobs(Batch& batch, std::mt19937_64& random) {
    std::uint64_t jobs = 0;
    for (std::uint64_t part = 0, parts = 1 + random() % 3; part < parts; ++part) {
      const std::uint64_t n = random() % 200;
      totals_.added += n;
      jobs += n;
      EXPECT_TRUE(ring_.add_jobs(batch.queue, n, now()));
      if (random() % 4 == 0) ring_.pause(batch.queue, now());
      ring_.set_weight(batch.queue, static_cast<std::uint32_t>(1 + random() % 10));
      if (random() % 16 == 0) (void)ring_.view().snapshot(3, now());
      (void)ring_.view().queue(batch.queue, now());
      ring_.resume(batch.queue, now());
    }
    return jobs;
  }

  // Runs `range`, or most of it; the account of it.
  Settlement run(Record& record, IndexRange range, const Charge& charged, std::mt19937_64& random) {
    const std::uint64_t executed = range.size() - random() % (range.size() + 1) / 4;
    const IndexRange done{range.low, range.low + executed};
    record.sum += sum_of(done);
    totals_.run += executed;
    return Settlement{.charged = charged,
                      .actual = Nanoseconds(random() % 300'000),
                      .executed = executed,
                      .left = {done.high, range.high}};
  }

  std::optional<Claim> settle(Batch& batch, const Settlement& settlement, std::mt19937_64& random) {
    Record& record = batch.record;  // the batch may go with its settlement
    const Settled settled = random() % 2 == 0 ? ring_.settle_and_claim(batch.queue, settlement, now())
                                              : ring_.settle(batch.queue, settlement, now());
    record.sum += sum_of(settled.dropped);
    totals_.dropped += settled.dropped.size();
    return settled.claim;
  }

  // A thief takes the upper part, which may be all of it, and joins later. Returns where that part
  // begins.
  std::uint64_t leave_to_thief(Batch& batch, IndexRange range, std::mt19937_64& random) {
    const std::uint64_t middle = range.low + random() % range.size();
    const MutexLock lock(stolen_mutex_);
    stolen_parts_.push_back({&batch, {middle, range.high}});
    return middle;
  }

  std::optional<Stolen> take_stolen() {
    const MutexLock lock(stolen_mutex_);
    if (stolen_parts_.empty()) return std::nullopt;
    const Stolen part = stolen_parts_.back();
    stolen_parts_.pop_back();
    return part;
  }

  // All are atomic or belong to one thread, but for what stolen_mutex_ guards.
  FairRing ring_{{.parallelism = kWorkers, .set_back_at = 100'000'000}};
  Totals totals_;
  std::atomic<std::uint64_t> clock_{1};
  std::atomic<int> submitters_left_{kSubmitters};
  std::vector<std::vector<std::shared_ptr<Batch>>> kept_ =
      std::vector<std::vector<std::shared_ptr<Batch>>>(kSubmitters);  // the ring alone keeps the others
  std::vector<Record> records_ = std::vector<Record>(kSubmitters * kBatches);
  Mutex stolen_mutex_;
  std::vector<Stolen> stolen_parts_ LOCKSLEY_GUARDED_BY(stolen_mutex_);
};

TEST(FairRingStressTest, EveryJobIsRunOrDroppedOnceAndEveryBatchIsFreed) {
  RingUnderThreads ring;
  std::vector<std::jthread> threads;
  for (int i = 0; i < RingUnderThreads::kSubmitters; ++i)
    threads.emplace_back([&ring, i] { ring.submit(i); });
  for (int i = 0; i < RingUnderThreads::kWorkers; ++i) threads.emplace_back([&ring, i] { ring.work(i); });
  threads.clear();
  ring.check();
}

}  // namespace
}  // namespace locksley
