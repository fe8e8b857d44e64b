// Batches of a handler that goes, comes back, or changes its lane; played by the test, on the I/O
// thread.
#include <gmock/gmock.h>

#include <string>

#include "core/lane/lane_view.h"
#include "daemon/base/loop/io_thread.h"
#include "tests/support/gate.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::StartsWith;

class ServerHandlersTest : public ServerFixture {
 protected:
  ServerHandlersTest() {
    late_.run_with([](JobContext& context, std::string_view payload) { context.write(payload); });
    add();
  }
  ~ServerHandlersTest() override { other_.detach_all(); }

  void add(Lane* lane = nullptr) LOCKSLEY_REQUIRES(kIoThread) {
    handlers_.add({.handler = late_, .lane = lane == nullptr ? lane_ : *lane, .kind = HandlerKind::kPlugin});
  }
  // On the I/O thread.
  template <class Change>
  void change(Change change) {
    on_io_thread([&] {
      change(server_->batches());
      return 0;
    });
  }
  Holds holds_of(const std::string& id) {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return (*server_->batches().find(*server_->state().users().everybody(), id))->status().holds;
    });
  }

  testing::Gate gate_;
  Lane other_{"other", {}};
  Handler& late_ = handlers_.handler_of("late");
};

TEST_F(ServerHandlersTest, AMistypedNameHasAGuessThatTellsNothingOfHandlersThatTheUserMayNotUse) {
  const ThreadRoleScope io_thread(kIoThread);
  Tenants tenants;
  Users users(tenants);
  config::User settings;
  settings.handlers = {"late", "gone"};
  users.replace({{"alice", settings}});
  const User& alice = *users.find("alice");
  const auto error_of = [&](const std::string& name) {
    kIoThread.assert_held();
    return usable_handler(handlers_, alice, name).error();
  };
  const auto no_permission = [](const std::string& name) {
    return "NOPERM User alice has no permissions to use the handler '" + name + "'";
  };
  EXPECT_TRUE(usable_handler(handlers_, alice, "late"));
  EXPECT_EQ(error_of("lat"), no_permission("lat") + "; did you mean 'late'?");
  EXPECT_EQ(error_of("Late"), no_permission("Late") + "; did you mean 'late'?");
  // There is a handler `echo`, which alice may not use, and none that is named `gone`.
  for (const char* const name : {"echo", "ecoh", "gon", "spam"})
    EXPECT_EQ(error_of(name), no_permission(name));
  EXPECT_EQ(error_of("gone"), "NOHANDLER no handler is named 'gone'. There are: late");
  EXPECT_EQ(error_of("sleep"), no_permission("sleep") + "; only users.alice.handlers gives them");
}

TEST_F(ServerHandlersTest, ANameHasOneHandlerWhateverBecomesOfIt) {
  const ThreadRoleScope io_thread(kIoThread);
  handlers_.remove("late");
  EXPECT_EQ(handlers_.find("late"), nullptr);
  ASSERT_NE(handlers_.find_any("late"), nullptr);
  EXPECT_EQ(&handlers_.find_any("late")->handler, &late_);
  EXPECT_TRUE(handlers_.find_any("late")->is_held);
  EXPECT_EQ(&handlers_.for_batch("late").handler, &handlers_.handler_of("late"));
  EXPECT_EQ(handlers_.find_any("never"), nullptr);
  EXPECT_EQ(&handlers_.for_batch("never").handler, &handlers_.handler_of("never"));
  EXPECT_EQ(handlers_.find("never"), nullptr) << "known to be missing";
  add();
  EXPECT_FALSE(handlers_.find("late")->is_held);
  EXPECT_EQ(handlers_.find_any("late"), handlers_.find("late"));
}

