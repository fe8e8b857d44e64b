// The bytes that batches have in the store, and which batches go when they are too many.
// Length: one class, whose rules concern each other.
#include "daemon/server/batches/retention/retention.h"
#include "daemon/base/loop/io_thread.h"

#include <gmock/gmock.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/batch/batch_failures.h"
#include "daemon/store/embedded/embedded_engine.h"
#include "daemon/store/store.h"
#include "tests/support/registry_fixture.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::Optional;

// A batch that has a journal counts as stored.
class NoJournal final : public BatchJournal {
 public:
  void record(BatchStep) override {}
  void wait_for_room() override {}
  std::uint64_t read_rows(std::uint64_t, std::uint64_t,
                          const std::function<bool(const ResultRow&)>&) override {
    return 0;
  }
};

// The store takes the deletions; the batches themselves were never written to it.
class RetentionTest : public RegistryFixture {
 protected:
  RetentionTest() {
    EXPECT_TRUE(store_->recover([](StoredBatch) {}).has_value());
    store_->start([](const Outcome&) {});
  }
  ~RetentionTest() override { store_->stop(); }

  static constexpr std::uint64_t kPayloads = 700;
  static constexpr std::uint64_t kBytes = kPayloads + Retention::kRowBytes;

  // A stored batch of kBytes.
  std::shared_ptr<BatchRecord> add_stored(const std::string& id, const std::string& owner = "default")
      LOCKSLEY_REQUIRES(kIoThread) {
    auto record = add(id, owner, std::make_unique<NoJournal>());
    record->stored.payload_bytes = kPayloads;
    retention_.update(*record, 0);
    return record;
  }
  std::shared_ptr<BatchRecord> add_over(const std::string& id, const std::string& owner = "default")
      LOCKSLEY_REQUIRES(kIoThread) {
    auto record = add_stored(id, owner);
    end(*record);
    retention_.add(*record);
    return record;
  }
  Account& all() LOCKSLEY_REQUIRES(kIoThread) { return registry_.tenants().account_of_all(); }
  void limit_to(std::uint64_t bytes) LOCKSLEY_REQUIRES(kIoThread) {
    all().set_limit(Resource::kStoredBytes, bytes);
  }
  bool has_room_for(std::uint64_t bytes, const std::string& owner = "default") LOCKSLEY_REQUIRES(kIoThread) {
    return retention_.first_without_room(tenant(owner), Resource::kStoredBytes, bytes) == nullptr;
  }
  std::uint64_t stored_bytes() LOCKSLEY_REQUIRES(kIoThread) { return all().used(Resource::kStoredBytes); }
  bool is_there(const std::string& id, const std::string& owner = "default") LOCKSLEY_REQUIRES(kIoThread) {
    return registry_.find(tenant(owner), id).value() != nullptr;
  }

  testing::TemporaryFolder folder_;
  std::unique_ptr<Store> store_ =
      std::move(Store::open({.path = (folder_.path() / "store").string(), .engine = embedded_engine()},
                            testing::silent_log())
                    .value());
  Reader aside_;
  Retention retention_{registry_, stats_, store_.get(), aside_};
};

TEST_F(RetentionTest, OnlyActiveBatchesAndReservationsTakeRoomFromANewOne) {
  const ThreadRoleScope io_thread(kIoThread);
  limit_to(3 * kBytes);
  add_stored("active");
  add_over("over");
  EXPECT_TRUE(has_room_for(2 * kBytes)) << "the other one can be evicted";
  EXPECT_FALSE(has_room_for(2 * kBytes + 1));
  retention_.reserve(tenant(), kBytes);
  EXPECT_TRUE(has_room_for(kBytes));
  EXPECT_FALSE(has_room_for(kBytes + 1));
  retention_.release(tenant(), kBytes);
  EXPECT_TRUE(has_room_for(2 * kBytes));
}

TEST_F(RetentionTest, WithoutALimitThereIsAlwaysRoomAndNothingIsEvicted) {
  const ThreadRoleScope io_thread(kIoThread);
  add_over("over");
  EXPECT_TRUE(has_room_for(std::uint64_t{1} << 62));
  retention_.limits_changed();
  EXPECT_TRUE(is_there("over"));
}

TEST_F(RetentionTest, ABatchIsChargedForItsPayloadsAndItsResults) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add_stored("a");
  retention_.update(*record, 50);
  EXPECT_EQ(stored_bytes(), kBytes + 50);
  retention_.update(*record, 20);
  EXPECT_EQ(stored_bytes(), kBytes + 20);
}

