// A connection whose user has too much pending in the store executes no further command that
// writes.
#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "daemon/server/batches/stored/write_charges.h"
#include "daemon/server/session/session.h"
#include "proto/command_table.h"
#include "tests/support/server_fixture.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using proto::CommandId;
using testing::wait_until_true;

constexpr std::size_t kPayload = 1U << 20;
constexpr std::uint64_t kFit = WriteCharges::kMostPending / kPayload;  // commands with one such payload
constexpr std::uint64_t kSent = 3 * kFit;

class WriteRoomTest : public ServerFixture {
 protected:
  WriteRoomTest() {
    opened_ = std::move(Store::open(bench_.options(), testing::silent_log()).value());
    store_ = opened_.get();
    handlers_.add({.handler = fail_odd_, .lane = lane_, .kind = HandlerKind::kBuiltin});
    start([](config::Config& config) {
      for (const char* name : {"alice", "mallory"}) {
        config.users[name].certificate = name;
      }
      config.users["admin"].certificate = "admin";
      config.users["admin"].commands = {config::CommandGroup::kAdmin, config::CommandGroup::kSubmit,
                                        config::CommandGroup::kControl, config::CommandGroup::kRead};
    });
  }
  ~WriteRoomTest() override {
    bench_.disk->release();
    stop();
    opened_->stop();
    server_.reset();
  }

  // The connection that was accepted as the n-th, from 1.
  void log_in(Client& client, std::uint64_t connection, const std::string& user) {
    client.ask("PING");  // it is accepted now
    EXPECT_TRUE(on_io_thread([&] {
      kIoThread.assert_held();
      return server_->session(connection)->login().log_in_by_certificate(user);
    })) << user;
  }
  std::uint64_t executed(CommandId id) {
    return on_io_thread(
        [&] { return server_->state().stats().commands[static_cast<std::size_t>(id)].get(); });
  }
  std::uint64_t input_bytes(const std::string& user) {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return server_->batches().registry().tenants().of(user).account.used(Resource::kInputBytes);
    });
  }
  static std::string submit() {
    return "*4\r\n$6\r\nSUBMIT\r\n$4\r\necho\r\n$4\r\nJOBS\r\n$" + std::to_string(kPayload) + "\r\n" +
           std::string(kPayload, 'x') + "\r\n";
  }
  // Sends the commands until the connection ends.
  static std::jthread sending(Client& client, std::string commands) {
    return std::jthread([&client, all = std::move(commands)] {
      std::string_view left = all;
      for (ssize_t sent = 1; sent > 0 && !left.empty();) {
        sent = client.try_send(left);
        if (sent > 0) left.remove_prefix(static_cast<std::size_t>(sent));
      }
    });
  }
  static std::string submits() {
    std::string all;
    for (std::uint64_t i = 0; i < kSent; ++i) all += submit();
    return all;
  }

  testing::StoreBench bench_;
  std::unique_ptr<Store> opened_;
  // Fails the jobs whose payload is "1".
  Handler fail_odd_{"odd", "", [](JobContext& context, std::string_view payload) {
                      if (payload == "1") context.fail("no");
                    }};
};

TEST_F(WriteRoomTest, PipelinedWritesWaitForThoseBefore) {
  Client mallory(port_);
  log_in(mallory, 1, "mallory");
  Client alice(port_);
  log_in(alice, 2, "alice");
  bench_.disk->hold_syncs();
  const std::jthread sender = sending(mallory, submits());
  ASSERT_TRUE(wait_until_true([&] { return executed(CommandId::kSubmit) == kFit; }));
  EXPECT_TRUE(wait_until_true([&] { return input_bytes("mallory") >= kPayload; }))
      << "the command that waits is charged";
  EXPECT_EQ(alice.ask("PING"), "+PONG");
  alice.send("SUBMIT echo ID a JOBS first\r\n");
  ASSERT_TRUE(wait_until_true([&] { return executed(CommandId::kSubmit) == kFit + 1; }))
      << "what mallory has pending is not charged to alice";
  Client second(port_);
  log_in(second, 3, "mallory");
  EXPECT_EQ(second.ask("PING"), "+PONG") << "commands that do not write are executed";
  second.send("RUN echo JOBS r\r\n");
  EXPECT_EQ(second.line(), "*1") << "and so is RUN";
  second.bulk();
  EXPECT_EQ(executed(CommandId::kSubmit), kFit + 1);
  bench_.disk->release();
  EXPECT_EQ(alice.bulk(), "a");
  for (std::uint64_t i = 0; i < kSent; ++i) mallory.bulk();
  EXPECT_EQ(executed(CommandId::kSubmit), kSent + 1);
}

