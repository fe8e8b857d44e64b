// What a copy of RocksDB's files is made of, and what becomes of one that cannot be finished.
#include <gmock/gmock.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "daemon/store/backups.h"
#include "daemon/store/embedded/embedded_engine.h"
#include "daemon/store/engine/key.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

namespace fs = std::filesystem;
using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The system's files; what is written below one folder can be told to fail, and is seen before it
// is written.
class WatchedFiles final : public rocksdb::FileSystemWrapper {
 public:
  using OnAppend = std::function<IOStatus()>;

  explicit WatchedFiles(fs::path below)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), below_(std::move(below)) {}
  const char* Name() const override { return "WatchedFiles"; }

  // Set before the copy begins. Called by the thread that copies.
  OnAppend on_append = [] { return IOStatus::OK(); };
  bool has_links = true;

  IOStatus NewWritableFile(const std::string& name, const FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* debug) override {
    std::unique_ptr<rocksdb::FSWritableFile> file;
    IOStatus opened = target()->NewWritableFile(name, options, &file, debug);
    const bool is_below = name.starts_with(below_.string() + "/");
    if (opened.ok() && is_below) file = std::make_unique<File>(*this, std::move(file));
    *result = std::move(file);
    return opened;
  }
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* debug) override {
    return has_links ? target()->LinkFile(from, to, options, debug)
                     : IOStatus::NotSupported("another file system");
  }

 private:
  class File final : public rocksdb::FSWritableFileOwnerWrapper {
   public:
    File(WatchedFiles& files, std::unique_ptr<rocksdb::FSWritableFile> file)
        : FSWritableFileOwnerWrapper(std::move(file)), files_(files) {}
    using FSWritableFileOwnerWrapper::Append;
    IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, IODebugContext* debug) override {
      if (IOStatus seen = files_.on_append(); !seen.ok()) return seen;
      return target()->Append(data, options, debug);
    }

   private:
    WatchedFiles& files_;
  };

  const fs::path below_;
};

// The test's thread is the writer's.
class LiveCopyTest : public ::testing::Test {
 protected:
  LiveCopyTest() {
    auto opened = embedded_engine(env.get())(
        {folder.path().string(), config::Durability::kFsync, testing::silent_log()});
    if (!opened) throw std::runtime_error(opened.error().what);
    engine = std::move(*opened);
  }

  void put(std::uint64_t first, std::uint64_t rows, std::size_t bytes) LOCKSLEY_REQUIRES(kStoreWriter) {
    for (std::uint64_t row = first; row < first + rows; ++row) {
      const auto group = engine->new_group();
      group->put(Table::kPayloads, Key().append(row), std::string(bytes, 'x'));
      ASSERT_TRUE(engine->commit(*group, Engine::Sync::kSynced).has_value());
    }
  }
  std::uint64_t rows_of(const fs::path& copy) {
    auto opened = embedded_engine()({copy.string(), config::Durability::kFsync, testing::silent_log()});
    if (!opened) throw std::runtime_error(opened.error().what);
    const EngineReading reading(**opened);
    std::uint64_t rows = 0;
    const auto visited = reading.visit({.table = Table::kPayloads, .low = {}, .high = {}},
                                       [&](std::string_view, std::string_view) {
                                         ++rows;
                                         return true;
                                       });
    EXPECT_TRUE(visited.has_value());
    return rows;
  }
  // Makes tables of what is there.
  void make_tables() LOCKSLEY_REQUIRES(kStoreWriter) { ASSERT_TRUE(engine->reclaim(0, 0).has_value()); }
  std::future<Backups::Result> begin(const std::string& name) {
    auto result = std::make_shared<std::promise<Backups::Result>>();
    const auto begun = backups->make(directory.path().string(), name,
                                     [result](Backups::Result made) { result->set_value(std::move(made)); });
    if (!begun) result->set_value(std::unexpected(begun.error()));
    return result->get_future();
  }
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(directory.path()))
      found.push_back(entry.path().filename().string());
    return found;
  }

  const testing::TemporaryFolder folder;
  const testing::TemporaryFolder directory;
  const std::shared_ptr<WatchedFiles> files = std::make_shared<WatchedFiles>(directory.path());
  const std::unique_ptr<rocksdb::Env> env = rocksdb::NewCompositeEnv(files);
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Backups> backups;

  void SetUp() override { backups = std::make_unique<Backups>(*engine, testing::silent_log()); }
};

// The number of names that each table of the folder has.
std::vector<std::uintmax_t> links_of_tables(const fs::path& folder) {
  std::vector<std::uintmax_t> links;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".sst") links.push_back(entry.hard_link_count());
  }
  return links;
}

