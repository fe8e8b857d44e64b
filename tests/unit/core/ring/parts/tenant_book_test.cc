// Which tenants and customers a ring knows, how long it keeps them, and which limits they have.
#include "core/ring/parts/tenant_book.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "core/fair/fair_node.h"
#include "core/ring/state/group_limits.h"
#include "core/ring/state/ring_group.h"
#include "core/ring/state/ring_lock.h"
#include "core/sync/mutex.h"

namespace locksley {
namespace {

class TenantBookTest : public testing::Test {
 protected:
  // The tenant gets a queue, and loses it: its key is `key` then.
  void come_and_go(const std::string& name, VirtualTime key) LOCKSLEY_REQUIRES(kFairNodes) {
    RingGroup& tenant = book_.enter_tenant(name).group;
    tenant.fair.key = key;
    book_.rest_tenant(tenant);
  }

  Mutex mutex_;
  FairClock clock_;
  TenantBook book_{clock_, {.most_idle_tenants = 1, .most_idle_customers = 1}};
};

TEST_F(TenantBookTest, ATenantThatIsAheadIsKeptAndOneThatIsNotIsForgotten) {
  const RingLock lock(mutex_);
  clock_.now = 10;
  come_and_go("ahead", 20);
  come_and_go("behind", 5);
  EXPECT_NE(book_.tenant("ahead"), nullptr);
  EXPECT_EQ(book_.tenant("behind"), nullptr);
  come_and_go("further ahead", 30);
  EXPECT_EQ(book_.tenants().size(), 2U);
  clock_.now = 20;
  book_.forget_tenants();
  EXPECT_EQ(book_.tenant("ahead"), nullptr);
  EXPECT_NE(book_.tenant("further ahead"), nullptr);
}

TEST_F(TenantBookTest, ATenantThatComesBackIsNotForgotten) {
  const RingLock lock(mutex_);
  clock_.now = 10;
  come_and_go("back", 7);
  const TenantBook::Entered entered = book_.enter_tenant("back");
  EXPECT_FALSE(entered.is_new);
  EXPECT_EQ(entered.group.fair.key, 7);
  entered.group.queues = 1;
  come_and_go("one", 0);
  come_and_go("two", 0);
  EXPECT_EQ(book_.tenant("back"), &entered.group);
  EXPECT_EQ(book_.tenants().size(), 2U);
}

TEST_F(TenantBookTest, ANewTenantStartsAtTheVirtualTime) {
  const RingLock lock(mutex_);
  clock_.now = 42;
  const TenantBook::Entered entered = book_.enter_tenant("new");
  EXPECT_TRUE(entered.is_new);
  EXPECT_EQ(entered.group.fair.key, 42);
}

TEST_F(TenantBookTest, LimitsAreKeptForATenantThatIsNotThere) {
  const RingLock lock(mutex_);
  book_.set_limits("a", {.weight = 3});
  EXPECT_EQ(book_.limits_of("a").weight, 3U);
  EXPECT_EQ(book_.tenant("a"), nullptr);
  come_and_go("a", 0);
  come_and_go("b", 0);
  EXPECT_EQ(book_.tenants().size(), 1U);
  EXPECT_EQ(book_.limits_of("a").weight, 3U);
  book_.set_limits("a", {});
  EXPECT_EQ(book_.limits_of("a"), GroupLimits{});
}

TEST_F(TenantBookTest, ACustomersLimitsAreThoseThatTheProgramReturns) {
  const RingLock lock(mutex_);
  EXPECT_EQ(book_.limits_of("a", "x"), GroupLimits{});
  book_.on_customer([](std::string_view tenant, std::string_view customer) {
    return tenant == "a" && customer == "x" ? GroupLimits{.weight = 5} : GroupLimits{};
  });
  EXPECT_EQ(book_.limits_of("a", "x").weight, 5U);
  EXPECT_EQ(book_.limits_of("a", "y"), GroupLimits{});
}

TEST_F(TenantBookTest, AGroupIsFoundByTheCustomerThatHasTheQueues) {
  const RingLock lock(mutex_);
  RingGroup& tenant = book_.enter_tenant("a").group;
  EXPECT_EQ(book_.group("a", ""), nullptr);
  tenant.queues = 1;
  EXPECT_EQ(book_.group("a", ""), &tenant);
  EXPECT_EQ(book_.group("a", "x"), nullptr);
  tenant.customers = std::make_unique<RingCustomers>();
  RingGroup& customer = book_.enter_customer(tenant, "x").group;
  EXPECT_EQ(book_.group("a", "x"), &customer);
  EXPECT_EQ(book_.group("a", ""), nullptr);
  EXPECT_EQ(customer.tenant, &tenant);
}

}  // namespace
}  // namespace locksley
