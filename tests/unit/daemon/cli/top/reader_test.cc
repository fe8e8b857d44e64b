// What top asks of a daemon, and what it makes of odd answers; and that nothing which the daemon
// does holds it up.

#include <gmock/gmock.h>
#include <poll.h>

#include <algorithm>
#include <atomic>

#include "daemon/cli/top/poller.h"
#include "daemon/cli/top/reader.h"
#include "proto/clients/cpp/connection.h"
#include "tests/support/fake_server.h"

namespace locksley::cli {
namespace {

using namespace locksley::testing::fake;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr milliseconds kMinute = std::chrono::minutes(1);

std::string map(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string text = "%" + std::to_string(members.size()) + "\r\n";
  for (const auto& [key, value] : members) text += bulk(key) + bulk(value);
  return text;
}

std::string status(const std::string& id, const std::string& state, const std::string& failed = "0",
                   const std::string& retried = "0") {
  return map({{"id", id},
              {"tenant", "default"},
              {"state", state},
              {"jobs", "9"},
              {"failed", failed},
              {"retried", retried}});
}

std::string page(const std::string& cursor, const std::vector<std::string>& elements) {
  std::string text = "*2\r\n" + bulk(cursor) + "*" + std::to_string(elements.size()) + "\r\n";
  for (const std::string& element : elements) text += element;
  return text;
}

// A daemon without batches.
Answer quiet(const Words& words) {
  if (words[0] == "INFO") return Answer::text(bulk("process_id:7\r\nuser:default\r\nlane_cpu:slots=2\r\n"));
  if (words[0] == "LIST") return Answer::text(page("0", {}));
  if (words[0] == "EXPLAIN") return Answer::text(map({{"state", "done"}, {"reason", "ended"}}));
  return Answer::text("*0\r\n");
}

class TopReaderTest : public ::testing::Test {
 protected:
  TopSnapshot look(FakeServer& server, const TopDemand& demand = {}) {
    if (!connection_.is_open()) {
      EXPECT_TRUE(connection_.open(server.address(), "test", client::deadline_in(kMinute)));
    }
    auto snapshot = reader_.read_snapshot(demand);
    EXPECT_TRUE(snapshot) << snapshot.error().message;
    return snapshot ? *snapshot : TopSnapshot{};
  }

