// What a refusal for want of room holds up while a large write is staged. On a disk in memory.
#include <gmock/gmock.h>

#include <asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/lane/lane.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/server/batches/batches.h"
#include "tests/support/memory_engine.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

// The test's thread plays the I/O thread, which learns of an outcome of the store when the test
// lets it. No job runs.
class StagedRefusalsTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kInGroup = 20'000;
  static constexpr std::size_t kTooLarge = 100'000;  // one payload, so that it is not staged

  StagedRefusalsTest() {
    bench_.in_group = kInGroup;
    disk().room = 80'000;
    handlers_.add({.handler = handler_, .lane = lane_, .kind = HandlerKind::kBuiltin});
    store_ = std::move(Store::open(bench_.options(), testing::silent_log()).value());
    batches_.emplace(io_, slices_, config_, handlers_, stats_, store_.get(), testing::silent_log());
    const ThreadRoleScope io_thread(kIoThread);
    user_.emplace(batches_->registry().tenants().of("default"));
    EXPECT_TRUE(batches_->restore_all().has_value());
  }
  ~StagedRefusalsTest() override {
    disk().release();
    store_->stop();
    lane_.detach_all();
  }

  testing::MemoryDisk& disk() { return dynamic_cast<testing::MemoryDisk&>(*bench_.disk); }
  BatchRecord& open() LOCKSLEY_REQUIRES(kIoThread) {
    const auto opened = batches_->open(*user_, {.handler = "echo", .options = {}}, 1);
    EXPECT_TRUE(opened.has_value());
    settle((*opened)->stored.ticket);
    return **opened;
  }
  Account& payer() { return user_->tenant().account; }
  std::string add(BatchRecord& record, const std::vector<std::string>& payloads)
      LOCKSLEY_REQUIRES(kIoThread) {
    const std::vector<std::string_view> views(payloads.begin(), payloads.end());
    const auto count = batches_->add(record, payer(), proto::ArgumentList::copy_of(views), 1, {});
    return count ? std::to_string(*count) : count.error();
  }
  // Acts on no more outcomes than are needed for it.
  void settle(Ticket ticket) LOCKSLEY_REQUIRES(kIoThread) {
    EXPECT_TRUE(testing::wait_until_true([&] {
      kIoThread.assert_held();
      io_.restart();
      if (!batches_->is_settled(ticket)) io_.poll_one();
      return batches_->is_settled(ticket);
    }));
  }
  // Jobs are refused, and then a large ADD is being written. Returns the ticket of the latter.
  // `with`: another batch.
  Ticket refuse_and_stage(BatchRecord& refused, BatchRecord& large, BatchRecord& with)
      LOCKSLEY_REQUIRES(kIoThread) {
    disk().hold_syncs();
    batches_->changes().pause(with, payer());
    EXPECT_TRUE(disk().await_held());
    EXPECT_EQ(add(refused, {std::string(kTooLarge, 'x')}), "1");
    const Ticket ticket = refused.stored.ticket;
    add(large, std::vector(60, std::string(1'000, 'x')));
    batches_->changes().resume(with, payer());  // with the first part
    disk().release_one();
    EXPECT_TRUE(disk().await_held());
    settle(ticket);
    EXPECT_EQ(refused.terms.jobs, &refused == &large ? 60U : 0U) << "they were refused";
    EXPECT_FALSE(batches_->is_settled(large.stored.jobs_ticket));
    return large.stored.jobs_ticket;
  }
  std::vector<std::string> payloads(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    std::vector<std::string_view> views(record.terms.jobs);
    std::string scratch;
    EXPECT_EQ(record.payloads().fetch(0, views, scratch), views.size());
    return {views.begin(), views.end()};
  }

  testing::StoreBench bench_;
  std::vector<std::string> names_ = {"echo"};
  config::Config config_;
  ServerStats stats_{names_};
  Handler handler_{"echo", "", [](JobContext&, std::string_view) {}};
  Lane lane_{"cpu", FairRing::Options{}};
  HandlerDirectory handlers_;
  asio::io_context io_{1};
  Slices slices_{io_.get_executor()};
  std::unique_ptr<Store> store_;
  std::optional<Batches> batches_;
  std::optional<User> user_;
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
