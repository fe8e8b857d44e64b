// What is charged for a command that is admitted, and refunded when it is refused later.
#include "daemon/server/batches/intake/admission.h"
#include "daemon/base/loop/io_thread.h"

#include <gmock/gmock.h>

#include <cstddef>
#include <cstdint>
#include <future>
#include <initializer_list>
#include <string>
#include <thread>

#include "daemon/base/loop/io_mailbox.h"
#include "daemon/server/batches/changes/result_relief.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::StartsWith;

class AdmissionTest : public ServerFixture {
 protected:
  // What the one user, and the daemon, are charged.
  struct Charged {
    std::uint64_t jobs, payload_bytes, batches, all_jobs, memory_bytes;
    bool operator==(const Charged&) const = default;
  };
  Charged charged() {
    return on_io_thread([&] {
      kIoThread.assert_held();
      Registry& registry = server_->batches().registry();
      const Tenant& tenant = registry.tenants().of("default");
      const Account& all = registry.tenants().account_of_all();
      return Charged{.jobs = tenant.account.used(Resource::kQueuedJobs),
                     .payload_bytes = tenant.account.used(Resource::kPayloadBytes),
                     .batches = tenant.account.used(Resource::kBatches),
                     .all_jobs = registry.charges().queued_jobs(),
                     .memory_bytes = all.used(Resource::kQueuedBytes)};
    });
  }
  static constexpr Charged kNothing{};
  // The words as a command; a line of text may not be so long.
  static std::string command(std::initializer_list<std::string> words) {
    std::string text = "*" + std::to_string(words.size());
    for (const std::string& word : words) text += "\r\n$" + std::to_string(word.size()) + "\r\n" + word;
    return text;
  }
  // The job of the batch runs: it has one of the two workers.
  void wait_until_held(const std::string& id) {
    const auto is_running = [&] {
      kIoThread.assert_held();
      return server_->batches().registry().find_in_memory(tenants_.of("default"), id)->status().running == 1;
    };
    while (!on_io_thread(is_running)) std::this_thread::yield();
  }
};

TEST_F(AdmissionTest, ACommandThatIsRefusedAfterItsAdmissionIsRefunded) {
  start();
  Client client(port_);
  for (const std::string command :
       {"SUBMIT echo AFTER unknown JOBS x yy", "SUBMIT echo AFTEROK unknown RANGE 0 9",
        "RUN echo AFTER unknown JOBS x", "OPEN echo AFTER unknown"}) {
    EXPECT_THAT(client.ask(command), StartsWith("-NOBATCH")) << command;
    EXPECT_EQ(charged(), kNothing) << command;
  }
}

// Bob's batch had to stay while carol, who is heavier, had an unfinished job. Nothing has made the
// daemon look for room since, and the refused command of another user must not either.
TEST_F(AdmissionTest, ARefusalForFailuresEvictsNoBatch) {
  start([](config::Config& config) { config.limits.max_result_bytes.count = 1U << 30; });
  const auto with_users = [&](auto act) {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return act(tenants_.of("bob"), tenants_.of("carol").account, tenants_.of("default").account);
    });
  };
  const auto bobs_batch = [&](Tenant& bob) {
    kIoThread.assert_held();
    return server_->batches().registry().find_in_memory(bob, "b");
  };
  const std::uint64_t most = with_users([](Tenant& bob, Account&, Account&) {
    kIoThread.assert_held();
    return bob.account.parent()->failures().limit();
  });
  with_users([&](Tenant& bob, Account&, Account&) {
    kIoThread.assert_held();
    const User user(bob);
    proto::SubmitCommand command{.handler = "fail", .options = {}, .source = proto::RangeSource{0, 100, {}}};
    command.options.id = "b";
    return server_->batches().intake().submit(user, command, {}, BatchRecord::Origin::kSubmit).has_value();
  });
  const auto is_over = [&](Tenant& bob, Account&, Account&) {
    kIoThread.assert_held();
    return !bobs_batch(bob)->is_active && bob.account.failures().bytes() != 0;
  };
  while (!with_users(is_over)) std::this_thread::yield();
  with_users([&](Tenant&, Account& carol, Account& own) {
    kIoThread.assert_held();
    carol.charge(Resource::kQueuedJobs, 1);
    own.failures().charge(most / 4);
    carol.failures().charge(most);
    return true;
  });
  std::promise<void> has_looked;  // for room, as the account of all is full
  IoMailbox::of(io_).post([&] { has_looked.set_value(); });
  has_looked.get_future().wait();
  with_users([](Tenant&, Account& carol, Account&) {
    kIoThread.assert_held();
    carol.refund(Resource::kQueuedJobs, 1);
    return true;
  });
  EXPECT_THAT(Client(port_).ask("SUBMIT echo JOBS x"), StartsWith("-QUEUEFULL"));
  std::this_thread::sleep_for(3 * ResultRelief::kSoon);
  EXPECT_TRUE(with_users([&](Tenant& bob, Account& carol, Account& own) {
    kIoThread.assert_held();
    own.failures().refund(most / 4);
    carol.failures().refund(most);
    return bobs_batch(bob) != nullptr;
  }));
}

