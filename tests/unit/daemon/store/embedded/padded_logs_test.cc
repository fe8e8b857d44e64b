#include "daemon/store/embedded/padded_logs.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include "tests/support/faulty_file_system.h"

namespace locksley::daemon {
namespace {

using testing::FaultyFileSystem;

class PaddedLogsTest : public ::testing::Test {
 protected:
  PaddedLogsTest() {
    std::filesystem::create_directories(folder_);
    disk_ = std::make_shared<FaultyFileSystem>(folder_, 1);
    files_ = std::make_unique<PaddedLogs>(disk_, folder_);
    EXPECT_TRUE(files_->NewWritableFile(name_, {}, &log_, nullptr).ok());
  }
  ~PaddedLogsTest() override {
    log_.reset();
    std::filesystem::remove_all(folder_);
  }

  void append(std::size_t bytes) { EXPECT_TRUE(log_->Append(std::string(bytes, 'x'), {}, nullptr).ok()); }
  void sync() { EXPECT_TRUE(log_->Sync({}, nullptr).ok()); }
  // A log that has zeros ahead of its first 200 bytes.
  void pad() {
    append(100);
    sync();
    append(100);
  }
  std::uint64_t size_on_disk() const { return std::filesystem::file_size(name_); }
  std::uint64_t syncs() const { return disk_->count(FaultyFileSystem::Operation::kSync); }

  const std::string folder_ = ::testing::TempDir() + "padded-logs-" + std::to_string(::getpid());
  const std::string name_ = folder_ + "/000004.log";
  std::shared_ptr<FaultyFileSystem> disk_;
  std::unique_ptr<PaddedLogs> files_;
  std::unique_ptr<rocksdb::FSWritableFile> log_;
};

TEST_F(PaddedLogsTest, AfterASmallSyncedGroupThereAreZerosAheadWhichTheNextOnesOverwrite) {
  append(100);
  sync();
  EXPECT_EQ(size_on_disk(), 100U);
  append(100);
  const std::uint64_t padded = size_on_disk();
  EXPECT_EQ(padded, 200 + PaddedLogs::kZeros);
  for (int i = 0; i < 10; ++i) {
    sync();
    append(100);
  }
  EXPECT_EQ(size_on_disk(), padded);
  std::ostringstream bytes;
  bytes << std::ifstream(name_, std::ios::binary).rdbuf();
  EXPECT_EQ(bytes.str(), std::string(1200, 'x') + std::string(padded - 1200, '\0'));
}

TEST_F(PaddedLogsTest, TheSizeOfALogIsWithoutTheZerosAndSoIsAClosedLog) {
  pad();
  std::uint64_t size = 0;
  EXPECT_TRUE(files_->GetFileSize(name_, {}, &size, nullptr).ok());
  EXPECT_EQ(size, 200U);
  EXPECT_TRUE(log_->Close({}, nullptr).ok());
  EXPECT_EQ(size_on_disk(), 200U);
}

TEST_F(PaddedLogsTest, ALargeGroupIsAppendedWithoutZeros) {
  pad();
  sync();
  append(PaddedLogs::kSmallGroup + 1);
  EXPECT_EQ(size_on_disk(), 200 + PaddedLogs::kSmallGroup + 1);
}

TEST_F(PaddedLogsTest, NoSecondRecordIsWrittenBeforeTheFirstOneThatOverwroteZerosIsSynced) {
  pad();
  sync();
  append(100);
  const std::uint64_t before = syncs();
  append(100);
  EXPECT_EQ(syncs(), before + 1);
  append(PaddedLogs::kSmallGroup + 1);
  EXPECT_EQ(syncs(), before + 2);
}

TEST_F(PaddedLogsTest, NoNewLogBeginsBeforeTheLastRecordOfTheOldOneIsSynced) {
  pad();
  sync();
  append(100);
  const std::uint64_t before = syncs();
  std::unique_ptr<rocksdb::FSWritableFile> next;
  ASSERT_TRUE(files_->NewWritableFile(folder_ + "/000005.log", {}, &next, nullptr).ok());
  EXPECT_EQ(syncs(), before + 1);
}

TEST_F(PaddedLogsTest, ZerosThatCannotBeWrittenAreNoError) {
  append(100);
  sync();
  disk_->fail(FaultyFileSystem::Operation::kOpen, 1, rocksdb::IOStatus::NoSpace(),
              FaultyFileSystem::Lasting::kOnce);
  append(100);
  EXPECT_TRUE(disk_->has_failed());
  EXPECT_EQ(size_on_disk(), 200U);
  sync();
  append(100);
  EXPECT_EQ(size_on_disk(), 300U);
}

TEST_F(PaddedLogsTest, OtherFilesAreLeftAlone) {
  std::unique_ptr<rocksdb::FSWritableFile> other;
  const std::string name = folder_ + "/MANIFEST-000005";
  ASSERT_TRUE(files_->NewWritableFile(name, {}, &other, nullptr).ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(other->Append("bytes", {}, nullptr).ok());
    EXPECT_TRUE(other->Sync({}, nullptr).ok());
  }
  EXPECT_EQ(std::filesystem::file_size(name), 15U);
}

}  // namespace
}  // namespace locksley::daemon
