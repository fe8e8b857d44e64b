#include "daemon/server/accounts/account.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "config/keys.h"
#include "daemon/server/accounts/tenants.h"

namespace locksley::daemon {
namespace {

TEST(AccountTest, WhatIsChargedToAUserIsChargedToAll) {
  Tenants tenants;
  Tenant& alice = tenants.of("alice");
  Tenant& bob = tenants.of("bob");
  alice.account.charge(Resource::kStoredBytes, 10);
  bob.account.charge(Resource::kStoredBytes, 5);
  EXPECT_EQ(alice.account.used(Resource::kStoredBytes), 10U);
  EXPECT_EQ(tenants.account_of_all().used(Resource::kStoredBytes), 15U);
  EXPECT_EQ(tenants.account_of_all().used(Resource::kRecordBytes), 0U);
  alice.account.refund(Resource::kStoredBytes, 10);
  EXPECT_EQ(tenants.account_of_all().used(Resource::kStoredBytes), 5U);
}

TEST(AccountTest, SaysWhoseLimitIsExceeded) {
  Tenants tenants;
  Account& alice = tenants.of("alice").account;
  Account& all = tenants.account_of_all();
  EXPECT_EQ(alice.first_without_room(Resource::kBatches, 1'000'000), nullptr);
  all.set_limit(Resource::kBatches, 10);
  alice.set_limit(Resource::kBatches, 4);
  EXPECT_EQ(alice.first_without_room(Resource::kBatches, 4), nullptr);
  EXPECT_EQ(alice.first_without_room(Resource::kBatches, 5), &alice);
  tenants.of("bob").account.charge(Resource::kBatches, 8);
  EXPECT_EQ(alice.first_without_room(Resource::kBatches, 3), &all);
  EXPECT_EQ(alice.first_without_room(Resource::kBatches, ~std::uint64_t{0}), &alice) << "no overflow";
}

TEST(AccountTest, AnAccountAboveALimitThatWasLoweredHasNoRoom) {
  Account account;
  account.charge(Resource::kQueuedJobs, 10);
  account.set_limit(Resource::kQueuedJobs, 5);
  EXPECT_TRUE(account.exceeds_limit(Resource::kQueuedJobs));
  EXPECT_FALSE(account.has_room(Resource::kQueuedJobs, 0));
  EXPECT_FALSE(account.has_room(Resource::kQueuedJobs, 1));
}

TEST(AccountTest, HoweverManyTakeAllTheyCanGetTheNextFindsRoom) {
  Tenants tenants;
  tenants.account_of_all().set_limit(Resource::kQueuedBytes, 1200);
  for (const std::uint64_t left : {600U, 300U, 150U, 75U}) {
    Account& greedy = tenants.of(std::to_string(left)).account;
    greedy.set_limit(Resource::kQueuedBytes, 600, Account::Kind::kLeavesRoom);
    while (greedy.first_without_room(Resource::kQueuedBytes, 1) == nullptr)
      greedy.charge(Resource::kQueuedBytes, 1);
    EXPECT_EQ(greedy.used(Resource::kQueuedBytes), left);
    EXPECT_EQ(greedy.first_without_room(Resource::kQueuedBytes, 1), &greedy);
    EXPECT_LT(greedy.most_now(Resource::kQueuedBytes), 601U);
  }
}

TEST(AccountTest, AFixedLimitLeavesNoRoom) {
  Tenants tenants;
  tenants.account_of_all().set_limit(Resource::kQueuedBytes, 100);
  Account& alice = tenants.of("alice").account;
  alice.set_limit(Resource::kQueuedBytes, 100);
  EXPECT_EQ(alice.first_without_room(Resource::kQueuedBytes, 100), nullptr);
}

TEST(AccountTest, SaysWhatItMayHoldAlone) {
  Tenants tenants;
  Account& all = tenants.account_of_all();
  Account& alice = tenants.of("alice").account;
  alice.set_limit(Resource::kInputBytes, Account::kNoLimit, Account::Kind::kLeavesRoom);
  EXPECT_EQ(alice.most_alone(Resource::kInputBytes), Account::kNoLimit);
  all.set_limit(Resource::kInputBytes, 100);
  EXPECT_EQ(alice.most_alone(Resource::kInputBytes), 50U);
  alice.set_limit(Resource::kInputBytes, 20, Account::Kind::kLeavesRoom);
  EXPECT_EQ(alice.most_alone(Resource::kInputBytes), 20U);
  alice.set_limit(Resource::kInputBytes, 200);
  EXPECT_EQ(alice.most_alone(Resource::kInputBytes), 200U) << "fixed";
  EXPECT_EQ(all.most_alone(Resource::kInputBytes), 100U);
}

TEST(AccountTest, ItsLimitsAreKeysOfTheConfiguration) {
  Tenants tenants;
  const auto keys = config::all_keys();
  const Account& all = tenants.account_of_all();
  for (std::size_t i = 0; i < kResources; ++i) {
    const ResourceName& each = kResourceNames[i];
    EXPECT_EQ(static_cast<std::size_t>(each.resource), i) << "the table is in the order of the resources";
    if (!each.limit_all.empty()) {
      EXPECT_EQ(std::ranges::count(keys, all.key(each.resource)), 1) << each.limit_all;
    }
  }
  EXPECT_EQ(std::ranges::count(keys, all.key_of_results()), 1);
  EXPECT_EQ(tenants.of("alice").account.key(Resource::kBatches), "users.alice.max_batches");
  EXPECT_EQ(tenants.of("alice").account.key_of_results(), "users.alice.max_result_bytes");
}

TEST(AccountTest, AFullAccountOfResultsSaysWhoseLimitItIs) {
  Tenants tenants;
  Account& alice = tenants.of("alice").account;
  alice.results().set_limit(10);
  alice.results().charge(12);
  EXPECT_EQ(
      results_at_limit(alice),
      "TOOBIG results in memory: 12 bytes, and users.alice.max_result_bytes is 10: forget batches, or use "
      "SUBMIT and RESULTS");
  alice.results().set_limit(100);
  tenants.account_of_all().results().set_limit(11);
  EXPECT_TRUE(results_at_limit(alice).contains("limits.max_result_bytes is 11"));
}

}  // namespace
}  // namespace locksley::daemon