TEST_F(AdmissionTest, ARangeWithoutJobsHasNoPayloadThatIsTooLong) {
  start([](config::Config& config) { config.limits.max_payload = config::Bytes{3}; });
  Client client(port_);
  EXPECT_THAT(client.ask("SUBMIT echo RANGE 5 6 abcd{}"), StartsWith("-TOOBIG bytes of a payload: 5"));
  client.send("SUBMIT echo ID a RANGE 5 5 abcd{}\r\n");
  EXPECT_EQ(client.bulk(), "a");
  client.send("SUBMIT echo ID b RANGE -9223372036854775808 -9223372036854775808 abcd{}\r\n");
  EXPECT_EQ(client.bulk(), "b");
}

// They need no room; what has no store must not look for them there.
TEST_F(AdmissionTest, EmptyPayloadsOfABatchInMemoryAloneFitAboveTheLimit) {
  start();
  constexpr std::uint64_t kTooMuch = 1ULL << 60;
  on_io_thread([&] {
    kIoThread.assert_held();
    server_->batches().registry().tenants().of("default").account.charge(Resource::kQueuedBytes, kTooMuch);
    return true;
  });
  Client client(port_);
  EXPECT_THAT(client.ask("SUBMIT echo JOBS x"), StartsWith("-QUEUEFULL"));
  client.send("SUBMIT echo ID submitted JOBS '' ''\r\n");
  EXPECT_EQ(client.bulk(), "submitted");
  client.send("OPEN echo ID open\r\n");
  EXPECT_EQ(client.bulk(), "open");
  EXPECT_EQ(client.ask("ADD open '' ''"), ":2");
  EXPECT_EQ(client.ask("CLOSE open"), ":2");
  client.send("WAIT submitted\r\n");
  EXPECT_THAT(client.line(), StartsWith("*"));
  Client other(port_);
  other.send("WAIT open\r\n");
  EXPECT_THAT(other.line(), StartsWith("*"));
  on_io_thread([&] {
    kIoThread.assert_held();
    server_->batches().registry().tenants().of("default").account.refund(Resource::kQueuedBytes, kTooMuch);
    return true;
  });
}

TEST_F(AdmissionTest, ABatchBearsTheChargeUntilItsEnd) {
  start();
  Client client(port_);
  client.send("SUBMIT hold ID b JOBS x yy zzz\r\n");
  EXPECT_EQ(client.bulk(), "b");
  const Charged during = charged();
  EXPECT_EQ(during.jobs, 3u);
  EXPECT_EQ(during.payload_bytes, 6u);
  EXPECT_EQ(during.batches, 1u);
  EXPECT_EQ(during.all_jobs, 3u);
  EXPECT_GE(during.memory_bytes, 6u);
  client.ask("CANCEL b");
  EXPECT_THAT(client.ask("WAIT b"), StartsWith("*"));
  EXPECT_EQ(charged(), kNothing);
}

// There is no store, and the memory has room for the payloads of three batches.
class KeptForRetryTest : public AdmissionTest {
 protected:
  static constexpr std::size_t kEach = 300 * 1024;
  KeptForRetryTest() {
    start([](config::Config& config) {
      config.limits.max_queued_bytes = config::Limit{.count = 1024 * 1024, .is_auto = false};
      config.limits.max_payload = config::Bytes{512 * 1024};
    });
  }
  static std::string submit(const std::string& handler, const std::string& id) {
    return command({"SUBMIT", handler, "ID", id, "JOBS", std::string(kEach, 'x')});
  }
  // A batch with a failed job, which keeps its payload.
  void fail(Client& client, const std::string& id) {
    client.send(submit("fail", id) + "\r\n");
    ASSERT_EQ(client.bulk(), id);
    ASSERT_THAT(Client(port_).ask("WAIT " + id), StartsWith("*"));
  }
};

