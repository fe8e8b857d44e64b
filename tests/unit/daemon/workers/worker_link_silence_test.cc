// Silence: when a worker that says nothing loses its leases, and when its silence proves nothing.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

using WorkerLinkSilenceTest = WorkerLinkFixture;

TEST_F(WorkerLinkSilenceTest, ASilentWorkerLosesItsLeases) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 2);
  const Granted lease = claim(id);
  pass(9999ms);
  EXPECT_EQ(link->next_timer(), now + 1ms);
  EXPECT_EQ(link->stats().leases, 1U);
  EXPECT_FALSE(link->workers().at(id).is_silent);
  pass(1ms);
  EXPECT_EQ(link->stats().leases, 0U);
  EXPECT_EQ(link->stats().lost_by_silence, 1U);
  EXPECT_EQ(ring().queued, 2U);
  EXPECT_TRUE(link->workers().at(id).is_silent) << "it serves no handler";
  EXPECT_EQ(settle_all(id, lease), "-LOST the lease is gone; nothing was recorded");
  EXPECT_FALSE(link->workers().at(id).is_silent);
  EXPECT_TRUE(claim(id)) << "it has joined as before";
}

TEST_F(WorkerLinkSilenceTest, ASilentWorkerWhoseClaimWaitsGetsNoOtherLease) {
  const WorkerLink::Id id = joined(2), other = joined();
  host.submit("echo", 1);
  ASSERT_TRUE(claim(id));
  EXPECT_EQ(say(id, "CLAIM BLOCK 60000"), "");
  pass(10s);
  EXPECT_TRUE(link->workers().at(id).is_silent);
  EXPECT_EQ(sent(id), "$-1") << "nothing more is promised to it";
  EXPECT_EQ(link->stats().leases, 0U);
  EXPECT_TRUE(claim(other)) << "the job that it has lost";
  host.submit("echo", 1);
  link->wake(now);
  EXPECT_EQ(sent(id), "");
  EXPECT_TRUE(claim(id)) << "once it says something";
}

TEST_F(WorkerLinkSilenceTest, AClaimThatWaitedLongerThanALeaseGetsAWholeOne) {
  const WorkerLink::Id id = joined();
  EXPECT_EQ(say(id, "CLAIM BLOCK 60000"), "");
  pass(30s);
  host.submit("echo", 1);
  link->wake(now);
  const Granted lease = parse(sent(id));
  pass(9999ms);
  EXPECT_EQ(link->stats().leases, 1U);
  pass(1ms);
  EXPECT_EQ(link->stats().leases, 0U);
  EXPECT_EQ(settle_all(id, lease), "-LOST the lease is gone; nothing was recorded");
}

TEST_F(WorkerLinkSilenceTest, NoWorkerIsSilentBeforeItsOwnerListensAgain) {
  BatchOptions options;
  options.timeout = 5s;
  const auto batch = host.submit("echo", 2, options);
  const WorkerLink::Id id = joined(), dead = joined();
  const Granted lease = claim(id);
  ASSERT_TRUE(claim(dead));
  now += 60s;  // stopped: what came meanwhile is read after the timer goes off
  link->listens_again(now);
  link->advance(now);
  EXPECT_EQ(link->stats().leases, 2U);
  EXPECT_EQ(settle_all(id, lease), "*2 :1 :0");
  EXPECT_EQ(batch->status().ok, 1U) << "it was not too late for its time-out";
  pass(999ms);
  EXPECT_EQ(link->stats().leases, 1U);
  pass(1ms);
  EXPECT_EQ(link->stats().leases, 0U) << "that is enough to read from those that live";
}

// Workers give their connections up when no reply comes for 30 s, and go on with their jobs.
TEST_F(WorkerLinkSilenceTest, JobsOfConnectionsThatHaveClosedWhileTheOwnerWasStoppedAreHeldForReclaims) {
  const auto batch = host.submit("echo", 2);
  const WorkerLink::Id gone = joined(), other = joined();
  ASSERT_TRUE(claim(gone, "JOBS 1"));
  now += 34s;
  link->disconnect(gone, now);
  link->listens_again(now);
  link->advance(now);
  EXPECT_EQ(link->stats().lost_by_disconnect, 0U);
  EXPECT_FALSE(claim(other));
  EXPECT_FALSE(reclaimed(joined(), "1 1 0 1").empty());
  pass(2999ms);
  EXPECT_FALSE(claim(other));
  pass(1ms);
  EXPECT_EQ(claim(other).first, 1U) << "who has not returned by now is not waited for";
}

TEST_F(WorkerLinkSilenceTest, OtherHandlersAreNotHeldForTheWorkersThatMayReturn) {
  host.submit("echo", 1);
  host.submit("resize", 1);
  const WorkerLink::Id gone = joined(), other = connect();
  say(other, "JOIN other SLOTS 1 HANDLERS resize");
  ASSERT_TRUE(claim(gone));
  now += 34s;
  link->disconnect(gone, now);
  EXPECT_TRUE(claim(other));
}