TEST_F(ServerHandlersTest, WhatIsQueuedOfAHandlerThatGoesWaitsForIt) {
  start();
  change([](Batches& batches) {
    kIoThread.assert_held();
    batches.handlers().hold("late");
  });
  Client client(port_);
  client.send("SUBMIT late ID b JOBS x\r\n");
  EXPECT_EQ(client.bulk(), "b");
  Client runs(port_);
  runs.send("RUN late JOBS y\r\n");
  while (on_io_thread([&] {
           kIoThread.assert_held();
           return server_->batches().active();
         }) != 2)
    std::this_thread::yield();
  change([&](Batches& batches) {
    kIoThread.assert_held();
    handlers_.remove("late");
    batches.handlers().hold("late");
    EXPECT_FALSE(batches.handlers().has_running("late"));
  });
  EXPECT_THAT(client.ask("SUBMIT late JOBS x"), StartsWith("-NOHANDLER"));
  EXPECT_TRUE(has(holds_of("b"), Hold::kHandler));
  change([&](Batches& batches) {
    kIoThread.assert_held();
    add();
    batches.handlers().release("late");
  });
  EXPECT_EQ(runs.line(), "*1");
  EXPECT_THAT(client.ask("WAIT b"), StartsWith("*"));
  EXPECT_EQ(holds_of("b"), 0);
}

TEST_F(ServerHandlersTest, ARepetitionFindsItsBatchAlsoIfTheHandlerHasGoneMeanwhile) {
  start();
  change([](Batches& batches) {
    kIoThread.assert_held();
    batches.handlers().hold("late");
  });
  Client client(port_);
  client.send("SUBMIT late ID b JOBS x\r\nOPEN late ID o\r\n");
  EXPECT_EQ(client.bulk(), "b");
  EXPECT_EQ(client.bulk(), "o");
  change([&](Batches& batches) {
    kIoThread.assert_held();
    handlers_.remove("late");
    batches.handlers().hold("late");
  });
  // An error would mean that nothing was accepted.
  client.send("SUBMIT late ID b JOBS x\r\nOPEN late ID o\r\n");
  EXPECT_EQ(client.bulk(), "b");
  EXPECT_EQ(client.bulk(), "o");
  EXPECT_THAT(client.ask("SUBMIT late ID b JOBS y"), StartsWith("-EXISTS"));
  EXPECT_THAT(client.ask("RUN late ID b JOBS x"), StartsWith("-EXISTS"));
  EXPECT_THAT(client.ask("SUBMIT late ID new JOBS x"), StartsWith("-NOHANDLER"));
  EXPECT_THAT(client.ask("SUBMIT nosuch ID b JOBS x"), StartsWith("-NOHANDLER"));
  client.send("CANCEL b\r\nCANCEL o\r\n");
  EXPECT_EQ(client.line(), ":1");
  EXPECT_EQ(client.line(), ":0");
}

TEST_F(ServerHandlersTest, BatchesChangeTheirLaneWhileNothingRuns) {
  start();
  change([](Batches& batches) {
    kIoThread.assert_held();
    batches.handlers().hold("late");
  });
  Client client(port_);
  client.send("SUBMIT late ID b JOBS x y z\r\n");
  EXPECT_EQ(client.bulk(), "b");
  change([&](Batches& batches) {
    kIoThread.assert_held();
    add(&other_);
    batches.handlers().release("late");
  });
  // Nobody serves the other lane.
  EXPECT_EQ(on_io_thread([&] { return other_.view().snapshot(0).queued; }), 3u);
  change([&](Batches& batches) {
    kIoThread.assert_held();
    batches.handlers().hold("late");
    add();
    batches.handlers().release("late");
  });
  EXPECT_THAT(client.ask("WAIT b"), StartsWith("*"));
  EXPECT_EQ(other_.view().snapshot(0).queues, 0u);
}

