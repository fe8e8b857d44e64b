// Connections of workers on the link's thread: turns go round users, and what the I/O thread is
// asked.
#include "daemon/worker_port/link_service.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <asio/post.hpp>
#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "daemon/server/accounts/tenants.h"
#include "daemon/workers/machines_view.h"
#include "tests/support/pool_fixture.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

// The users crowd and neighbour, with any password, and the handler echo. The test answers for the
// I/O thread.
class LinkServiceTest : public ::testing::Test {
 protected:
  LinkServiceTest() {
    const ThreadRoleScope role(kLinkThread);
    config::User worker;
    worker.commands = {config::CommandGroup::kWork};
    for (const std::string name : {"crowd", "neighbour"})
      directory_->users.emplace(name, std::make_shared<User>(tenants_.of(name), worker));
    directory_->has_users = true;
    directory_->handlers.emplace("echo", HandlerPlace{.lane = &lane_, .gate = 0});
    directory_->address = "queue:7771";
    directory_->max_clients = 1'000;
    directory_->login_timeout = std::chrono::minutes(1);
    const auto log_in = [this](LoginQuestion question, std::function<void(LoginAnswer)> done) {
      this->log_in(question, std::move(done));
    };
    const auto find_batch = [this](std::uint64_t number,
                                   const std::function<void(std::shared_ptr<Batch>)>& done) {
      batches_asked_for_.push_back(number);
      done(nullptr);
    };
    service_ = std::make_unique<LinkService>(
        LinkService::Parts{.questions = {.log_in = log_in, .find_batch = find_batch},
                           .store = nullptr,
                           .log = std::make_shared<spdlog::logger>("test")},
        WorkerLinkOptions{.max_leased_bytes = kMaxLeased}, board_, directory_);
    auto port = BoundPort::bind("127.0.0.1", 0, "workers.listen");
    const auto endpoint = port ? service_->listen(*std::move(port)) : std::unexpected(port.error());
    EXPECT_TRUE(endpoint) << endpoint.error();
    if (endpoint) port_ = endpoint->port();
  }
  ~LinkServiceTest() override { stop(); }

  void start() {
    thread_ = std::thread([this] {
      const ThreadRoleScope role(kLinkThread);
      service_->run([] { return false; });
    });
  }
  void stop() {
    if (!thread_.joinable()) return;
    asio::post(service_->io(), [this] {
      kLinkThread.assert_held();
      service_->stop();
    });
    thread_.join();
  }

  // What the link's thread holds of commands that have not come whole, as it charges it.
  std::uint64_t input_bytes() {
    std::promise<std::uint64_t> bytes;
    asio::post(service_->io(), [this, &bytes] {
      kLinkThread.assert_held();
      bytes.set_value(service_->input().used());
    });
    return bytes.get_future().get();
  }

  static constexpr std::uint64_t kMaxLeased = 16 << 20;
  struct Login {
    std::string name;
    std::function<void(LoginAnswer)> done;
  };
  // Answers at once; but the first logins wait until `logins_to_hold_` have come: those of the
  // neighbour go on first.
  void log_in(const LoginQuestion& question, std::function<void(LoginAnswer)> done) {
    if (question.by == Credential::kNone)
      return done({.user = nullptr, .place = nullptr, .refusal = first_refusal_});
    if (held_.size() == logins_to_hold_) {
      order_ += question.name.front();
      return done(answer(question.name));
    }
    held_.push_back({question.name, std::move(done)});
    if (held_.size() != logins_to_hold_) return;
    std::ranges::partition(held_, [](const Login& login) { return login.name == "neighbour"; });
    for (const Login& login : held_) login.done(answer(login.name));
  }
  LoginAnswer answer(const std::string& name) const {
    return {.user = directory_->users.at(name), .place = nullptr, .refusal = {}};
  }
  static std::string logins(const std::string& user, std::size_t count) {
    std::string commands;
    for (std::size_t i = 0; i < count; ++i) commands += "AUTH " + user + " secret\r\n";
    return commands;
  }

  Tenants tenants_;
  Lane lane_{"echo", FairRing::Options{.parallelism = 1}};
  MachinesBoard board_;
  const std::shared_ptr<WorkerDirectory> directory_ = std::make_shared<WorkerDirectory>();
  std::uint16_t port_ = 0;
  std::size_t logins_to_hold_ = 0;
  std::string first_refusal_;  // to a connection that has not asked for a login: as to a certificate
  // The link's thread, and the test after stop().
  std::vector<Login> held_;
  std::string
      order_;  // the initials of users, of each login that was not held: it takes a turn of its connection
  std::vector<std::uint64_t> batches_asked_for_;
  std::unique_ptr<LinkService> service_;
  std::thread thread_;
};