TEST_F(RetentionTest, ABatchIsChargedForTheTextsInItsRowUntilItIsForgotten) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add_stored("a");
  record->stored.text_bytes = 4000;
  retention_.update(*record, 500);
  EXPECT_EQ(stored_bytes(), kBytes + 4500);
  end(*record);
  retention_.add(*record);
  retention_.results_discarded(*record, 100);
  EXPECT_EQ(stored_bytes(), kBytes + 4100);
  ASSERT_TRUE(retention_.forget(*record, Urgency::kWithNext).has_value());
  EXPECT_EQ(stored_bytes(), 0u);
}

TEST_F(RetentionTest, TheBatchThatWasAcceptedFirstIsEvictedFirstAndNoMoreThanMustBe) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto a = add_stored("a");
  const auto b = add_stored("b");
  add_over("c");
  for (const auto& record : {b, a}) {
    end(*record);
    retention_.add(*record);
  }
  limit_to(2 * kBytes);
  retention_.limits_changed();
  EXPECT_FALSE(is_there("a")) << "it ended last, but was accepted first";
  EXPECT_TRUE(is_there("b"));
  EXPECT_TRUE(is_there("c"));
}

TEST_F(RetentionTest, AnActiveBatchIsNeverEvicted) {
  const ThreadRoleScope io_thread(kIoThread);
  add_stored("active");
  add_over("over");
  limit_to(1);
  retention_.limits_changed();
  EXPECT_TRUE(is_there("active"));
  EXPECT_FALSE(is_there("over"));
  EXPECT_EQ(stored_bytes(), kBytes);
}

TEST_F(RetentionTest, ARetiredBatchIsEvictedInItsTurn) {
  const ThreadRoleScope io_thread(kIoThread);
  tenant();
  const std::uint64_t sequence = registry_.numbers().take();
  retention_.add_restored({.sequence = sequence, .id_hash = 1, .forget_at = kNever, .stored_bytes = kBytes});
  registry_.restored();
  add_over("later");
  limit_to(kBytes);
  retention_.limits_changed();
  EXPECT_EQ(registry_.retained().find(sequence), nullptr);
  EXPECT_TRUE(is_there("later"));
  EXPECT_EQ(retention_.forget_retired(sequence, Urgency::kWithNext), std::nullopt) << "it is gone";
}

TEST_F(RetentionTest, TheOldestOfAUserIsFoundBehindVeryManyOfAnother) {
  const ThreadRoleScope io_thread(kIoThread);
  constexpr std::uint64_t kMany = 5 * RetainedBatches::kMostSearched;
  retention_.do_later([] {});
  std::uint64_t sequence = 0;
  for (std::uint64_t i = 0; i <= kMany; ++i) {
    sequence = registry_.numbers().take();
    retention_.add_restored({.sequence = sequence,
                             .id_hash = i,
                             .forget_at = kNever,
                             .stored_bytes = kBytes,
                             .tenant = tenant(i < kMany ? "many" : "few").number});
  }
  registry_.restored();
  tenant("few").account.set_limit(Resource::kStoredBytes, 1);
  retention_.evict(&tenant("few"));
  EXPECT_EQ(registry_.retained().find(sequence), nullptr);
  EXPECT_EQ(registry_.retained().size(), kMany);
}

// A small one, of the user that asks, comes while the many go.
TEST_F(RetentionTest, VeryManyAreEvictedAFewAtATimeAndNoMoreThanMustBe) {
  const ThreadRoleScope io_thread(kIoThread);
  constexpr std::uint64_t kMany = 1000;
  int scheduled = 0;
  retention_.do_later([&] { ++scheduled; });
  tenant();
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const std::uint64_t sequence = registry_.numbers().take();
    retention_.add_restored(
        {.sequence = sequence, .id_hash = i, .forget_at = kNever, .stored_bytes = kBytes});
  }
  registry_.restored();
  limit_to(10 * kBytes);
  retention_.limits_changed();
  EXPECT_EQ(scheduled, 1);
  EXPECT_GT(registry_.retained().size(), kMany / 2) << "not all of them at once";
  add_over("small");
  retention_.evict(&tenant());
  EXPECT_EQ(scheduled, 1) << "it waits for its turn";
  const std::size_t before = registry_.retained().size();
  EXPECT_FALSE(retention_.go_on_until(Instant::min()));
  EXPECT_LT(registry_.retained().size(), before);
  EXPECT_TRUE(retention_.go_on_until(Instant::max()));
  EXPECT_EQ(stored_bytes(), 10 * kBytes);
  EXPECT_TRUE(is_there("small"));
  limit_to(9 * kBytes);
  retention_.limits_changed();
  EXPECT_EQ(stored_bytes(), 9 * kBytes) << "a few go at once";
  EXPECT_EQ(scheduled, 1);
}

