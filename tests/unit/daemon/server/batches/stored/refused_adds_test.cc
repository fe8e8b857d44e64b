// What the I/O thread does with an outcome of the store: jobs that the disk refuses while more jobs
// are added to the same batch; very many batches in one group.
#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/lane/lane_view.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/processor_time.h"
#include "tests/support/stored_batches_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::StartsWith;

class RefusedAddsTest : public testing::StoredBatchesFixture {
 protected:
  // A batch of one job.
  auto submit() LOCKSLEY_REQUIRES(kIoThread) {
    const proto::SubmitCommand command{
        .handler = "echo", .options = {}, .source = proto::RangeSource{0, 1, {}}};
    return batches_->intake().submit(*user_, command, {}, BatchRecord::Origin::kSubmit).value();
  }
  // The processor time of the longest stretch of the I/O thread until this ticket is settled.
  Nanoseconds longest_stretch_until(Ticket ticket) {
    Nanoseconds longest{};
    EXPECT_TRUE(testing::wait_until_true([&] {
      kIoThread.assert_held();
      const Nanoseconds began = processor_time();
      io_.restart();
      io_.poll_one();
      longest = std::max(longest, processor_time() - began);
      return batches_->is_settled(ticket);
    }));
    return longest;
  }
  // A write fails, and the disk works again; the I/O thread has heard of neither.
  void refuse(BatchRecord& record, const std::vector<std::string_view>& jobs) LOCKSLEY_REQUIRES(kIoThread) {
    // The count, since the error is there for a second only.
    const std::uint64_t errors = store_->stats().errors;
    bench_.disk->fail_next_sync();
    add(record, jobs);
    EXPECT_TRUE(testing::wait_until_true([&] { return store_->stats().errors > errors; }));
    EXPECT_TRUE(testing::wait_until_true([&] { return store_->error().empty(); }));
  }
};

TEST_F(RefusedAddsTest, NothingIsAddedBeforeTheRefusedJobsHaveGone) {
  const ThreadRoleScope io_thread(kIoThread);
  BatchRecord& record = open();
  EXPECT_EQ(add(record, {"first"}), "1");
  settle(record);
  refuse(record, {"refused 1", "refused 2"});
  EXPECT_THAT(add(record, {"a", "b", "c"}), StartsWith("STORE "));
  hear_outcomes();
  EXPECT_EQ(add(record, {"a", "b", "c"}), "4");
  settle(record);
  EXPECT_THAT(payloads(record), ElementsAre("first", "a", "b", "c"));
}