TEST_F(LinkServiceTest, AUserWaitsForOneTurnOfAnotherUserHoweverManyConnectionsThatHas) {
  constexpr std::size_t kCrowd = 40;
  constexpr std::size_t kTurns = 20;
  logins_to_hold_ = kCrowd + 1;
  Client neighbour(port_);
  neighbour.send(logins("neighbour", 1 + kTurns));
  std::deque<Client> crowd;
  for (std::size_t i = 0; i < kCrowd; ++i) crowd.emplace_back(port_).send(logins("crowd", 1 + kTurns));
  start();
  const std::size_t all_replies = (1 + kTurns) * std::string("+OK\r\n").size();
  EXPECT_EQ(neighbour.read(all_replies).size(), all_replies);
  for (Client& each : crowd) EXPECT_EQ(each.read(all_replies).size(), all_replies);
  stop();
  EXPECT_EQ(order_.size(), (kCrowd + 1) * kTurns);
  EXPECT_EQ(std::ranges::count(order_, 'n'), static_cast<std::ptrdiff_t>(kTurns));
  EXPECT_LE(order_.rfind('n'), 3 * kTurns) << order_;
}

TEST_F(LinkServiceTest, ANewConnectionTakesThePlaceOfTheOldestThatHasNotLoggedIn) {
  directory_->max_clients = 3;
  start();
  Client worker(port_);
  worker.send(logins("neighbour", 1));
  EXPECT_EQ(worker.line(), "+OK");
  Client second(port_);
  Client third(port_);
  const std::string stranger = "-NOAUTH Authentication required.";
  for (Client* client : {&second, &third}) EXPECT_EQ(client->ask("PING"), stranger);
  // Not before the others had time to log in.
  const Instant deadline = now() + std::chrono::seconds(60);
  for (bool is_in = false; !is_in; std::this_thread::sleep_for(std::chrono::milliseconds(10))) {
    ASSERT_LT(now(), deadline);
    Client next(port_);
    const std::string reply = next.ask("AUTH neighbour secret");
    is_in = reply == "+OK";
    const bool is_refused = reply == "-ERR max number of clients reached" || reply.ends_with("<closed>");
    EXPECT_TRUE(is_in || is_refused) << reply;
  }
  EXPECT_TRUE(second.is_closed());
  EXPECT_EQ(worker.ask("PING"), "+PONG");
  EXPECT_EQ(third.ask("PING"), stranger);
  stop();
}

TEST_F(LinkServiceTest, AConnectionWhoseCertificateIsRefusedIsToldWhy) {
  first_refusal_ = "ERR max number of clients reached";
  start();
  Client worker(port_);
  EXPECT_EQ(worker.line(), "-ERR max number of clients reached");
  EXPECT_TRUE(worker.is_closed());
}

TEST_F(LinkServiceTest, AClaimThatWaitsIsToldAtOnceOfAHandlerThatHasCome) {
  start();
  Client worker(port_);
  worker.send(logins("neighbour", 1) + "JOIN w SLOTS 1 PARTIAL HANDLERS echo later\r\nCLAIM BLOCK 60000\r\n");
  for (std::string line; line != "later" && !line.ends_with("<closed>");) line = worker.line();
  Lane later{"later", FairRing::Options{.parallelism = 1}};
  auto directory = std::make_shared<WorkerDirectory>(*directory_);
  directory->handlers.emplace("later", HandlerPlace{.lane = &later, .gate = 0});
  asio::post(service_->io(), [this, &directory] {
    kLinkThread.assert_held();
    service_->set_directory(directory);
  });
  EXPECT_EQ(worker.line(), "$-1") << "it claims again, for both";
  stop();
}