TEST_F(RetentionTest, VeryManyLeaveMemoryForTheStoreAFewAtATime) {
  const ThreadRoleScope io_thread(kIoThread);
  constexpr std::size_t kInMemory = 4096;
  constexpr std::size_t kMore = 1000;
  int scheduled = 0;
  retention_.do_later([&] { ++scheduled; });
  for (std::size_t i = 0; i < kInMemory + kMore; ++i) add_over(std::to_string(i));
  retention_.retire(0);
  EXPECT_EQ(scheduled, 1);
  const std::size_t at_once = registry_.retained().size();
  EXPECT_GT(at_once, 0u);
  EXPECT_LT(at_once, kMore / 2);
  retention_.retire(0);
  EXPECT_EQ(scheduled, 1);
  EXPECT_EQ(registry_.retained().size(), at_once) << "the others wait for their slices";
  EXPECT_FALSE(retention_.go_on_until(Instant::min()));
  EXPECT_TRUE(retention_.go_on_until(Instant::max()));
  EXPECT_EQ(registry_.retained().size(), kMore);
  add_over("one");
  retention_.retire(0);
  EXPECT_EQ(registry_.retained().size(), kMore + 1) << "a few go at once";
  EXPECT_EQ(scheduled, 1);
}

TEST_F(RetentionTest, VeryManyGiveWayToResultsAFewAtATime) {
  const ThreadRoleScope io_thread(kIoThread);
  constexpr std::uint64_t kMany = 1000;
  for (std::uint64_t i = 0; i < kMany; ++i) {
    const auto record = add(std::to_string(i));
    end(*record);
    retention_.add(*record);
  }
  tenant().account.results().charge(100);
  all().results().set_limit(100);
  EXPECT_FALSE(retention_.evict_results(Instant::min()));
  EXPECT_FALSE(is_there("0"));
  EXPECT_TRUE(is_there(std::to_string(kMany / 2)));
  EXPECT_TRUE(retention_.evict_results(Instant::max()));
  EXPECT_FALSE(is_there(std::to_string(kMany - 1)));
  tenant().account.results().refund(100);
}

// A look at 10,000 users takes as long as the eviction of some hundred batches.
class RetentionOfVeryManyUsersTest : public RetentionTest {
 protected:
  static constexpr std::uint64_t kUsers = 500;
  static constexpr std::uint64_t kEach = 200;

  RetentionOfVeryManyUsersTest() {
    const ThreadRoleScope io_thread(kIoThread);
    retention_.do_later([] {});
    for (std::uint64_t i = 0; i < kUsers; ++i) {
      tenant(name_of(i)).account.set_limit(Resource::kStoredBytes, 10 * kEach * kBytes);
    }
  }

  static std::string name_of(std::uint64_t user) { return "user" + std::to_string(user); }
  // The first two users have as many batches as each other, so that they lose them in turn.
  void add_batches_of_two() LOCKSLEY_REQUIRES(kIoThread) {
    for (std::uint64_t i = 0; i < 2 * kEach; ++i) {
      retention_.add_restored({.sequence = registry_.numbers().take(),
                               .id_hash = i,
                               .forget_at = kNever,
                               .stored_bytes = kBytes,
                               .tenant = tenant(name_of(i % 2)).number});
    }
    registry_.restored();
  }
  std::uint64_t walks() LOCKSLEY_REQUIRES(kIoThread) {
    return retention_.tenants_looked_at() / registry_.tenants().all().size();
  }
};

TEST_F(RetentionOfVeryManyUsersTest, ANewBatchLooksAtThemOnceForManyThatGo) {
  const ThreadRoleScope io_thread(kIoThread);
  add_batches_of_two();
  const std::uint64_t all = stored_bytes();
  limit_to(all);
  retention_.reserve(tenant(name_of(2)), 100 * kBytes);
  const std::uint64_t before = walks();
  retention_.evict(&tenant(name_of(2)));
  EXPECT_EQ(stored_bytes(), all) << "100 have gone";
  EXPECT_EQ(walks(), before + 1);
  for (std::uint64_t user : {0, 1}) {
    EXPECT_EQ(tenant(name_of(user)).account.used(Resource::kStoredBytes), (kEach - 50) * kBytes);
  }
}

