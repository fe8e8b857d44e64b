// What a command under way holds counts to the memory of its connection.
#include "daemon/server/session/session_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/session/read_memory.h"
#include "daemon/server/session/session.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

class SessionMemoryTest : public ServerFixture {
 protected:
  static constexpr std::uint64_t kMany = 100'000;
  struct Read {
    std::uint64_t bytes = 0;
    std::uint64_t memory_bytes() const { return bytes; }
  };

  SessionMemoryTest() {
    start();
    client_.emplace(port_);
    client_->ask("PING");  // it is accepted now
  }
  ~SessionMemoryTest() override { stop(); }

  // On the I/O thread, with the memory of the only connection.
  void use(const std::function<void(SessionMemory&)>& look) {
    on_io_thread([&] {
      kIoThread.assert_held();
      look(server_->session(1)->memory());
      return true;
    });
  }
  // What the account of all is charged.
  std::uint64_t charged() LOCKSLEY_REQUIRES(kIoThread) {
    return server_->batches().registry().tenants().account_of_all().used(Resource::kClientBytes);
  }

  std::optional<Client> client_;
};

TEST_F(SessionMemoryTest, WhatACommandHoldsCountsUntilTheNextUpdate) {
  use([this](SessionMemory& memory) {
    kIoThread.assert_held();
    memory.update();
    const std::uint64_t before = memory.output();
    memory.update(kMany);
    EXPECT_EQ(memory.output(), before + kMany);
    EXPECT_EQ(charged(), memory.output());
    memory.update();
    EXPECT_EQ(memory.output(), before);
    EXPECT_EQ(charged(), before);
  });
}

TEST_F(SessionMemoryTest, AReadCountsFromItsEndUntilItsOwnerForgetsIt) {
  use([](SessionMemory& memory) {
    kIoThread.assert_held();
    memory.update();
    const std::uint64_t before = memory.output();
    auto owner = std::make_unique<ReadMemory>(memory);
    const auto wanted = owner->begin_read();
    const auto on_read = owner->on_read<Read>();
    EXPECT_EQ(memory.output(), before) << "the read is under way";
    on_read(Read{kMany});
    EXPECT_EQ(memory.output(), before + kMany);
    owner.reset();
    EXPECT_TRUE(wanted.expired());
    memory.update();
    EXPECT_EQ(memory.output(), before);
    on_read(Read{kMany});
    EXPECT_EQ(memory.output(), before) << "its command has ended: the read is not its memory any more";
  });
}

TEST_F(SessionMemoryTest, ADroppedConnectionIsChargedNothingMore) {
  use([this](SessionMemory& memory) {
    kIoThread.assert_held();
    memory.update(kMany);
    server_->session(1)->drop("a test");
    memory.evict();
    EXPECT_EQ(charged(), 0u);
    memory.update(kMany);
    EXPECT_EQ(charged(), 0u);
  });
}

TEST_F(SessionMemoryTest, AConnectionThatHoldsMoreThanTheLimitOfAllIsDropped) {
  use([this](SessionMemory& memory) {
    kIoThread.assert_held();
    const Session& session = *server_->session(1);
    const Account& all = server_->batches().registry().tenants().account_of_all();
    memory.update();
    const std::uint64_t left = all.limit(Resource::kClientBytes) - memory.output();
    memory.update(left);
    EXPECT_FALSE(session.is_dropped()) << "it is at the limit";
    memory.update(left + 1);
    EXPECT_TRUE(session.is_dropped());
    EXPECT_EQ(charged(), 0u);
  });
}

}  // namespace
}  // namespace locksley::daemon