TEST_F(LinkServiceTest, JoinTellsTheLongestOutputThatArrives) {
  start();
  Client worker(port_);
  worker.send(logins("neighbour", 1) + "JOIN w SLOTS 1 PARTIAL HANDLERS echo\r\n");
  for (std::string line; line != "longest_output" && !line.ends_with("<closed>");) line = worker.line();
  const std::string longest = worker.line();
  ASSERT_EQ(longest, ":" + std::to_string(kMaxLeased / 2 - (512 << 10)));
  for (std::string line; line != "*0" && !line.ends_with("<closed>");) line = worker.line();  // not_served
  const std::string output(std::stoull(longest.substr(1)), 'x');
  // Of a lease that there is not, and with the beginning of the next command.
  worker.send("*5\r\n$6\r\nSETTLE\r\n$18\r\n000000000000002a-1\r\n$2\r\nok\r\n$1\r\n0\r\n$" +
              longest.substr(1) + "\r\n" + output + "\r\n*2\r\n$4\r\nPING\r\n$200000\r\n" +
              std::string(150'000, 'x'));
  EXPECT_TRUE(worker.line().starts_with("-LOST"));
  stop();
}

TEST_F(LinkServiceTest, ReclaimBeforeJoinAsksForNoBatch) {
  start();
  Client client(port_);
  client.send("RECLAIM 1 1 0 2\r\nAUTH neighbour secret\r\nRECLAIM 2 1 0 2\r\n");
  EXPECT_EQ(client.line(), "-NOAUTH Authentication required.");
  EXPECT_EQ(client.line(), "+OK");
  EXPECT_EQ(client.line(), "-NOTJOINED JOIN first");
  client.send("JOIN w SLOTS 1 HANDLERS echo\r\nRECLAIM 3 1 0 2\r\nQUIT\r\n");
  EXPECT_TRUE(client.read(10'000).ends_with("-LOST there is no such batch\r\n+OK\r\n"));
  stop();
  EXPECT_EQ(batches_asked_for_, std::vector<std::uint64_t>{3});
}

TEST_F(LinkServiceTest, ManyEmptyArgumentsAreChargedWithTheMemoryThatTheyTake) {
  start();
  Client client(port_);
  client.send(logins("neighbour", 1));
  EXPECT_EQ(client.line(), "+OK");
  std::string command = "*2000000\r\n";
  while (command.size() < kMaxLeased / 2 - (1 << 20)) command += "$0\r\n\r\n";
  client.send(command);
  EXPECT_EQ(
      client.line(),
      "-TOOBIG the command takes more than half of workers.max_leased_bytes, which is all that one user may "
      "have");
  EXPECT_EQ(input_bytes(), 0U) << "the client has not closed";
  stop();
}

// Two commands of a user, each as large as it may have; the first one begins, and the second one.
TEST_F(LinkServiceTest, AConnectionForWhoseInputThereIsNoRoomWaitsUntilThereIs) {
  constexpr std::size_t kSize = kMaxLeased / 4;
  const auto ping = [](std::size_t size) { return "*2\r\n$4\r\nPING\r\n$" + std::to_string(size) + "\r\n"; };
  start();
  std::deque<Client> clients;
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(clients.emplace_back(port_).ask("AUTH neighbour secret"), "+OK");
    clients.back().send(ping(kSize) + std::string(300'000, 'x'));
  }
  const std::string rest = std::string(kSize - 300'000, 'x') + "\r\n";
  std::vector<std::thread> senders;
  for (Client& client : clients) senders.emplace_back([&client, &rest] { client.send(rest); });
  for (Client& client : clients)
    EXPECT_EQ(client.line(), "-TOOBIG on the port for workers PING takes 16384 bytes at most")
        << "it came whole";
  for (std::thread& sender : senders) sender.join();
  // A connection whose turn was long gives its input back in its next slice.
  testing::wait_until([this] { return input_bytes() == 0; }, "the input is no longer charged");
  stop();
}

TEST_F(LinkServiceTest, SmallCommandsPassByALargeOneThatStops) {
  start();
  Client large(port_);
  EXPECT_EQ(large.ask("AUTH neighbour secret"), "+OK");
  large.send("*2\r\n$4\r\nPING\r\n$" + std::to_string(kMaxLeased / 2) + "\r\n" +
             std::string(kMaxLeased / 2 - (1 << 20), 'x'));
  Client other(port_);
  EXPECT_EQ(other.ask("AUTH neighbour secret"), "+OK");
  EXPECT_EQ(other.ask("PING"), "+PONG");
  Client stranger(port_);
  EXPECT_EQ(stranger.ask("PING"), "-NOAUTH Authentication required.");
  stop();
}

TEST_F(LinkServiceTest, AConnectionThatClosesAfterAWrongCommandGetsNoJobs) {
  start();
  Client client(port_);
  client.send(logins("neighbour", 1) + "JOIN w SLOTS 1 HANDLERS echo\r\n");
  for (std::string line; line != "store" && !line.ends_with("<closed>");) line = client.line();
  client.line();  // its length
  client.line();
  client.send("CLAIM BLOCK 60000\r\n*1\r\n!wrong\r\n");
  EXPECT_EQ(client.line(), "$-1");
  EXPECT_TRUE(client.line().starts_with("-ERR Protocol error"));
  stop();
}

TEST_F(LinkServiceTest, WhatCameOfACommandThatIsWrongIsFreedBeforeItsConnectionCloses) {
  start();
  Client client(port_);
  client.send(logins("neighbour", 1));
  EXPECT_EQ(client.line(), "+OK");
  client.send("*3\r\n$2000000\r\n" + std::string(2'000'000, 'x') + "\r\n$x\r\n");
  EXPECT_TRUE(client.line().starts_with("-ERR Protocol error"));
  EXPECT_EQ(input_bytes(), 0U);
  stop();
}

}  // namespace
}  // namespace locksley::daemon
