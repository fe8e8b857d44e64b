#include "daemon/server/accounts/heaviest_first.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace locksley::daemon {
namespace {

TEST(HeaviestFirstTest, TheHeaviestIsFoundAfterEachChange) {
  const std::string alice = "alice", bob = "bob", carol = "carol";
  HeaviestFirst<const std::string> owners;
  EXPECT_TRUE(owners.empty());
  owners.add(alice, 1);
  owners.add(bob, 5);
  owners.add(carol, 3);
  owners.complete();
  EXPECT_EQ(owners.heaviest(), "bob");
  EXPECT_EQ(owners.burden(), 5);
  owners.change_heaviest(2);
  EXPECT_EQ(owners.heaviest(), "carol");
  owners.remove_heaviest();
  EXPECT_EQ(owners.heaviest(), "bob");
  EXPECT_EQ(owners.burden(), 2);
  owners.change_heaviest(0);
  EXPECT_EQ(owners.heaviest(), "alice");
  owners.remove_heaviest();
  owners.remove_heaviest();
  EXPECT_TRUE(owners.empty());
}

TEST(HeaviestFirstTest, OfEqualOnesTheFirstComesFirst) {
  std::vector<int> many(100);
  HeaviestFirst<int> owners;
  for (int& each : many) owners.add(each, 1);
  owners.complete();
  for (int& each : many) {
    EXPECT_EQ(&owners.heaviest(), &each);
    owners.change_heaviest(0);
  }
  EXPECT_EQ(&owners.heaviest(), &many.front());
}

}  // namespace
}  // namespace locksley::daemon