TEST_F(LiveCopyTest, TablesAreLinkedAndTheLogIsCopied) {
  const ThreadRoleScope role(kStoreWriter);
  put(0, 20, 10'000);
  make_tables();
  put(100, 5, 100);  // in the log alone
  const auto made = begin("one").get();
  ASSERT_TRUE(made.has_value()) << made.error();
  EXPECT_THAT(links_of_tables(*made), ::testing::Each(2U));
  EXPECT_THAT(links_of_tables(*made), ::testing::Not(IsEmpty()));
  for (const char* const own : {"CLEAN_END", "RESERVE", "LOCK"})
    EXPECT_FALSE(fs::exists(fs::path(*made) / own)) << own;
  EXPECT_EQ(fs::status(*made).permissions(), fs::perms::owner_all);
  EXPECT_EQ(rows_of(*made), 25U);
}

TEST_F(LiveCopyTest, OnAnotherFileSystemAllIsCopied) {
  const ThreadRoleScope role(kStoreWriter);
  files->has_links = false;
  put(0, 20, 300'000);
  make_tables();
  put(100, 5, 100);
  const auto made = begin("one").get();
  ASSERT_TRUE(made.has_value()) << made.error();
  EXPECT_THAT(links_of_tables(*made), ::testing::Each(1U));
  EXPECT_EQ(rows_of(*made), 25U);
}

TEST_F(LiveCopyTest, AFullDiskFailsTheCopyAloneAndLeavesNothingOfIt) {
  const ThreadRoleScope role(kStoreWriter);
  files->has_links = false;
  put(0, 20, 300'000);
  make_tables();
  int pieces = 0;
  files->on_append = [&pieces] { return ++pieces > 3 ? IOStatus::NoSpace("injected") : IOStatus::OK(); };
  const auto failed = begin("one").get();
  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(failed.error(), HasSubstr("STORE the backup"));
  EXPECT_THAT(failed.error(), HasSubstr("injected"));
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_EQ(backups->stats().failed, 1U);
  put(100, 5, 100);  // the store goes on
  files->on_append = [] { return IOStatus::OK(); };
  const auto made = begin("one").get();
  ASSERT_TRUE(made.has_value()) << made.error();
  EXPECT_EQ(rows_of(*made), 25U);
}

TEST_F(LiveCopyTest, WhyAFolderCannotBeMadeIsSaid) {
  const EngineDone failed = engine->copy_to((directory.path() / "missing" / "copy").string(), {});
  ASSERT_FALSE(failed.has_value());
  EXPECT_THAT(failed.error().what, HasSubstr("cannot be made: No such file or directory"));
}

TEST_F(LiveCopyTest, CommitsGoOnWhileACopyIsMadeAndASecondCopyIsRefused) {
  const ThreadRoleScope role(kStoreWriter);
  put(0, 20, 10'000);
  std::promise<void> begun;
  std::promise<void> go_on;
  std::once_flag once;
  files->on_append = [&] {
    std::call_once(once, [&] {
      begun.set_value();
      go_on.get_future().wait();
    });
    return IOStatus::OK();
  };
  auto copying = begin("one");
  begun.get_future().wait();
  put(100, 50, 1000);  // would never return if it waited for the copy
  const auto second = begin("two").get();
  ASSERT_FALSE(second.has_value());
  EXPECT_THAT(second.error(), HasSubstr("ERR a backup is being made already"));
  go_on.set_value();
  const auto made = copying.get();
  ASSERT_TRUE(made.has_value()) << made.error();
  EXPECT_GE(rows_of(*made), 20U);
}

TEST_F(LiveCopyTest, ACopyEndsWhenItIsToldTo) {
  const ThreadRoleScope role(kStoreWriter);
  files->has_links = false;
  put(0, 20, 300'000);
  make_tables();
  std::stop_source stop;
  int pieces = 0;
  files->on_append = [&] {
    if (++pieces == 2) stop.request_stop();
    return IOStatus::OK();
  };
  const auto copied = engine->copy_to((directory.path() / "one").string(), stop.get_token());
  ASSERT_FALSE(copied.has_value());
  EXPECT_EQ(copied.error().kind, EngineError::Kind::kNotOpen);
  EXPECT_EQ(pieces, 2);
}

TEST_F(LiveCopyTest, ACopyEndsWhenTheEngineIsReopenedSoTheWriterDoesNotWaitForIt) {
  const ThreadRoleScope role(kStoreWriter);
  files->has_links = false;
  put(0, 20, 300'000);
  make_tables();
  std::promise<void> begun;
  std::once_flag once;
  int pieces = 0;
  files->on_append = [&] {
    std::call_once(once, [&] { begun.set_value(); });
    ++pieces;
    // Until reopen() waits for the readings, of which the copy has one.
    testing::wait_until_true([&] { return !EngineReading(*engine, ReadingWait::kNot).is_valid(); });
    return IOStatus::OK();
  };
  auto copying = begin("one");
  begun.get_future().wait();
  EXPECT_TRUE(engine->reopen().has_value());
  const auto result = copying.get();
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error(), HasSubstr("STORE the backup"));
  EXPECT_EQ(pieces, 1);
  EXPECT_THAT(names(), IsEmpty());
}

}  // namespace
}  // namespace locksley::daemon