// The step of the retry lists them, and other users wait until it is written.
TEST_F(WriteRoomTest, ARetryIsChargedForTheListOfItsJobs) {
  constexpr std::uint64_t kFailed = 5000;
  Client alice(port_);
  log_in(alice, 1, "alice");
  std::string submit = "SUBMIT odd ID a JOBS";
  for (std::uint64_t i = 0; i < 2 * kFailed; ++i) submit += i % 2 == 0 ? " 0" : " 1";
  alice.send(submit + "\r\n");
  EXPECT_EQ(alice.bulk(), "a");
  alice.send("WAIT a\r\n");
  ASSERT_TRUE(wait_until_true([&] {
    return on_io_thread([&] {
      kIoThread.assert_held();
      Registry& registry = server_->batches().registry();
      return registry.find(registry.tenants().of("alice"), "a").value()->status().failed == kFailed;
    });
  }));
  bench_.disk->hold_syncs();
  alice.send("RETRY a\r\n");
  EXPECT_TRUE(wait_until_true([&] {
    return on_io_thread([&] {
      kIoThread.assert_held();
      const Account& account = server_->batches().registry().tenants().of("alice").account;
      return account.used(Resource::kWriteBytes) >= kFailed * kCostOfRange;
    });
  }));
  bench_.disk->release();
}