TEST_F(RetentionOfVeryManyUsersTest, ASliceLooksAtThemAFewTimesAtMost) {
  const ThreadRoleScope io_thread(kIoThread);
  add_batches_of_two();
  limit_to(kBytes);
  std::uint64_t before = walks();
  retention_.limits_changed();
  EXPECT_LE(walks(), before + 2);
  before = walks();
  EXPECT_FALSE(retention_.go_on_until(Instant::min()));
  EXPECT_LE(walks(), before + 2);
  before = walks();
  EXPECT_TRUE(retention_.go_on_until(Instant::max()));
  EXPECT_LE(walks(), before + 2) << "more than 200 have gone";
  EXPECT_EQ(stored_bytes(), kBytes);
}

TEST_F(RetentionOfVeryManyUsersTest, TheClockIsLookedAtAfterACauseForWhichNothingGoes) {
  const ThreadRoleScope io_thread(kIoThread);
  add_batches_of_two();
  retention_.reserve(tenant(name_of(2)), kBytes);
  limit_to(1);
  retention_.limits_changed();
  // These wait until the first cause is done; no batch is left then.
  for (std::uint64_t user = 3; user < 100; ++user) retention_.evict(&tenant(name_of(user)));
  while (stored_bytes() != kBytes) ASSERT_FALSE(retention_.go_on_until(Instant::min()));
  const std::uint64_t before = walks();
  EXPECT_FALSE(retention_.go_on_until(Instant::min()));
  EXPECT_LE(walks(), before + 2);
  EXPECT_TRUE(retention_.go_on_until(Instant::max()));
}

TEST_F(RetentionOfVeryManyUsersTest, ResultsThatGrowLookAtThemAFewTimesForManyThatGo) {
  const ThreadRoleScope io_thread(kIoThread);
  for (std::uint64_t i = 0; i < 2 * kEach; ++i) {
    const auto record = add(std::to_string(i), name_of(i % 2));
    end(*record);
    retention_.add(*record);
  }
  for (std::uint64_t user : {0, 1}) tenant(name_of(user)).account.results().charge(100);
  all().results().set_limit(200);
  const std::uint64_t before = walks();
  EXPECT_TRUE(retention_.evict_results(Instant::max()));
  EXPECT_LE(walks(), before + 2);
  EXPECT_FALSE(is_there(std::to_string(2 * kEach - 1), name_of(1))) << "all have gone, and it was not enough";
  for (std::uint64_t user : {0, 1}) tenant(name_of(user)).account.results().refund(100);
}

// The one that grows gives all that it can before the others are looked at.
TEST_F(RetentionTest, AUserWhoseResultsGrowLosesAsManyBatchesAsItMust) {
  const ThreadRoleScope io_thread(kIoThread);
  limit_to(3 * kBytes);
  for (const char* owner : {"alice", "bob"}) {
    tenant(owner).account.set_limit(Resource::kStoredBytes, 100 * kBytes);
  }
  add_over("a1", "alice");
  for (const char* id : {"b1", "b2", "b3", "b4"}) add_over(id, "bob");
  tenant("bob").account.charge(Resource::kQueuedJobs, 1);
  retention_.evict();
  EXPECT_EQ(stored_bytes(), 3 * kBytes);
  EXPECT_TRUE(is_there("a1", "alice"));
  EXPECT_FALSE(is_there("b2", "bob"));
  EXPECT_TRUE(is_there("b3", "bob"));
}

TEST_F(RetentionTest, ABatchThatGoesOnIsActiveAgainAndNotEvicted) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add_over("a");
  retention_.go_on(*record, record->status());
  limit_to(1);
  retention_.limits_changed();
  EXPECT_TRUE(is_there("a"));
}

TEST_F(RetentionTest, OnlyABatchThatIsOverIsForgottenAndItsBytesGoWithIt) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto active = add_stored("active");
  EXPECT_EQ(retention_.forget(*active, Urgency::kWithNext), std::nullopt);
  EXPECT_TRUE(is_there("active"));
  const auto over = add_over("over");
  const auto ticket = retention_.forget(*over, Urgency::kWithNext);
  EXPECT_THAT(ticket, Optional(::testing::Gt(0u))) << "of its deletion in the store";
  EXPECT_FALSE(is_there("over"));
  limit_to(2 * kBytes);
  EXPECT_TRUE(has_room_for(kBytes));
  EXPECT_EQ(stored_bytes(), kBytes);
}