TEST_F(KeptForRetryTest, PayloadsOfFinishedBatchesMakeRoomTheOldestFirst) {
  Client client(port_);
  for (const std::string id : {"a", "b", "c", "d", "e"}) fail(client, id);
  EXPECT_THAT(client.ask("RETRY a"), StartsWith("-ERR the payloads of the batch 'a'"));
  EXPECT_THAT(client.ask("RETRY b 0"), StartsWith("-ERR the payloads of the batch 'b'"));
  EXPECT_EQ(client.ask("RETRY a ROUND 7"), ":0") << "of another round";
  EXPECT_EQ(client.ask("RETRY c"), ":1");
  EXPECT_THAT(Client(port_).ask("WAIT c"), StartsWith("*"));
  // All is there but the payload.
  EXPECT_THAT(client.ask(submit("fail", "a")), StartsWith("$1")) << "a repetition";
  EXPECT_EQ(client.line(), "a");
  for (const std::string id : {"a", "b", "c", "d", "e"}) EXPECT_EQ(client.ask("FORGET " + id), ":1") << id;
  EXPECT_EQ(charged(), kNothing);
}

TEST_F(KeptForRetryTest, PayloadsOfBatchesThatRunAgainMakeNone) {
  Client client(port_);
  fail(client, "kept");
  for (const std::string id : {"h1", "h2"}) {
    client.send(submit("hold", id) + "\r\n");
    ASSERT_EQ(client.bulk(), id);
    wait_until_held(id);
  }
  EXPECT_EQ(client.ask("RETRY kept"), ":1") << "it waits behind those that hold the workers";
  EXPECT_THAT(client.ask(submit("echo", "refused")), StartsWith("-QUEUEFULL limits.max_queued_bytes"));
  client.ask("CANCEL h1");
  EXPECT_THAT(Client(port_).ask("WAIT kept"), StartsWith("*"));
  client.send(submit("hold", "h3") + "\r\n");
  ASSERT_EQ(client.bulk(), "h3");
  client.send(submit("hold", "h4") + "\r\n");
  ASSERT_EQ(client.bulk(), "h4") << "it is over, and makes room again";
  EXPECT_THAT(client.ask("RETRY kept"), StartsWith("-ERR the payloads"));
}

TEST_F(KeptForRetryTest, ACommandThatIsRefusedTakesNoPayloads) {
  Client client(port_);
  for (const std::string id : {"a", "b", "c"}) fail(client, id);
  EXPECT_THAT(client.ask(command({"SUBMIT", "echo", "AFTER", "unknown", "JOBS", std::string(kEach, 'x')})),
              StartsWith("-NOBATCH"));
  EXPECT_EQ(client.ask("RETRY a"), ":1");
}

TEST_F(KeptForRetryTest, JobsThatNeedNoRoomTakeNoPayloads) {
  Client client(port_);
  fail(client, "kept");
  constexpr std::uint64_t kTooMuch = 1ULL << 30;
  const auto account = [this]() -> Account& {
    kIoThread.assert_held();
    return tenants_.of("default").account;
  };
  on_io_thread([&] {
    kIoThread.assert_held();
    account().charge(Resource::kQueuedBytes, kTooMuch);
    return true;
  });
  client.send("SUBMIT echo ID empty RANGE 0 1\r\n");
  EXPECT_EQ(client.bulk(), "empty");
  on_io_thread([&] {
    kIoThread.assert_held();
    account().refund(Resource::kQueuedBytes, kTooMuch);
    return true;
  });
  EXPECT_EQ(client.ask("RETRY kept"), ":1");
}

TEST_F(KeptForRetryTest, StreamsMakeRoomAndUseIt) {
  Client client(port_);
  client.send("OPEN fail ID stream\r\n");
  ASSERT_EQ(client.bulk(), "stream");
  for (int i = 0; i < 3; ++i) {
    ASSERT_THAT(client.ask(command({"ADD", "stream", std::string(kEach, 'x')})), StartsWith(":"));
  }
  EXPECT_EQ(client.ask("CLOSE stream"), ":3");
  ASSERT_THAT(Client(port_).ask("WAIT stream"), StartsWith("*"));
  client.send("OPEN echo ID next\r\n");
  ASSERT_EQ(client.bulk(), "next");
  EXPECT_EQ(client.ask(command({"ADD", "next", std::string(kEach, 'x')})), ":1");
  EXPECT_THAT(client.ask("RETRY stream"), StartsWith("-ERR the payloads of the batch 'stream'"));
}

}  // namespace
}  // namespace locksley::daemon
