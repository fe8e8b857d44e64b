// What the store leaves free on its disk, and what it leaves behind there.
#include "daemon/store/embedded/disk_reserve.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "daemon/store/embedded/open_attempt.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;

constexpr std::uint64_t kMebi = 1U << 20;

TEST(StoreSizesTest, WhatAFlushAndACompactionTakeFollowsFromTheDisk) {
  for (const auto& [disk, memtable] :
       {std::pair{30 * kMebi, kMebi / 4}, std::pair{3072 * kMebi, 3 * kMebi / 2},
        std::pair{kMebi * kMebi, 64 * kMebi}}) {
    const StoreSizes sizes = StoreSizes::of(DiskSpace{.size_bytes = disk});
    EXPECT_EQ(sizes.memtable, memtable);
    EXPECT_LE(sizes.room + sizes.reserve, disk / 4);
    EXPECT_GE(sizes.room, 16 * sizes.memtable);
    EXPECT_LE(sizes.write_bytes, sizes.memtable);
  }
  EXPECT_EQ(StoreSizes::of(std::nullopt).memtable, 64 * kMebi);
}

TEST(DiskReserveTest, WhatWouldLeaveLessFreeThanTheRoomIsRefused) {
  const TemporaryFolder folder;
  const auto disk = disk_space(folder.path().string());
  ASSERT_TRUE(disk);
  const StoreSizes none{.memtable = 1, .room = 0, .reserve = 1, .write_bytes = 1};
  EXPECT_TRUE(DiskReserve(folder.path().string(), none).check(0));
  EXPECT_TRUE(DiskReserve(folder.path().string(), none).check(disk->free_bytes / 4));
  const auto refused = DiskReserve(folder.path().string(), none).check(disk->size_bytes);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error(), HasSubstr("the disk is full"));
  EXPECT_THAT(refused.error(), HasSubstr(folder.path().string()));
  EXPECT_FALSE(DiskReserve(folder.path().string(), {1, disk->size_bytes, 1, 1}).check(0));
}

class OpenAttemptTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text = "x") {
    std::ofstream(folder_.path() / name) << text;
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename().string());
    }
    return names;
  }

  const TemporaryFolder folder_;
};

TEST_F(OpenAttemptTest, WhatAnAttemptLeavesGoesWhileNothingRefersToIt) {
  for (const char* name : {"MANIFEST-000004", "000005.log", "000006.sst", "IDENTITY"}) write(name);
  write("CURRENT", "MANIFEST-000004\n");
  const auto before = files();
  const OpenAttempt attempt(nullptr, folder_.path().string());
  for (const char* name : {"MANIFEST-000008", "000009.log", "000010.sst", "OPTIONS-000011.dbtmp"})
    write(name);
  attempt.clean_up();
  EXPECT_EQ(files(), before);
}

TEST_F(OpenAttemptTest, WhatTheNewManifestMayNameStays) {
  for (const char* name : {"MANIFEST-000004", "000005.log"}) write(name);
  write("CURRENT", "MANIFEST-000004\n");
  const OpenAttempt attempt(nullptr, folder_.path().string());
  for (const char* name : {"MANIFEST-000008", "000009.log", "000010.sst"}) write(name);
  write("000011.log", "");
  write("CURRENT", "MANIFEST-000008\n");
  attempt.clean_up();
  EXPECT_EQ(files(),
            (std::set<std::string>{"000005.log", "000009.log", "000010.sst", "CURRENT", "MANIFEST-000008"}));
}

TEST_F(OpenAttemptTest, AStoreWhoseCurrentIsDamagedIsLeftAsItIs) {
  write("MANIFEST-000004");
  write("CURRENT", "MANIFSET-000004\n");
  const auto before = files();
  const OpenAttempt attempt(nullptr, folder_.path().string());
  attempt.clean_up();
  EXPECT_EQ(files(), before);
}

TEST_F(OpenAttemptTest, AStoreWithoutCurrentIsLeftAsItIs) {
  write("000005.log");
  const OpenAttempt attempt(nullptr, folder_.path().string());
  write("MANIFEST-000001");
  attempt.clean_up();
  EXPECT_EQ(files(), (std::set<std::string>{"000005.log", "MANIFEST-000001"}));
}

}  // namespace
}  // namespace locksley::daemon
