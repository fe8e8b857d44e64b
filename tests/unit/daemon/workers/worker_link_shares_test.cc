// What the workers of one user hold leaves room for those of the others.
#include <gmock/gmock.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "daemon/workers/state/worker_accounts.h"
#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

TEST(RoomBesideOthersTest, AUserMayHoldAsMuchAsIsFreeAfterIt) {
  EXPECT_EQ(room_beside_others(0, 0, 100), 50U);
  EXPECT_EQ(room_beside_others(30, 30, 100), 20U);
  EXPECT_EQ(room_beside_others(50, 50, 100), 0U);
  EXPECT_EQ(room_beside_others(0, 50, 100), 25U);
  EXPECT_EQ(room_beside_others(25, 75, 100), 0U);
  EXPECT_EQ(room_beside_others(0, 100, 100), 0U);
  EXPECT_EQ(room_beside_others(150, 150, 100), 0U) << "beyond the limit";
}

TEST(RoomBesideOthersTest, HoweverManyTakeAllTheyCanGetTheNextFindsRoom) {
  constexpr std::uint64_t kMost = 1'000'000;
  std::uint64_t all = 0;
  for (int user = 0; user < 15; ++user) {
    std::uint64_t own = 0;
    ASSERT_GT(room_beside_others(own, all, kMost), 0U) << user;
    while (const std::uint64_t room = room_beside_others(own, all, kMost)) own += room, all += room;
    ASSERT_LE(own, kMost - all);
  }
}

// All payloads have 100 bytes. A lease has one job, unless a test says otherwise.
class WorkerLinkSharesTest : public WorkerLinkFixture {
 protected:
  WorkerLink::Id joined_as(const std::string& user, std::uint32_t slots = 32) {
    const WorkerLink::Id id = connect(user);
    EXPECT_EQ(say(id, "JOIN w SLOTS " + std::to_string(slots) + " HANDLERS echo").front(), '*');
    return id;
  }
  std::shared_ptr<Batch> submit_jobs(std::uint64_t jobs, std::size_t bytes = 100) {
    return host.submit(
        "echo", jobs, {},
        std::make_unique<StringPayloads>(std::vector<std::string>(jobs, std::string(bytes, 'p'))));
  }
  // All leases that the worker can get.
  std::vector<Granted> take_all(WorkerLink::Id id) {
    std::vector<Granted> leases;
    while (const Granted lease = claim(id, "JOBS 1")) leases.push_back(lease);
    return leases;
  }
};

