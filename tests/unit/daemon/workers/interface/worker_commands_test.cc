// The commands of remote workers: what is accepted, what is refused, and with which limit.
#include "daemon/workers/interface/worker_commands.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

TEST(LeaseNameTest, IsReadBackAsItIsWritten) {
  const LeaseName name{.life = 0xabcdef, .number = 17};
  EXPECT_EQ(name.to_string(), "0000000000abcdef-17");
  EXPECT_EQ(LeaseName::parse(name.to_string()), name);
}

TEST(LeaseNameTest, HasOneForm) {
  for (const char* text : {"", "-", "17", "0000000000abcdef", "0000000000abcdef-", "0000000000ABCDEF-17",
                           "0000000000abcdef-017", "0000000000abcdef--1", "0000000000abcdeg-17",
                           "0000000000abcdef-99999999999999999999", " 000000000abcdef-17"}) {
    EXPECT_EQ(LeaseName::parse(text), std::nullopt) << text;
  }
}

class RefusedCommandTest : public WorkerLinkFixture {};

TEST_F(RefusedCommandTest, WhatIsWrongIsNamed) {
  const WorkerLink::Id stranger = connect();
  const std::vector<std::pair<std::string, std::string>> joins = {
      {"JOIN", "-ERR wrong number of arguments"},
      {"JOIN w SLOTS 2 HANDLERS", "-ERR wrong number of arguments"},
      {"JOIN w SLOTS 2 PUSH LEASE 2000", "-ERR JOIN needs HANDLERS"},
      {"JOIN w PUSH HANDLERS echo echo", "-ERR JOIN needs SLOTS"},
      {"JOIN w SLOTS 0 HANDLERS echo", "-ERR SLOTS is a number from 1 to 4096, not '0'"},
      {"JOIN w SLOTS 4097 HANDLERS echo", "-TOOBIG SLOTS is a number from 1 to 4096, not '4097'"},
      {"JOIN w SLOTS -1 HANDLERS echo", "-ERR SLOTS is a number"},
      {"JOIN w SLOTS 2 LEASE 999 HANDLERS echo", "-ERR LEASE is a number from 1000 to 86400000"},
      {"JOIN w SLOTS 2 LEASE 86400001 HANDLERS echo", "-TOOBIG LEASE"},
      {"JOIN w SLOTS 2 GRACE 600001 HANDLERS echo", "-TOOBIG GRACE is a number from 0 to 600000"},
      {"JOIN w SLOTS 2 WHAT HANDLERS echo", "-ERR syntax error at 'WHAT'"},
      {"JOIN w SLOTS 2 slots 3 HANDLERS echo", "-ERR option 'slots' is given twice"},
      {"JOIN w SLOTS 2 PUSH HANDLERS echo", "-ERR PUSH needs RESP3"},
      {"JOIN " + std::string(257, 'w') + " SLOTS 2 HANDLERS echo",
       "-TOOBIG bytes of the name of a worker: at most 256"},
      {"JOIN w SLOTS 2 HANDLERS " + std::string(129, 'h'),
       "-TOOBIG the name of a handler: at most 128 bytes"},
      {"JOIN w SLOTS 2 HANDLERS nothing",
       "-NOHANDLER no handler 'nothing' for remote workers: in the daemon's configuration it needs "
       "`remote: true`; these have it: echo"},
  };
  for (const auto& [command, reply] : joins) EXPECT_EQ(say(stranger, command).find(reply), 0U) << command;
  EXPECT_EQ(
      run(stranger, {"JOIN", "a b", "SLOTS", "2", "HANDLERS", "echo"}).find("-ERR the name of a worker"), 0U);
  EXPECT_EQ(run(stranger, {"JOIN", "", "SLOTS", "2", "HANDLERS", "echo"}).find("-ERR the name of a worker"),
            0U);
  Words many{"JOIN", "w", "SLOTS", "2", "HANDLERS"};
  many.insert(many.end(), 1'025, "echo");
  EXPECT_EQ(run(stranger, many).find("-TOOBIG HANDLERS: at most 1024"), 0U);
  EXPECT_TRUE(link->workers().empty());
}

TEST_F(RefusedCommandTest, WhatIsWrongAfterJoinIsNamed) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 5);
  const Granted lease = claim(id, "JOBS 1");
  ASSERT_TRUE(lease);
  const std::string name = lease.lease;
  const std::vector<std::pair<std::string, std::string>> commands = {
      {"JOIN w SLOTS 2 HANDLERS echo", "-ERR this connection has joined"},
      {"CLAIM SLOT", "-ERR SLOT needs a value"},
      {"CLAIM SLOT 2", "-TOOBIG the worker has 2 slots"},
      {"CLAIM SLOT 1 WIDTH 2", "-TOOBIG the worker has 2 slots"},
      {"CLAIM WIDTH 3", "-TOOBIG the worker has 2 slots"},
      {"CLAIM WIDTH 0", "-ERR WIDTH is a number"},
      {"CLAIM JOBS 0", "-ERR JOBS is a number"},
      {"CLAIM BLOCK 300001", "-TOOBIG BLOCK is a number from 0 to 300000"},
      {"CLAIM HANDLERS", "-ERR HANDLERS needs a handler"},
      {"CLAIM HANDLERS resize", "-NOHANDLER the worker has not joined for 'resize'"},
      {"CLAIM SLOT 0 WIDTH 1 JOBS 1 BYTES 1 BLOCK 0 SLOT 0", "-ERR option 'SLOT' is given twice"},
      {"CLAIM WHAT", "-ERR syntax error at 'WHAT'"},
      {"SETTLE " + name + " ok 0", "-ERR wrong number of arguments"},
      {"SETTLE " + name + " good 0 x", "-ERR unknown status 'good'"},
      {"SETTLE " + name + " ok -1 x", "-ERR first is a number"},
      {"SETTLE " + name + " ok 18446744073709551615 x", "-TOOBIG first"},
      {"SETTLE " + name + " ok 0 x x", "-ERR the lease has jobs 0 to 0; nothing was recorded"},
      {"SETTLE " + name + " ok 1 x", "-ERR the lease has jobs 0 to 0; nothing was recorded"},
      {"SETTLE what ok 0 x", "-LOST the lease is gone; nothing was recorded"},
      {"NOTE " + name, "-ERR wrong number of arguments"},
      {"NOTE " + name + " 0 PROGRESS 101", "-TOOBIG PROGRESS is a number from 0 to 100"},
      {"NOTE " + name + " 0 TEXT " + std::string(4'097, 'x'), "-TOOBIG bytes of TEXT: at most 4096"},
      {"NOTE " + name + " 0 LOG " + std::string(65'537, 'x'), "-TOOBIG bytes of LOG: at most 65536"},
      {"NOTE " + name + " 0 TEXT TEXT TEXT x", "-ERR option 'TEXT' is given twice"},
      {"NOTE " + name + " 0 EXIT 256", "-TOOBIG EXIT is a number from 0 to 255"},
      {"NOTE " + name + " 1 PROGRESS 1", "-LOST the lease does not hold that job"},
      {"YIELD", "-ERR wrong number of arguments"},
      {"YIELD " + name + " 0 0", "-ERR wrong number of arguments"},
      {"YIELD what", "-LOST"},
      {"BEAT " + name, "-ERR wrong number of arguments"},
      {"BEAT " + name + " x", "-ERR next is a number"},
      {"BEAT a 1 b 1 c 1 d 1 e 1", "-TOOBIG leases of a BEAT: at most 4"},
      {"RECLAIM 1 1 0", "-ERR wrong number of arguments"},
      {"RECLAIM 1 1 5 5", "-ERR RECLAIM: first is not less than high"},
      {"RECLAIM 1 1 0 65537", "-TOOBIG a lease has at most 65536 jobs"},
      {"RECLAIM 9 1 0 5", "-LOST there is no such batch"},
      {"RECLAIM 1 1 0 5 WIDTH 1 WIDTH 1", "-ERR option 'WIDTH' is given twice"},
      {"RECLAIM 1 1 0 5 WIDTH 3", "-TOOBIG the worker has 2 slots"},
      {"RECLAIM 1 4294967296 0 5", "-TOOBIG attempt"},
      {"LEAVE now", "-ERR wrong number of arguments"},
      {"PING", "-ERR unknown command 'PING'"},
  };
  for (const auto& [command, reply] : commands) {
    EXPECT_EQ(say(id, command).find(reply), 0U) << command.substr(0, 60) << " " << reply;
  }
  EXPECT_EQ(host.batches.at(1)->status().rows, 0U) << "nothing was recorded";
  EXPECT_EQ(settle_all(id, lease), "*2 :1 :0") << "the lease is none the worse";
}

}  // namespace
}  // namespace locksley::daemon::test
