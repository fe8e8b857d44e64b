// Copies of a store that serves.
#include "daemon/store/backups.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"

namespace locksley::daemon {
namespace {

namespace fs = std::filesystem;
using testing::accept_batch;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::is_same;
using ::testing::IsEmpty;
using testing::large_payloads;
using testing::Picture;
using testing::StepMaker;
using testing::StoreBench;

// A copy, as the next daemon finds it.
struct CopyBench {
  explicit CopyBench(const fs::path& folder)
      : disk(testing::make_store_disk(folder, 2)),
        options{folder.string(), config::Durability::kFsync, disk->engine(), {4, 1}} {
    open();
  }

  void open() {
    store.reset();
    auto opened = Store::open(options, testing::silent_log());
    if (!opened) throw std::runtime_error("the copy does not open: " + opened.error().what);
    store = std::move(*opened);
    auto found = testing::picture_of(*store);
    if (!found) throw std::runtime_error("the copy is not whole: " + found.error());
    picture = std::move(*found);
  }

  const std::unique_ptr<testing::StoreDisk> disk;
  const Store::Options options;
  std::unique_ptr<Store> store;
  Picture picture;
};

class BackupsTest : public ::testing::Test {
 protected:
  BackupsTest() { bench.open(); }

  Backups::Result back_up(const std::string& name) { return back_up(name, directory.path()); }
  Backups::Result back_up(const std::string& name, const fs::path& parent) {
    std::promise<Backups::Result> result;
    const auto begun = bench.store->back_up(parent.string(), name,
                                            [&](Backups::Result made) { result.set_value(std::move(made)); });
    if (!begun) return std::unexpected(begun.error());
    return result.get_future().get();
  }
  std::string error_of(const std::string& name) {
    const auto result = back_up(name);
    return result ? "none: it was made" : result.error();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(directory.path()))
      found.push_back(entry.path().filename().string());
    std::ranges::sort(found);
    return found;
  }
  // Batches of which some have results, and one has large payloads.
  void fill() {
    for (std::uint64_t batch = 1; batch <= 20; ++batch) {
      bench.commit(accept_batch(batch, 10));
      StepMaker steps(batch);
      bench.put(steps.end_jobs({0, 4}));
      if (batch % 2 == 0) bench.put(StepMaker::as_last(steps.end_jobs({4, 10})));
    }
    bench.commit(testing::open_batch(21));
    bench.commit(testing::add_jobs(21, 0, large_payloads()));
    bench.flush();
  }

