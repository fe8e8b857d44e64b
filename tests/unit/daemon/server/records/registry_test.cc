// Length: one class, and batches that leave memory for the store.
#include "daemon/server/records/registry.h"
#include "daemon/base/loop/io_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/server/payloads/fixed_payloads.h"
#include "daemon/server/payloads/received_payloads.h"
#include "daemon/server/records/forgotten_ids.h"
#include "tests/support/next_to_forget.h"
#include "tests/support/registry_fixture.h"

namespace locksley::daemon {
namespace {

using std::chrono::seconds;

class RegistryTest : public RegistryFixture {
 protected:
  std::vector<std::string> list(std::uint64_t& cursor, bool active_only, std::size_t count,
                                std::size_t most = 1000) LOCKSLEY_REQUIRES(kIoThread) {
    std::vector<std::string> ids;
    const std::uint64_t from = cursor;
    const auto visit = [&](const BatchRecord& record) {
      if (ids.size() == count) return false;
      ids.push_back(record.id());
      return true;
    };
    Instant began;
    do {
      began = now();
      ids.clear();
      loads_ = 0;
      cursor = *registry_.list({.cursor = from, .active_only = active_only, .most = most}, visit);
    } while (was_held_up(began));
    return ids;
  }
  // A page ends once its loads have taken that long: then it is asked for again.
  static bool was_held_up(Instant since) { return now() - since >= std::chrono::milliseconds(5); }
  // What is due next, whenever that is.
  DueQueue::Item next_due() LOCKSLEY_REQUIRES(kIoThread) {
    return registry_.due().next_due(Instant::max()).value();
  }

  int loads_ = 0;  // since the last list() has begun
};

using Ids = std::vector<std::string>;

TEST_F(RegistryTest, FindsABatchByItsIdUntilItIsForgotten) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add("a");
  EXPECT_EQ(registry_.find(tenant(), "a").value(), record.get());
  EXPECT_EQ(registry_.find(tenant(), "b").value(), nullptr);
  EXPECT_FALSE(registry_.forget(*record)) << "it is active";
  end(*record);
  EXPECT_TRUE(registry_.forget(*record));
  EXPECT_EQ(registry_.find(tenant(), "a").value(), nullptr);
  EXPECT_FALSE(registry_.forget(*record));
  EXPECT_EQ(registry_.size(), 0u);
}

// Payloads that are read back from the store.
TEST_F(RegistryTest, PayloadsThatComeIntoMemoryLaterAreCharged) {
  const ThreadRoleScope io_thread(kIoThread);
  class ReadBack final : public PayloadSource {
   public:
    explicit ReadBack(std::uint64_t& bytes) : bytes_(bytes) {}
    std::size_t fetch(std::uint64_t, std::span<std::string_view>, std::string&) override { return 0; }
    std::uint64_t memory_bytes() const override { return bytes_; }
    void drop_cached() override { bytes_ = 0; }

   private:
    std::uint64_t& bytes_;
  };
  std::uint64_t bytes = 0;
  BatchOptions options;
  options.id = "a";
  const auto record = std::make_shared<BatchRecord>(
      std::move(options), handler_,
      std::make_unique<FetchedPayloads>(std::make_unique<ReadBack>(bytes), 1, std::nullopt), nullptr, lane_,
      BatchRecord::Origin::kSubmit, registry_.numbers().take());
  registry_.add(record);
  const Account& account = tenant().account;
  for (const std::uint64_t read : {1000U, 300U}) {
    bytes = read;
    registry_.update(*record, record->status(), now_);
    EXPECT_EQ(account.used(Resource::kQueuedBytes), read);
  }
  end(*record);
  EXPECT_EQ(account.used(Resource::kQueuedBytes), 0u);
  record->payloads().release(BatchPayloads::FailedJobs::kMayRunAgain, BatchPayloads::Repetition::kPossible);
  EXPECT_EQ(bytes, 0u) << "dropped";
}

TEST_F(RegistryTest, ListsNewestFirst) {
  const ThreadRoleScope io_thread(kIoThread);
  for (const char* id : {"a", "b", "c"}) add(id);
  std::uint64_t cursor = 0;
  EXPECT_EQ(list(cursor, false, 10), (Ids{"c", "b", "a"}));
  EXPECT_EQ(cursor, 0u);
}

TEST_F(RegistryTest, CursorHoldsWhileBatchesComeAndGo) {
  const ThreadRoleScope io_thread(kIoThread);
  std::vector<std::shared_ptr<BatchRecord>> records;
  for (const char* id : {"a", "b", "c", "d"}) records.push_back(add(id));
  std::uint64_t cursor = 0;
  EXPECT_EQ(list(cursor, false, 2), (Ids{"d", "c"}));
  ASSERT_NE(cursor, 0u);
  end(*records[2]);  // c, where the cursor stands
  registry_.forget(*records[2]);
  end(*records[1]);
  registry_.forget(*records[1]);
  add("e");
  EXPECT_EQ(list(cursor, false, 2), (Ids{"a"}));
  EXPECT_EQ(cursor, 0u);
}

TEST_F(RegistryTest, ListLooksAtNoMoreThanItMay) {
  const ThreadRoleScope io_thread(kIoThread);
  for (const char* id : {"a", "b", "c"}) add(id);
  std::uint64_t cursor = 0;
  EXPECT_EQ(list(cursor, false, 10, 2), (Ids{"c", "b"}));
  ASSERT_NE(cursor, 0u);
  EXPECT_EQ(list(cursor, false, 10, 2), (Ids{"a"}));
  EXPECT_EQ(cursor, 0u);
}

TEST_F(RegistryTest, AnIdIsItsTenantsOwn) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto of_alice = add("a", "alice");
  const auto of_bob = add("a", "bob");
  EXPECT_EQ(registry_.find(tenant("alice"), "a").value(), of_alice.get());
  EXPECT_EQ(registry_.find(tenant("bob"), "a").value(), of_bob.get());
  EXPECT_EQ(registry_.find(tenant("carol"), "a").value(), nullptr);
  EXPECT_TRUE(registry_.may_be_taken(tenant("bob"), "a"));
  EXPECT_FALSE(registry_.may_be_taken(tenant("carol"), "a"));
  end(*of_alice);
  EXPECT_TRUE(registry_.forget(*of_alice));
  EXPECT_EQ(registry_.find(tenant("alice"), "a").value(), nullptr);
  EXPECT_EQ(registry_.find(tenant("bob"), "a").value(), of_bob.get());
}