TEST_F(RetentionTest, ABatchThatIsInMemoryAloneLeavesNothingToDelete) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add("a");
  end(*record);
  EXPECT_THAT(retention_.forget(*record, Urgency::kWithNext), Optional(0u));
  EXPECT_FALSE(is_there("a"));
}

// Else a client could fill the memory with batches that it forgets while they are read.
TEST_F(RetentionTest, ResultsOfAForgottenBatchCountUntilItsLastReadHasEnded) {
  const ThreadRoleScope io_thread(kIoThread);
  ResultAccount& results = tenant().account.failures();  // refunded together with those of results
  for (const auto& [is_read, urgency] :
       {std::pair(false, Urgency::kAwaited), std::pair(true, Urgency::kAwaited),
        std::pair(true, Urgency::kWithNext)}) {
    BatchOptions options;
    options.id = "a";
    options.failures = &results;
    auto record = std::make_shared<BatchRecord>(std::move(options), handler_,
                                                std::make_unique<RangedPayloads>(RangeJobs{}), nullptr, lane_,
                                                BatchRecord::Origin::kSubmit, registry_.numbers().take());
    registry_.add(record);
    BatchHistory history;
    history.jobs = history.rows = 1;
    history.totals.by_status[static_cast<std::size_t>(JobStatus::kError)] = 1;
    history.failed_unread = true;
    record->restore(history);
    end(*record);
    record->failures().set_list(std::make_shared<const std::vector<IndexRange>>(1, IndexRange{0, 1}), 1);
    const std::uint64_t bytes = results.bytes();
    EXPECT_GT(bytes, 0U);
    BatchRecord& forgotten = *record;
    if (!is_read) record.reset();
    EXPECT_TRUE(retention_.forget(forgotten, urgency).has_value());
    EXPECT_EQ(results.bytes(), is_read && urgency == Urgency::kAwaited ? bytes : 0)
        << "what is evicted makes room at once, so that no further batch is";
    record.reset();
    EXPECT_EQ(results.bytes(), 0U);
  }
}

// Its results grow no longer: so lighter users' batches may leave.
TEST_F(RetentionTest, TheEndOfAUsersJobsMayMakeRoomWhereTheAccountOfAllFailuresIsFull) {
  const ThreadRoleScope io_thread(kIoThread);
  ResultAccount& all = registry_.tenants().account_of_all().failures();
  retention_.jobs_ended();
  EXPECT_FALSE(retention_.take_may_relieve_soon());
  all.set_limit(0);
  retention_.jobs_ended();
  EXPECT_TRUE(retention_.take_may_relieve_soon());
  EXPECT_FALSE(retention_.take_may_relieve_soon()) << "it says so once";
  EXPECT_FALSE(retention_.take_may_relieve()) << "it can wait for a moment";
}

// ---- Whose batches go ----

TEST_F(RetentionTest, AUserOverItsOwnLimitLosesItsOwnBatches) {
  const ThreadRoleScope io_thread(kIoThread);
  add_over("a1", "alice");
  add_over("b1", "bob");
  add_over("b2", "bob");
  tenant("bob").account.set_limit(Resource::kStoredBytes, kBytes);
  EXPECT_TRUE(has_room_for(kBytes, "bob")) << "for which its own batches go";
  EXPECT_FALSE(has_room_for(kBytes + 1, "bob"));
  retention_.limits_changed();
  EXPECT_TRUE(is_there("a1", "alice")) << "it was accepted first, and is another user's";
  EXPECT_FALSE(is_there("b1", "bob"));
  EXPECT_TRUE(is_there("b2", "bob"));
}

