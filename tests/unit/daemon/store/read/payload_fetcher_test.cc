// Length: one class, and the room that its users share.
#include "daemon/store/read/payload_fetcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "daemon/store/read/stored_payloads.h"
#include "daemon/store/read/stored_range.h"
#include "tests/support/store_fixture.h"
#include "tests/unit/daemon/store/read/payload_fetcher_fixture.h"

namespace locksley::daemon {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

using PayloadFetcherTest = PayloadFetcherFixture;

TEST_F(PayloadFetcherTest, AFetchDoesNotWaitForASlowServerAndItsPayloadStaysUntilItIsFetchedAgain) {
  put(1, 0, {std::string(300'000, 'x')});
  begin(kImpatient);
  const auto source = payloads(1);
  disk.server.hold();
  EXPECT_EQ(fetch(*source, 0), Fetched());
  EXPECT_EQ(fetch(*source, 0), Fetched()) << "it is on its way";
  ASSERT_TRUE(disk.server.await_held(1));
  EXPECT_EQ(arrivals.of(1), 0);
  disk.server.let_pass(1);
  ASSERT_TRUE(arrivals.await(1));
  EXPECT_GE(source->memory_bytes(), 300'000U) << "it is charged while it lies there";
  EXPECT_EQ(fetch(*source, 0), Fetched{std::string(300'000, 'x')});
  EXPECT_EQ(source->memory_bytes(), 0U);
  EXPECT_EQ(disk.server.readings(), 1U);
}

TEST_F(PayloadFetcherTest, AQuickServerIsWaitedFor) {
  put(1, 0, {"a", "b"});
  put(1, 2, {"c"});
  begin(kPatient);
  const auto source = payloads(1);
  EXPECT_EQ(fetch(*source, 0, 3), (Fetched{"a", "b", "c"}));
  EXPECT_EQ(fetch(*source, 1), Fetched{"b"});
  EXPECT_EQ(disk.server.readings(), 2U) << "the row of several payloads is kept";
  EXPECT_EQ(arrivals.of(1), 0);
}

TEST_F(PayloadFetcherTest, WhatIsThereIsFetchedThoughTheRestIsSlow) {
  put(1, 0, {"a", "b"});
  put(1, 2, {"c", "d"});
  begin(kImpatient);
  const auto source = payloads(1);
  EXPECT_EQ(fetch(*source, 0, 4), Fetched());
  ASSERT_TRUE(arrivals.await(1));
  EXPECT_EQ(fetch(*source, 0, 4), (Fetched{"a", "b"}));
  ASSERT_TRUE(arrivals.await(1, 2));
  EXPECT_EQ(fetch(*source, 2, 2), (Fetched{"c", "d"}));
}

TEST_F(PayloadFetcherTest, ARowIsReadOnceForAllThatWantPayloadsOfIt) {
  put(1, 0, {"a", "b", "c"});
  begin(kImpatient);
  const auto source = payloads(1);
  disk.server.hold();
  for (const std::uint64_t index : {0U, 2U, 1U}) EXPECT_EQ(fetch(*source, index), Fetched());
  disk.server.let_pass(3);
  ASSERT_TRUE(arrivals.await(1));
  EXPECT_EQ(fetch(*source, 0, 3), (Fetched{"a", "b", "c"}));
  fetcher->stop();
  EXPECT_EQ(disk.server.readings(), 1U);
  EXPECT_EQ(arrivals.of(1), 1);
}

TEST_F(PayloadFetcherTest, APayloadForWhichThereIsNoRoomInTheScratchIsNotReadAgain) {
  const std::string large(PayloadSource::kScratchBytes * 2 / 3, 'x');
  put(1, 0, {large});
  put(1, 1, {large});
  begin(kPatient);
  const auto source = payloads(1);
  EXPECT_EQ(fetch(*source, 0, 2).size(), 1U);
  EXPECT_EQ(fetch(*source, 1).size(), 1U);
  EXPECT_EQ(disk.server.readings(), 2U);
  EXPECT_EQ(source->memory_bytes(), 0U);
}

TEST_F(PayloadFetcherTest, WhatLiesThereGoesWithTheBatch) {
  put(1, 0, {std::string(300'000, 'x')});
  put(2, 0, {"y"});
  begin(kImpatient);
  auto over = payloads(1);
  EXPECT_EQ(fetch(*over, 0), Fetched());
  ASSERT_TRUE(arrivals.await(1));
  EXPECT_GE(over->memory_bytes(), 300'000U);
  over->drop_cached();
  EXPECT_EQ(over->memory_bytes(), 0U);

  disk.server.hold();
  EXPECT_EQ(fetch(*over, 0), Fetched());
  ASSERT_TRUE(disk.server.await_held(1));
  over->drop_cached();
  const auto other = payloads(2);
  EXPECT_EQ(fetch(*other, 0), Fetched());
  disk.server.let_pass(2);
  ASSERT_TRUE(arrivals.await(2)) << "read after that of the batch that is over";
  EXPECT_EQ(over->memory_bytes(), 0U);
  EXPECT_EQ(arrivals.of(1), 1);

  EXPECT_EQ(fetch(*over, 0), Fetched()) << "which may go on";
  disk.server.let_pass(1);
  ASSERT_TRUE(arrivals.await(1, 2));
  over.reset();
}

TEST_F(PayloadFetcherTest, ABatchHasFewPayloadsThere) {
  for (std::uint64_t index = 0; index < 20; ++index) put(1, index, {std::string(1000, 'x')});
  put(2, 0, {"y"});
  begin(kImpatient);
  const auto source = payloads(1);
  disk.server.hold();
  for (std::uint64_t index = 0; index < 20; ++index) EXPECT_EQ(fetch(*source, index), Fetched());
  const auto last = payloads(2);
  EXPECT_EQ(fetch(*last, 0), Fetched());
  disk.server.let_pass(100);
  ASSERT_TRUE(arrivals.await(2));
  ASSERT_TRUE(arrivals.await(1, 8));
  EXPECT_EQ(arrivals.of(1), 8);
  const std::uint64_t bytes = source->memory_bytes();
  EXPECT_LT(bytes, 9 * 1100U);
  EXPECT_EQ(fetch(*source, 19), Fetched());
  ASSERT_TRUE(arrivals.await(1, 9)) << "the oldest makes room for what is wanted now";
  EXPECT_EQ(source->memory_bytes(), bytes);
  EXPECT_EQ(fetch(*source, 7).size(), 1U);
  EXPECT_EQ(fetch(*source, 0), Fetched());
}

TEST_F(PayloadFetcherTest, NothingIsReadUntilThereIsRoom) {
  put(1, 0, {"x"});
  put(2, 0, {"y"});
  begin({.patience = milliseconds(0), .threads = 1, .most_held_bytes = 1, .longest_held = hours(1)});
  const auto first = payloads(1);
  const auto second = payloads(2);
  EXPECT_EQ(fetch(*first, 0), Fetched());
  ASSERT_TRUE(arrivals.await(1));
  EXPECT_EQ(fetch(*second, 0), Fetched());
  EXPECT_EQ(disk.server.readings(), 1U);
  EXPECT_EQ(fetch(*first, 0), Fetched{"x"});
  ASSERT_TRUE(arrivals.await(2));
  EXPECT_EQ(fetch(*second, 0), Fetched{"y"});
}

TEST_F(PayloadFetcherTest, ABatchThatIsOverNeitherTakesRoomNorWaitsForIt) {
  put(1, 0, {"x"});
  put(2, 0, {"y"});
  put(3, 0, {"z"});
  begin({.patience = milliseconds(0), .threads = 1, .most_held_bytes = 1, .longest_held = hours(1)});
  auto first = payloads(1);
  auto second = payloads(2);
  const auto third = payloads(3);
  EXPECT_EQ(fetch(*first, 0), Fetched());
  ASSERT_TRUE(arrivals.await(1));
  EXPECT_EQ(fetch(*second, 0), Fetched());
  EXPECT_EQ(fetch(*third, 0), Fetched());
  second.reset();
  first.reset();
  ASSERT_TRUE(arrivals.await(3));
  EXPECT_EQ(disk.server.readings(), 2U);
}

TEST_F(PayloadFetcherTest, WhatWasNotFetchedForLongMakesRoomForOthers) {
  put(1, 0, {"x"});
  put(2, 0, {"y"});
  begin({.patience = milliseconds(0), .threads = 1, .most_held_bytes = 1, .longest_held = milliseconds(0)});
  const auto first = payloads(1);
  const auto second = payloads(2);
  EXPECT_EQ(fetch(*first, 0), Fetched());
  ASSERT_TRUE(arrivals.await(1));
  EXPECT_EQ(fetch(*second, 0), Fetched());
  ASSERT_TRUE(arrivals.await(2));
  EXPECT_EQ(first->memory_bytes(), 0U);
  EXPECT_EQ(fetch(*first, 0), Fetched()) << "it is read again";
  ASSERT_TRUE(arrivals.await(1, 2));
}

// Rows of 1,000 bytes, of which three fill the room.
class SharedRoomTest : public PayloadFetcherFixture {
 protected:
  static constexpr Reader::User kOne = 1;
  static constexpr Reader::User kOther = 2;

  SharedRoomTest() {
    for (std::uint64_t batch = 1; batch <= 9; ++batch) put(batch, 0, {std::string(1000, 'x')});
  }
  ~SharedRoomTest() override {
    for (const PayloadFetcher::SharedWants& wants : opened_) fetcher->close(*wants);
  }
  static PayloadFetcher::Options room(std::uint64_t bytes) {
    return {.patience = hours(1), .threads = 1, .most_held_bytes = bytes, .longest_held = hours(1)};
  }
  PayloadFetcher::SharedWants open(std::uint64_t batch, Reader::User user) {
    return opened_.emplace_back(fetcher->open(batch, user));
  }
  // Does not take the row.
  SharedChunk find(const PayloadFetcher::SharedWants& wants) {
    return fetcher->find(wants, 0, PayloadFetcher::Look::kFirst, now() + hours(1));
  }

 private:
  std::vector<PayloadFetcher::SharedWants> opened_;
};

TEST_F(SharedRoomTest, AUserWhosePayloadsFillItDoesNotDelayAnother) {
  begin(room(4000));
  std::vector<PayloadFetcher::SharedWants> many;
  for (std::uint64_t batch = 1; batch <= 5; ++batch) many.push_back(open(batch, kOne));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NE(find(many[i]), nullptr);
  for (std::size_t i = 3; i < 5; ++i) EXPECT_EQ(find(many[i]), nullptr) << "its own rows fill it";
  const auto other = open(9, kOther);
  const SharedChunk chunk = find(other);
  ASSERT_NE(chunk, nullptr) << "it comes at once, so its batch does not pause";
  EXPECT_EQ(many[0]->held_bytes(), 0U) << "the oldest of the user that holds most has gone";
  EXPECT_GE(many[1]->held_bytes(), 1000U);
  EXPECT_GE(many[2]->held_bytes(), 1000U);
  EXPECT_EQ(disk.server.readings(), 4U) << "the other rows of that user wait for room";
  fetcher->drop(*other, *chunk);
  ASSERT_TRUE(arrivals.await(4)) << "and are read once there is some";
  EXPECT_EQ(arrivals.of(5), 0);
}

TEST_F(SharedRoomTest, UsersDoNotTakeItFromEachOtherAgainAndAgain) {
  begin(room(4000));
  const std::vector<PayloadFetcher::SharedWants> of_one = {open(1, kOne), open(2, kOne), open(3, kOne)};
  const std::vector<PayloadFetcher::SharedWants> of_other = {open(4, kOther), open(5, kOther)};
  EXPECT_NE(find(of_one[0]), nullptr);
  EXPECT_NE(find(of_one[1]), nullptr);
  EXPECT_NE(find(of_other[0]), nullptr);
  EXPECT_EQ(find(of_other[1]), nullptr) << "it would hold more than the other then";
  EXPECT_EQ(find(of_one[2]), nullptr);
  EXPECT_EQ(disk.server.readings(), 3U);
  for (const std::size_t i : {0U, 1U}) EXPECT_GE(of_one[i]->held_bytes(), 1000U);
  EXPECT_GE(of_other[0]->held_bytes(), 1000U);
}

TEST_F(SharedRoomTest, TheOnlyRowOfAUserIsThereForLongEnoughToBeTaken) {
  PayloadFetcher::Options options = room(1);
  options.shortest_held = hours(1);
  begin(options);
  const auto large = open(1, kOne);
  const SharedChunk chunk = find(large);
  ASSERT_NE(chunk, nullptr);
  const auto other = open(2, kOther);
  EXPECT_EQ(find(other), nullptr);
  EXPECT_EQ(disk.server.readings(), 1U);
  fetcher->drop(*large, *chunk);
  ASSERT_TRUE(arrivals.await(2));
  EXPECT_NE(find(other), nullptr);
}

TEST_F(SharedRoomTest, TheOnlyRowOfAUserGoesIfItIsNotTaken) {
  PayloadFetcher::Options options = room(1);
  options.shortest_held = milliseconds(0);
  begin(options);
  const auto paused = open(1, kOne);
  ASSERT_NE(find(paused), nullptr);
  EXPECT_NE(find(open(2, kOther)), nullptr);
  EXPECT_EQ(paused->held_bytes(), 0U);
}

TEST_F(SharedRoomTest, AMuchLargerOnlyRowGoesForAUserThatHoldsLittle) {
  put(8, 0, {std::string(10'000, 'x')});
  PayloadFetcher::Options options = room(2000);
  options.shortest_held = milliseconds(0);
  begin(options);
  const auto little = open(1, kOther);
  ASSERT_NE(find(little), nullptr);
  const auto large = open(8, kOne);
  ASSERT_NE(find(large), nullptr);
  EXPECT_NE(find(open(2, kOther)), nullptr);
  EXPECT_EQ(large->held_bytes(), 0U);
}

TEST_F(SharedRoomTest, AfterALongReadingOfOneUserAnotherOneIsWaitedFor) {
  constexpr milliseconds kPatience{300};
  PayloadFetcher::Options options = room(1'000'000);
  options.patience = kPatience;
  options.threads = 2;
  begin(options);
  disk.server.hold();
  EXPECT_EQ(fetcher->find(open(1, kOne), 0, PayloadFetcher::Look::kFirst, now()), nullptr);
  ASSERT_TRUE(disk.server.await_held(1));
  std::this_thread::sleep_for(kPatience);  // so that it takes longer than that
  disk.server.let_pass(2);
  ASSERT_TRUE(arrivals.await(1));
  const Instant asked = now();
  EXPECT_TRUE(find(open(2, kOther)) != nullptr || now() - asked >= kPatience) << "its batch need not pause";
  EXPECT_EQ(find(open(3, kOne)), nullptr) << "that of the slow user pauses at once";
}

TEST_F(PayloadFetcherTest, APayloadThatIsMissingIsTheErrorOfItsJob) {
  put(1, 0, {"a", "b"});
  begin(kImpatient);
  const auto source = payloads(1);
  EXPECT_EQ(fetch(*source, 0, 3), Fetched());
  ASSERT_TRUE(arrivals.await(1));
  EXPECT_EQ(fetch(*source, 0, 3), (Fetched{"a", "b"}));
  ASSERT_TRUE(arrivals.await(1, 2));
  // An executor looks for several first, and then for each.
  EXPECT_EQ(fetch(*source, 0, 3), (Fetched{"a", "b"})) << "those before it";
  EXPECT_THROW(fetch(*source, 2, 2), std::runtime_error);
  EXPECT_THROW(fetch(*source, 2, 1), std::runtime_error);
  EXPECT_EQ(disk.server.readings(), 2U);
  EXPECT_EQ(fetch(*source, 2, 1), Fetched()) << "the job runs again: it is looked for again";
}

TEST_F(PayloadFetcherTest, APayloadIsGivenThoughTheNextOneIsMissing) {
  put(1, 0, {"x"});
  begin(kImpatient);
  const auto source = payloads(1);
  EXPECT_EQ(fetch(*source, 1, 2), Fetched());
  ASSERT_TRUE(arrivals.await(1));
  EXPECT_THROW(fetch(*source, 1, 2), std::runtime_error);
  EXPECT_EQ(fetch(*source, 0, 2), Fetched());
  ASSERT_TRUE(arrivals.await(1, 2));
  EXPECT_EQ(fetch(*source, 0, 2), (Fetched{"x"})) << "else it would be read again and again";
  EXPECT_THROW(fetch(*source, 1, 1), std::runtime_error);
}

TEST_F(PayloadFetcherTest, ADatabaseThatIsAwayIsNotWaitedForAndNoBatchIsTold) {
  put(1, 0, {"x"});
  begin(kPatient);
  const auto source = payloads(1);
  disk.server.fail(EngineError::Kind::kAway);
  EXPECT_EQ(fetch(*source, 0), Fetched());
  EXPECT_FALSE(reachability->is_reachable());
  EXPECT_EQ(fetch(*source, 0), Fetched());
  EXPECT_EQ(disk.server.readings(), 1U);
  disk.server.fail(std::nullopt);
  ASSERT_TRUE(testing::wait_until_true([&] { return reachability->is_reachable(); }));
  EXPECT_EQ(fetch(*source, 0), Fetched{"x"});
  EXPECT_EQ(arrivals.of(1), 0);
}

TEST_F(PayloadFetcherTest, UsersAreServedRoundRobin) {
  for (std::uint64_t batch = 1; batch <= 6; ++batch) put(batch, 0, {"x"});
  begin(kImpatient);
  std::vector<std::unique_ptr<StoredPayloads>> sources;
  disk.server.hold();
  // The last one's user has no other.
  for (std::uint64_t batch = 1; batch <= 6; ++batch) {
    sources.push_back(payloads(batch, batch == 6 ? 2 : 1));
    EXPECT_EQ(fetch(*sources.back(), 0), Fetched());
  }
  ASSERT_TRUE(disk.server.await_held(1));
  disk.server.let_pass(3);
  ASSERT_TRUE(arrivals.await(6)) << "after one that was being read, and one more";
}

TEST_F(PayloadFetcherTest, AStoppedOneReadsNothing) {
  put(1, 0, {"x"});
  begin(kPatient);
  const auto source = payloads(1);
  fetcher->stop();
  EXPECT_EQ(fetch(*source, 0), Fetched());
  EXPECT_EQ(disk.server.readings(), 0U);
}

TEST_F(PayloadFetcherTest, ThePatternOfARangeIsNotWaitedForEither) {
  put(1, 0, {"n={}"});
  begin(kImpatient);
  StoredRange range(payloads(1), 7);
  EXPECT_EQ(fetch(range, 0), Fetched());
  ASSERT_TRUE(arrivals.await(1));
  EXPECT_EQ(fetch(range, 2), Fetched{"n=9"});
}

TEST_F(PayloadFetcherTest, AStoreOnANetworkHasOneAndOthersReadForThemselves) {
  engine_.reset();
  for (const bool is_on_network : {true, false}) {
    disk.is_on_network = is_on_network;
    auto store =
        Store::open({.path = "", .engine = disk.engine(), .fetching = kImpatient}, testing::silent_log());
    ASSERT_TRUE(store.has_value()) << store.error().what;
    (*store)->on_arrival([this](std::uint64_t batch) { arrivals.add(batch); });
    const auto source = (*store)->payloads(9);
    if (is_on_network) {
      EXPECT_EQ(fetch(*source, 0), Fetched());
      ASSERT_TRUE(arrivals.await(9));
    }
    EXPECT_THROW(fetch(*source, 0), std::runtime_error) << "there is none";
    EXPECT_THROW(fetch(*(*store)->payloads_for_reader(9), 0), std::runtime_error);
  }
}

}  // namespace
}  // namespace locksley::daemon