TEST_F(RegistryTest, CountsWhatATenantHas) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto of_alice = add("a", "alice");
  const auto of_bob = add("a", "bob");
  registry_.charges().add_jobs_set_memory(*of_alice, 10, 100);
  registry_.charges().count_payloads(*of_alice, 90);
  registry_.charges().add_jobs_set_memory(*of_alice, 5, 150);
  registry_.charges().add_jobs_set_memory(*of_bob, 1, 1);
  const Tenant& alice = tenant("alice");
  EXPECT_EQ(alice.account.used(Resource::kQueuedJobs), 15u);
  EXPECT_EQ(alice.account.used(Resource::kPayloadBytes), 90u);
  EXPECT_EQ(alice.account.used(Resource::kBatches), 1u);
  EXPECT_EQ(tenant("bob").account.used(Resource::kQueuedJobs), 1u);
  end(*of_alice);
  EXPECT_EQ(alice.account.used(Resource::kQueuedJobs), 0u);
  EXPECT_EQ(alice.account.used(Resource::kPayloadBytes), 0u);
  EXPECT_EQ(alice.account.used(Resource::kBatches), 0u);
  EXPECT_EQ(tenant("bob").account.used(Resource::kBatches), 1u);
  registry_.go_on(of_alice, of_alice->status());
  EXPECT_EQ(alice.account.used(Resource::kBatches), 1u);
}

