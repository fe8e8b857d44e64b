// All nodes of a gate start anew, while the ring is used.
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_gates.h"

namespace locksley {
namespace {

using std::chrono::milliseconds;

// A walk in parts, so that the mutex is held for a short time only.
class FairRingAnewTest : public ::testing::Test {
 protected:
  ~FairRingAnewTest() override { ring.detach_all(); }

  RingQueue& enter(GateId gate, std::uint64_t jobs, const std::string& tenant) {
    RingQueue& queue = queues.emplace_back();
    ring.attach(queue, {.tenant = tenant, .cost_hint = milliseconds(1), .gate = gate}, nullptr);
    ring.add_jobs(queue, jobs, now);
    return queue;
  }
  // A turn of one job; which queue it serves.
  RingQueue* serve() {
    const std::optional<Claim> turn = ring.try_claim(now, ClaimFilter::kAny, 1);
    if (!turn) return nullptr;
    now += milliseconds(1);
    (void)ring.settle(*turn->queue,
                      {.charged = turn->charged, .actual = milliseconds(1), .executed = turn->range.size()},
                      now);
    return turn->queue;
  }
  static constexpr int kQueues = 3000;

  // The queues of tenants a and b, of which some have had more turns than others.
  void enter_many() {
    for (int i = 0; i < kQueues; ++i) enter_of(i % 2 == 0 ? "a" : "b");
    for (int i = 0; i < kQueues / 2; ++i) EXPECT_NE(serve(), nullptr);
  }
  // Queues of a tenant have the same number of turns, as they come.
  void expect_equal(const std::string& tenant, std::size_t many) {
    std::map<RingQueue*, int> served;
    while (served.size() < many) {
      RingQueue* const queue = serve();
      ASSERT_NE(queue, nullptr);
      if (tenants_[queue] != tenant) continue;
      ASSERT_EQ(++served[queue], 1) << served.size() << " of " << many;
    }
  }
  void enter_of(const std::string& tenant) { tenants_[&enter(0, 100, tenant)] = tenant; }

  Nanoseconds now{};
  FairRing ring{{.parallelism = 8}};
  std::deque<RingQueue> queues;
  std::map<const RingQueue*, std::string> tenants_;
};

TEST_F(FairRingAnewTest, VeryManyStartAnewAFewAtATime) {
  enter_many();
  FairRing::StartAnewWalk walk(ring, 0);
  int parts = 1;
  while (!walk.go_on()) ++parts;
  EXPECT_EQ(parts, 1 + (kQueues + 2) / static_cast<int>(FairRing::StartAnewWalk::kAtOnce));
  expect_equal("a", kQueues / 2);
}

TEST_F(FairRingAnewTest, QueuesAndCustomersComeAndGoMeanwhile) {
  enter_many();
  FairRing::StartAnewWalk walk(ring, 0);
  EXPECT_FALSE(walk.go_on());
  // The queue at which it stands leaves, with its neighbours: the newest of a tenant come first.
  int gone = 0;
  for (int i = 1900; i < 2100; i += 2, ++gone) (void)ring.cancel(queues[static_cast<std::size_t>(i)], now);
  enter_of("a");
  EXPECT_FALSE(walk.go_on());
  // It stands at a queue of tenant b when that tenant gets its first customer with a name.
  EXPECT_FALSE(walk.go_on());
  ring.attach(queues.emplace_back(), {.tenant = "b", .customer = "x"}, nullptr);
  ring.add_jobs(queues.back(), 100, now);
  while (!walk.go_on()) {
  }
  expect_equal("a", static_cast<std::size_t>(kQueues / 2 - gone + 1));
}

TEST_F(FairRingAnewTest, AllQueuesMayLeaveMeanwhileAndTheGateStays) {
  const GateId gate = *ring.gates().add({});
  for (int i = 0; i < kQueues; ++i) enter(gate, 1, "a" + std::to_string(i));
  {
    FairRing::StartAnewWalk walk(ring, gate);
    EXPECT_FALSE(walk.go_on());
    FairRing::StartAnewWalk other(ring, 0);
    EXPECT_FALSE(other.go_on());
    for (RingQueue& queue : queues) (void)ring.cancel(queue, now);
    EXPECT_FALSE(ring.gates().remove(gate)) << "a walk has it";
    while (!walk.go_on()) {
    }
    while (!other.go_on()) {
    }
  }
  EXPECT_TRUE(ring.gates().remove(gate));
}

}  // namespace
}  // namespace locksley
