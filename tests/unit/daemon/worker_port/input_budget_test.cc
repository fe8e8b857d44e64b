#include "daemon/worker_port/input_budget.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <list>
#include <optional>
#include <string>

namespace locksley::daemon {
namespace {

TEST(InputBudgetTest, AUserHasAsMuchAsItLeavesFree) {
  InputBudget budget(100);
  InputBudget::Share first(budget);
  InputBudget::Share second(budget);
  InputBudget::Share other(budget);
  first.set_user("alice");
  second.set_user("alice");
  other.set_user("bob");
  EXPECT_TRUE(first.set(30));
  EXPECT_TRUE(second.set(20));
  EXPECT_FALSE(second.set(21)) << "alice has more than half";
  EXPECT_TRUE(second.set(20)) << "shrinking is never refused";
  EXPECT_TRUE(other.set(25)) << "half of what alice has left";
  EXPECT_FALSE(other.set(26));
  EXPECT_TRUE(second.set(0));
  EXPECT_TRUE(other.set(35));
  EXPECT_EQ(budget.used(), 65U);
}

TEST(InputBudgetTest, HoweverManyUsersTakeAllTheyCanGetTheNextFindsRoom) {
  InputBudget budget(1'000);
  std::list<InputBudget::Share> shares;
  for (const std::string user : {"alice", "bob", "carol", "dave", "erin"}) {
    InputBudget::Share& share = shares.emplace_back(budget);
    share.set_user(user);
    std::uint64_t bytes = 0;
    while (share.set(bytes + 1)) ++bytes;
    EXPECT_GT(bytes, 0U) << user;
    share.set(bytes);
  }
  EXPECT_LE(budget.used(), 1'000U);
}

TEST(InputBudgetTest, WhatAConnectionHadIsFreeAfterIt) {
  InputBudget budget(100);
  std::optional<InputBudget::Share> first(std::in_place, budget);
  first->set_user("alice");
  EXPECT_TRUE(first->set(50));
  first.reset();
  EXPECT_EQ(budget.used(), 0U);
  InputBudget::Share second(budget);
  second.set_user("alice");
  EXPECT_TRUE(second.set(50));
}

TEST(InputBudgetTest, StrangersAreOneUserUntilTheyLogIn) {
  InputBudget budget(100);
  InputBudget::Share first(budget);
  InputBudget::Share second(budget);
  EXPECT_TRUE(first.set(40));
  EXPECT_FALSE(second.set(11));
  second.set_user("alice");
  EXPECT_TRUE(second.set(12));
  EXPECT_EQ(budget.used(), 52U);
}

}  // namespace
}  // namespace locksley::daemon
