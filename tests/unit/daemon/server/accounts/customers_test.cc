#include "daemon/server/accounts/customers.h"

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/customer_name.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class CustomersTest : public ::testing::Test {
 protected:
  // Pages of `count` customers, by name.
  std::vector<std::string> listed(const Tenant* tenant, std::size_t count = 100) {
    std::vector<std::string> names;
    std::uint64_t cursor = 0;
    do {
      std::size_t left = count;
      cursor = customers_.list(tenant, cursor, 1000, [&](const Customer& customer) {
        if (left == 0) return false;
        --left;
        names.push_back(customer.tenant->name + "/" + customer.name);
        return true;
      });
    } while (cursor != 0);
    return names;
  }

  Tenants tenants_;
  Customers customers_{tenants_};
  Tenant& shop_ = tenants_.of("shop");
  Tenant& mill_ = tenants_.of("mill");
};

TEST_F(CustomersTest, ACustomerIsThereWhileItIsUsed) {
  EXPECT_EQ(customers_.find(shop_, "a"), nullptr);
  {
    const CustomerUse use(customers_, shop_, "a");
    EXPECT_EQ(customers_.find(shop_, "a"), &*use);
    EXPECT_EQ(customers_.find(mill_, "a"), nullptr);
    const CustomerUse again(customers_, shop_, "a");
    EXPECT_EQ(&*again, &*use);
    EXPECT_THAT(listed(&shop_), ElementsAre("shop/a"));
  }
  EXPECT_EQ(customers_.find(shop_, "a"), nullptr) << "without settings nothing of it is kept";
  EXPECT_THAT(listed(nullptr), IsEmpty());
}

TEST_F(CustomersTest, TheOneOfTheEmptyNameStaysAndIsListedWhileItHasBatches) {
  {
    const CustomerUse use(customers_, shop_, "");
    EXPECT_EQ(shop_.nameless, &*use);
    EXPECT_THAT(listed(&shop_), ElementsAre("shop/"));
  }
  EXPECT_NE(customers_.find(shop_, ""), nullptr);
  EXPECT_THAT(listed(&shop_), IsEmpty());
  customers_.set(shop_, "", {.weight = 3});
  EXPECT_THAT(listed(&shop_), ElementsAre("shop/"));
}

TEST_F(CustomersTest, WhatIsChargedToACustomerIsChargedToItsUserAndToAll) {
  const CustomerUse use(customers_, shop_, "a");
  use->account->charge(Resource::kQueuedJobs, 5);
  EXPECT_EQ(shop_.account.used(Resource::kQueuedJobs), 5U);
  EXPECT_EQ(tenants_.account_of_all().used(Resource::kQueuedJobs), 5U);
  EXPECT_EQ(mill_.account.used(Resource::kQueuedJobs), 0U);
  use->account->refund(Resource::kQueuedJobs, 5);
}

TEST_F(CustomersTest, ItsLimitComesBeforeThatOfItsUser) {
  shop_.account.set_limit(Resource::kQueuedJobs, 20);
  customers_.set(shop_, "a", {.max_jobs = 10});
  const CustomerUse limited(customers_, shop_, "a");
  const CustomerUse free(customers_, shop_, "b");
  EXPECT_EQ(limited->account->first_without_room(Resource::kQueuedJobs, 11), limited->account.get());
  EXPECT_EQ(free->account->first_without_room(Resource::kQueuedJobs, 20), nullptr);
  EXPECT_EQ(free->account->first_without_room(Resource::kQueuedJobs, 21), &shop_.account);
  EXPECT_EQ(limited->key_of_max_jobs(), "MAXJOBS of the customer 'a'");
  // A new limit holds from the next use on.
  customers_.set(shop_, "a", {.max_jobs = 0});
  const CustomerUse lifted(customers_, shop_, "a");
  EXPECT_EQ(lifted->account->first_without_room(Resource::kQueuedJobs, 20), nullptr);
}