  client::Connection connection_{-1};
  TopReader reader_{connection_};
};

TEST_F(TopReaderTest, ShortPagesAreFollowedAndABatchInTwoListsIsThereOnce) {
  FakeServer server([](const Words& words) {
    if (words[0] != "LIST") return quiet(words);
    const std::string state = option_of(words, "STATE");
    if (state == "running" && option_of(words, "CURSOR") == "0")
      return Answer::text(page("77", {status("a", "running")}));
    if (state == "running") return Answer::text(page("0", {status("b", "running")}));
    if (state.empty()) return Answer::text(page("5", {status("b", "running"), status("c", "done")}));
    return Answer::text(page("0", {}));
  });
  const TopSnapshot shot = look(server);
  std::vector<std::string> ids;
  for (const auto& batch : shot.batches) ids.push_back(batch.id);
  std::ranges::sort(ids);
  EXPECT_THAT(ids, ::testing::ElementsAre("a", "b", "c"));
  EXPECT_TRUE(shot.has_all_active);
  EXPECT_EQ(shot.lanes.size(), 1U);
}

TEST_F(TopReaderTest, AListWithoutEndIsLeftAndThatIsSaid) {
  FakeServer server([](const Words& words) {
    if (words[0] != "LIST" || option_of(words, "STATE") != "queued") return quiet(words);
    return Answer::text(page("77", {}));  // it looks and looks
  });
  EXPECT_FALSE(look(server).has_all_active);
  EXPECT_LT(server.commands().size(), 40U);
}

TEST_F(TopReaderTest, WhatIsRefusedIsMissingAndTheRestIsThere) {
  FakeServer server([](const Words& words) {
    if (words[0] == "INFO" || words[0] == "WORKERS") return quiet(words);
    return Answer::text("-NOPERM User alice may not\r\n");
  });
  const TopSnapshot shot = look(server, {.explained = {{"alice/x", "x"}}, .detail = {{"alice/x", "x"}}});
  EXPECT_EQ(shot.server.process_id, 7U);
  EXPECT_EQ(shot.refusal, "NOPERM User alice may not");
  EXPECT_TRUE(shot.explanations.empty());
  ASSERT_TRUE(shot.detail);
  EXPECT_EQ(shot.detail->error, "NOPERM User alice may not");
  EXPECT_FALSE(shot.detail->status);
}

TEST_F(TopReaderTest, FailuresAreSearchedForAPageALookAndAnewAfterARetry) {
  std::atomic<bool> is_retried = false;
  FakeServer server([&](const Words& words) {
    if (words[0] == "STATUS")
      return Answer::text(status("x", "running", is_retried ? "1" : "2", is_retried ? "2" : "0"));
    if (words[0] != "RESULTS") return quiet(words);
    const std::string from = option_of(words, "FROM");
    if (is_retried) return Answer::text(results_reply(9, {{8, "crashed", "of the second try"}}));
    if (from == "0") return Answer::text(results_reply(4, {{0, "ok", ""}, {1, "error", "first"}}));
    return Answer::text(results_reply(6, {{2, "timeout", "second"}, {3, "cancelled", "is none"}}));
  });
  const TopDemand demand{.explained = {}, .detail = {{"default/x", "x"}}};
  TopSnapshot shot = look(server, demand);
  ASSERT_EQ(shot.detail->failures.size(), 1U);
  EXPECT_EQ(shot.detail->failures[0].text, "first");
  shot = look(server, demand);
  ASSERT_EQ(shot.detail->failures.size(), 2U);
  EXPECT_EQ(shot.detail->failures[1].status, "timeout");
  EXPECT_EQ(shot.detail->rows_looked_at, 4U);
  // All are found: nothing more is read.
  const auto results = [&] {
    return std::ranges::count(server.commands(), "RESULTS", [](auto& c) { return c[0]; });
  };
  look(server, demand);
  EXPECT_EQ(results(), 2);
  is_retried = true;
  shot = look(server, demand);
  ASSERT_EQ(shot.detail->failures.size(), 1U);
  EXPECT_EQ(shot.detail->failures[0].text, "of the second try");
}

TEST_F(TopReaderTest, WorkersOfThePoolAndMachinesAreApart) {
  FakeServer server([](const Words& words) {
    if (words[0] != "WORKERS") return quiet(words);
    return Answer::text("*2\r\n" + map({{"worker", "0"}, {"kind", "pool"}, {"steals", "3"}}) +
                        map({{"worker", "host-7"}, {"kind", "remote"}, {"busy", "2"}, {"lost", "5"}}));
  });
  const TopSnapshot shot = look(server);
  ASSERT_EQ(shot.workers.size(), 1U);
  EXPECT_EQ(shot.workers[0].steals, 3U);
  ASSERT_EQ(shot.machines.size(), 1U);
  EXPECT_EQ(shot.machines[0].name, "host-7");
  EXPECT_EQ(shot.machines[0].busy, 2U);
  EXPECT_EQ(shot.machines[0].lost, 5U);
}

TEST_F(TopReaderTest, NonsenseIsAnErrorOfTheProtocol) {
  for (const char* nonsense : {"*1\r\n:1\r\n", ":5\r\n", "*2\r\n$1\r\nx\r\n:3\r\n"}) {
    FakeServer server(
        [&](const Words& words) { return words[0] == "LIST" ? Answer::text(nonsense) : quiet(words); });
    ASSERT_TRUE(connection_.open(server.address(), "test", client::deadline_in(kMinute)));
    const auto shot = reader_.read_snapshot({});
    ASSERT_FALSE(shot) << nonsense;
    EXPECT_EQ(shot.error().kind, client::ClientError::Kind::kProtocol);
    connection_.close();
  }
}

// The next news, whatever it is.
TopPoller::News next_news(TopPoller& poller, std::vector<TopPoller::News>& queue) {
  while (queue.empty()) {
    pollfd entry{.fd = poller.fd(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&entry, 1, static_cast<int>(kMinute.count())), 1) << "no news in a minute";
    queue = poller.take();
  }
  TopPoller::News news = std::move(queue.front());
  queue.erase(queue.begin());
  return news;
}

TEST(TopPollerTest, LooksAgainAndAgainAndTellsTheAnswerToAnAction) {
  FakeServer server([](const Words& words) {
    return words[0] == "PAUSE" ? Answer::text("-NOBATCH there is no batch 'x'\r\n") : quiet(words);
  });
  TopPoller poller({server.address()}, milliseconds(1));
  std::vector<TopPoller::News> queue;
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::holds_alternative<TopSnapshot>(next_news(poller, queue)));
  poller.act({TopAction::Kind::kPause, "x", {"PAUSE", "x"}});
  for (;;) {
    const TopPoller::News news = next_news(poller, queue);
    if (const auto* answer = std::get_if<TopAnswer>(&news)) {
      EXPECT_TRUE(answer->is_error);
      EXPECT_THAT(answer->text, HasSubstr("there is no batch"));
      return;
    }
  }
}

TEST(TopPollerTest, ConnectsAgainWhenTheConnectionBreaks) {
  int looks = 0;
  FakeServer server(
      [&](const Words& words) { return words[0] == "INFO" && ++looks == 2 ? Answer::drop() : quiet(words); });
  TopPoller poller({server.address()}, milliseconds(1));
  std::vector<TopPoller::News> queue;
  bool was_lost = false;
  for (;;) {
    const TopPoller::News news = next_news(poller, queue);
    was_lost |= std::holds_alternative<TopPoller::Lost>(news);
    if (was_lost && std::holds_alternative<TopSnapshot>(news)) break;
  }
  EXPECT_GE(server.connections(), 2);
}

TEST(TopPollerTest, ADaemonThatClosesEachConnectionIsAskedAfterPausesThatGrow) {
  FakeServer server([](const Words&) { return Answer::drop(); });
  const auto began = std::chrono::steady_clock::now();
  TopPoller poller({server.address()}, milliseconds(1));
  std::vector<TopPoller::News> queue;
  for (int i = 0; i < 7; ++i) EXPECT_TRUE(std::holds_alternative<TopPoller::Lost>(next_news(poller, queue)));
  // Six pauses of 10, 20, … 320 ms, less a random part of up to half.
  EXPECT_GE(std::chrono::steady_clock::now() - began, milliseconds(315));
}

TEST(TopPollerTest, LooksAtTheDaemonThatAStandbyNamesAndSaysWhere) {
  FakeServer active(quiet);
  FakeServer standby([&](const Words& words) {
    if (words[0] == "INFO") return quiet(words);
    return Answer::text("-READONLY the active daemon is " + active.address().text() + "\r\n");
  });
  TopPoller poller({standby.address()}, milliseconds(1));
  std::vector<TopPoller::News> queue;
  const TopPoller::News news = next_news(poller, queue);
  ASSERT_TRUE(std::holds_alternative<TopSnapshot>(news)) << "the first news is no loss";
  EXPECT_EQ(std::get<TopSnapshot>(news).address, active.address().text());
}

TEST(TopPollerTest, ADaemonThatTakesOverIsLostUntilItServes) {
  int looks = 0;
  FakeServer server([&](const Words& words) {
    return words[0] == "WORKERS" && ++looks < 3 ? Answer::text("-LOADING the store is read\r\n")
                                                : quiet(words);
  });
  TopPoller poller({server.address()}, milliseconds(1));
  std::vector<TopPoller::News> queue;
  EXPECT_TRUE(std::holds_alternative<TopPoller::Lost>(next_news(poller, queue)));
  EXPECT_TRUE(std::holds_alternative<TopPoller::Lost>(next_news(poller, queue)));
  EXPECT_TRUE(std::holds_alternative<TopSnapshot>(next_news(poller, queue)));
}

TEST(TopPollerTest, EndsAtOnceWhileTheDaemonSaysNothing) {
  FakeServer server([](const Words&) { return Answer::silence(); });
  {
    TopPoller poller({server.address()}, milliseconds(1));
    while (server.commands().empty()) std::this_thread::yield();
  }
  // It did not wait for the half minute that an answer may take: the test's own time says so.
  EXPECT_FALSE(server.commands().empty());
}

TEST(TopPollerTest, WhatIsAskedForWithoutAConnectionIsNotDoneLater) {
  const Gone gone;
  TopPoller poller({gone.address()}, milliseconds(1));
  std::vector<TopPoller::News> queue;
  EXPECT_TRUE(std::holds_alternative<TopPoller::Lost>(next_news(poller, queue)));
  poller.act({TopAction::Kind::kCancel, "x", {"CANCEL", "x"}});
  for (;;) {
    const TopPoller::News news = next_news(poller, queue);
    if (const auto* answer = std::get_if<TopAnswer>(&news)) {
      EXPECT_EQ(answer->text, "x: not connected; nothing was done");
      return;
    }
  }
}

}  // namespace
}  // namespace locksley::cli