TEST_F(RetentionTest, WhereAllAreOverTheHeaviestGivesToThoseWhoHaveLess) {
  const ThreadRoleScope io_thread(kIoThread);
  for (const char* owner : {"alice", "bob", "carol"}) {
    tenant(owner).account.set_limit(Resource::kStoredBytes, 10 * kBytes);
  }
  add_over("a1", "alice");
  for (const char* id : {"b1", "b2", "b3"}) add_over(id, "bob");
  limit_to(4 * kBytes);
  EXPECT_TRUE(has_room_for(kBytes, "carol"));
  retention_.reserve(tenant("carol"), kBytes);
  retention_.evict(&tenant("carol"));
  EXPECT_TRUE(is_there("a1", "alice"));
  EXPECT_FALSE(is_there("b1", "bob")) << "the oldest of who has most";
  EXPECT_TRUE(is_there("b2", "bob"));
  // Now alice and carol have one each, and bob two.
  EXPECT_TRUE(has_room_for(kBytes, "bob")) << "who has most and asks gives its own";
  EXPECT_TRUE(has_room_for(kBytes, "alice")) << "she would have as much as bob, and gives her own";
  retention_.reserve(tenant("bob"), kBytes);
  retention_.evict(&tenant("bob"));
  EXPECT_FALSE(is_there("b2", "bob"));
  EXPECT_TRUE(is_there("b3", "bob")) << "no more than must be";
  EXPECT_TRUE(is_there("a1", "alice"));
}

TEST_F(RetentionTest, EqualUsersThatHaveFilledTheRoomCanAllGoOn) {
  const ThreadRoleScope io_thread(kIoThread);
  const std::vector<std::string> owners = {"alice", "bob", "carol"};
  for (const std::string& owner : owners) {
    tenant(owner).account.set_limit(Resource::kStoredBytes, 10 * kBytes);
    for (const char* number : {"1", "2"}) add_over(owner + number, owner);
  }
  limit_to(6 * kBytes);
  for (const std::string& owner : owners) {
    ASSERT_TRUE(has_room_for(kBytes, owner)) << owner;
    add_over(owner + "3", owner);
    retention_.evict(&tenant(owner));
    EXPECT_FALSE(is_there(owner + "1", owner)) << "its own oldest";
    EXPECT_TRUE(is_there(owner + "2", owner));
  }
  EXPECT_EQ(stored_bytes(), 6 * kBytes);
}

TEST_F(RetentionTest, WhereTheHeaviestHasNothingToGiveALighterUserGivesItsOwn) {
  const ThreadRoleScope io_thread(kIoThread);
  for (const char* owner : {"alice", "bob"}) {
    tenant(owner).account.set_limit(Resource::kStoredBytes, 10 * kBytes);
  }
  for (const char* id : {"b1", "b2", "b3"}) add_stored(id, "bob");
  const auto b4 = add_stored("b4", "bob");
  for (const char* id : {"a1", "a2"}) add_over(id, "alice");
  limit_to(6 * kBytes);
  EXPECT_TRUE(has_room_for(kBytes, "alice")) << "bob has more, and his batches are not over";
  EXPECT_TRUE(has_room_for(2 * kBytes, "alice")) << "both of hers go";
  EXPECT_FALSE(has_room_for(2 * kBytes + 1, "alice"));
  EXPECT_FALSE(has_room_for(1, "bob")) << "he has nothing to evict, and alice has less";
  retention_.reserve(tenant("alice"), kBytes);
  retention_.evict(&tenant("alice"));
  EXPECT_FALSE(is_there("a1", "alice"));
  EXPECT_TRUE(is_there("a2", "alice")) << "no more than must be";
  EXPECT_EQ(stored_bytes(), 6 * kBytes);
  // As soon as one of bob's is over, he gives before her.
  end(*b4);
  retention_.add(*b4);
  retention_.reserve(tenant("alice"), kBytes);
  retention_.evict(&tenant("alice"));
  EXPECT_FALSE(is_there("b4", "bob"));
  EXPECT_TRUE(is_there("a2", "alice"));
}

TEST_F(RetentionTest, WeightCounts) {
  const ThreadRoleScope io_thread(kIoThread);
  for (const char* owner : {"alice", "bob"})
    tenant(owner).account.set_limit(Resource::kStoredBytes, 10 * kBytes);
  tenant("alice").weight = 4;
  for (const char* id : {"a1", "a2", "a3"}) add_over(id, "alice");
  for (const char* id : {"b1", "b2"}) add_over(id, "bob");
  limit_to(4 * kBytes);
  retention_.limits_changed();
  EXPECT_TRUE(is_there("a1", "alice"));
  EXPECT_FALSE(is_there("b1", "bob")) << "it has less, but more for its weight";
}