// What is retired comes back from a store; here the test is that.
class RetiringTest : public RegistryTest {
 protected:
  RetiringTest() {
    registry_.load_with([this](std::uint64_t sequence) -> Registry::Loaded {
      kIoThread.assert_held();
      ++loads_;
      std::this_thread::sleep_for(load_takes_);
      if (fails_) return std::unexpected("the disk fails");
      BatchOptions options;
      options.id = stored_.at(sequence);
      options.tenant = stored_tenants_.at(sequence);
      auto record = std::make_shared<BatchRecord>(std::move(options), handler_,
                                                  std::make_unique<RangedPayloads>(RangeJobs{}), nullptr,
                                                  lane_, BatchRecord::Origin::kSubmit, sequence);
      record->is_active = false;
      return record;
    });
  }
  std::uint64_t retire(const std::string& id, const std::string& tenant_name = "default")
      LOCKSLEY_REQUIRES(kIoThread) {
    const auto record = add(id, tenant_name);
    end(*record);
    record->stored.bytes = 100;
    stored_[record->sequence] = id;
    stored_tenants_[record->sequence] = tenant_name;
    registry_.retire(*record);
    return record->sequence;
  }

  std::map<std::uint64_t, std::string> stored_;
  std::map<std::uint64_t, std::string> stored_tenants_;
  bool fails_ = false;
  std::chrono::milliseconds load_takes_{0};
};

// No account has what they hold.
TEST_F(RetiringTest, LoadedBatchesHoldSoManyBytesOrTheLatestAlone) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record_of = [this](std::uint64_t sequence, std::size_t mebibytes) LOCKSLEY_REQUIRES(kIoThread) {
    return std::make_shared<BatchRecord>(
        BatchOptions{}, handler_,
        std::make_unique<RangedPayloads>(RangeJobs{0, 1, pattern_of(std::string(mebibytes << 20, 'x'))}),
        nullptr, lane_, BatchRecord::Origin::kSubmit, sequence);
  };
  LoadedBatches loaded;
  loaded.add(record_of(1, 6));
  loaded.add(record_of(2, 6));
  EXPECT_NE(loaded.use(1), nullptr) << "it is the latest now";
  loaded.add(record_of(3, 6));
  EXPECT_EQ(loaded.find(2), nullptr);
  EXPECT_NE(loaded.find(1), nullptr);
  EXPECT_NE(loaded.find(3), nullptr);
  loaded.add(record_of(4, 40));
  EXPECT_EQ(loaded.find(3), nullptr);
  EXPECT_NE(loaded.find(4), nullptr);
  constexpr std::uint64_t kMany = 100;
  for (std::uint64_t i = 5; i < 5 + kMany; ++i) loaded.add(record_of(i, 0));
  EXPECT_EQ(loaded.find(4 + kMany - 64), nullptr);
  EXPECT_NE(loaded.find(5 + kMany - 64), nullptr);
}

TEST_F(RetiringTest, WhatIsRetiredIsItsTenantsAlone) {
  const ThreadRoleScope io_thread(kIoThread);
  const std::uint64_t of_alice = retire("a", "alice");
  const std::uint64_t of_bob = retire("a", "bob");
  EXPECT_EQ(registry_.find(tenant("carol"), "a").value(), nullptr);
  EXPECT_EQ(loads_, 0) << "whose it is, memory knows";
  EXPECT_EQ(registry_.find(tenant("alice"), "a").value()->sequence, of_alice);
  EXPECT_EQ(registry_.find(tenant("bob"), "a").value()->sequence, of_bob);
  EXPECT_EQ(registry_.find(of_alice).value()->options().tenant, "alice");
  EXPECT_EQ(registry_.find(of_bob + 1).value(), nullptr);
}

TEST_F(RetiringTest, AListOfATenantLoadsNothingOfOthers) {
  const ThreadRoleScope io_thread(kIoThread);
  for (int i = 0; i < 10; ++i) {
    retire("of alice " + std::to_string(i), "alice");
    add("of bob " + std::to_string(i), "bob");
    retire("of bob, too, " + std::to_string(i), "bob");
  }
  std::vector<std::string> seen;
  const auto visit = [&](BatchRecord& record) {
    seen.push_back(record.id());
    return true;
  };
  Instant began;
  std::uint64_t next = 0;
  do {
    began = now();
    seen.clear();
    loads_ = 0;
    next = registry_.list({.tenant = &tenant("alice"), .most = 1000}, visit).value();
  } while (was_held_up(began));
  EXPECT_EQ(next, 0u);
  EXPECT_EQ(seen.size(), 10u);
  for (const std::string& id : seen) EXPECT_TRUE(id.starts_with("of alice")) << id;
  EXPECT_EQ(loads_, 10);
  // Those of others are looked at, too, and it may only look so often.
  const auto cut = registry_.list({.tenant = &tenant("carol"), .most = 7}, [](BatchRecord&) { return true; });
  EXPECT_NE(cut.value(), 0u);
}

