// A store on the files of the system.
#include "daemon/store/embedded/embedded_engine.h"

#include <gmock/gmock.h>
#include <rocksdb/env.h>
#include <rocksdb/file_system.h>
#include <spdlog/sinks/base_sink.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::add_jobs;
using testing::is_same;
using testing::open_batch;
using testing::Outcomes;
using testing::StoreModel;

TEST(EmbeddedEngineTest, WorksOnTheSystemsOwnFiles) {
  const testing::TemporaryFolder folder;
  StoreModel model;
  for (std::uint64_t sequence = 1; sequence < 4; ++sequence) {
    auto store =
        Store::open({.path = (folder.path() / "made" / "on demand").string(), .engine = embedded_engine()},
                    testing::silent_log());
    ASSERT_TRUE(store.has_value()) << store.error().what;
    const auto picture = testing::picture_of(**store);
    ASSERT_TRUE(picture.has_value()) << picture.error();
    EXPECT_TRUE(is_same(*picture, model.picture()));
    Outcomes outcomes;
    (*store)->start(outcomes.listener());
    const StoreWrite write = accept_batch(sequence, 100);
    model.apply(write);
    EXPECT_EQ(outcomes.await((*store)->put(StoreWrite(write), Urgency::kAwaited)).error, "");
    EXPECT_EQ((*store)->stats().errors, 0U);
    (*store)->stop();
  }
}

TEST(EmbeddedEngineTest, AfterABurstOfWritesItShowsTheBytesThatItsFilesHave) {
  const testing::TemporaryFolder folder;
  auto store =
      Store::open({.path = folder.path().string(), .engine = embedded_engine()}, testing::silent_log());
  ASSERT_TRUE(store.has_value()) << store.error().what;
  ASSERT_TRUE(testing::picture_of(**store).has_value());
  Outcomes outcomes;
  (*store)->start(outcomes.listener());
  constexpr std::size_t kBytes = 100'000;
  constexpr std::uint64_t kBatches = 20;
  ASSERT_LT((*store)->stats().disk_bytes, kBatches * kBytes / 2);
  for (std::uint64_t sequence = 1; sequence <= kBatches; ++sequence) {
    (*store)->put(open_batch(sequence), Urgency::kAwaited);
    const StoreWrite write = add_jobs(sequence, 0, {std::string(kBytes, 'x')});
    EXPECT_EQ(outcomes.await((*store)->put(StoreWrite(write), Urgency::kAwaited)).error, "");
  }
  EXPECT_TRUE(testing::wait_until_true([&] { return (*store)->stats().disk_bytes >= kBatches * kBytes; }));
  (*store)->stop();
}

// Says when a start logs that it waits.
class WaitingLine final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::promise<void> is_logged;

 private:
  void sink_it_(const spdlog::details::log_msg& line) override {
    const std::string_view words(line.payload.data(), line.payload.size());
    if (words.find("waiting for it") != std::string_view::npos) is_logged.set_value();
  }
  void flush_() override {}
};

// As a process that ends while the next one starts.
TEST(EmbeddedEngineTest, AStartWaitsForTheOneThatStillHasTheFolder) {
  const testing::TemporaryFolder folder;
  auto first =
      Store::open({.path = folder.path().string(), .engine = embedded_engine()}, testing::silent_log());
  ASSERT_TRUE(first.has_value()) << first.error().what;
  const auto waits = std::make_shared<WaitingLine>();
  const auto log = std::make_shared<spdlog::logger>("test", waits);
  auto second = std::async(std::launch::async, [&] {
    return Store::open({.path = folder.path().string(), .engine = embedded_engine()}, log);
  });
  ASSERT_EQ(waits->is_logged.get_future().wait_for(std::chrono::seconds(30)), std::future_status::ready);
  first->reset();
  const auto opened = second.get();
  EXPECT_TRUE(opened.has_value()) << opened.error().what;
}

// Another process opens the database between the look at its lock and the attempt to open it, and
// writes a table.
class TakenMeanwhile final : public rocksdb::FileSystemWrapper {
 public:
  explicit TakenMeanwhile(std::filesystem::path table)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), table_(std::move(table)) {}
  const char* Name() const override { return "TakenMeanwhile"; }
  rocksdb::IOStatus LockFile(const std::string& name, const rocksdb::IOOptions&, rocksdb::FileLock**,
                             rocksdb::IODebugContext*) override {
    std::ofstream(table_) << "rows";
    return rocksdb::IOStatus::IOError("While lock file: " + name, "Resource temporarily unavailable");
  }

 private:
  const std::filesystem::path table_;
};

TEST(EmbeddedEngineTest, AFailedStartLeavesTheFilesOfTheOneThatHasTheFolder) {
  const testing::TemporaryFolder folder;
  const auto open = [&](rocksdb::Env* env) {
    return Store::open({.path = folder.path().string(), .engine = embedded_engine(env)},
                       testing::silent_log());
  };
  ASSERT_TRUE(open(nullptr).has_value());
  const auto table = folder.path() / "000099.sst";
  const auto env = rocksdb::NewCompositeEnv(std::make_shared<TakenMeanwhile>(table));
  const auto refused = open(env.get());
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().what, ::testing::HasSubstr("in use by another daemon"));
  EXPECT_TRUE(std::filesystem::exists(table));
}

}  // namespace
}  // namespace locksley::daemon