TEST_F(WorkerLinkSilenceTest, JobsOfAClosedConnectionAreNotHeldAfterAShortStop) {
  host.submit("echo", 1);
  const WorkerLink::Id gone = joined(), other = joined();
  ASSERT_TRUE(claim(gone));
  now += 15s;
  link->listens_again(now);
  link->advance(now);
  link->disconnect(gone, now);
  EXPECT_EQ(link->stats().lost_by_disconnect, 1U);
  EXPECT_TRUE(claim(other));
}

TEST_F(WorkerLinkSilenceTest, NoWorkerIsSilentWhileTheStoreHasNoRoom) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 1);
  const Granted lease = claim(id);
  host.room = false;  // so nothing is read
  for (int i = 0; i < 10; ++i) pass(3333ms);
  host.room = true;
  EXPECT_EQ(settle_all(id, lease), "*2 :1 :0");
}

TEST_F(WorkerLinkSilenceTest, NoWorkerIsSilentBeforeItIsReadOnceThereIsRoomAgain) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 1);
  const Granted lease = claim(id);
  pass(9s);
  host.room = false;
  EXPECT_FALSE(link->accepts_commands(id));
  now += 1s;
  host.room = true;  // what the worker has sent is read after the look
  link->advance(now);
  EXPECT_EQ(settle_all(id, lease), "*2 :1 :0");
}

TEST_F(WorkerLinkSilenceTest, AWorkerWithPushesIsToldWhatItHasLost) {
  const WorkerLink::Id id = joined_with_pushes();
  host.submit("echo", 1);
  const std::string lease = reclaimed(id, "1 1 0 1");
  pass(10s);
  EXPECT_EQ(sent(id), ">2 $4 STOP $18 " + lease);
}

TEST_F(WorkerLinkSilenceTest, AnyBytesRenewALease) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 1);
  ASSERT_TRUE(claim(id));
  for (int i = 0; i < 5; ++i) {
    pass(9s);
    i % 2 == 0 ? link->heard(id, now) : void(say(id, "HOP"));
  }
  EXPECT_EQ(link->stats().leases, 1U);
  pass(10s);
  EXPECT_EQ(link->stats().leases, 0U);
}

TEST_F(WorkerLinkSilenceTest, AWorkerWithoutALeaseNeedNotBeat) {
  const WorkerLink::Id id = joined();
  EXPECT_EQ(link->next_timer(), std::nullopt);
  pass(24h);
  host.submit("echo", 1);
  EXPECT_TRUE(claim(id));
}

TEST_F(WorkerLinkSilenceTest, AClockThatGoesBackExpiresNothing) {
  const WorkerLink::Id id = joined();
  host.submit("echo", 1);
  ASSERT_TRUE(claim(id));
  now -= 500s;
  say(id, "BEAT");
  pass(500s + 9s);
  EXPECT_EQ(link->stats().leases, 1U);
}

TEST_F(WorkerLinkSilenceTest, AWorkerWhoseRepliesWaitForTheStoreLearnsThatTheDaemonLives) {
  host.submit("echo", 2);
  const WorkerLink::Id pushes = joined_with_pushes(), other = joined();
  const Granted lease = claim(pushes, "JOBS 1"), behind = claim(other, "JOBS 1");
  host.writes = 7;
  EXPECT_EQ(settle_all(pushes, lease), "");
  EXPECT_EQ(settle_all(other, behind), "");
  for (int i = 0; i < 3; ++i) {
    link->take_ready();
    pass(5s);
    EXPECT_EQ(sent(pushes), ">1 $4 NONE");
    EXPECT_EQ(sent(other), "") << "RESP2 has nothing that a client ignores";
  }
  link->written(7);
  EXPECT_EQ(sent(pushes), "*2 :1 :0");
  EXPECT_EQ(sent(other), "*2 :1 :0");
  link->take_ready();
  EXPECT_EQ(link->next_timer(), std::nullopt);
}

// Writes follow each other, and each reply waits for one of them.
TEST_F(WorkerLinkSilenceTest, NoWorkerWaitsLongWhileTheStoreGoesOn) {
  host.submit("echo", 1'000);
  const WorkerLink::Id pushes = joined_with_pushes();
  ASSERT_TRUE(claim(pushes, "JOBS 1"));
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t before = host.writes++;
    settle_all(pushes, claim(pushes, "JOBS 1"));
    link->take_ready();
    pass(100ms);
    link->written(before);
    link->take_ready();
    EXPECT_EQ(sent(pushes).find("NONE"), std::string::npos);
  }
  link->disconnect(pushes, now);
  EXPECT_GE(link->stats().lost_by_disconnect, 1U);
}