TEST_F(RetiringTest, AListEndsInTimeThoughItPassesOverOthers) {
  const ThreadRoleScope io_thread(kIoThread);
  add("of alice", "alice");
  for (int i = 0; i < 1000; ++i) retire("of bob " + std::to_string(i), "bob");
  const auto page = [&](std::uint64_t cursor, int& asked) LOCKSLEY_REQUIRES(kIoThread) {
    const auto is_late = [&asked] { return ++asked == 2; };
    return registry_
        .list({.cursor = cursor, .tenant = &tenant("alice"), .most = 10'000, .is_late = is_late},
              [](BatchRecord&) { return true; })
        .value();
  };
  int asked = 0;
  const std::uint64_t cursor = page(0, asked);
  EXPECT_NE(cursor, 0U);
  EXPECT_EQ(asked, 2);
  asked = 0;
  EXPECT_EQ(page(cursor, asked), 0U) << "the others are fewer than half";
}

TEST_F(RetiringTest, AListThatWaitsForTheDiskEndsItsPageEarly) {
  const ThreadRoleScope io_thread(kIoThread);
  for (int i = 0; i < 3; ++i) retire(std::to_string(i));
  load_takes_ = std::chrono::milliseconds(6);
  int pages = 0;
  std::uint64_t cursor = 0;
  do {
    cursor = registry_.list({.cursor = cursor, .most = 1000}, [](BatchRecord&) { return true; }).value();
    ++pages;
  } while (cursor != 0 && pages < 10);
  EXPECT_EQ(loads_, 3);
  EXPECT_EQ(pages, 4) << "one batch in each, and then none is left";
}

TEST_F(RetiringTest, WhatIsRetiredIsLoadedWhenSomebodyAsksAndThenKeptForAWhile) {
  const ThreadRoleScope io_thread(kIoThread);
  retire("a");
  EXPECT_EQ(registry_.size(), 1U);
  EXPECT_EQ(stats_.retained_batches.get(), 1U);
  EXPECT_EQ(registry_.find(tenant(), "a").value()->id(), "a");
  EXPECT_EQ(registry_.find(tenant(), "a").value()->id(), "a");
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(registry_.find(tenant(), "b").value(), nullptr);
  EXPECT_EQ(loads_, 1) << "for an id that nobody has";
}

TEST_F(RetiringTest, OnlySoManyThatWereLoadedAreKept) {
  const ThreadRoleScope io_thread(kIoThread);
  for (int i = 0; i < 1000; ++i) retire(std::to_string(i));
  std::weak_ptr<Batch> first = registry_.find(tenant(), "0").value()->weak_from_this();
  for (int i = 1; i < 1000; ++i) ASSERT_NE(registry_.find(tenant(), std::to_string(i)).value(), nullptr);
  EXPECT_TRUE(first.expired());
}

TEST_F(RetiringTest, WhatCannotBeReadIsNotSaidToBeMissing) {
  const ThreadRoleScope io_thread(kIoThread);
  retire("a");
  fails_ = true;
  EXPECT_EQ(registry_.find(tenant(), "a").error(), "the disk fails");
  EXPECT_EQ(registry_.find(tenant(), "b").value(), nullptr);
  std::uint64_t cursor = 0;
  EXPECT_FALSE(registry_.list({.cursor = cursor, .most = 1000}, [](BatchRecord&) { return true; }));
  EXPECT_TRUE(registry_.list({.cursor = cursor, .active_only = true, .most = 1000},
                             [](BatchRecord&) { return true; }));
}

TEST_F(RetiringTest, ItsIdIsTakenUntilItIsForgotten) {
  const ThreadRoleScope io_thread(kIoThread);
  const std::uint64_t sequence = retire("a");
  EXPECT_TRUE(registry_.may_be_taken(tenant(), "a"));
  EXPECT_NE(registry_.find(tenant(), "a").value(), nullptr);
  EXPECT_EQ(registry_.forget_retained(sequence)->stored_bytes, 100U);
  EXPECT_EQ(registry_.forget_retained(sequence), std::nullopt);
  EXPECT_FALSE(registry_.may_be_taken(tenant(), "a"));
  EXPECT_EQ(registry_.find(tenant(), "a").value(), nullptr);
  EXPECT_EQ(stats_.retained_batches.get(), 0U);
  add("a");
}

TEST_F(RetiringTest, IsDueWhenItWasDue) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add("a");
  record->terms.retain = seconds(60);
  end(*record);
  registry_.retire(*record);
  EXPECT_EQ(registry_.due().earliest(), Instant::max());
  EXPECT_EQ(testing::next_to_forget(registry_.retained())->forget_at, now_ + seconds(60));
}

