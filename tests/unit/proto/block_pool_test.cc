// The memory of large blocks.
#include "proto/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/block.h"
#include "proto/command_reader.h"

namespace locksley::proto {
namespace {

constexpr std::size_t kPooled = CommandReader::kPooledBytes;

TEST(BlockPoolTest, SomeOfTheSizeThatIsUsedAgainAreKeptAndTheOthersUnmapped) {
  BlockPool pool(kPooled);
  std::vector<void*> taken;
  for (std::size_t i = 0; i < BlockPool::kMostKept + 3; ++i) {
    taken.push_back(pool.take(kPooled));
    std::memset(taken.back(), 'x', kPooled);
  }
  EXPECT_EQ(pool.mapped(), taken.size());
  for (void* memory : taken) pool.give(memory, kPooled);
  EXPECT_EQ(pool.mapped(), BlockPool::kMostKept);
  void* const again = pool.take(kPooled);
  EXPECT_EQ(pool.mapped(), BlockPool::kMostKept) << "no new one";
  pool.give(again, kPooled);
  void* const other = pool.take(kPooled + 1);
  EXPECT_EQ(pool.mapped(), BlockPool::kMostKept + 1);
  pool.give(other, kPooled + 1);
  EXPECT_EQ(pool.mapped(), BlockPool::kMostKept);
}

TEST(BlockPoolTest, SmallBlocksAreOfTheHeap) {
  BlockPool pool(kPooled);
  const BlockRef small = BlockRef::make(1'000, &pool);
  EXPECT_EQ(pool.mapped(), 0u);
  const BlockRef large = BlockRef::make(BlockPool::kLeastBytes, &pool);
  EXPECT_EQ(pool.mapped(), 1u);
}

// The command that these bytes are.
Command received(CommandReader& reader, std::string_view bytes) {
  Command command;
  ReadStatus status = ReadStatus::kNeedMore;
  while (!bytes.empty()) {
    const auto space = reader.prepare();
    const std::size_t size = std::min({space.size(), bytes.size(), std::size_t{128} * 1024});
    std::memcpy(space.data(), bytes.data(), size);
    reader.commit(size);
    bytes.remove_prefix(size);
    status = reader.next(command);
  }
  EXPECT_EQ(status, ReadStatus::kComplete);
  return command;
}

// So that the thread that drops the last of them gives back one piece at a time, and not the top of a heap.
TEST(BlockPoolTest, WhatAReaderReceivesLiesInMappingsThatGoWithIt) {
  constexpr std::size_t kPayloads = 1'000'000;
  BlockPool pool(kPooled);
  CommandReader reader({}, &pool);
  std::string bytes =
      "*" + std::to_string(kPayloads + 3) + "\r\n$6\r\nSUBMIT\r\n$4\r\necho\r\n$4\r\nJOBS\r\n";
  for (std::size_t i = 0; i < kPayloads; ++i) bytes += "$8\r\n12345678\r\n";
  Command command = received(reader, bytes);
  ASSERT_EQ(command.arguments.size(), kPayloads + 3);
  EXPECT_EQ(command.arguments[kPayloads], "12345678");
  EXPECT_GE(pool.mapped(), bytes.size() / kPooled);
  command = {};
  reader.release();
  EXPECT_LE(pool.mapped(), BlockPool::kMostKept + 1) << "the reader's own block, and those that are kept";
}

TEST(BlockPoolTest, ACompactCopyComesFromThePoolOfItsBlocks) {
  BlockPool pool(kPooled);
  CommandReader reader({}, &pool);
  constexpr std::size_t kEach = 150'000;
  std::string whole = "*7\r\n";
  for (const char name : {'a', 'b', 'c', 'd', 'e', 'f', 'g'}) {
    whole += "$" + std::to_string(kEach) + "\r\n" + std::string(kEach, name) + "\r\n";
  }
  ArgumentList list = received(reader, whole).arguments;
  list.drop_front(5);
  ASSERT_TRUE(list.compact());
  EXPECT_EQ(list[1], std::string(kEach, 'g'));
  const std::size_t mapped = pool.mapped();
  EXPECT_GE(mapped, 1u);
  list.clear();
  EXPECT_LT(pool.mapped(), mapped);
}

}  // namespace
}  // namespace locksley::proto