TEST_F(WorkerLinkSharesTest, AUserAloneHoldsHalfWithAllItsConnections) {
  restart({.max_leased_bytes = 1'000});
  submit_jobs(20);
  const WorkerLink::Id first = joined_as("mallory"), second = joined_as("mallory");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(claim(first, "JOBS 1"));
  EXPECT_EQ(take_all(second).size(), 2U);
  EXPECT_FALSE(claim(first, "JOBS 1"));
  link->disconnect(second, now);
  EXPECT_EQ(take_all(first).size(), 2U) << "what the other connection held";
  link->disconnect(first, now);
  EXPECT_EQ(take_all(joined_as("mallory")).size(), 5U);
}

TEST_F(WorkerLinkSharesTest, WhoClaimsAllItCanAndOnlyBeatsLeavesLeasesToTheNextUsers) {
  restart({.max_leased_bytes = 1'000});
  submit_jobs(20);
  const WorkerLink::Id mallory = joined_as("mallory");
  const std::size_t held = take_all(mallory).size();
  EXPECT_EQ(held, 5U);
  const WorkerLink::Id grace = joined_as("grace");
  const std::vector<Granted> leases = take_all(grace);
  ASSERT_FALSE(leases.empty());
  ASSERT_TRUE(claim(joined_as("heidi"), "JOBS 1")) << "while the other two hold all that they can";
  EXPECT_LE(link->stats().leased_bytes, 1'000U);
  for (const Granted& lease : leases) settle_all(grace, lease);
  // For ten lengths of a lease.
  std::size_t ended = leases.size();
  for (int i = 0; i < 30; ++i) {
    say(mallory, "BEAT");
    if (const Granted lease = claim(grace, "JOBS 1")) settle_all(grace, lease), ++ended;
    pass(3s);
  }
  EXPECT_EQ(ended, 20 - held) << "all others, and the job of heidi, who is silent";
  EXPECT_EQ(link->stats().leases, held);
}

TEST_F(WorkerLinkSharesTest, ThePatternOfARangeIsChargedWithEachLease) {
  restart({.max_leased_bytes = 1'000});
  host.submit("echo", 20, {}, std::make_unique<RangePayloads>(0, std::string(100, 'p')));
  const WorkerLink::Id id = joined_as("mallory");
  const std::vector<Granted> leases = take_all(id);
  EXPECT_EQ(leases.size(), 5U) << "each reply has the pattern";
  EXPECT_EQ(link->stats().leased_bytes, 500U);
  for (const Granted& lease : leases) settle_all(id, lease);
  EXPECT_EQ(link->stats().leased_bytes, 0U);
}

TEST_F(WorkerLinkSharesTest, NotesAboutJobsThatHaveNotBegunShowNoMoreThanAUsersPart) {
  restart({.max_shown = 8});
  const auto jobs = host.submit("echo", 20, {}, std::make_unique<RangePayloads>(0));
  const auto shown = [&](std::uint64_t index) {
    return host.lane_of("echo")->running().find(*jobs, index).has_value();
  };
  const WorkerLink::Id mallory = joined_as("mallory", 1);
  const std::string lease = reclaimed(mallory, "1 1 0 10");
  ASSERT_NE(lease, "");
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(say(mallory, "NOTE " + lease + " " + std::to_string(i) + " PROGRESS 5"), "+OK");
  EXPECT_TRUE(shown(0)) << "it runs";
  EXPECT_TRUE(shown(3));
  EXPECT_FALSE(shown(4)) << "half of all";
  EXPECT_EQ(say(mallory, "NOTE " + lease + " 3 TEXT again"), "+OK");
  EXPECT_EQ(host.lane_of("echo")->running().find(*jobs, 3)->note, "again");
  const WorkerLink::Id grace = joined_as("grace", 1);
  const std::string other = reclaimed(grace, "1 1 10 20");
  for (int i = 10; i < 20; ++i) say(grace, "NOTE " + other + " " + std::to_string(i) + " PROGRESS 5");
  EXPECT_TRUE(shown(11)) << "there is room for others";
  EXPECT_FALSE(shown(12));
  say(mallory, "SETTLE " + lease + " ok 2 x x");
  EXPECT_EQ(say(mallory, "NOTE " + lease + " 9 PROGRESS 5"), "+OK");
  EXPECT_TRUE(shown(9)) << "in place of those that have ended";
  link->disconnect(mallory, now);
  EXPECT_FALSE(shown(0));
}

TEST_F(WorkerLinkSharesTest, JobsThatAreSettledHereAndThereLieInNoMorePartsThanAUsersPart) {
  restart({.max_splits = 8});
  host.submit("echo", 40, {}, std::make_unique<RangePayloads>(0));
  const auto settle = [this](WorkerLink::Id id, const std::string& lease, int index) {
    return say(id, "SETTLE " + lease + " ok " + std::to_string(index) + " x");
  };
  const WorkerLink::Id mallory = joined_as("mallory", 2);
  const std::string first = reclaimed(mallory, "1 1 0 10"), second = reclaimed(mallory, "1 1 10 20");
  ASSERT_NE(second, "");
  for (const int index : {1, 3}) EXPECT_THAT(settle(mallory, first, index), ::testing::HasSubstr(":1"));
  for (const int index : {11, 13}) EXPECT_THAT(settle(mallory, second, index), ::testing::HasSubstr(":1"));
  EXPECT_THAT(settle(mallory, second, 15), ::testing::HasSubstr("TOOBIG")) << "half of all";
  EXPECT_THAT(settle(mallory, second, 14), ::testing::HasSubstr(":1")) << "beside one that has ended";
  EXPECT_THAT(settle(mallory, first, 2), ::testing::HasSubstr(":1"));
  EXPECT_THAT(settle(mallory, second, 16), ::testing::HasSubstr(":1"))
      << "in place of the part that has ended";
  const WorkerLink::Id grace = joined_as("grace", 1);
  const std::string other = reclaimed(grace, "1 1 20 30");
  for (const int index : {21, 23}) EXPECT_THAT(settle(grace, other, index), ::testing::HasSubstr(":1"));
  EXPECT_THAT(settle(grace, other, 25), ::testing::HasSubstr("TOOBIG")) << "half of the rest";
  link->disconnect(mallory, now);
  EXPECT_THAT(settle(grace, other, 25), ::testing::HasSubstr(":1")) << "there is room again";
}

TEST_F(WorkerLinkSharesTest, AReclaimGetsNoMorePartsThanAUsersPartAndTheOtherJobsStayQueued) {
  restart({.max_splits = 8});
  host.submit("echo", 40, {}, std::make_unique<RangePayloads>(0));
  const WorkerLink::Id mallory = joined_as("mallory", 2);
  // What is queued of each ten jobs then lies in four parts.
  for (const int first : {0, 10}) {
    const std::string jobs = std::to_string(first) + " " + std::to_string(first + 10);
    const std::string lease = reclaimed(mallory, "1 1 " + jobs);
    for (const int index : {1, 3, 5})
      EXPECT_THAT(say(mallory, "SETTLE " + lease + " ok " + std::to_string(first + index) + " x"),
                  ::testing::HasSubstr(":1"));
    EXPECT_EQ(say(mallory, "YIELD " + lease), ":7");
  }
  EXPECT_THAT(say(mallory, "RECLAIM 1 1 0 10"),
              ::testing::HasSubstr("*4 *2 :0 :1 *2 :2 :3 *2 :4 :5 *2 :6 :10 :1"));
  EXPECT_THAT(say(mallory, "RECLAIM 1 1 10 20"), ::testing::HasSubstr("*2 *2 :10 :11 *2 :12 :13 :1"))
      << "half of all";
  const WorkerLink::Id grace = joined_as("grace", 1);
  const std::string other = reclaimed(grace, "1 1 20 30");
  for (const int index : {21, 23})
    EXPECT_THAT(say(grace, "SETTLE " + other + " ok " + std::to_string(index) + " x"),
                ::testing::HasSubstr(":1"));
  EXPECT_THAT(say(mallory, "RECLAIM 1 1 10 20 SLOT 1"), ::testing::HasSubstr("*1 *2 :14 :15 :1"))
      << "a lease has one part in any case";
  EXPECT_EQ(ring().queued, 14U) << "16 to 19, and 30 to 39";
}

// Also the names of handlers that there are not: a worker serves these once they are there.
TEST_F(WorkerLinkSharesTest, NamesOfHandlersTakeNoMoreThanAUsersPart) {
  restart({.max_name_bytes = 10 * (kBytesOfName + 4)});
  const WorkerLink::Id first = connect("mallory"), second = connect("mallory"), other = connect("grace");
  const std::string join = "JOIN w SLOTS 1 PARTIAL HANDLERS echo";
  const std::string refused =
      "-TOOBIG the names of handlers of the user's workers would take more than 340 bytes, of which each "
      "name takes 64 "
      "and its length: JOIN for fewer handlers, or one of them must LEAVE";
  EXPECT_EQ(say(first, join + " far1 far2 far3 far4 far5"), refused);
  EXPECT_EQ(say(first, join + " far1 echo far1 far1 far1 far1").front(), '*') << "a name counts once";
  EXPECT_EQ(say(second, join + " far1 far2 far3"), refused) << "those of all workers of the user";
  EXPECT_EQ(say(second, join + " far1 far2").front(), '*') << "half of all";
  EXPECT_EQ(link->stats().name_bytes, 340U);
  EXPECT_EQ(say(other, join + " far1").front(), '*') << "there is room for others";
  EXPECT_EQ(say(second, "LEAVE"), "+OK");
  link->disconnect(first, now);
  EXPECT_EQ(say(second, join + " far1 far2 far3").front(), '*') << "there is room again";
  EXPECT_EQ(link->stats().name_bytes, 408U);
}

TEST_F(WorkerLinkSharesTest, ClaimsThatWaitForRoomDoNotHoldUpThoseOfOthers) {
  restart({.max_leased_bytes = 1'000});
  const auto first = submit_jobs(5);
  const WorkerLink::Id mallory = joined_as("mallory"), waits = joined_as("mallory");
  const std::vector<Granted> leases = take_all(mallory);
  ASSERT_EQ(leases.size(), 5U);
  EXPECT_EQ(say(waits, "CLAIM JOBS 1 BLOCK 60000"), "");
  const WorkerLink::Id grace = joined_as("grace"), heidi = joined_as("heidi");
  EXPECT_EQ(say(heidi, "CLAIM JOBS 1 BLOCK 60000"), "");
  EXPECT_EQ(say(grace, "CLAIM JOBS 1 BLOCK 60000"), "");
  submit_jobs(1);
  link->wake(now);
  EXPECT_TRUE(parse(sent(heidi))) << "of those with room, the first that asked";
  EXPECT_EQ(sent(grace), "");
  submit_jobs(2);
  link->wake(now);
  EXPECT_TRUE(parse(sent(grace)));
  EXPECT_EQ(sent(waits), "") << "with a job that is queued";
  settle_all(mallory, leases[0]);
  EXPECT_EQ(sent(waits), "") << "the four leases of its user are as much as the others leave free";
  settle_all(mallory, leases[1]);
  EXPECT_TRUE(parse(sent(waits))) << "as soon as it has room";
}

TEST_F(WorkerLinkSharesTest, WhatOthersGiveBackIsRoomForAClaimThatWaits) {
  restart({.max_leased_bytes = 1'000});
  submit_jobs(20);
  const WorkerLink::Id mallory = joined_as("mallory"), grace = joined_as("grace");
  take_all(mallory);
  const std::size_t held = take_all(grace).size();
  EXPECT_EQ(say(grace, "CLAIM JOBS 1 BLOCK 60000"), "");
  link->disconnect(mallory, now);
  EXPECT_TRUE(parse(sent(grace)));
  EXPECT_EQ(held + 1 + take_all(grace).size(), 5U);
}

TEST_F(WorkerLinkSharesTest, ALeaseTakesNoMoreThanTheRoomOfItsUser) {
  restart({.max_leased_bytes = 1'000});
  submit_jobs(50);
  const WorkerLink::Id grace = joined_as("grace");
  EXPECT_EQ(claim(grace, "WIDTH 32").count, 5U);
  EXPECT_EQ(claim(joined_as("heidi"), "WIDTH 32").count, 3U) << "250 bytes, and the job that reaches them";
}

TEST_F(WorkerLinkSharesTest, PayloadsAboveTheLimitAreLeasedOneToEachUser) {
  restart({.max_leased_bytes = 1'000});
  submit_jobs(10, 5'000);
  for (const std::string user : {"mallory", "grace", "heidi"})
    EXPECT_EQ(take_all(joined_as(user)).size(), 1U) << user;
}

TEST_F(WorkerLinkSharesTest, WhatAWorkerDoesNotReadIsChargedAfterTheLeaseIsLost) {
  restart({.max_leased_bytes = 1'000});
  submit_jobs(20);
  const WorkerLink::Id deaf = joined_as("mallory"), other = joined_as("mallory");
  const std::vector<std::string_view> words{"CLAIM", "JOBS", "1"};
  for (int i = 0; i < 5; ++i) link->execute(deaf, proto::ArgumentList::copy_of(words), now);
  pass(10s);
  ASSERT_EQ(link->stats().leases, 0U) << "it was silent";
  EXPECT_EQ(link->stats().leased_bytes, 500U);
  EXPECT_FALSE(claim(other, "JOBS 1")) << "its user has claimed as much as it may, and reads nothing";
  EXPECT_TRUE(claim(joined_as("grace"), "JOBS 1"));
  (void)sent(deaf);
  link->heard(deaf, now);
  EXPECT_EQ(link->stats().leased_bytes, 100U);
  EXPECT_TRUE(claim(other, "JOBS 1"));
}

// Payloads of leases that are over, in replies that wait or that the worker does not read.
class UnreadPayloadsTest : public WorkerLinkSharesTest {
 protected:
  void SetUp() override {
    restart({.max_leased_bytes = 1'000});
    submit_jobs(20);
  }
  // The reply is not read.
  void send(WorkerLink::Id id, const std::string& line) {
    const Words words = split(line);
    const std::vector<std::string_view> views(words.begin(), words.end());
    link->execute(id, proto::ArgumentList::copy_of(views), now);
  }
  std::string last_lease() { return "000000000000002b-" + std::to_string(++leases); }
  std::uint64_t charged() const { return link->stats().leased_bytes; }

  std::uint64_t leases = 0;
};

TEST_F(UnreadPayloadsTest, WhatAWorkerGivesBackUnreadIsChargedUntilItHasReadIt) {
  const WorkerLink::Id deaf = joined_as("mallory"), other = joined_as("mallory");
  for (int i = 0; i < 5; ++i) {
    send(deaf, "CLAIM JOBS 1");
    send(deaf, "YIELD " + last_lease());
  }
  ASSERT_EQ(link->stats().leases, 0U);
  EXPECT_EQ(charged(), 500U);
  EXPECT_EQ(say(other, "CLAIM JOBS 1 BLOCK 60000"), "") << "its user holds as much as it may";
  EXPECT_FALSE(link->sent(deaf, 1)) << "more than the payloads is unsent";
  EXPECT_TRUE(link->sent(deaf, link->output(deaf).size()));
  EXPECT_EQ(charged(), 0U);
  link->wake(now);
  EXPECT_TRUE(parse(sent(other)));
}

TEST_F(UnreadPayloadsTest, WhatIsHalfReadIsChargedByHalf) {
  const WorkerLink::Id deaf = joined_as("mallory");
  send(deaf, "CLAIM JOBS 1");
  (void)link->sent(deaf, link->output(deaf).size() - 60);
  send(deaf, "YIELD " + last_lease());
  EXPECT_EQ(charged(), 60U);
  EXPECT_TRUE(link->sent(deaf, 20));
  EXPECT_EQ(charged(), 40U);
}

TEST_F(UnreadPayloadsTest, RepliesThatWaitForTheStoreAreCharged) {
  const WorkerLink::Id id = joined_as("mallory");
  const Granted first = claim(id, "JOBS 1");
  ++leases;
  host.writes = 1;
  EXPECT_EQ(settle_all(id, first), "") << "the store is slow";
  EXPECT_EQ(charged(), 0U) << "the worker has read it";
  EXPECT_EQ(say(id, "CLAIM JOBS 1"), "");
  EXPECT_EQ(say(id, "YIELD " + last_lease()), "");
  EXPECT_EQ(charged(), 100U);
  link->written(1);
  EXPECT_EQ(charged(), 100U);
  EXPECT_NE(sent(id), "");
  EXPECT_EQ(charged(), 0U);
}

TEST_F(UnreadPayloadsTest, AWorkerThatLeavesIsChargedForThemToo) {
  const WorkerLink::Id deaf = joined_as("mallory");
  for (int i = 0; i < 5; ++i) {
    send(deaf, "CLAIM JOBS 1");
    send(deaf, "LEAVE");
    send(deaf, "JOIN w SLOTS 1 HANDLERS echo");
  }
  send(deaf, "LEAVE");
  EXPECT_EQ(charged(), 500U);
  EXPECT_TRUE(take_all(joined_as("mallory")).empty()) << "its user has no other worker";
  EXPECT_EQ(take_all(joined_as("grace")).size(), 3U);
  link->disconnect(deaf, now);
  EXPECT_EQ(charged(), 300U);
  EXPECT_FALSE(take_all(joined_as("mallory")).empty());
}

TEST_F(UnreadPayloadsTest, TheNextUserOfAConnectionIsChargedForThem) {
  const WorkerLink::Id deaf = joined_as("mallory");
  send(deaf, "CLAIM JOBS 1");
  send(deaf, "LEAVE");
  link->set_user(deaf, "grace");
  send(deaf, "JOIN w SLOTS 1 HANDLERS echo");
  send(deaf, "CLAIM JOBS 1");
  send(deaf, "LEAVE");
  EXPECT_EQ(charged(), 200U);
  EXPECT_EQ(take_all(joined_as("mallory")).size(), 4U);
  (void)sent(deaf);
  EXPECT_EQ(charged(), 400U);
  link->disconnect(deaf, now);
  EXPECT_EQ(charged(), 400U);
}

TEST_F(WorkerLinkSharesTest, AConnectionThatIsClosedHoldsNothing) {
  restart({.max_leased_bytes = 1'000});
  submit_jobs(20);
  const WorkerLink::Id deaf = joined_as("mallory");
  const std::vector<std::string_view> words{"CLAIM", "JOBS", "1"};
  for (int i = 0; i < 5; ++i) link->execute(deaf, proto::ArgumentList::copy_of(words), now);
  pass(10s);
  ASSERT_EQ(link->stats().leased_bytes, 500U);
  link->disconnect(deaf, now);
  EXPECT_EQ(link->stats().leased_bytes, 0U);
  EXPECT_EQ(take_all(joined_as("mallory")).size(), 5U);
}

TEST_F(WorkerLinkSharesTest, AnIdleWorkerWhoseUserHasNoRoomCutsNothing) {
  restart({.max_leased_bytes = 1'000});
  submit_jobs(5);
  const WorkerLink::Id mallory = joined_as("mallory");
  const std::vector<Granted> leases = take_all(mallory);
  // A lease of 100 jobs, one of which has taken a second.
  host.submit("echo", 100);
  const WorkerLink::Id grace = joined_as("grace");
  const std::string lease = reclaimed(grace, "2 1 0 100");
  pass(1s);
  say(grace, "SETTLE " + lease + " ok 0 x");
  say(grace, "BEAT");
  EXPECT_EQ(say(mallory, "CLAIM BLOCK 60000"), "");
  pass(20ms);
  EXPECT_EQ(link->stats().cut_orders, 0U);
  const WorkerLink::Id heidi = joined_as("heidi");
  EXPECT_EQ(say(heidi, "CLAIM BLOCK 60000"), "");
  pass(20ms);
  EXPECT_EQ(link->stats().cut_orders, 1U);
}

}  // namespace
}  // namespace locksley::daemon::test