TEST_F(RetiringTest, ListShowsAllInOneOrder) {
  const ThreadRoleScope io_thread(kIoThread);
  add("a");
  retire("b");
  add("c");
  retire("d");
  retire("e");
  add("f");
  std::uint64_t cursor = 0;
  EXPECT_EQ(list(cursor, false, 10), (Ids{"f", "e", "d", "c", "b", "a"}));
  EXPECT_EQ(cursor, 0U);
  EXPECT_EQ(list(cursor, false, 2), (Ids{"f", "e"}));
  EXPECT_EQ(list(cursor, false, 2), (Ids{"d", "c"}));
  EXPECT_EQ(list(cursor, false, 2), (Ids{"b", "a"}));
  EXPECT_EQ(cursor, 0U);
  EXPECT_EQ(list(cursor, true, 10), (Ids{"f", "c", "a"}));
}

TEST_F(RetiringTest, ListLoadsFewerThanItMayLookAt) {
  const ThreadRoleScope io_thread(kIoThread);
  for (int i = 0; i < 10; ++i) retire(std::to_string(i));
  std::uint64_t cursor = 0;
  EXPECT_EQ(list(cursor, false, 10, 3 * Registry::kLoadCost).size(), 3U);
  EXPECT_EQ(loads_, 3);
  EXPECT_NE(cursor, 0U);
}

TEST_F(RegistryTest, ActiveOnlyPassesOverWhatIsOver) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto a = add("a");
  add("b");
  end(*a);
  std::uint64_t cursor = 0;
  EXPECT_EQ(list(cursor, true, 10), (Ids{"b"}));
  EXPECT_EQ(registry_.active(), 1u);
  EXPECT_EQ(stats_.active_batches.get(), 1u);
  EXPECT_EQ(stats_.retained_batches.get(), 1u);
}

TEST_F(RegistryTest, CountsWhatWaitsUntilItIsOver) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto a = add("a");
  const auto b = add("b");
  registry_.charges().add_jobs_set_memory(*a, 10, 100);
  registry_.charges().add_jobs_set_memory(*b, 5, 50);
  EXPECT_EQ(registry_.charges().queued_jobs(), 15u);
  EXPECT_EQ(registry_.tenants().account_of_all().used(Resource::kQueuedBytes), 150u);

  BatchStatus status = a->status();
  status.queued = 3;
  status.running = 1;
  EXPECT_FALSE(registry_.update(*a, status, now_));
  EXPECT_EQ(registry_.charges().queued_jobs(), 9u);
  EXPECT_EQ(registry_.tenants().account_of_all().used(Resource::kQueuedBytes),
            50 + a->payloads().memory_bytes());

  end(*a);
  EXPECT_EQ(registry_.charges().queued_jobs(), 5u);
  EXPECT_EQ(registry_.tenants().account_of_all().used(Resource::kQueuedBytes), 50u);
  EXPECT_EQ(stats_.queued_bytes.get(), 50u);
}

