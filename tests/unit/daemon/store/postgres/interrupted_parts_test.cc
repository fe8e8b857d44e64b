// Large writes, whose payloads go ahead in parts, and a server or a daemon that goes in the middle.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "daemon/store/store.h"
#include "tests/support/postgres_disk.h"
#include "tests/support/postgres_proxy.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::count_rows;
using testing::is_same;
using Fault = testing::PostgresProxy::Fault;

// A store whose connections go through the proxy, with the batch 1 and an open batch 2.
class InterruptedPartsTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kInGroup = 10'000;

  // An engine, through the proxy or not.
  std::unique_ptr<Store> open(bool is_first) {
    PostgresOptions options = disk.options();
    if (is_first) {
      options.url = "postgresql://locksley@/postgres?host=" + proxy.folder() + "&options=-csearch_path%3D" +
                    disk.name();
      options.patience = std::chrono::seconds(20);
    }
    const Store::Options with{.path = "", .engine = postgres_engine(options), .rows = {.in_group = kInGroup}};
    auto opened = Store::open(with, testing::silent_log());
    if (!opened) throw std::runtime_error(opened.error().what);
    if (is_first) disk.install_faults();
    return std::move(*opened);
  }
  void start() {
    store = open(true);
    ASSERT_TRUE(testing::picture_of(*store).has_value());
    store->start(outcomes.listener());
    put(accept_batch(1, 3));
    EXPECT_EQ(outcomes.await(put(testing::open_batch(2))).error, "");
  }
  Ticket put(StoreWrite write) {
    model.apply(write);
    return store->put(std::move(write), Urgency::kAwaited);
  }
  // So many parts that some are written before and some after what happens.
  static std::vector<std::string> payloads() { return std::vector(60, std::string(1'000, 'x')); }
  static AcceptBatch large_batch() {
    AcceptBatch accept = accept_batch(3, 0);
    accept.row.jobs = payloads().size();
    accept.row.payload_bytes = 60'000;
    accept.payloads = testing::payloads_of(payloads());
    return accept;
  }
  static AddJobs large_add() {
    AddJobs add = testing::add_jobs(2, 0, payloads());
    add.changes.payload_bytes = 60'000;
    return add;
  }
  // Puts them, and lets the fault happen at the second part: the first is there.
  Ticket put_and_break(Fault fault) {
    disk.hold_syncs();
    store->put(large_batch(), Urgency::kAwaited);
    EXPECT_TRUE(disk.await_held());
    const Ticket last = store->put(large_add(), Urgency::kAwaited);
    proxy.set_fault(fault);
    disk.release();
    return last;
  }

  testing::PostgresDisk disk;
  testing::PostgresProxy proxy{testing::postgres_server().socket()};
  testing::Outcomes outcomes;
  testing::StoreModel model;
  std::unique_ptr<Store> store;
};

class LostConnectionTest : public InterruptedPartsTest, public ::testing::WithParamInterface<Fault> {};
INSTANTIATE_TEST_SUITE_P(At, LostConnectionTest,
                         ::testing::Values(Fault::kCutBefore, Fault::kCutAfter, Fault::kDeliverLate));

TEST_P(LostConnectionTest, LeavesAllOfThem) {
  start();
  const Ticket last = put_and_break(GetParam());
  EXPECT_EQ(outcomes.await(last).error, "");
  EXPECT_TRUE(proxy.is_spent());
  model.apply(large_batch());
  model.apply(large_add());
  store->stop();
  store.reset();
  EXPECT_TRUE(is_same(testing::picture_of(*open(false)).value(), model.picture()));
}

TEST_F(InterruptedPartsTest, AfterATakeoverWhatWasNotAcknowledgedIsGoneAndNothingElse) {
  start();
  put_and_break(Fault::kFreeze);
  ASSERT_TRUE(testing::wait_until_true([this] { return proxy.is_frozen(); }));
  EXPECT_GT(count_rows(disk.rows(), 3), 0U) << "the first part";
  auto second = open(false);
  EXPECT_TRUE(is_same(testing::picture_of(*second).value(), model.picture()));
  testing::Outcomes of_second;
  second->start(of_second.listener());
  ChangeBatch restored{.sequence = 2, .changes = {}, .trims_payloads = true};
  model.apply(restored);
  const Ticket ticket = second->put(restored, Urgency::kAwaited);
  EXPECT_EQ(of_second.await(ticket).error, "");
  proxy.thaw();
  store->stop();
  store.reset();
  second->stop();
  second.reset();
  EXPECT_EQ(count_rows(disk.rows(), 3), 0U);
  EXPECT_EQ(count_rows(disk.rows(), 2, "payloads"), 0U);
  EXPECT_TRUE(is_same(testing::picture_of(*open(false)).value(), model.picture()));
}

}  // namespace
}  // namespace locksley::daemon