  const testing::TemporaryFolder directory;
  StoreBench bench;
};

TEST_F(BackupsTest, ACopyHasAllThatWasWrittenBeforeAndAStoreOpensIt) {
  fill();
  const auto made = back_up("one");
  ASSERT_TRUE(made.has_value()) << made.error();
  EXPECT_EQ(*made, (directory.path() / "one").string());
  EXPECT_THAT(names(), ElementsAre("one"));
  const CopyBench copy(*made);
  EXPECT_TRUE(is_same(copy.picture, bench.model.picture()));
}

TEST_F(BackupsTest, TheStoreAndItsCopyGoTheirOwnWays) {
  fill();
  const Picture before = bench.model.picture();
  const auto made = back_up("one");
  ASSERT_TRUE(made.has_value()) << made.error();
  bench.commit(ForgetBatch{.sequence = 2});
  bench.commit(accept_batch(30, 5));
  CopyBench copy(*made);
  testing::Outcomes outcomes;
  copy.store->start(outcomes.listener());
  EXPECT_EQ(outcomes.await(copy.store->put(ForgetBatch{.sequence = 4}, Urgency::kAwaited)).error, "");
  copy.store->stop();
  copy.open();
  Picture expected = before;
  expected.erase(4);
  EXPECT_TRUE(is_same(copy.picture, expected));
  EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
}

TEST_F(BackupsTest, OneIsMadeAfterTheOther) {
  for (const std::string name : {"a", "b", "c"}) {
    bench.commit(accept_batch(static_cast<std::uint64_t>(name.front()), 1));
    EXPECT_TRUE(back_up(name).has_value());
  }
  EXPECT_THAT(names(), ElementsAre("a", "b", "c"));
  EXPECT_TRUE(is_same(CopyBench(directory.path() / "c").picture, bench.model.picture()));
  const auto stats = bench.store->stats().backups;
  ASSERT_TRUE(stats.has_value());
  EXPECT_EQ(stats->made, 3U);
  EXPECT_EQ(stats->failed, 0U);
  EXPECT_GT(stats->last_made, 1'700'000'000);
}

TEST_F(BackupsTest, NamesThatLeaveTheDirectoryOrHideAreRefused) {
  for (const std::string name : {"", ".", "..", ".hidden", "a/b", "../a", "/a", "a/"}) {
    EXPECT_THAT(error_of(name), HasSubstr("ERR BACKUP takes the name of a new folder")) << name;
  }
  EXPECT_THAT(error_of(std::string("a\0b", 3)), HasSubstr("ERR BACKUP takes the name"));
  EXPECT_THAT(error_of(std::string(256, 'x')), HasSubstr("ERR BACKUP takes the name"));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(BackupsTest, ADirectoryIsMadeIfOnlyItIsMissing) {
  EXPECT_THAT(Backups::problem_of("", "a"), HasSubstr("store.backup_directory is not set"));
  const fs::path missing = directory.path() / "missing";
  const auto there = back_up("one", missing);
  ASSERT_TRUE(there.has_value()) << there.error();
  EXPECT_EQ(*there, (missing / "one").string());
  EXPECT_EQ(fs::status(missing).permissions(), fs::perms::owner_all);
  const auto nowhere = back_up("one", directory.path() / "not" / "there");
  ASSERT_FALSE(nowhere.has_value());
  EXPECT_THAT(nowhere.error(), HasSubstr("ERR cannot make store.backup_directory " +
                                         (directory.path() / "not/there").string()));
  EXPECT_THAT(names(), ElementsAre("missing"));
}

TEST_F(BackupsTest, WhatHasTheNameStaysAsItIs) {
  fill();
  ASSERT_TRUE(back_up("one").has_value());
  bench.commit(accept_batch(30, 5));
  EXPECT_THAT(error_of("one"), HasSubstr("exists already"));
  fs::create_directory_symlink(directory.path() / "nowhere", directory.path() / "link");
  EXPECT_THAT(error_of("link"), HasSubstr("exists already"));
  EXPECT_THAT(names(), ElementsAre("link", "one"));
  EXPECT_FALSE(CopyBench(directory.path() / "one").picture.contains(30));
}

TEST_F(BackupsTest, WhatACrashLeftUnfinishedIsRemovedByTheNext) {
  fill();
  const fs::path unfinished = directory.path() / Backups::kUnfinished;
  fs::create_directory(unfinished);
  std::ofstream(unfinished / "half") << "of a table";
  const auto made = back_up("one");
  ASSERT_TRUE(made.has_value()) << made.error();
  EXPECT_THAT(names(), ElementsAre("one"));
  EXPECT_FALSE(fs::exists(fs::path(*made) / "half"));
  EXPECT_TRUE(is_same(CopyBench(*made).picture, bench.model.picture()));
}

TEST_F(BackupsTest, ADirectoryIsUsedByOneDaemonAtATime) {
  const int other = ::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_EQ(::flock(other, LOCK_EX | LOCK_NB), 0);
  EXPECT_THAT(error_of("one"), HasSubstr("ERR another daemon makes a backup in"));
  ::close(other);
  EXPECT_TRUE(back_up("one").has_value());
}

TEST_F(BackupsTest, AfterItsEndTheStoreMakesNone) {
  bench.store->stop();
  EXPECT_THAT(error_of("one"), HasSubstr("ERR the daemon is shutting down"));
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(BackupsTest, AMarkerIsWrittenAfterAllThatWasPutBefore) {
  bench.commit(accept_batch(1, 10));
  bench.put(StepMaker(1).end_jobs({0, 3}));
  const Ticket marker = bench.store->put_marker();
  EXPECT_EQ(bench.outcomes->await(marker).error, "");
  EXPECT_TRUE(bench.store->is_written(marker));
  bench.disk->fail_syncs();
  EXPECT_NE(bench.outcomes->await(bench.store->put_marker()).error, "");
  bench.disk->heal();
}

}  // namespace
}  // namespace locksley::daemon