TEST_F(RegistryTest, EndIsSeenOnce) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto a = add("a");
  end(*a);
  EXPECT_FALSE(registry_.update(*a, a->status(), now_));
}

TEST_F(RegistryTest, WhatIsOverIsDueToBeForgottenAfterItsTime) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto a = add("a");
  a->terms.retain = seconds(60);
  registry_.schedule(*a, Due::kDeadline, now_ + seconds(5));
  EXPECT_EQ(next_due().kind, Due::kDeadline);
  end(*a);
  EXPECT_EQ(next_due().kind, Due::kForget) << "the deadline of what is over must be gone";
  EXPECT_EQ(next_due().at, now_ + seconds(60));
  EXPECT_EQ(registry_.by_sequence(next_due().sequence), a.get());
  registry_.forget(*a);
  EXPECT_EQ(registry_.due().earliest(), Instant::max());
}

TEST_F(RegistryTest, SchedulingAgainMovesTheInstant) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto a = add("a");
  const auto b = add("b");
  registry_.schedule(*a, Due::kDeadline, now_ + seconds(5));
  registry_.schedule(*b, Due::kDeadline, now_ + seconds(7));
  registry_.schedule(*a, Due::kDeadline, now_ + seconds(9));
  EXPECT_EQ(next_due().sequence, b->sequence);
  registry_.schedule(*b, Due::kDeadline, kNever);
  EXPECT_EQ(next_due().sequence, a->sequence);
  registry_.schedule(*a, Due::kDeadline, kNever);
  EXPECT_EQ(registry_.due().earliest(), Instant::max());
}

TEST(ForgottenIdsTest, TheLastAreRemembered) {
  ForgottenIds ids;
  for (std::uint64_t n = 0; n <= ForgottenIds::kMost; ++n) ids.add(n);
  ids.add(1);
  EXPECT_FALSE(ids.contains(0));
  EXPECT_TRUE(ids.contains(1));
  EXPECT_TRUE(ids.contains(ForgottenIds::kMost));
}

// So that the end of a daemon with very many batches that need not be waited for does not look at
// all of them each time.
TEST_F(RegistryTest, ASearchAmongTheActiveBatchesGoesRoundInPartsAndStaysAtWhatItHasFound) {
  using enum Registry::Searched;
  const ThreadRoleScope io_thread(kIoThread);
  std::vector<std::shared_ptr<BatchRecord>> all;
  for (int i = 0; i < 100; ++i) all.push_back(add(std::to_string(i)));
  Registry::ActiveSearch search;
  int looks = 0;
  const auto find = [&](const BatchRecord* wanted, std::size_t most) LOCKSLEY_REQUIRES(kIoThread) {
    looks = 0;
    return registry_.find_active(search, most, [&](const BatchRecord& each) {
      ++looks;
      return &each == wanted;
    });
  };
  EXPECT_EQ(find(all[70].get(), 1000), kOne);
  EXPECT_EQ(looks, 71);
  search.restart();
  EXPECT_EQ(find(all[70].get(), 1), kOne);
  EXPECT_EQ(looks, 1);
  EXPECT_EQ(find(all[20].get(), 1000), kOne);
  EXPECT_EQ(looks, 51);
  search.restart();
  for (int part = 0; part < 10; ++part) {
    EXPECT_EQ(find(nullptr, 10), part < 9 ? kNotYet : kNone) << part;
    EXPECT_EQ(looks, 10) << part;
  }
  search.restart();
  EXPECT_EQ(find(nullptr, 99), kNotYet);
  search.restart();
  EXPECT_EQ(find(nullptr, 1000), kNone);
  EXPECT_EQ(looks, 100) << "all once more";
  search.restart();
  end(*all[20]);
  EXPECT_EQ(find(all[21].get(), 1000), kOne);
  EXPECT_LE(looks, 2);
  for (const auto& each : all) {
    if (each->is_active) end(*each);
  }
  search.restart();
  EXPECT_EQ(find(nullptr, 0), kNone);
}

}  // namespace
}  // namespace locksley::daemon
