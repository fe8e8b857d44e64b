#include "daemon/server/accounts/users.h"
#include "daemon/base/loop/io_thread.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace locksley::daemon {
namespace {

using config::CommandGroup;
using Group = proto::CommandGroup;
using Limits = std::vector<std::pair<std::string, GroupLimits>>;

config::User with(std::vector<CommandGroup> commands) {
  config::User user;
  user.password_hash = "hash";
  user.commands = std::move(commands);
  return user;
}

class UsersTest : public ::testing::Test {
 protected:
  Tenants tenants_;
  Users users_{tenants_};
};

TEST_F(UsersTest, WithoutUsersEverybodyIsDefaultAndMayAll) {
  const ThreadRoleScope io_thread(kIoThread);
  EXPECT_FALSE(users_.are_configured());
  const User& everybody = *users_.everybody();
  EXPECT_EQ(everybody.name(), "default");
  for (const Group group :
       {Group::kConnection, Group::kSubmit, Group::kRead, Group::kControl, Group::kAdmin}) {
    EXPECT_TRUE(everybody.may(group));
  }
  EXPECT_TRUE(everybody.is_admin());
  EXPECT_TRUE(everybody.may_use("anything"));
  EXPECT_TRUE(everybody.may_use("sleep"));
  EXPECT_EQ(users_.find("default"), nullptr) << "nobody can log in as it";
}

TEST_F(UsersTest, AUserMayWhatItsGroupsSayAndManageItsConnection) {
  const ThreadRoleScope io_thread(kIoThread);
  const std::map<CommandGroup, Group> groups = {{CommandGroup::kSubmit, Group::kSubmit},
                                                {CommandGroup::kRead, Group::kRead},
                                                {CommandGroup::kControl, Group::kControl},
                                                {CommandGroup::kAdmin, Group::kAdmin}};
  for (const auto& [granted, expected] : groups) {
    users_.replace({{"alice", with({granted})}});
    const UserRef alice = users_.find("alice");
    EXPECT_TRUE(alice->may(Group::kConnection));
    for (const auto& [other, group] : groups) EXPECT_EQ(alice->may(group), group == expected);
    EXPECT_EQ(alice->is_admin(), granted == CommandGroup::kAdmin);
  }
}

TEST_F(UsersTest, HandlersAreThoseOfTheListOrAll) {
  const ThreadRoleScope io_thread(kIoThread);
  config::User alice = with({CommandGroup::kSubmit});
  users_.replace({{"alice", alice}});
  EXPECT_TRUE(users_.find("alice")->may_use("echo"));
  for (const char* const handler : {"sleep", "spin", "fib"})
    EXPECT_FALSE(users_.find("alice")->may_use(handler)) << handler << " has to be named";
  alice.handlers = {"spin"};
  users_.replace({{"alice", alice}});
  EXPECT_TRUE(users_.find("alice")->may_use("spin"));
  EXPECT_FALSE(users_.find("alice")->may_use("sleep"));
  alice.handlers = {"echo", "lines"};
  users_.replace({{"alice", alice}});
  EXPECT_TRUE(users_.find("alice")->may_use("lines"));
  EXPECT_FALSE(users_.find("alice")->may_use("line"));
}

TEST_F(UsersTest, AChangeMakesAnotherUserOfTheSameTenant) {
  const ThreadRoleScope io_thread(kIoThread);
  users_.replace({{"alice", with({CommandGroup::kRead})}});
  const UserRef before = users_.find("alice");
  users_.replace({{"alice", with({CommandGroup::kSubmit})}});
  const UserRef now = users_.current_of(*before);
  EXPECT_TRUE(now->may(Group::kSubmit));
  EXPECT_TRUE(before->may(Group::kRead)) << "what somebody holds does not change";
  EXPECT_EQ(&before->tenant(), &now->tenant());
}

TEST_F(UsersTest, WhoIsRemovedIsThereNoMore) {
  const ThreadRoleScope io_thread(kIoThread);
  users_.replace({{"alice", with({})}, {"bob", with({})}});
  const UserRef alice = users_.find("alice");
  users_.replace({{"bob", with({})}});
  EXPECT_EQ(users_.current_of(*alice), nullptr);
  EXPECT_NE(tenants_.find("alice"), nullptr) << "its batches may be there";
}

TEST_F(UsersTest, EverybodyIsNotTheConfiguredDefault) {
  const ThreadRoleScope io_thread(kIoThread);
  const UserRef everybody = users_.everybody();
  EXPECT_EQ(users_.current_of(*everybody), everybody);
  users_.replace({{"default", with({CommandGroup::kRead})}});
  EXPECT_EQ(users_.current_of(*everybody), nullptr) << "who never showed a password is not it";
  EXPECT_FALSE(users_.find("default")->is_everybody());
}

TEST_F(UsersTest, ACertificateStandsForItsUser) {
  const ThreadRoleScope io_thread(kIoThread);
  config::User alice = with({});
  alice.certificate = "alice's laptop";
  users_.replace({{"alice", alice}, {"bob", with({})}});
  EXPECT_EQ(users_.by_certificate("alice's laptop"), users_.find("alice"));
  EXPECT_EQ(users_.by_certificate("bob"), nullptr);
  EXPECT_EQ(users_.by_certificate(""), nullptr);
  users_.replace({{"alice", with({})}});
  EXPECT_EQ(users_.by_certificate("alice's laptop"), nullptr);
}

TEST_F(UsersTest, LimitsAreTheTenantsUntilTheyAreTakenAway) {
  const ThreadRoleScope io_thread(kIoThread);
  config::User alice = with({});
  alice.max_queued_jobs = config::Limit{1};
  alice.max_queued_bytes = config::kibibytes(2);
  alice.max_result_bytes = config::kibibytes(3);
  alice.max_record_bytes = config::kibibytes(4);
  alice.max_stored_bytes = config::kibibytes(5);
  alice.client_memory = config::kibibytes(6);
  alice.max_batches = 3;
  alice.max_clients = config::Limit{4};
  alice.weight = 7;
  users_.replace({{"alice", alice}});
  const Tenant& tenant = tenants_.of("alice");
  const Account& account = tenant.account;
  EXPECT_EQ(account.limit(Resource::kQueuedJobs), 1U);
  EXPECT_EQ(account.limit(Resource::kQueuedBytes), 2048U);
  EXPECT_EQ(account.limit(Resource::kPayloadBytes), 2048U);
  EXPECT_EQ(account.results().limit(), 3072U);
  EXPECT_EQ(account.limit(Resource::kRecordBytes), 4096U);
  EXPECT_EQ(account.limit(Resource::kStoredBytes), 5120U);
  EXPECT_EQ(account.limit(Resource::kClientBytes), 6144U);
  EXPECT_EQ(account.limit(Resource::kBatches), 3U);
  EXPECT_EQ(account.limit(Resource::kConnections), 4U);
  EXPECT_EQ(tenant.weight, 7U);
  users_.replace({{"bob", with({})}});
  for (const ResourceName& each : kResourceNames) EXPECT_FALSE(account.has_limit(each.resource)) << each.name;
  EXPECT_EQ(account.results().limit(), Account::kNoLimit);
  EXPECT_EQ(tenant.weight, 1U);
}

TEST_F(UsersTest, OfAutoPayloadsInTheStoreAreNotLimited) {
  const ThreadRoleScope io_thread(kIoThread);
  config::User alice = with({});
  alice.max_queued_bytes = config::auto_limit(1000);
  users_.replace({{"alice", alice}});
  EXPECT_EQ(tenants_.of("alice").account.limit(Resource::kQueuedBytes), 1000U);
  EXPECT_FALSE(tenants_.of("alice").account.has_limit(Resource::kPayloadBytes));
}

TEST_F(UsersTest, SaysWhoseWeightSlotsOrRateHaveChanged) {
  const ThreadRoleScope io_thread(kIoThread);
  config::User alice = with({});
  alice.weight = 3;
  EXPECT_EQ(users_.replace({{"alice", alice}, {"bob", with({})}}), (Limits{{"alice", {.weight = 3}}}));
  EXPECT_EQ(users_.replace({{"alice", alice}}), Limits{});
  alice.weight = 5;
  EXPECT_EQ(users_.replace({{"alice", alice}}), (Limits{{"alice", {.weight = 5}}}));
  alice.slots = 7;
  alice.rate = config::Rate{200, std::chrono::seconds(1)};
  const GroupLimits all{.weight = 5, .slots = 7, .start_interval = std::chrono::milliseconds(5)};
  EXPECT_EQ(users_.replace({{"alice", alice}}), (Limits{{"alice", all}}));
  EXPECT_EQ(users_.replace({}), (Limits{{"alice", {}}})) << "as a tenant that nobody configured";
  EXPECT_EQ(users_.replace({}), Limits{});
}

TEST_F(UsersTest, ErrorsNameTheUserAndWhatItMayNot) {
  const ThreadRoleScope io_thread(kIoThread);
  users_.replace({{"alice", with({})}});
  const User& alice = *users_.find("alice");
  EXPECT_EQ(no_permission_error(alice, "config|get"),
            "NOPERM User alice has no permissions to run the 'config|get' command");
  EXPECT_EQ(no_handler_permission_error(alice, "a\r\nb"),
            "NOPERM User alice has no permissions to use the handler 'a  b'");
}

TEST(TenantsTest, ATenantStaysWhereItIs) {
  Tenants tenants;
  Tenant& first = tenants.of("first");
  first.account.charge(Resource::kQueuedJobs, 7);
  for (int i = 0; i < 10'000; ++i) tenants.of("tenant " + std::to_string(i));
  EXPECT_EQ(&tenants.of("first"), &first);
  EXPECT_EQ(tenants.of("first").account.used(Resource::kQueuedJobs), 7U);
  EXPECT_EQ(tenants.find("nobody"), nullptr);
  for (std::uint32_t number = 0; const Tenant& tenant : tenants.all()) EXPECT_EQ(tenant.number, number++);
}

}  // namespace
}  // namespace locksley::daemon
