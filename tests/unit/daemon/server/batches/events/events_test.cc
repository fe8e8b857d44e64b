#include "daemon/server/batches/events/events.h"
#include "daemon/base/loop/io_thread.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/batch/handler.h"
#include "daemon/base/log/rate_gate.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/payloads/fixed_payloads.h"
#include "daemon/server/records/batch_id.h"

namespace locksley::daemon {
namespace {

class Listener final : public Subscriber {
 public:
  void deliver(const ChannelEvent& event) override {
    heard.push_back("|" + event.channel);
    last = nlohmann::json::parse(*event.message);
    events.push_back(last["event"]);
  }
  void queue_event(const ChannelEvent& event) override { heard.push_back("queued|" + event.channel); }
  void miss_events() override { heard.push_back("misses"); }
  std::vector<std::string> heard;
  nlohmann::json last;
  std::vector<std::string> events;
};

class EventsTest : public ::testing::Test {
 protected:
  static BatchOptions options() {
    BatchOptions options;
    options.id = "b1";
    options.name = "a \"name\"\xff";
    return options;
  }
  void publish(EventKind kind) LOCKSLEY_REQUIRES(kIoThread) {
    events_.publish(record_, kind, record_.status());
  }

  std::vector<std::string> names_ = {"echo"};
  ServerStats stats_{names_};
  Handler handler_{"echo", "", [](JobContext&, std::string_view) {}};
  Lane lane_{"cpu", FairRing::Options{}};
  BatchRecord record_{options(), handler_, std::make_unique<RangedPayloads>(RangeJobs{}),
                      nullptr,   lane_,    BatchRecord::Origin::kSubmit};
  asio::io_context io_;
  Slices slices_{io_.get_executor()};
  Events events_{stats_, slices_};
  Listener listener_;
};

using Heard = std::vector<std::string>;

TEST_F(EventsTest, NobodyListensAtFirst) {
  const ThreadRoleScope io_thread(kIoThread);
  EXPECT_FALSE(events_.has_listener(record_));
  publish(EventKind::kAccepted);
  EXPECT_EQ(stats_.events_published.get(), 0u);
}

TEST_F(EventsTest, DeliversToTheBatchsChannelAndToThatOfAllBatches) {
  const ThreadRoleScope io_thread(kIoThread);
  EXPECT_TRUE(events_.subscribe(listener_, "default", "batch:b1"));
  EXPECT_FALSE(events_.subscribe(listener_, "default", "batch:b1"));
  EXPECT_TRUE(events_.subscribe(listener_, "default", "batches"));
  publish(EventKind::kDone);
  EXPECT_EQ(listener_.heard, (Heard{"|batch:b1", "|batches"}));
}

TEST_F(EventsTest, OtherBatchesAreNotHeard) {
  const ThreadRoleScope io_thread(kIoThread);
  events_.subscribe(listener_, "default", "batch:b2");
  EXPECT_FALSE(events_.has_listener(record_));
  publish(EventKind::kDone);
  EXPECT_TRUE(listener_.heard.empty());
}

TEST_F(EventsTest, AnAudienceHearsOfItsTenantAlone) {
  const ThreadRoleScope io_thread(kIoThread);
  Listener other;
  Listener all;
  events_.subscribe(other, "alice", "batches");
  events_.subscribe_to_all(other, "alice");
  events_.subscribe(other, "alice", "batch:b1");
  EXPECT_FALSE(events_.has_listener(record_));
  publish(EventKind::kAccepted);
  events_.subscribe(all, Events::kEverything, "batches");
  events_.subscribe_to_all(all, Events::kEverything);
  EXPECT_TRUE(events_.has_listener(record_));
  publish(EventKind::kDone);
  EXPECT_TRUE(other.heard.empty());
  EXPECT_EQ(all.heard, (Heard{"queued|batch:b1", "|batches", "queued|batches"}));
}

TEST_F(EventsTest, WhoHasPatternsIsOfferedEachChannelOfAnEvent) {
  const ThreadRoleScope io_thread(kIoThread);
  events_.subscribe_to_all(listener_, "default");
  EXPECT_TRUE(events_.has_listener(record_));
  publish(EventKind::kStarted);
  EXPECT_EQ(listener_.heard, (Heard{"queued|batch:b1", "queued|batches"}));
}

TEST_F(EventsTest, UnsubscribedIsSilent) {
  const ThreadRoleScope io_thread(kIoThread);
  events_.subscribe(listener_, "default", "batches");
  events_.subscribe_to_all(listener_, "default");
  EXPECT_TRUE(events_.unsubscribe(listener_, "default", "batches"));
  EXPECT_FALSE(events_.unsubscribe(listener_, "default", "batches"));
  events_.unsubscribe_from_all(listener_, "default");
  EXPECT_FALSE(events_.has_listener(record_));
  publish(EventKind::kDone);
  EXPECT_TRUE(listener_.heard.empty());
}

TEST_F(EventsTest, VeryManyAreToldAFewAtATimeAndEachInOrder) {
  const ThreadRoleScope io_thread(kIoThread);
  std::vector<Listener> crowd(2 * Events::kAtOnce);
  for (Listener& each : crowd) events_.subscribe(each, "default", "batches");
  events_.subscribe_to_all(listener_, "default");
  publish(EventKind::kStarted);
  publish(EventKind::kDone);
  for (const Listener& each : crowd) EXPECT_TRUE(each.heard.empty()) << "within the call of the publisher";
  io_.run();
  for (const Listener& each : crowd) EXPECT_EQ(each.events, (Heard{"started", "done"}));
  EXPECT_EQ(listener_.heard,
            (Heard{"queued|batch:b1", "queued|batches", "queued|batch:b1", "queued|batches"}));
}

TEST_F(EventsTest, WhoLeavesWhileOthersAreToldIsToldNothing) {
  const ThreadRoleScope io_thread(kIoThread);
  std::vector<Listener> crowd(2 * Events::kAtOnce);
  for (Listener& each : crowd) events_.subscribe(each, "default", "batches");
  publish(EventKind::kStarted);
  for (Listener& each : crowd) events_.unsubscribe(each, "default", "batches");
  io_.run();
  for (const Listener& each : crowd) EXPECT_TRUE(each.heard.empty());
  events_.subscribe(listener_, "default", "batches");
  publish(EventKind::kDone);
  EXPECT_EQ(listener_.events, Heard{"done"});
}

TEST_F(EventsTest, WhereMoreWaitsThanCanBeDeliveredAllSubscribersAreToldSo) {
  const ThreadRoleScope io_thread(kIoThread);
  std::vector<Listener> crowd(2 * Events::kAtOnce);
  for (Listener& each : crowd) events_.subscribe(each, "default", "batches");
  events_.subscribe_to_all(listener_, "default");
  Listener elsewhere;
  events_.subscribe(elsewhere, "alice", "batches");
  for (std::size_t i = 0; i <= Events::kMostWaiting; ++i) publish(EventKind::kProgress);
  Listener late;
  events_.subscribe(late, "default", "batches");
  EXPECT_EQ(late.heard.front(), "misses") << "events are left out until all are told";
  io_.run();
  for (const Listener& each : crowd) EXPECT_EQ(each.heard, Heard{"misses"});
  // The first one had few listeners, and no other event was before it.
  EXPECT_EQ(listener_.heard, (Heard{"queued|batch:b1", "misses"}));
  EXPECT_TRUE(elsewhere.heard.empty());
  publish(EventKind::kDone);
  io_.restart();
  io_.run();
  EXPECT_EQ(listener_.heard, (Heard{"queued|batch:b1", "misses", "queued|batch:b1", "queued|batches"}));
}

TEST_F(EventsTest, WhatWaitsForOwnSubscribersIsChargedToTheTenantAndForThoseOfAllToNone) {
  const ThreadRoleScope io_thread(kIoThread);
  Account all;
  Tenant tenant(0, "default", all);
  record_.charged.tenant = &tenant;
  std::vector<Listener> crowd(2 * Events::kAtOnce);
  for (Listener& each : crowd) events_.subscribe(each, Events::kEverything, "batches");
  publish(EventKind::kStarted);
  EXPECT_EQ(tenant.account.used(Resource::kClientBytes), 0U);
  for (Listener& each : crowd) events_.subscribe(each, "default", "batches");
  publish(EventKind::kDone);
  EXPECT_GT(tenant.account.used(Resource::kClientBytes), 0U);
  io_.run();
  EXPECT_EQ(tenant.account.used(Resource::kClientBytes), 0U);
  EXPECT_EQ(all.used(Resource::kClientBytes), 0U);
  for (const Listener& each : crowd) EXPECT_EQ(each.events.size(), 3U);
  record_.charged.tenant = nullptr;
}

TEST_F(EventsTest, PayloadIsValidJsonWhateverTheNameIs) {
  const ThreadRoleScope io_thread(kIoThread);
  events_.subscribe(listener_, "default", "batches");
  publish(EventKind::kProgress);
  EXPECT_EQ(listener_.last["batch"], "b1");
  EXPECT_EQ(listener_.last["event"], "progress");
  EXPECT_EQ(listener_.last["handler"], "echo");
  EXPECT_EQ(listener_.last["jobs"], 0);
  EXPECT_EQ(listener_.last["retried"], 0);
  EXPECT_EQ(listener_.last["retry_rounds"], 0);
  EXPECT_EQ(listener_.last["name"], "a \"name\"\xEF\xBF\xBD");
}

TEST_F(EventsTest, TheEndOfABatchComesAfterItsAcceptance) {
  const ThreadRoleScope io_thread(kIoThread);
  events_.subscribe(listener_, "default", "batches");
  record_.close();
  events_.publish_end(record_, record_.status());
  EXPECT_EQ(listener_.events, Heard{}) << "the store does not have it yet";
  events_.publish_accepted(record_);
  EXPECT_EQ(listener_.events, (Heard{"accepted", "done"}));
}

TEST_F(EventsTest, TheStartOfABatchComesAfterItsAcceptance) {
  const ThreadRoleScope io_thread(kIoThread);
  events_.subscribe(listener_, "default", "batches");
  events_.publish_started(record_, record_.status(), now());
  record_.close();
  events_.publish_end(record_, record_.status());
  EXPECT_EQ(listener_.events, Heard{}) << "the store does not have it yet";
  events_.publish_accepted(record_);
  EXPECT_EQ(listener_.events, (Heard{"accepted", "started", "done"}));
  events_.publish_started(record_, record_.status(), now());
  EXPECT_EQ(listener_.events.size(), 3u) << "it starts once";
}

TEST_F(EventsTest, AnAcceptedBatchEndsOnce) {
  const ThreadRoleScope io_thread(kIoThread);
  events_.subscribe(listener_, "default", "batches");
  events_.publish_accepted(record_);
  record_.stop("by the test");
  record_.close();
  events_.publish_end(record_, record_.status());
  EXPECT_EQ(listener_.events, (Heard{"accepted", "cancelled"}));
}

TEST(BatchIdsTest, AreShortAndSortByAge) {
  BatchIds ids(1);
  const std::string early = ids.next(1'800'000'000);
  const std::string same_second = ids.next(1'800'000'000);
  const std::string late = ids.next(1'800'000'001);
  EXPECT_EQ(early.size(), 13u);
  EXPECT_NE(early, same_second);
  EXPECT_EQ(early.substr(0, 6), same_second.substr(0, 6));
  EXPECT_LT(std::max(early, same_second), late);
}

TEST(RateGateTest, OpensOnceAPeriodAndCountsWhatItHeldBack) {
  RateGate gate(std::chrono::seconds(60));
  const Instant start{std::chrono::seconds(100)};
  EXPECT_TRUE(gate.open(start));
  EXPECT_EQ(gate.held_back(), 0u);
  EXPECT_FALSE(gate.open(start + std::chrono::seconds(1)));
  EXPECT_FALSE(gate.open(start + std::chrono::seconds(59)));
  EXPECT_TRUE(gate.open(start + std::chrono::seconds(60)));
  EXPECT_EQ(gate.held_back(), 2u);
}

TEST(RateGateTest, MayOpenSeveralTimesAPeriod) {
  RateGate gate(std::chrono::seconds(1), 3);
  const Instant start{std::chrono::seconds(100)};
  int opened = 0;
  for (int i = 0; i < 10; ++i) opened += gate.open(start + std::chrono::milliseconds(i)) ? 1 : 0;
  EXPECT_EQ(opened, 3);
  EXPECT_TRUE(gate.open(start + std::chrono::seconds(1)));
  EXPECT_EQ(gate.held_back(), 7u);
  EXPECT_TRUE(gate.open(start + std::chrono::seconds(1)));
  EXPECT_EQ(gate.held_back(), 0u) << "told once";
}

TEST(ServerStatsTest, KnowsTheCodeThatAnErrorStartsWith) {
  EXPECT_EQ(error_code_of("ERR syntax error"), ErrorCode::kErr);
  EXPECT_EQ(error_code_of("QUEUEFULL limits"), ErrorCode::kQueueFull);
  EXPECT_EQ(error_code_of("DENIED"), ErrorCode::kDenied);
  EXPECT_EQ(error_code_of("WHATEVER x"), ErrorCode::kOther);
  EXPECT_EQ(error_code_of("other x"), ErrorCode::kOther);
}

TEST(ServerStatsTest, KnowsWhoseLimitIsReached) {
  EXPECT_EQ(full_limit_of("QUEUEFULL limits.max_queued_jobs is 3, and 3 are in use"), FullLimit::kAll);
  EXPECT_EQ(full_limit_of("QUEUEFULL store.max_bytes is 3, and 3 are in use"), FullLimit::kAll);
  EXPECT_EQ(full_limit_of("QUEUEFULL users.bob.max_batches is 3, and 3 are in use"), FullLimit::kUser);
  EXPECT_EQ(full_limit_of("QUEUEFULL limits.max_customers is 3, and so many"), FullLimit::kUser);
  EXPECT_EQ(full_limit_of("QUEUEFULL MAXJOBS of the customer 'acme' is 2"), FullLimit::kCustomer);
  EXPECT_EQ(full_limit_of("QUEUEFULL"), FullLimit::kAll);
}

}  // namespace
}  // namespace locksley::daemon
