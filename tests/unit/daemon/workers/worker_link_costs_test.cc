// How long the longest commands of workers take: the link's thread serves no other worker
// meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/base/loop/processor_time.h"
#include "tests/unit/daemon/workers/worker_link_fixture.h"

namespace locksley::daemon::test {
namespace {

class WorkerLinkCostsTest : public WorkerLinkFixture {
 protected:
  // The processor time of one command. Its reply is an array.
  Nanoseconds time_of(WorkerLink::Id id, const Words& words) {
    const std::vector<std::string_view> views(words.begin(), words.end());
    const auto command = proto::ArgumentList::copy_of(views);
    const Nanoseconds began = processor_time();
    link->execute(id, command, now);
    const Nanoseconds time = processor_time() - began;
    EXPECT_EQ(sent(id).front(), '*');
    return time;
  }
  // Of that many JOINs for `handlers` handlers each, of which one is served.
  Nanoseconds time_of_joins(int joins, int handlers) {
    Words words{"JOIN", "w", "SLOTS", "1", "PARTIAL", "HANDLERS", "echo"};
    // Names of one length that differ at their ends.
    for (int i = 1; i < handlers; ++i) words.push_back(std::string(120, 'h') + std::to_string(100'000 + i));
    const WorkerLink::Id id = connect();
    Nanoseconds time{};
    for (int i = 0; i < joins; ++i) {
      time += time_of(id, words);
      EXPECT_EQ(say(id, "LEAVE"), "+OK");
    }
    return time;
  }
};

TEST_F(WorkerLinkCostsTest, AJoinForManyHandlersTakesAboutAsLongAsJoinsForAFewOfThemEach) {
  time_of_joins(64, 16);  // the first ones fill the allocator's lists
  const Nanoseconds few = time_of_joins(64 * 16, 16);
  const Nanoseconds many = time_of_joins(16, 1'024);
  EXPECT_LT(many, 4 * few) << "12 times as long, if each name were compared with all others";
}

TEST_F(WorkerLinkCostsTest, ABeatDoesNotLookAtJobsThatAreShownAlready) {
  constexpr std::uint64_t kLeases = 60;
  constexpr std::uint64_t kJobs = OutLease::kMostShown;
  const WorkerLink::Id id = joined(kLeases);
  host.submit("echo", kLeases * kJobs, {}, std::make_unique<RangePayloads>(0));
  std::vector<std::string> leases;
  for (std::uint64_t i = 0; i < kLeases; ++i) {
    leases.push_back(
        reclaimed(id, "1 1 " + std::to_string(i * kJobs) + " " + std::to_string((i + 1) * kJobs)));
    ASSERT_NE(leases.back(), "");
    for (std::uint64_t job = i * kJobs; job < (i + 1) * kJobs; ++job)
      ASSERT_EQ(run(id, {"NOTE", leases.back(), std::to_string(job), "PROGRESS", "5"}), "+OK");
  }
  const auto beat = [&](std::uint64_t begun) {
    Words words{"BEAT"};
    for (std::uint64_t i = 0; i < kLeases; ++i) {
      words.push_back(leases[i]);
      words.push_back(std::to_string(i * kJobs + begun));
    }
    return time_of(id, words);
  };
  const Nanoseconds looks_at_all = beat(0);  // the first report on each lease
  Nanoseconds later{};
  for (std::uint64_t begun = 1; begun <= 20; ++begun) later += beat(begun);
  EXPECT_LT(later, 5 * looks_at_all) << "20 times as long, if each of them looked at all";
}

TEST_F(WorkerLinkCostsTest, ALeaseThatABeatNamesOftenIsShownAnewOnce) {
  constexpr std::uint64_t kSlots = 60;
  constexpr std::uint64_t kJobs = OutLease::kMostShown;
  const WorkerLink::Id id = joined(kSlots);
  host.submit("echo", kJobs, {}, std::make_unique<RangePayloads>(0));
  const std::string lease = reclaimed(id, "1 1 0 " + std::to_string(kJobs));
  for (std::uint64_t job = 0; job < kJobs; ++job)
    ASSERT_EQ(run(id, {"NOTE", lease, std::to_string(job), "PROGRESS", "5"}), "+OK");
  const auto beats = [&](std::uint64_t falls) {
    Words words{"BEAT"};
    for (std::uint64_t i = 0; i < falls; ++i) words.insert(words.end(), {lease, "1", lease, "0"});
    Nanoseconds time{};
    for (int i = 0; i < 20; ++i) time += time_of(id, words);
    return time;
  };
  const Nanoseconds once = beats(1);
  EXPECT_LT(beats(kSlots), 10 * once) << "60 times as long, if it were shown anew for each";
}

TEST_F(WorkerLinkCostsTest, ALeaseInManyPartsThatABeatNamesOftenIsLookedAtOnce) {
  constexpr std::uint64_t kSlots = 4'096;
  const std::uint64_t parts = WorkerLinkOptions{}.max_parts;
  const auto time_of_beats = [&](WorkerLink::Id id, const std::string& lease, std::uint64_t next) {
    Words words{"BEAT"};
    for (std::uint64_t i = 0; i < 2 * kSlots; ++i) words.insert(words.end(), {lease, std::to_string(next)});
    Nanoseconds time = time_of(id, words);
    for (int i = 0; i < 4; ++i) time = std::min(time, time_of(id, words));
    return time;
  };
  const WorkerLink::Id id = joined(kSlots);
  host.submit("echo", 2 * parts, {}, std::make_unique<RangePayloads>(0));
  const std::string lease = reclaimed(id, "1 1 0 " + std::to_string(2 * parts));
  const Nanoseconds of_one_part = time_of_beats(id, lease, 2 * parts);
  for (std::uint64_t job = 1; job < 2 * parts - 1; job += 2)
    ASSERT_EQ(run(id, {"SETTLE", lease, "ok", std::to_string(job), "x"}).front(), '*');
  EXPECT_LT(time_of_beats(id, lease, 2 * parts), 5 * of_one_part)
      << "20 times as long, if its parts were visited for each";
}

TEST_F(WorkerLinkCostsTest, ABeatShowsTheJobsThatHaveBegunSinceTheOneBefore) {
  const WorkerLink::Id id = joined(2);
  const auto batch = host.submit("echo", 10);
  const auto shown = [&] {
    std::vector<std::uint64_t> indexes;
    for (std::uint64_t index = 0; index < 10; ++index) {
      if (host.lane_of("echo")->running().find(*batch, index)) indexes.push_back(index);
    }
    return indexes;
  };
  using Indexes = std::vector<std::uint64_t>;
  const std::string lease = reclaimed(id, "1 1 0 10 WIDTH 2");
  EXPECT_EQ(shown(), (Indexes{0, 1})) << "it has not said which";
  say(id, "NOTE " + lease + " 7 PROGRESS 1");
  say(id, "BEAT " + lease + " 1");
  EXPECT_EQ(shown(), (Indexes{0, 7}));
  say(id, "BEAT " + lease + " 3");
  EXPECT_EQ(shown(), (Indexes{0, 1, 7})) << "a job for each slot";
  say(id, "SETTLE " + lease + " ok 0 x");
  EXPECT_EQ(shown(), (Indexes{1, 2, 7}));
  say(id, "BEAT " + lease + " 2");
  EXPECT_EQ(shown(), (Indexes{1, 7})) << "job 2 went back to the machine's queue before it had begun";
}

}  // namespace
}  // namespace locksley::daemon::test