TEST_F(CustomersTest, OneThatIsUsedIsChargedToItsUserOnce) {
  {
    const CustomerUse nameless(customers_, shop_, "");
    EXPECT_EQ(shop_.account.used(Resource::kRecordBytes), 0U);
    const CustomerUse use(customers_, shop_, "a");
    const CustomerUse again(customers_, shop_, "a");
    EXPECT_EQ(shop_.account.used(Resource::kRecordBytes), Customers::kUseBytes);
    EXPECT_EQ(mill_.account.used(Resource::kRecordBytes), 0U);
  }
  EXPECT_EQ(shop_.account.used(Resource::kRecordBytes), 0U);
}

TEST_F(CustomersTest, SettingsAreChargedToTheUserUntilTheyGo) {
  customers_.set(shop_, "acme", {.weight = 2});
  customers_.set(shop_, "acme", {.weight = 3, .slots = 1});
  EXPECT_EQ(shop_.account.used(Resource::kRecordBytes), Customers::record_bytes("acme"));
  EXPECT_EQ(shop_.customers_with_settings, 1U);
  {
    const CustomerUse use(customers_, shop_, "acme");
    customers_.set(shop_, "acme", {});
    EXPECT_EQ(use->terms(), CustomerTerms{});
  }
  EXPECT_EQ(shop_.account.used(Resource::kRecordBytes), 0U);
  EXPECT_EQ(shop_.customers_with_settings, 0U);
  EXPECT_EQ(customers_.find(shop_, "acme"), nullptr);
  customers_.set(shop_, "acme", {});
  EXPECT_EQ(customers_.find(shop_, "acme"), nullptr) << "to set nothing makes nothing";
}

TEST_F(CustomersTest, ListsThoseOfAUserOrOfAllTheLatestFirst) {
  for (const std::string name : {"a", "b", "c", "d", "e"}) customers_.set(shop_, name, {.weight = 2});
  customers_.set(mill_, "x", {.weight = 2});
  for (const std::size_t count : {1U, 2U, 3U, 100U}) {
    EXPECT_THAT(listed(&shop_, count), ElementsAre("shop/e", "shop/d", "shop/c", "shop/b", "shop/a"));
    EXPECT_THAT(listed(&mill_, count), ElementsAre("mill/x"));
    EXPECT_THAT(listed(nullptr, count),
                ElementsAre("mill/x", "shop/e", "shop/d", "shop/c", "shop/b", "shop/a"));
  }
}

TEST_F(CustomersTest, ACursorHoldsWhileCustomersComeAndGo) {
  for (const std::string name : {"a", "b", "c", "d"}) customers_.set(shop_, name, {.weight = 2});
  std::vector<std::string> names;
  const auto page = [&](std::uint64_t cursor) {
    std::size_t left = 2;
    return customers_.list(&shop_, cursor, 1000, [&](const Customer& customer) {
      if (left == 0) return false;
      --left;
      names.push_back(customer.name);
      return true;
    });
  };
  const std::uint64_t next = page(0);
  customers_.set(shop_, "c", {});
  customers_.set(shop_, "new", {.weight = 2});
  EXPECT_EQ(page(next), 0U);
  EXPECT_THAT(names, ElementsAre("d", "c", "b", "a"));
  // A page that may look at little ends early, and goes on where it ended.
  std::uint64_t cursor = 0;
  std::size_t looks = 0;
  std::vector<std::string> found;
  do {
    cursor = customers_.list(&shop_, cursor, 1, [&](const Customer& customer) {
      found.push_back(customer.name);
      return true;
    });
  } while (cursor != 0 && ++looks < 10);
  EXPECT_THAT(found, ElementsAre("new", "d", "b", "a"));
}

