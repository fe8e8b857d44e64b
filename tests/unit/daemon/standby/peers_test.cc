// An active daemon that has lost its database asks the others.
#include "daemon/standby/peers.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/time.h"
#include "tests/support/pool_fixture.h"

namespace locksley::daemon {
namespace {

using std::chrono::milliseconds;
using Replies = std::vector<std::optional<PeerReply>>;

constexpr std::int32_t kSelf = 7;

TEST(PeersTest, Verdicts) {
  const auto verdict = [](const Replies& replies) { return judge(kSelf, milliseconds(4500), replies); };
  const PeerReply another{.active = 8, .age = milliseconds(300)};
  const PeerReply none{.active = 0, .age = milliseconds(300)};
  const PeerReply the_same{.active = kSelf, .age = milliseconds(300)};
  const PeerReply another_before{.active = 3, .age = milliseconds(4500)};
  EXPECT_EQ(verdict({another}), PeerVerdict::kTakenOver);
  EXPECT_EQ(verdict({none}), PeerVerdict::kTakenOver) << "the row of this daemon is not alive any more";
  EXPECT_EQ(verdict({std::nullopt, the_same, another}), PeerVerdict::kTakenOver);
  EXPECT_EQ(verdict({the_same}), PeerVerdict::kGoOn);
  EXPECT_EQ(verdict({another_before}), PeerVerdict::kGoOn) << "this daemon may have taken over since";
  EXPECT_EQ(verdict({std::nullopt, another_before}), PeerVerdict::kGoOn);
  EXPECT_EQ(verdict({std::nullopt, std::nullopt}), PeerVerdict::kAlone);
}

TEST(PeersTest, OneThatKnowsNothingSaysNothingHoweverLongTheDatabaseIsAway) {
  const Replies replies{PeerReply{.active = 0, .age = PeerReply::kNever}};
  EXPECT_EQ(judge(kSelf, std::chrono::hours(25), replies), PeerVerdict::kGoOn);
}

// Replies to all that it is sent, one connection at a time.
class Peer {
 public:
  explicit Peer(std::string reply) : reply_(std::move(reply)), thread_([this] { run(); }) {}
  ~Peer() {
    is_ending_ = true;
    asio::io_context io;
    asio::ip::tcp::socket last(io);
    asio::error_code ignored;
    last.connect(acceptor_.local_endpoint(), ignored);
    thread_.join();
  }
  std::string address() const { return fmt::format("127.0.0.1:{}", acceptor_.local_endpoint().port()); }
  int asked() const { return asked_; }

 private:
  void run() {
    for (;;) {
      asio::ip::tcp::socket client = acceptor_.accept();
      if (is_ending_) return;
      std::array<char, 16> question{};
      asio::error_code error;
      asio::read(client, asio::buffer(question), error);
      asio::write(client, asio::buffer(reply_), error);
      ++asked_;
    }
  }

  const std::string reply_;
  asio::io_context io_;
  asio::ip::tcp::acceptor acceptor_{io_, {asio::ip::make_address("127.0.0.1"), 0}};
  std::atomic<int> asked_ = 0;
  std::atomic<bool> is_ending_ = false;
  std::thread thread_;
};

class PeerCheckTest : public ::testing::Test {
 protected:
  // The database has not confirmed for longer than the lease that this daemon lives.
  void look(const std::vector<std::string>& standbys) {
    ClusterView view;
    view.nodes.push_back({.number = kSelf, .name = "self", .state = ClusterNode::State::kActive, .wire = ""});
    std::int32_t number = kSelf;
    for (const std::string& wire : standbys) {
      view.nodes.push_back(
          {.number = ++number, .name = "other", .state = ClusterNode::State::kStandby, .wire = wire});
    }
    board->set(std::move(view));
    board->set_lease(milliseconds(500));
    board->beaten(now() - milliseconds(500));
  }
  void begin() {
    check =
        std::make_unique<PeerCheck>(board, PeerCheck::Options{}, [this](std::string_view) { lost = true; });
  }
  void wait_until_lost() {
    testing::wait_until([this] { return lost.load(); }, "the daemon is told that it is lost");
  }

  const std::shared_ptr<ClusterBoard> board = std::make_shared<ClusterBoard>();
  std::atomic<bool> lost = false;
  std::unique_ptr<PeerCheck> check;
};

TEST_F(PeerCheckTest, OneSaysThatAnotherDaemonIsActive) {
  const Peer unaware("*2\r\n:7\r\n:100\r\n");
  const Peer peer("*2\r\n:9\r\n:100\r\n");
  look({unaware.address(), peer.address()});
  begin();
  wait_until_lost();
}

TEST_F(PeerCheckTest, NoneReplies) {
  asio::io_context io;
  asio::ip::tcp::acceptor closed(io, {asio::ip::make_address("127.0.0.1"), 0});
  const std::string address = fmt::format("127.0.0.1:{}", closed.local_endpoint().port());
  closed.close();
  look({address});
  begin();
  wait_until_lost();
}

TEST_F(PeerCheckTest, TheyHaveNoDatabaseEither) {
  const Peer peer("*2\r\n:7\r\n:60000\r\n");
  const Peer of_another_version("-ERR unknown command 'ACTIVE'\r\n");
  look({peer.address(), of_another_version.address()});
  EXPECT_TRUE(board->is_unconfirmed(now()));
  begin();
  testing::wait_until([&] { return peer.asked() >= 4 && of_another_version.asked() >= 4; }, "four rounds");
  check.reset();
  EXPECT_FALSE(lost);
  EXPECT_FALSE(board->is_unconfirmed(now())) << "none of them has taken over";
}

TEST_F(PeerCheckTest, NoneStoodBy) {
  look({});
  begin();
  testing::wait_until([&] { return !board->is_unconfirmed(now()); }, "the first look");
  EXPECT_FALSE(lost);
}

TEST_F(PeerCheckTest, ADaemonThatIsConfirmedToLiveAsksNobody) {
  const Peer peer("*2\r\n:9\r\n:0\r\n");
  look({peer.address()});
  board->set_lease(std::chrono::hours(1));
  begin();
  std::this_thread::sleep_for(milliseconds(600));  // two rounds
  check.reset();
  EXPECT_EQ(peer.asked(), 0);
  EXPECT_FALSE(lost);
}

}  // namespace
}  // namespace locksley::daemon