TEST_F(RetentionTest, AUserWhoseLimitLeavesRoomKeepsNoMoreThanIsLeftToOthers) {
  const ThreadRoleScope io_thread(kIoThread);
  limit_to(16 * kBytes);
  for (const char* const greedy : {"first", "second"}) {
    tenant(greedy).account.set_limit(Resource::kStoredBytes, 8 * kBytes, Account::Kind::kLeavesRoom);
    for (int i = 0; has_room_for(kBytes, greedy); ++i) add_stored(std::to_string(i), greedy);
  }
  EXPECT_EQ(tenant("first").account.used(Resource::kStoredBytes), 8 * kBytes);
  EXPECT_EQ(tenant("second").account.used(Resource::kStoredBytes), 4 * kBytes);
  // Batches that are over give way, so they do not count.
  tenant("third").account.set_limit(Resource::kStoredBytes, 8 * kBytes, Account::Kind::kLeavesRoom);
  for (int i = 0; i < 2; ++i) add_over(std::to_string(i), "third");
  EXPECT_TRUE(has_room_for(2 * kBytes, "third"));
  EXPECT_EQ(retention_.most_now(tenant("third").account, Resource::kStoredBytes), 4 * kBytes);
}

TEST_F(RetentionTest, ResultsThatGrowCostNoLighterUserABatch) {
  const ThreadRoleScope io_thread(kIoThread);
  for (const char* owner : {"alice", "bob", "carol"}) {
    tenant(owner).account.set_limit(Resource::kStoredBytes, 100 * kBytes);
  }
  add_over("a1", "alice");
  const auto grows = add_stored("b1", "bob");
  tenant("bob").account.charge(Resource::kQueuedJobs, 1);
  limit_to(6 * kBytes);
  retention_.update(*grows, 8 * kBytes);
  retention_.evict();
  EXPECT_TRUE(is_there("a1", "alice")) << "bob is the heaviest, and has nothing to give";
  for (const char* id : {"c1", "c2"}) {
    add_over(id, "carol");
    retention_.evict();
  }
  EXPECT_TRUE(is_there("c1", "carol"));
  add_over("b2", "bob");
  retention_.evict();
  EXPECT_FALSE(is_there("b2", "bob")) << "the one whose results grow gives";
  EXPECT_TRUE(is_there("c1", "carol"));
  // A heavier one gives, too.
  tenant("bob").weight = 5;  // 9,000 bytes, where carol has 2,000 and alice 1,000
  retention_.update(*grows, 8 * kBytes + 1);
  retention_.evict();
  EXPECT_FALSE(is_there("c1", "carol"));
  EXPECT_TRUE(is_there("a1", "alice"));
}

TEST_F(RetentionTest, APinnedBatchDoesNotKeepYoungerOnesAndGoesOnceItIsUnpinned) {
  const ThreadRoleScope io_thread(kIoThread);
  std::set<std::uint64_t> pinned;
  retention_.pin_while([&](std::uint64_t sequence) { return pinned.contains(sequence); });
  const std::uint64_t first = add_over("first")->sequence;
  pinned.insert(first);
  pinned.insert(add_over("second")->sequence);
  for (const char* id : {"third", "fourth"}) add_over(id);
  limit_to(3 * kBytes);
  retention_.limits_changed();
  EXPECT_TRUE(is_there("first"));
  EXPECT_TRUE(is_there("second"));
  EXPECT_FALSE(is_there("third")) << "the oldest that may go";
  EXPECT_TRUE(is_there("fourth"));
  limit_to(kBytes);
  retention_.limits_changed();
  EXPECT_FALSE(is_there("fourth"));
  EXPECT_EQ(stored_bytes(), 2 * kBytes);
  pinned.erase(first);
  retention_.evict();
  EXPECT_TRUE(is_there("first")) << "not looked at before it is said";
  retention_.unpinned(first);
  retention_.evict();
  EXPECT_FALSE(is_there("first"));
  EXPECT_TRUE(is_there("second"));
  // What is put aside can be forgotten, and its bytes go with it.
  EXPECT_TRUE(retention_.forget(*registry_.find(tenant(), "second").value(), Urgency::kWithNext).has_value());
  EXPECT_EQ(stored_bytes(), 0u);
}

// Batches whose results are in memory alone.
TEST_F(RetentionTest, ResultsInMemoryCostNoLighterUserABatch) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto light = add("light", "alice");
  end(*light);
  retention_.add(*light);
  tenant("alice").account.results().charge(10);
  tenant("bob").account.results().charge(100);
  tenant("bob").account.charge(Resource::kQueuedJobs, 1);
  all().results().set_limit(100);
  retention_.evict_results(Instant::max());
  EXPECT_TRUE(is_there("light", "alice"));
  tenant("bob").account.refund(Resource::kQueuedJobs, 1);
  retention_.evict_results(Instant::max());
  EXPECT_FALSE(is_there("light", "alice")) << "no results grow, so there is no neighbour to pay for";
  tenant("alice").account.results().refund(10);
  tenant("bob").account.results().refund(100);
}