TEST_F(CustomersTest, DefaultsAreTheUsersOrThoseOfAll) {
  const ThreadRoleScope io_thread(kIoThread);
  config::Config config;
  config.customers = {.weight = 2, .slots = 8, .rate = config::Rate{10}, .max_queued_jobs = 100};
  config.users["shop"].customers = {.slots = 4, .max_queued_jobs = 50};
  EXPECT_EQ(customers_.set_defaults(config).size(), 2U);
  customers_.set(shop_, "own", {.weight = 9});
  const CustomerUse usual(customers_, shop_, "usual");
  const CustomerUse own(customers_, shop_, "own");
  const CustomerUse other(customers_, mill_, "a");
  const proto::CustomerRate rate{10, std::chrono::seconds(1)};
  EXPECT_EQ(usual->terms(), (CustomerTerms{2, 4, rate, 50, true}));
  EXPECT_EQ(own->terms(), (CustomerTerms{9, 4, rate, 50, true}));
  EXPECT_EQ(other->terms(), (CustomerTerms{2, 8, rate, 100, false}));
  EXPECT_EQ(usual->key_of_max_jobs(), "users.shop.customers.max_queued_jobs, for the customer 'usual',");
  EXPECT_EQ(other->key_of_max_jobs(), "customers.max_queued_jobs, for the customer 'a',");
  // What the lanes are told. An unknown user has no limits.
  const auto limits = customers_.limits();
  const Nanoseconds interval = std::chrono::milliseconds(100);
  EXPECT_EQ(limits->of("shop", "own"), (GroupLimits{9, 4, interval}));
  EXPECT_EQ(limits->of("shop", "never seen"), (GroupLimits{2, 4, interval}));
  EXPECT_EQ(limits->of("mill", ""), (GroupLimits{2, 8, interval}));
  EXPECT_EQ(limits->of("nobody", "a"), GroupLimits{});
  // Only the users are named whose lanes must be told.
  config.users["shop"].customers.slots = 5;
  EXPECT_THAT(customers_.set_defaults(config), ElementsAre(&shop_));
  EXPECT_EQ(limits->of("shop", "own"), (GroupLimits{9, 5, interval}));
  config.customers.max_queued_jobs = 7;
  EXPECT_THAT(customers_.set_defaults(config), IsEmpty());
  EXPECT_EQ(tenants_.of("later").customer_terms.max_jobs, 7U);
}

TEST_F(CustomersTest, AnAdminNamesTheUser) {
  const ThreadRoleScope io_thread(kIoThread);
  config::User with_read;
  config::User with_admin;
  with_admin.commands.push_back(config::CommandGroup::kAdmin);
  const User shop(shop_, with_read);
  const User admin(tenants_.of("root"), with_admin);
  const User everybody(tenants_.of("default"));
  const auto named = [this](const User& by, std::string_view text) {
    const auto found = customer_named(tenants_, by, text);
    return found ? found->tenant->name + ":" + std::string(found->name) : found.error();
  };
  EXPECT_EQ(named(shop, "acme"), "shop:acme");
  EXPECT_EQ(named(shop, "mill/acme"), "shop:mill/acme") << "a name like any other";
  EXPECT_EQ(named(everybody, "mill/acme"), "default:mill/acme");
  EXPECT_EQ(named(admin, "acme"), "root:acme");
  EXPECT_EQ(named(admin, "mill/acme/x"), "mill:acme/x");
  EXPECT_EQ(named(admin, "mill/"), "mill:");
  EXPECT_EQ(named(admin, "nobody/acme"),
            "ERR no user is named 'nobody': an admin names a customer as user/customer");
  EXPECT_EQ(named(admin, "mill/" + std::string(128, 'c')), "mill:" + std::string(128, 'c'));
  EXPECT_TRUE(
      named(admin, "mill/" + std::string(129, 'c')).starts_with("ERR the name of a customer needs 1 to 128"));
  EXPECT_TRUE(named(shop, "two words").starts_with("ERR"));
}

}  // namespace
}  // namespace locksley::daemon