TEST_F(ServerHandlersTest, AJobThatRunsIsSeen) {
  // The test ends after its jobs, which hold on to the gate.
  late_.run_with([this](JobContext&, std::string_view) { gate_.pass(); });
  start();
  Client client(port_);
  client.send("SUBMIT late ID b JOBS x y z\r\n");
  EXPECT_EQ(client.bulk(), "b");
  const auto running = [&] {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return server_->batches().handlers().has_running("late");
    });
  };
  // Not only claimed: a worker that has not begun would hand back what it has claimed of a batch
  // that is held.
  gate_.await(1);
  change([](Batches& batches) {
    kIoThread.assert_held();
    batches.handlers().hold("late");
  });
  EXPECT_TRUE(running());
  gate_.open();
  while (running()) std::this_thread::yield();
  EXPECT_LT(on_io_thread([&] {
              kIoThread.assert_held();
              return (*server_->batches().find(*server_->state().users().everybody(), "b"))->status().ok;
            }),
            3u);
  change([](Batches& batches) {
    kIoThread.assert_held();
    batches.handlers().release("late");
  });
  EXPECT_THAT(client.ask("WAIT b"), StartsWith("*"));
}

TEST_F(ServerHandlersTest, OfVeryManyBatchesAFewFollowAtOnceAndTheOthersInSlices) {
  {
    const ThreadRoleScope io_thread(kIoThread);
    add(&other_);  // where nothing runs them
  }
  start();
  constexpr std::size_t kBatches = 3 * HandlerBatches::kAtOnce + 1;
  Client client(port_);
  std::string commands;
  for (std::size_t i = 0; i < kBatches; ++i)
    commands += "SUBMIT late ID b" + std::to_string(i) + " JOBS x\r\n";
  client.send(commands);
  for (std::size_t i = 0; i < kBatches; ++i) EXPECT_EQ(client.bulk(), "b" + std::to_string(i));
  const auto held = [&] {
    kIoThread.assert_held();
    std::size_t count = 0;
    for (std::size_t i = 0; i < kBatches; ++i) {
      const auto found =
          server_->batches().find(*server_->state().users().everybody(), "b" + std::to_string(i));
      if (has((*found)->status().holds, Hold::kHandler)) ++count;
    }
    return count;
  };
  const auto is_walking = [&] {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return server_->batches().handlers().has_running("late");
    });
  };
  change([&](Batches& batches) {
    kIoThread.assert_held();
    batches.handlers().hold("late");
    EXPECT_EQ(held(), HandlerBatches::kAtOnce);
    EXPECT_TRUE(batches.handlers().has_running("late")) << "the others are not held yet";
  });
  while (is_walking()) std::this_thread::yield();
  EXPECT_EQ(on_io_thread(held), kBatches);
  change([&](Batches& batches) {
    kIoThread.assert_held();
    batches.handlers().release("late");
    EXPECT_EQ(held(), kBatches - HandlerBatches::kAtOnce);
    // The configuration changes again before the others have followed it.
    batches.handlers().hold("late");
  });
  while (is_walking()) std::this_thread::yield();
  EXPECT_EQ(on_io_thread(held), kBatches);
  change([&](Batches& batches) {
    kIoThread.assert_held();
    add();
    batches.handlers().release("late");
  });
  client.send("WAIT b" + std::to_string(kBatches - 1) + "\r\n");
  EXPECT_THAT(client.line(), StartsWith("*")) << "it is in a lane that runs it";
}

// It is in no ring, and nobody tells it of what becomes of its handler meanwhile.
TEST_F(ServerHandlersTest, RetryGoesByTheHandlerAsItIsThen) {
  late_.run_with([](JobContext& context, std::string_view) { context.fail("no"); });
  start();
  Client client(port_);
  client.send("SUBMIT late ID b JOBS x\r\n");
  EXPECT_EQ(client.bulk(), "b");
  EXPECT_THAT(client.ask("WAIT b"), StartsWith("*"));
  change([&](Batches& batches) {
    kIoThread.assert_held();
    handlers_.remove("late");
    batches.handlers().hold("late");
  });
  Client again(port_);
  EXPECT_EQ(again.ask("RETRY b"), ":1");
  EXPECT_TRUE(has(holds_of("b"), Hold::kHandler));
  change([&](Batches& batches) {
    kIoThread.assert_held();
    add();
    batches.handlers().release("late");
  });
  EXPECT_THAT(again.ask("WAIT b"), StartsWith("*"));
}

}  // namespace
}  // namespace locksley::daemon
