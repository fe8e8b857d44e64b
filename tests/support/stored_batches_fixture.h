// Batches with a store on a disk that can be made to fail, but without a server: the test's thread
// plays the I/O thread, which learns of an outcome of the store when the test lets it. No job runs.
#pragma once

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/lane/lane.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/server/batches/batches.h"
#include "tests/support/store_fixture.h"

namespace locksley::testing {

class StoredBatchesFixture : public ::testing::Test {
 protected:
  StoredBatchesFixture() {
    handlers_.add({.handler = handler_, .lane = lane_, .kind = daemon::HandlerKind::kBuiltin});
  }
  ~StoredBatchesFixture() override {
    store_->stop();
    lane_.detach_all();
  }
  // After the constructor of a test's own fixture, which may change bench_.
  void SetUp() override {
    store_ = std::move(daemon::Store::open(bench_.options(), silent_log()).value());
    batches_.emplace(daemon::Batches::Parts{.io = io_,
                                            .slices = slices_,
                                            .config = config_,
                                            .handlers = handlers_,
                                            .tenants = tenants_,
                                            .stats = stats_,
                                            .store = store_.get(),
                                            .log = silent_log()});
    const ThreadRoleScope io_thread(daemon::kIoThread);
    user_.emplace(batches_->registry().tenants().of("default"));
    ASSERT_TRUE(batches_->restore_all().has_value());
  }

  // An open batch, which is on the disk.
  daemon::BatchRecord& open() LOCKSLEY_REQUIRES(daemon::kIoThread) {
    const auto opened = batches_->intake().open(*user_, {.handler = "echo", .options = {}}, 1);
    EXPECT_TRUE(opened.has_value());
    settle(**opened);
    return **opened;
  }
  // How many jobs the batch has then, or the error.
  std::string add(daemon::BatchRecord& record, const std::vector<std::string_view>& payloads,
                  std::optional<std::uint64_t> at = {}) LOCKSLEY_REQUIRES(daemon::kIoThread) {
    const auto count = batches_->intake().add(record, payer(), proto::ArgumentList::copy_of(payloads), 1, at);
    return count ? std::to_string(*count) : count.error();
  }
  // The account of the user whose commands they are.
  daemon::Account& payer() { return user_->tenant().account; }
  std::vector<std::string> payloads(daemon::BatchRecord& record) LOCKSLEY_REQUIRES(daemon::kIoThread) {
    std::vector<std::string_view> views(record.terms.jobs);
    std::string scratch;
    EXPECT_EQ(record.payloads().fetch(0, views, scratch), views.size());
    return {views.begin(), views.end()};
  }

  // Acts on all outcomes that have come.
  void hear_outcomes() {
    io_.restart();
    io_.poll();
  }
  void settle(const daemon::BatchRecord& record) LOCKSLEY_REQUIRES(daemon::kIoThread) {
    EXPECT_TRUE(wait_until_true([&] {
      daemon::kIoThread.assert_held();
      hear_outcomes();
      return batches_->is_settled(record.stored.ticket);
    }));
  }
  // Acts on no more outcomes than are needed for it.
  void settle(daemon::Ticket ticket) LOCKSLEY_REQUIRES(daemon::kIoThread) {
    EXPECT_TRUE(wait_until_true([&] {
      daemon::kIoThread.assert_held();
      io_.restart();
      if (!batches_->is_settled(ticket)) io_.poll_one();
      return batches_->is_settled(ticket);
    }));
  }

  StoreBench bench_;
  std::vector<std::string> names_ = {"echo"};
  config::Config config_;
  daemon::ServerStats stats_{names_};
  Handler handler_{"echo", "", [](JobContext&, std::string_view) {}};
  Lane lane_{"cpu", FairRing::Options{}};
  daemon::HandlerDirectory handlers_;
  daemon::Tenants tenants_;
  asio::io_context io_{1};
  daemon::Slices slices_{io_.get_executor()};
  std::unique_ptr<daemon::Store> store_;
  std::optional<daemon::Batches> batches_;
  std::optional<daemon::User> user_;
};

}  // namespace locksley::testing
