// What a refusal for want of room holds up while a large write is staged. On a disk in memory.
#include <gmock/gmock.h>

#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "tests/support/memory_engine.h"
#include "tests/support/stored_batches_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

class StagedRefusalsTest : public testing::StoredBatchesFixture {
 protected:
  static constexpr std::size_t kInGroup = 20'000;
  static constexpr std::size_t kTooLarge = 100'000;  // one payload, so that it is not staged

  StagedRefusalsTest() {
    bench_.in_group = kInGroup;
    disk().room = 80'000;
  }
  ~StagedRefusalsTest() override { disk().release(); }

  testing::MemoryDisk& disk() { return dynamic_cast<testing::MemoryDisk&>(*bench_.disk); }
  // Jobs are refused, and then a large ADD is being written. Returns the ticket of the latter.
  // `with`: another batch.
  Ticket refuse_and_stage(BatchRecord& refused, BatchRecord& large, BatchRecord& with)
      LOCKSLEY_REQUIRES(kIoThread) {
    disk().hold_syncs();
    batches_->changes().pause(with, payer());
    EXPECT_TRUE(disk().await_held());
    EXPECT_EQ(add(refused, {std::string(kTooLarge, 'x')}), "1");
    const Ticket ticket = refused.stored.ticket;
    const std::string part(1'000, 'x');
    add(large, std::vector(60, std::string_view(part)));
    batches_->changes().resume(with, payer());  // with the first part
    disk().release_one();
    EXPECT_TRUE(disk().await_held());
    settle(ticket);
    EXPECT_EQ(refused.terms.jobs, &refused == &large ? 60U : 0U) << "they were refused";
    EXPECT_FALSE(batches_->is_settled(large.stored.jobs_ticket));
    return large.stored.jobs_ticket;
  }
};

TEST_F(StagedRefusalsTest, OtherBatchesNeedNotWaitForTheLargeWrite) {
  const ThreadRoleScope io_thread(kIoThread);
  BatchRecord& refused = open();
  BatchRecord& large = open();
  BatchRecord& other = open();
  const Ticket staged = refuse_and_stage(refused, large, other);
  EXPECT_EQ(add(other, {"a"}), "1");
  EXPECT_EQ(add(refused, {"b"}), "1");
  EXPECT_EQ(add(large, {"c"}), "61");
  disk().release();
  settle(staged);
  settle(other.stored.ticket);
  settle(refused.stored.ticket);
  EXPECT_THAT(payloads(other), ElementsAre("a"));
  EXPECT_THAT(payloads(refused), ElementsAre("b"));
  EXPECT_EQ(payloads(large).size(), 61U);
}

TEST_F(StagedRefusalsTest, JobsAreAddedBehindALargeWriteThatWillBeRefusedOnceItWas) {
  const ThreadRoleScope io_thread(kIoThread);
  BatchRecord& refused = open();
  BatchRecord& other = open();
  const Ticket staged = refuse_and_stage(refused, refused, other);
  EXPECT_EQ(add(other, {"a"}), "1");
  EXPECT_THAT(add(refused, {"b"}), StartsWith("STORE "));
  disk().release();
  settle(staged);
  EXPECT_EQ(refused.terms.jobs, 0U) << "they follow refused jobs";
  EXPECT_EQ(add(refused, {"b"}), "1");
  settle(refused.stored.ticket);
  EXPECT_THAT(payloads(other), ElementsAre("a"));
  EXPECT_THAT(payloads(refused), ElementsAre("b"));
}

}  // namespace
}  // namespace locksley::daemon
