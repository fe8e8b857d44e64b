#include "daemon/server/records/lookup.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "config/config.h"
#include "daemon/base/loop/io_thread.h"
#include "tests/support/batch_fixture.h"
#include "tests/support/registry_fixture.h"

namespace locksley::daemon {
namespace {

// alice, bob and carol are users; root is an admin.
class LookupTest : public RegistryFixture {
 protected:
  LookupTest() {
    const ThreadRoleScope io_thread(kIoThread);
    registry_.load_with([this](std::uint64_t sequence) -> Registry::Loaded {
      kIoThread.assert_held();
      ++loads_;
      if (unreadable_.contains(sequence)) return std::unexpected("the disk fails");
      auto record = std::make_shared<BatchRecord>(BatchOptions(retired_.at(sequence)), handler_,
                                                  std::make_unique<RangedPayloads>(RangeJobs{}), nullptr,
                                                  lane_, BatchRecord::Origin::kSubmit, sequence);
      record->is_active = false;
      return record;
    });
    config::User everything;
    everything.commands.push_back(config::CommandGroup::kAdmin);
    for (const char* name : {"alice", "bob", "carol"}) {
      users_.emplace(name, std::make_unique<User>(tenant(name), config::User{}));
    }
    users_.emplace("root", std::make_unique<User>(tenant("root"), everything));
  }

  // A batch that is over, and that the store alone has.
  std::uint64_t retire(const std::string& id, const std::string& owner) LOCKSLEY_REQUIRES(kIoThread) {
    const auto record = add(id, owner);
    end(*record);
    const std::uint64_t sequence = record->sequence;
    retired_.emplace(sequence, record->options());
    registry_.retire(*record);
    return sequence;
  }
  void forget(const std::string& id, const std::string& owner) LOCKSLEY_REQUIRES(kIoThread) {
    BatchRecord* const record = registry_.find(tenant(owner), id).value();
    end(*record);
    if (users_.at(owner)->is_admin()) registry_.admin_forgot(tenant(owner), id);
    EXPECT_TRUE(registry_.forget(*record));
  }

  // What find_batch() finds: "alice's a" or "nothing"; or its error.
  std::string found(const std::string& by, std::string_view id) LOCKSLEY_REQUIRES(kIoThread) {
    const Registry::Found record = find_batch(registry_, *users_.at(by), id);
    if (!record) return record.error();
    return *record == nullptr ? "nothing" : (*record)->options().tenant + "'s " + (*record)->id();
  }
  std::uint64_t to_load(const std::string& by, std::string_view id) LOCKSLEY_REQUIRES(kIoThread) {
    return first_to_load(registry_, *users_.at(by), id);
  }
  bool in_memory_alone(const std::string& by, std::string_view id) LOCKSLEY_REQUIRES(kIoThread) {
    return is_in_memory_alone(registry_, *users_.at(by), id);
  }

