#include "daemon/workers/state/waiting_claims.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <vector>

#include "tests/support/pool_fixture.h"

namespace locksley::daemon {
namespace {

class WaitingClaimsTest : public ::testing::Test {
 protected:
  // The CLAIM of a new worker, which is the last that has arrived.
  RemoteWorker& claim(WorkerAccount& account, const GateSet& gates) {
    RemoteWorker& worker =
        workers_.emplace_back(workers_.size(), JoinCommand{}, "user", account, Nanoseconds(1));
    worker.waiting = WaitingClaim{.claim = {}, .lanes = {}, .order = workers_.size()};
    waiting_.add(worker, gates);
    return worker;
  }
  // The orders of the CLAIMs that are visited; those of the gates in `served` are removed in their
  // turn.
  std::vector<std::uint64_t> visited(const GateSet& with_jobs, const GateSet& served = GateSet{}) {
    std::vector<std::uint64_t> orders;
    const auto has_jobs = [&](const GateSet& gates) {
      ++looks_;
      return intersect(gates, with_jobs);
    };
    const auto has_room = [&](const WorkerAccount& account) {
      ++looks_;
      return account.number() != without_room_;
    };
    waiting_.visit(has_jobs, has_room, [&](RemoteWorker& worker) {
      orders.push_back(worker.waiting->order);
      for (const GateId gate : {1U, 2U, 3U}) {
        if (served.has(gate)) waiting_.remove(worker, GateSet(gate));
      }
      return orders.size() < most_;
    });
    return orders;
  }

  WorkerUse of_all_;
  WorkerAccount one_{1, of_all_};
  WorkerAccount other_{2, of_all_};
  WaitingClaims waiting_;
  std::uint64_t without_room_ = 0;  // the number of an account
  std::size_t most_ = 1'000'000;    // CLAIMs that are visited
  std::size_t looks_ = 0;           // for jobs and for room

 private:
  static bool intersect(const GateSet& a, const GateSet& b) {
    for (std::size_t i = 0; i < GateSet::kWords; ++i) {
      if ((a.word(i) & b.word(i)) != 0) return true;
    }
    return false;
  }

  std::deque<RemoteWorker> workers_;
};

using Orders = std::vector<std::uint64_t>;

TEST_F(WaitingClaimsTest, AreVisitedAsTheyHaveArrivedWhoeverTheyAreOf) {
  claim(one_, GateSet(1));
  claim(other_, GateSet(2));
  claim(one_, GateSet(2));
  claim(other_, GateSet(1));
  claim(one_, GateSet(3));
  GateSet with_jobs(1);
  with_jobs.add(2);
  EXPECT_EQ(visited(with_jobs), (Orders{1, 2, 3, 4}));
  EXPECT_EQ(visited(GateSet(2)), (Orders{2, 3}));
  without_room_ = 1;
  EXPECT_EQ(visited(with_jobs), (Orders{2, 4}));
}

TEST_F(WaitingClaimsTest, MayBeRemovedInTheirTurn) {
  for (int i = 0; i < 3; ++i) {
    claim(one_, GateSet(1));
    claim(other_, GateSet(1));
  }
  most_ = 2;
  EXPECT_EQ(visited(GateSet(1), GateSet(1)), (Orders{1, 2}));
  most_ = 100;
  EXPECT_EQ(visited(GateSet(1), GateSet(1)), (Orders{3, 4, 5, 6}));
  EXPECT_TRUE(waiting_.empty());
}

TEST_F(WaitingClaimsTest, TakeNoTimeWhileThereAreOtherJobs) {
  for (int i = 0; i < 2'000; ++i) claim(one_, GateSet(1));
  claim(other_, GateSet(2));
  EXPECT_EQ(visited(GateSet(2)), Orders{2'001});
  EXPECT_LE(looks_, 4);  // one for each group, and two for the one CLAIM
  looks_ = 0;
  without_room_ = 1;
  EXPECT_EQ(visited(GateSet(1)), Orders{});
  EXPECT_LE(looks_, 4);
}

}  // namespace
}  // namespace locksley::daemon