// Memory has no room for them, so that they are charged to nothing else until the disk has them.
TEST_F(RefusedAddsTest, PayloadsThatWaitForTheDiskAreBounded) {
  const ThreadRoleScope io_thread(kIoThread);
  Tenants& tenants = batches_->registry().tenants();
  Account& all = tenants.account_of_all();
  Account& alice = tenants.of("default").account;
  BatchRecord& record = open();
  const User bob(tenants.of("bob"));
  const auto of_bob = batches_->intake().open(bob, {.handler = "echo", .options = {}}, 2);
  ASSERT_TRUE(of_bob.has_value());
  settle(**of_bob);
  for (const char* name : {"default", "bob"}) {
    tenants.of(name).account.set_limit(Resource::kQueuedBytes, 1);
    tenants.of(name).account.set_limit(Resource::kUnsettledBytes, Account::kNoLimit,
                                       Account::Kind::kLeavesRoom);
  }
  all.set_limit(Resource::kUnsettledBytes, 100'000);
  const std::string large(200'000, 'x');
  const std::string small(10'000, 'x');

  EXPECT_EQ(add(record, {large}), "1") << "one command, whatever its size";
  EXPECT_GE(alice.used(Resource::kUnsettledBytes), large.size());
  EXPECT_THAT(add(record, {small}), StartsWith("QUEUEFULL users.default.max_queued_bytes is 1, and 2"));
  EXPECT_THAT(add(**of_bob, {small}), StartsWith("QUEUEFULL")) << "all have too many";
  settle(record);
  EXPECT_EQ(all.used(Resource::kUnsettledBytes), 0U);

  EXPECT_EQ(add(record, {small, small, small, small}), "5");
  EXPECT_THAT(add(record, {small, small}), StartsWith("QUEUEFULL")) << "no more than it leaves free";
  EXPECT_EQ(add(**of_bob, {small, small}), "2");
  settle(**of_bob);
  EXPECT_EQ(add(record, {small}), "6");
  settle(record);
}

TEST_F(RefusedAddsTest, AUserIsChargedForItsWritesUntilTheyHaveTheirOutcome) {
  const ThreadRoleScope io_thread(kIoThread);
  Account& alice = batches_->registry().tenants().of("default").account;
  BatchRecord& record = open();
  settle(record);
  EXPECT_EQ(alice.used(Resource::kWriteBytes), 0U);
  EXPECT_EQ(add(record, {std::string(200'000, 'x')}), "1");
  EXPECT_GE(alice.used(Resource::kWriteBytes), 200'000U);
  settle(record);
  EXPECT_EQ(alice.used(Resource::kWriteBytes), 0U);
  refuse(record, {"refused"});
  hear_outcomes();
  EXPECT_EQ(alice.used(Resource::kWriteBytes), kCostOfWrite)
      << "a refusal is an outcome; it is undone by a write";
  settle(record);
  EXPECT_EQ(alice.used(Resource::kWriteBytes), 0U);
}

TEST_F(RefusedAddsTest, TheUserWhoseCommandItIsIsChargedForWritesToABatchOfAnother) {
  const ThreadRoleScope io_thread(kIoThread);
  Account& admin = batches_->registry().tenants().of("admin").account;
  BatchRecord& record = open();
  std::uint64_t paid = 0;
  const auto pays = [&] {
    kIoThread.assert_held();
    settle(record);
    EXPECT_EQ(admin.used(Resource::kWriteBytes), 0U);
    return std::exchange(paid, 0);
  };
  const auto charge_of = [&](auto write) {
    write();
    paid = admin.used(Resource::kWriteBytes);
    EXPECT_EQ(payer().used(Resource::kWriteBytes), 0U);
    return pays();
  };
  BatchChanges& changes = batches_->changes();
  EXPECT_GT(charge_of([&] {
              kIoThread.assert_held();
              const std::vector<std::string_view> job = {"job"};
              EXPECT_TRUE(batches_->intake().add(record, admin, proto::ArgumentList::copy_of(job), 1));
            }),
            kCostOfWrite);
  EXPECT_EQ(charge_of([&] {
              kIoThread.assert_held();
              changes.pause(record, admin);
            }),
            kCostOfWrite);
  EXPECT_EQ(charge_of([&] {
              kIoThread.assert_held();
              changes.close(record, admin);
            }),
            kCostOfWrite);
  EXPECT_EQ(charge_of([&] {
              kIoThread.assert_held();
              changes.cancel(record, admin, "the test has seen enough");
            }),
            kCostOfWrite);
}

TEST_F(RefusedAddsTest, AddatAfterARefusedOneDoesNotTakeItsPlace) {
  const ThreadRoleScope io_thread(kIoThread);
  BatchRecord& record = open();
  refuse(record, {"refused"});
  hear_outcomes();
  EXPECT_EQ(add(record, {"second"}, 1), "OFFSET the batch has 0 jobs");
  EXPECT_EQ(add(record, {"first", "second"}, 0), "2");
  EXPECT_EQ(add(record, {"second"}, 1), "2") << "it is there";
  settle(record);
  EXPECT_THAT(payloads(record), ElementsAre("first", "second"));
}

// Else a client that repeats a refused command fills its own quota with nothing, and evicts results
// for it.
TEST_F(RefusedAddsTest, RefusedJobsAreChargedToNothing) {
  const ThreadRoleScope io_thread(kIoThread);
  Account& account = batches_->registry().tenants().account_of_all();
  BatchRecord& record = open();
  add(record, {"kept"});
  settle(record);
  const auto used = [&] {
    return std::vector{account.used(Resource::kStoredBytes), account.used(Resource::kPayloadBytes),
                       account.used(Resource::kUnsettledBytes), account.used(Resource::kQueuedBytes)};
  };
  const auto before = used();
  const std::string large(100'000, 'x');
  refuse(record, {large});
  EXPECT_GE(account.used(Resource::kStoredBytes), before[0] + large.size());
  hear_outcomes();
  EXPECT_EQ(used(), before);
}

TEST_F(RefusedAddsTest, ARepeatedDeletionOfACustomerFailsWhileTheDiskDoes) {
  const ThreadRoleScope io_thread(kIoThread);
  open();
  Tenant& user = batches_->registry().tenants().of("default");
  proto::CustomerSettings settings;
  settings.weight = 7;
  const auto set = batches_->customers().set(user, "acme", user.account, settings);
  ASSERT_TRUE(set.has_value());
  bench_.disk->fail_syncs();
  EXPECT_TRUE(batches_->customers().remove(user, "acme", user.account).value().had_settings);
  EXPECT_TRUE(testing::wait_until_true([&] { return !store_->error().empty(); }));
  EXPECT_THAT(batches_->customers().remove(user, "acme", user.account).error(), StartsWith("STORE "));
  bench_.disk->heal();
  EXPECT_TRUE(testing::wait_until_true([&] { return store_->error().empty(); }));
  EXPECT_FALSE(batches_->customers().remove(user, "acme", user.account).value().had_settings);
}

// The batch may be back after a crash.
TEST_F(RefusedAddsTest, ARepeatedForgetFailsWhileTheDiskDoes) {
  const ThreadRoleScope io_thread(kIoThread);
  EXPECT_EQ(batches_->forget_nothing(), 0U) << "none is under way";
  for (const bool fails : {false, true}) {
    BatchRecord& record = open();
    batches_->changes().close(record, payer());
    settle(record);
    if (fails) bench_.disk->fail_syncs();
    const auto ticket = batches_->forget(record, *user_);
    ASSERT_TRUE(ticket.has_value());
    EXPECT_EQ(batches_->forget_nothing(), *ticket) << "the reply waits for the one that is under way";
    settle(*ticket);
    EXPECT_EQ(batches_->forget_nothing().has_value(), !fails);
  }
  EXPECT_THAT(batches_->forget_nothing().error(), StartsWith("STORE "));
  bench_.disk->heal();
  EXPECT_TRUE(testing::wait_until_true([&] { return store_->error().empty(); }));
  EXPECT_TRUE(batches_->forget_nothing().has_value());
}

// A client that got an error repeats the command: it must not be told that the change is on the
// disk.
TEST_F(RefusedAddsTest, AChangeThatTheDiskDidNotTakeIsWrittenAgainIfItIsRepeated) {
  const ThreadRoleScope io_thread(kIoThread);
  BatchRecord& record = open();
  bench_.disk->fail_syncs();
  for (int i = 0; i < 2; ++i) {
    batches_->changes().close(record, payer());
    const Ticket ticket = batches_->changes().ticket(record, payer());
    EXPECT_FALSE(batches_->is_settled(ticket)) << "the reply waits for an outcome of its own";
    EXPECT_EQ(batches_->changes().ticket(record, payer()), ticket) << "it is written once";
    settle(record);
    EXPECT_FALSE(store_->is_written(ticket));
  }
  bench_.disk->heal();
  EXPECT_TRUE(testing::wait_until_true([&] { return store_->error().empty(); }));
  open();  // its outcome comes after that of what was refused
  batches_->changes().close(record, payer());
  EXPECT_TRUE(batches_->is_settled(batches_->changes().ticket(record, payer())));
  EXPECT_TRUE(store_->is_written(record.stored.ticket));
}

// The store may refuse the jobs, and take the changes: a reply that says which jobs there are waits
// for the jobs.
TEST_F(RefusedAddsTest, AChangeAfterJobsLeavesTheTicketOfTheJobs) {
  const ThreadRoleScope io_thread(kIoThread);
  BatchRecord& record = open();
  const Ticket accepted = record.stored.jobs_ticket;
  EXPECT_EQ(accepted, record.stored.ticket);
  add(record, {"a"});
  const Ticket added = record.stored.jobs_ticket;
  EXPECT_GT(added, accepted);
  EXPECT_EQ(added, record.stored.ticket);
  settle(record);
  batches_->changes().pause(record, payer());
  batches_->changes().close(record, payer());
  EXPECT_GT(record.stored.ticket, added);
  EXPECT_EQ(record.stored.jobs_ticket, added);
  settle(record);
}

// As many come into one group as clients submit while a slow disk syncs the one before.
TEST_F(RefusedAddsTest, AGroupOfVeryManyBatchesIsSettledAFewAtATimeAndInOrder) {
  constexpr std::uint64_t kMany = 50'000;
  constexpr std::chrono::milliseconds kLongest{8};
  const ThreadRoleScope io_thread(kIoThread);
  open();
  std::vector<Ticket> outcomes;
  batches_->on_stored([&outcomes, again = false](const Outcome& outcome, Instant) mutable {
    if (std::exchange(again, !again)) outcomes.push_back(outcome.up_to);
    return !again;  // each outcome in two calls
  });
  // Under load a stretch may take longer than it needs: one of three rounds is enough.
  Nanoseconds longest = Nanoseconds::max();
  std::uint64_t rounds = 0;
  for (; rounds < 3 && longest >= kLongest; ++rounds) {
    outcomes.clear();
    bench_.disk->hold_syncs();
    const auto before = submit();
    ASSERT_TRUE(bench_.disk->await_held());
    auto last = submit();
    for (std::uint64_t i = 0; i < kMany; ++i) last = submit();
    bench_.disk->release();
    const Ticket ticket = last->stored.ticket;
    ASSERT_TRUE(testing::wait_until_true([&] { return store_->is_written(ticket); }));
    const auto after = submit();  // its outcome may come while the others are settled
    longest = longest_stretch_until(after->stored.ticket);
    EXPECT_TRUE(std::ranges::is_sorted(outcomes));
    EXPECT_EQ(outcomes.front(), before->stored.ticket);
    EXPECT_EQ(outcomes.back(), after->stored.ticket);
  }
  EXPECT_LT(longest, kLongest) << "of 500 us";
  EXPECT_EQ(lane_.view().snapshot(0).queued, rounds * (kMany + 3));
}

TEST_F(RefusedAddsTest, TheEndOfADrainLooksAtVeryManyBatchesAFewAtATime) {
  constexpr int kMany = 500;
  const ThreadRoleScope io_thread(kIoThread);
  open();
  std::shared_ptr<BatchRecord> last;
  for (int i = 0; i < kMany; ++i)
    last = batches_->intake().open(*user_, {.handler = "echo", .options = {}}, 1).value();
  settle(*last);
  bool is_idle = false;
  batches_->drain([&] { is_idle = true; });
  EXPECT_FALSE(is_idle) << "all open batches in one piece";
  EXPECT_TRUE(testing::wait_until_true([&] {
    hear_outcomes();
    return is_idle;
  }));
}

// A connection that takes long for each message.
struct SlowListener final : Subscriber {
  void deliver(const ChannelEvent&) override {
    ++delivered;
    for (const Nanoseconds began = processor_time();
         processor_time() - began < std::chrono::microseconds(50);) {
    }
  }
  void queue_event(const ChannelEvent&) override {}
  void miss_events() override {}
  int delivered = 0;
};

TEST_F(RefusedAddsTest, TheEventsOfAGroupOfManyBatchesAreDeliveredAFewAtATime) {
  constexpr int kMany = 400;
  const ThreadRoleScope io_thread(kIoThread);
  open();
  std::vector<SlowListener> listeners(Events::kAtOnce);
  for (SlowListener& each : listeners) batches_->events().subscribe(each, Events::kEverything, "batches");
  bench_.disk->hold_syncs();
  submit();
  ASSERT_TRUE(bench_.disk->await_held());
  auto last = submit();
  for (int i = 1; i < kMany; ++i) last = submit();
  bench_.disk->release();
  const Ticket ticket = last->stored.ticket;
  ASSERT_TRUE(testing::wait_until_true([&] { return store_->is_written(ticket); }));
  const Nanoseconds longest = longest_stretch_until(ticket);
  EXPECT_EQ(listeners.front().delivered, kMany + 1);
  EXPECT_LT(longest, std::chrono::milliseconds(16)) << "of 800 us for the events of each batch";
  for (SlowListener& each : listeners) batches_->events().unsubscribe(each, Events::kEverything, "batches");
}

}  // namespace
}  // namespace locksley::daemon