TEST_F(WorkerLinkSilenceTest, AWorkerThatWaitsLongForTheStoreMayGoWithoutALoss) {
  host.submit("echo", 2);
  const auto go_after = [this](Nanoseconds wait) {
    const WorkerLink::Id id = joined();
    const Granted first = claim(id, "JOBS 1");
    ++host.writes;
    say(id, "NOTE " + first.lease + " " + std::to_string(first.first) + " TEXT begun");
    settle_all(id, claim(id, "JOBS 1"));
    link->take_ready();
    pass(wait);
    link->disconnect(id, now);
  };
  go_after(5s);
  EXPECT_EQ(link->stats().lost_by_disconnect, 0U);
  EXPECT_FALSE(claim(joined())) << "it gave up the connection, and goes on with its job";
  EXPECT_FALSE(reclaimed(joined(), "1 1 0 1").empty());
  pass(3s);
  host.submit("echo", 2);
  go_after(1s);
  EXPECT_EQ(link->stats().lost_by_disconnect, 1U);
}

TEST_F(WorkerLinkSilenceTest, AWorkerIsNotSilentWhileItsManyRepliesWaitForTheStore) {
  host.submit("echo", 3'000);
  const WorkerLink::Id id = joined();
  const std::string lease = reclaimed(id, "1 1 0 3000");
  for (int i = 0; link->accepts_commands(id); ++i) {
    ++host.writes;
    say(id, "SETTLE " + lease + " ok " + std::to_string(i) + " out");
  }
  pass(1min);
  EXPECT_EQ(link->stats().leases, 1U);
  link->written(host.writes);
  pass(11s);
  EXPECT_EQ(link->stats().leases, 0U);
}

TEST_F(WorkerLinkSilenceTest, AWorkerIsNotSilentAndNoJobOfItLateWhileItsOwnerDoesNotReadFromIt) {
  BatchOptions options;
  options.timeout = 5s;
  const auto batch = host.submit("echo", 2, options);
  const WorkerLink::Id id = joined_with_pushes(), other = joined();
  const Granted lease = claim(id, "JOBS 1");
  ASSERT_TRUE(claim(other, "JOBS 1"));
  link->has_unfinished(id, now);
  link->stops_reading(id, now);
  for (int i = 0; i < 600; ++i) pass(100ms);
  EXPECT_EQ(batch->status().failed, 1U) << "of the other worker";
  EXPECT_EQ(link->stats().leases, 1U);
  link->show_life(id);
  link->show_life(other);
  EXPECT_EQ(sent(id), ">1 $4 NONE");
  EXPECT_EQ(sent(other), "");
  link->reads_again(id, now);
  for (int i = 0; i < 100; ++i) {
    pass(200ms);
    link->heard(id, now);
  }
  EXPECT_EQ(link->stats().leases, 1U) << "the rest of the command comes";
  EXPECT_EQ(settle_all(id, lease), "*2 :1 :0");
  EXPECT_EQ(batch->status().ok, 1U);
}

TEST_F(WorkerLinkSilenceTest, AWorkerThatIsReadAgainIsJudgedAsBefore) {
  host.submit("echo", 1);
  const WorkerLink::Id id = joined();
  ASSERT_TRUE(claim(id));
  link->stops_reading(id, now);
  pass(1min);
  link->reads_again(id, now);
  pass(999ms);
  EXPECT_EQ(link->stats().leases, 1U) << "its bytes have yet to be read";
  pass(1ms);
  EXPECT_EQ(link->stats().lost_by_silence, 1U);
}

TEST_F(WorkerLinkSilenceTest, AWorkerIsNotSilentWhileALargeReplyWaitsForTheStore) {
  constexpr std::size_t kPayloads = 16;
  host.submit("echo", kPayloads, {},
              std::make_unique<StringPayloads>(
                  std::vector<std::string>(kPayloads, std::string(WorkerConnections::kMostBytes / 8, 'p'))));
  const WorkerLink::Id id = joined(kPayloads);
  const std::string lease = reclaimed(id, "1 1 0 2");
  ++host.writes;
  EXPECT_EQ(say(id, "SETTLE " + lease + " ok 0 x"), "");
  for (std::size_t claims = 0; link->accepts_commands(id); ++claims) {
    ASSERT_LT(claims, kPayloads);
    say(id, "CLAIM JOBS 1");
  }
  const std::size_t leases = link->stats().leases;
  EXPECT_GT(leases, 1U);
  pass(1min);
  EXPECT_EQ(link->stats().leases, leases) << "their BEATs are not read";
  link->written(host.writes);
  sent(id);
  pass(11s);
  EXPECT_EQ(link->stats().leases, 0U);
}

}  // namespace
}  // namespace locksley::daemon::test