TEST_F(WriteRoomTest, SoDoThoseOfATransaction) {
  Client mallory(port_);
  log_in(mallory, 1, "mallory");
  bench_.disk->hold_syncs();
  const std::jthread sender = sending(mallory, "MULTI\r\n" + submits() + "EXEC\r\n");
  ASSERT_TRUE(wait_until_true([&] { return executed(CommandId::kSubmit) == kFit; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(executed(CommandId::kSubmit), kFit);
  bench_.disk->release();
  EXPECT_EQ(mallory.line(), "+OK");
  for (std::uint64_t i = 0; i < kSent; ++i) EXPECT_EQ(mallory.line(), "+QUEUED");
  EXPECT_EQ(mallory.line(), "*" + std::to_string(kSent));
  for (std::uint64_t i = 0; i < kSent; ++i) mallory.bulk();
}

TEST_F(WriteRoomTest, AConnectionThatOnlyReadsTakesNoPlaceAmongTheWaiters) {
  Client mallory(port_);
  log_in(mallory, 1, "mallory");
  bench_.disk->hold_syncs();
  const std::jthread sender = sending(mallory, submits());
  ASSERT_TRUE(wait_until_true([&] { return executed(CommandId::kSubmit) == kFit; }));
  Client reading(port_);
  log_in(reading, 2, "mallory");
  EXPECT_EQ(reading.ask("PING"), "+PONG");
  Client writing(port_);
  log_in(writing, 3, "mallory");
  writing.send("SUBMIT echo ID b JOBS first\r\n");
  bench_.disk->release();
  EXPECT_EQ(writing.bulk(), "b");
  for (std::uint64_t i = 0; i < kSent; ++i) mallory.bulk();
}

TEST_F(WriteRoomTest, AnAdminsWritesToABatchOfAnotherUserAreItsOwn) {
  Client alice(port_);
  log_in(alice, 1, "alice");
  alice.send("OPEN echo ID b\r\n");
  EXPECT_EQ(alice.bulk(), "b");
  Client admin(port_);
  log_in(admin, 2, "admin");
  bench_.disk->hold_syncs();
  std::string adds;
  for (std::uint64_t i = 0; i < kSent; ++i) {
    adds += "*3\r\n$3\r\nADD\r\n$1\r\nb\r\n$" + std::to_string(kPayload) + "\r\n" +
            std::string(kPayload, 'x') + "\r\n";
  }
  const std::jthread sender = sending(admin, std::move(adds));
  ASSERT_TRUE(wait_until_true([&] { return executed(CommandId::kAdd) == kFit; }));
  EXPECT_TRUE(wait_until_true([&] { return input_bytes("admin") >= kPayload; })) << "the next one waits";
  alice.send("SUBMIT echo ID a JOBS first\r\n");
  ASSERT_TRUE(wait_until_true([&] { return executed(CommandId::kSubmit) == 1; }))
      << "the owner of the batch does not wait for them";
  EXPECT_EQ(executed(CommandId::kAdd), kFit);
  bench_.disk->release();
  EXPECT_EQ(alice.bulk(), "a");
  for (std::uint64_t i = 1; i <= kSent; ++i) EXPECT_EQ(admin.line(), ":" + std::to_string(i));
}

TEST_F(WriteRoomTest, CommandsAboutBatchesInMemoryAloneDoNotWait) {
  Client other(port_);
  log_in(other, 1, "mallory");
  other.send("OPEN echo ID open EPHEMERAL\r\n");
  EXPECT_EQ(other.bulk(), "open");
  Client mallory(port_);
  log_in(mallory, 2, "mallory");
  bench_.disk->hold_syncs();
  const std::jthread sender = sending(mallory, submits());
  ASSERT_TRUE(wait_until_true([&] { return executed(CommandId::kSubmit) == kFit; }));
  other.send(
      "SUBMIT echo ID e EPHEMERAL JOBS a\r\nADD open b\r\nPAUSE open\r\nWEIGHT open 2\r\nCLOSE open\r\n"
      "CANCEL open\r\nMULTI\r\nOPEN echo ID o EPHEMERAL\r\nCANCEL o\r\nEXEC\r\n");
  EXPECT_EQ(other.bulk(), "e");
  EXPECT_EQ(other.line(), ":1");
  EXPECT_EQ(other.line(), "+OK");
  EXPECT_EQ(other.line(), "+OK");
  EXPECT_EQ(other.line(), ":1");
  EXPECT_TRUE(other.line().starts_with(":")) << "the job may have ended";
  for (const char* line : {"+OK", "+QUEUED", "+QUEUED", "*2", "$1", "o", ":0"}) EXPECT_EQ(other.line(), line);
  EXPECT_EQ(executed(CommandId::kSubmit), kFit + 1) << "those that are to be stored wait";
  bench_.disk->release();
  for (std::uint64_t i = 0; i < kSent; ++i) mallory.bulk();
}

TEST_F(WriteRoomTest, OneCommandThatChangesABatchDoesNotWait) {
  Client mallory(port_);
  log_in(mallory, 1, "mallory");
  mallory.send("SUBMIT echo ID b DELAY 1000000 JOBS a\r\n");
  EXPECT_EQ(mallory.bulk(), "b");
  bench_.disk->hold_syncs();
  const std::jthread sender = sending(mallory, submits());
  ASSERT_TRUE(wait_until_true([&] { return executed(CommandId::kSubmit) == kFit + 1; }));
  Client control(port_);
  log_in(control, 2, "mallory");
  control.send("CANCEL b\r\nPAUSE b\r\n");
  ASSERT_TRUE(wait_until_true([&] { return executed(CommandId::kCancel) == 1; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(executed(CommandId::kPause), 0U) << "a pipeline waits";
  bench_.disk->release();
  EXPECT_EQ(control.line(), ":1");
  control.line();
  for (std::uint64_t i = 0; i < kSent; ++i) mallory.bulk();
}

TEST_F(WriteRoomTest, ConnectionsThatEndMeanwhileLeaveTheirPlaceToTheNext) {
  auto first = std::make_unique<Client>(port_);
  log_in(*first, 1, "mallory");
  bench_.disk->hold_syncs();
  const std::jthread sender = sending(*first, submits());
  ASSERT_TRUE(wait_until_true([&] { return executed(CommandId::kSubmit) == kFit; }));
  Client second(port_);
  log_in(second, 2, "mallory");
  second.send("SUBMIT echo ID b JOBS first\r\n");
  Client control(port_);
  log_in(control, 3, "mallory");
  EXPECT_EQ(control.ask("CLIENT KILL ID 1"), ":1");
  EXPECT_EQ(executed(CommandId::kSubmit), kFit);
  bench_.disk->release();
  EXPECT_EQ(second.bulk(), "b");
}

}  // namespace
}  // namespace locksley::daemon