  std::map<std::string, std::unique_ptr<User>> users_;
  std::map<std::uint64_t, BatchOptions> retired_;
  std::set<std::uint64_t> unreadable_;
  testing::RecordingJournal::Record journal_;
  int loads_ = 0;
};

constexpr const char* kUnreadable = "STORE the batch cannot be looked up at the moment: the disk fails";

TEST_F(LookupTest, AUserFindsItsOwnBatchesAlone) {
  const ThreadRoleScope io_thread(kIoThread);
  add("a", "alice");
  add("only", "bob");
  add("alice/a", "bob");
  retire("old", "bob");
  EXPECT_EQ(found("alice", "a"), "alice's a");
  EXPECT_EQ(found("bob", "a"), "nothing");
  EXPECT_EQ(found("carol", "alice/a"), "nothing");
  EXPECT_EQ(found("bob", "alice/a"), "bob's alice/a") << "an id may have a slash";
  EXPECT_EQ(found("alice", "only"), "nothing");
  EXPECT_EQ(found("alice", "bob/only"), "nothing");
  EXPECT_EQ(found("alice", "old"), "nothing");
  EXPECT_EQ(to_load("alice", "old"), 0u);
  EXPECT_EQ(to_load("alice", "bob/old"), 0u);
  EXPECT_EQ(loads_, 0);
  EXPECT_FALSE(in_memory_alone("alice", "only"));
  EXPECT_FALSE(in_memory_alone("alice", "bob/only"));
}

TEST_F(LookupTest, AnAdminFindsItsOwnFirstThenTheNamedUsersThenTheOnlyOne) {
  const ThreadRoleScope io_thread(kIoThread);
  add("a", "alice");
  EXPECT_EQ(found("root", "a"), "alice's a") << "it is the only one";
  EXPECT_EQ(found("root", "alice/a"), "alice's a");
  EXPECT_EQ(found("root", "bob/a"), "nothing");
  EXPECT_EQ(found("root", "nobody/a"), "nothing");
  add("a", "root");
  EXPECT_EQ(found("root", "a"), "root's a");
  EXPECT_EQ(found("root", "alice/a"), "alice's a");
  add("alice/a", "bob");
  EXPECT_EQ(found("root", "alice/a"), "alice's a") << "a user that is named comes before the only id";
  EXPECT_EQ(found("root", "bob/alice/a"), "bob's alice/a") << "the name ends at the first slash";
  add("nobody/a", "bob");
  EXPECT_EQ(found("root", "nobody/a"), "bob's nobody/a") << "there is no user of that name";
  add("carol/a", "bob");
  EXPECT_EQ(found("root", "carol/a"), "bob's carol/a") << "this user has no such batch";
  add("alice/a", "root");
  EXPECT_EQ(found("root", "alice/a"), "root's alice/a") << "its own comes first, with a slash, too";
}

TEST_F(LookupTest, AnAdminMustSayWhoseIfSeveralHaveTheId) {
  const ThreadRoleScope io_thread(kIoThread);
  add("a", "alice");
  retire("a", "bob");
  EXPECT_EQ(found("root", "a"), "ERR several users have a batch 'a': say whose, as in 'alice/a'");
  EXPECT_EQ(found("root", "bob/a"), "bob's a");
  EXPECT_FALSE(in_memory_alone("root", "a"));
}

// By its own id alone an admin must never reach the batch of another user when it may mean its own.
TEST_F(LookupTest, AnAdminThatHasForgottenItsOwnFindsThatOfAnotherUserByItsNameOnly) {
  const ThreadRoleScope io_thread(kIoThread);
  add("a", "root");
  forget("a", "root");
  EXPECT_EQ(found("root", "a"), "nothing");
  const std::uint64_t of_alice = retire("a", "alice");
  EXPECT_EQ(found("root", "a"),
            "NOBATCH your own batch 'a' was forgotten: write 'alice/a' for the one of that user");
  EXPECT_EQ(found("root", "alice/a"), "alice's a");
  add("a", "bob");
  EXPECT_EQ(found("root", "a"), "ERR several users have a batch 'a': say whose, as in 'alice/a'");
  add("a", "root");
  EXPECT_EQ(found("root", "a"), "root's a") << "its own is there again";
  EXPECT_NE(of_alice, 0u);
}

TEST_F(LookupTest, WhileAnEarlierPlaceCannotBeReadNoLaterOneIsFound) {
  const ThreadRoleScope io_thread(kIoThread);
  unreadable_ = {retire("a", "root"), retire("b", "alice"), retire("c", "bob")};
  add("a", "alice");
  EXPECT_EQ(found("root", "a"), kUnreadable) << "its own";
  EXPECT_EQ(found("root", "alice/a"), "alice's a");
  add("alice/b", "bob");
  EXPECT_EQ(found("root", "alice/b"), kUnreadable) << "that of the user that is named";
  add("c", "alice");
  add("c", "carol");
  EXPECT_EQ(found("root", "c"), kUnreadable) << "alice's is known, but whether it is the only one is not";
  EXPECT_EQ(found("alice", "c"), "alice's c") << "those of others do not matter";
  EXPECT_EQ(found("bob", "c"), kUnreadable);
}

TEST_F(LookupTest, WhatIsToBeLoadedIsWhatTheLookUpWouldLoadNext) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto load = [&](std::uint64_t sequence)
                        LOCKSLEY_REQUIRES(kIoThread) { ASSERT_TRUE(registry_.find(sequence).has_value()); };
  const std::uint64_t of_root = retire("a", "root");
  const std::uint64_t of_alice = retire("a", "alice");
  const std::uint64_t of_bob = retire("a", "bob");
  const std::uint64_t of_carol = retire("a", "carol");
  EXPECT_EQ(to_load("root", "a"), of_root);
  load(of_root);
  EXPECT_EQ(to_load("root", "a"), 0u) << "its own is found";
  EXPECT_EQ(to_load("root", "bob/a"), of_bob);
  EXPECT_EQ(to_load("carol", "a"), of_carol);
  EXPECT_EQ(to_load("root", "b"), 0u);
  ASSERT_TRUE(registry_.forget_retained(of_root));
  EXPECT_EQ(to_load("root", "a"), of_alice);
  load(of_alice);
  EXPECT_EQ(to_load("root", "a"), of_bob) << "there may be several";
  load(of_bob);
  EXPECT_EQ(to_load("root", "a"), 0u) << "there are several: carol's makes no difference";
  const int loads = loads_;
  EXPECT_EQ(found("root", "a"), "ERR several users have a batch 'a': say whose, as in 'alice/a'");
  EXPECT_EQ(loads_, loads) << "all that it needed was loaded";
}

TEST_F(LookupTest, TheOnlyOneIsKnownWithoutALoadOnceItWasLoaded) {
  const ThreadRoleScope io_thread(kIoThread);
  const std::uint64_t of_bob = retire("a", "bob");
  EXPECT_EQ(to_load("root", "a"), of_bob);
  EXPECT_EQ(found("root", "a"), "bob's a");
  EXPECT_EQ(loads_, 1);
  EXPECT_EQ(to_load("root", "a"), 0u);
}

TEST_F(LookupTest, WhatIsInMemoryAloneIsFoundAsCommandsFindIt) {
  const ThreadRoleScope io_thread(kIoThread);
  add("a", "alice");
  add("both", "alice");
  add("both", "bob");
  EXPECT_TRUE(in_memory_alone("alice", "a"));
  EXPECT_FALSE(in_memory_alone("alice", "bob/both")) << "alice is no admin";
  EXPECT_FALSE(in_memory_alone("alice", "none"));
  EXPECT_TRUE(in_memory_alone("root", "a"));
  EXPECT_TRUE(in_memory_alone("root", "alice/a"));
  EXPECT_TRUE(in_memory_alone("root", "bob/both"));
  EXPECT_FALSE(in_memory_alone("root", "both")) << "there are two";
}

TEST_F(LookupTest, ABatchOfTheStoreAtAnEarlierPlaceIsNotInMemoryAlone) {
  const ThreadRoleScope io_thread(kIoThread);
  add("s", "alice", std::make_unique<testing::RecordingJournal>(journal_));
  EXPECT_FALSE(in_memory_alone("alice", "s"));
  EXPECT_FALSE(in_memory_alone("root", "s"));
  retire("a", "root");
  retire("b", "alice");
  add("a", "alice");
  add("alice/b", "bob");
  EXPECT_FALSE(in_memory_alone("root", "a")) << "its own is in the store";
  EXPECT_FALSE(in_memory_alone("root", "alice/b")) << "that of the user that is named is in the store";
  add("c", "alice");
  retire("c", "bob");
  EXPECT_FALSE(in_memory_alone("root", "c")) << "there are two";
  EXPECT_EQ(loads_, 0);
}

}  // namespace
}  // namespace locksley::daemon