TEST_F(RetentionTest, ABatchThatAReaderDiscardsStaysWhenResultsAreTooMany) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto read = add("read");
  BatchHistory history;
  history.jobs = history.rows = 2;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = 2;
  history.discarded = 1;
  read->restore(history);
  registry_.charges().count_record(*read, 1000);
  read->discarder.seen = now();
  end(*read);
  retention_.add(*read);
  const auto unread = add("unread");
  end(*unread);
  retention_.add(*unread);
  tenant().account.results().charge(10);
  all().results().set_limit(10);
  retention_.evict_results(Instant::max());
  EXPECT_TRUE(is_there("read"));
  EXPECT_FALSE(is_there("unread")) << "accepted later, and still the first that may go";
  tenant().account.results().refund(10);
  // It goes like any other for the sake of records, and when its user says so.
  const auto other = add("other");
  registry_.charges().count_record(*other, 1000);
  end(*other);
  retention_.add(*other);
  all().set_limit(Resource::kRecordBytes, 1500);
  retention_.limits_changed();
  EXPECT_FALSE(is_there("read"));
  EXPECT_TRUE(is_there("other"));
}

// Else the user with the least would pay: its jobs would not start, and its RUN would be cancelled.
TEST_F(RetentionTest, WhereTheHeaviestUsersBatchesAllWaitForTheirReadersTheNextOneLosesResults) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto read = add("read", "alice");
  BatchHistory history;
  history.jobs = history.rows = 2;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = 2;
  history.discarded = 1;
  read->restore(history);
  read->discarder.seen = now();
  end(*read);
  retention_.add(*read);
  const auto unread = add("unread", "bob");
  end(*unread);
  retention_.add(*unread);
  const std::pair<const char*, std::uint64_t> used[] = {{"alice", 100}, {"bob", 50}, {"carol", 10}};
  for (const auto& [user, bytes] : used) tenant(user).account.results().charge(bytes);
  tenant("carol").account.charge(Resource::kQueuedJobs, 1);
  all().results().set_limit(160);
  retention_.evict_results(Instant::max());
  EXPECT_TRUE(is_there("read", "alice"));
  EXPECT_FALSE(is_there("unread", "bob"));
  for (const auto& [user, bytes] : used) tenant(user).account.results().refund(bytes);
  tenant("carol").account.refund(Resource::kQueuedJobs, 1);
}

TEST_F(RetentionTest, DiscardedResultsGiveTheirBytesBackWhereverTheBatchIsKept) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto active = add_stored("active");
  retention_.update(*active, 500);
  retention_.results_discarded(*active, 200);
  EXPECT_EQ(stored_bytes(), kBytes + 200);
  end(*active);
  retention_.add(*active);
  retention_.results_discarded(*active, 100);
  EXPECT_EQ(stored_bytes(), kBytes + 100);
  limit_to(kBytes);
  EXPECT_TRUE(has_room_for(kBytes)) << "just what is left can be evicted";
  ASSERT_TRUE(retention_.forget(*active, Urgency::kWithNext).has_value());
  EXPECT_EQ(stored_bytes(), 0u);
}

// The record of a batch that is in memory alone counts until it is forgotten, too.
TEST_F(RetentionTest, RecordsInMemoryAloneGoWhenTheyAreTooMany) {
  const ThreadRoleScope io_thread(kIoThread);
  for (const char* id : {"m1", "m2"}) {
    const auto record = add(id);
    registry_.charges().count_record(*record, 1000);
    end(*record);
    retention_.add(*record);
  }
  EXPECT_EQ(tenant().account.used(Resource::kRecordBytes), 2000U);
  all().set_limit(Resource::kRecordBytes, 1500);
  EXPECT_EQ(retention_.first_without_room(tenant(), Resource::kRecordBytes, 1500), nullptr);
  retention_.limits_changed();
  EXPECT_FALSE(is_there("m1"));
  EXPECT_TRUE(is_there("m2"));
  EXPECT_EQ(tenant().account.used(Resource::kRecordBytes), 1000U);
}

}  // namespace
}  // namespace locksley::daemon
