// The memory of large blocks.
#include "proto/block_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "proto/block.h"
#include "proto/command_reader.h"

namespace locksley::proto {
namespace {

constexpr std::size_t kPooled = CommandReader::kPooledBytes;

// Takes so many blocks, fills each, and gives them back.
void use(BlockPool& pool, std::size_t count, std::size_t bytes) {
  std::vector<void*> taken;
  for (std::size_t i = 0; i < count; ++i) {
    taken.push_back(pool.take(bytes));
    std::memset(taken.back(), 'x', pool.size_of(bytes));
  }
  for (void* memory : taken) pool.give(memory, bytes);
}

TEST(BlockPoolTest, BlocksAreKeptForTheNextOfAboutTheirSize) {
  for (const std::size_t bytes : {BlockPool::kLeastBytes, std::size_t{320'016}, kPooled - 1, kPooled}) {
    BlockPool pool(kPooled);
    EXPECT_GE(pool.size_of(bytes), bytes);
    EXPECT_LT(pool.size_of(bytes), bytes + BlockPool::kStep);
    EXPECT_EQ(pool.size_of(pool.size_of(bytes)), pool.size_of(bytes));
    void* const memory = pool.take(bytes);
    pool.give(memory, bytes);
    EXPECT_EQ(pool.kept(), pool.size_of(bytes));
    EXPECT_EQ(pool.take(pool.size_of(bytes)), memory);
    EXPECT_EQ(pool.kept(), 0U);
    pool.give(memory, pool.size_of(bytes));
    EXPECT_EQ(pool.mapped(), 1U);
  }
}

TEST(BlockPoolTest, TheLargestBlockThatIsKeptHasAPlaceForTheSmallest) {
  BlockPool pool(BlockPool::kLargestKept);
  use(pool, 1, BlockPool::kLeastBytes);
  EXPECT_EQ(pool.kept(), pool.size_of(BlockPool::kLeastBytes));
  EXPECT_DEATH(BlockPool(BlockPool::kLargestKept + 1), "");
}

TEST(BlockPoolTest, NoMoreIsKeptThanIsAllowedAndWhatWasFreedLast) {
  BlockPool pool(kPooled);
  for (const std::size_t bytes : {kPooled, BlockPool::kLeastBytes, kPooled}) {
    use(pool, 20, bytes);
    EXPECT_GT(pool.kept(), BlockPool::kMostKept / 2);
    EXPECT_LE(pool.kept(), BlockPool::kMostKept);
    const std::size_t mapped = pool.mapped();
    use(pool, 1, bytes);
    EXPECT_EQ(pool.mapped(), mapped) << "one that was kept";
  }
  const std::size_t mapped = pool.mapped();
  use(pool, 1, kPooled + 1);
  EXPECT_EQ(pool.mapped(), mapped) << "larger than any that is kept";
}

TEST(BlockPoolTest, OnlyBlocksThatAreNotKeptGrowAndTheirBytesStay) {
  BlockPool pool(kPooled);
  BlockRef block = BlockRef::make(2 * CommandReader::kBlockBytes, &pool);
  const std::size_t before = block->capacity();
  std::memset(block->data(), 'x', before);
  EXPECT_EQ(pool.mapped(), 1U);
  {
    const BlockRef other = block;
    EXPECT_FALSE(block.try_grow(4 * before)) << "others read it";
  }
  ASSERT_TRUE(block.try_grow(4 * before));
  EXPECT_GE(block->capacity(), 4 * before);
  EXPECT_EQ(std::string_view(block->data(), before), std::string(before, 'x'));
  std::memset(block->data() + before, 'y', block->capacity() - before);
  EXPECT_TRUE(block.is_unique());
  EXPECT_EQ(pool.mapped(), 1U);
  block.reset();
  EXPECT_EQ(pool.mapped(), 0U);
  BlockRef kept = BlockRef::make(CommandReader::kBlockBytes, &pool);
  EXPECT_FALSE(kept.try_grow(4 * CommandReader::kBlockBytes));
  BlockRef of_the_heap = BlockRef::make(2 * CommandReader::kBlockBytes);
  EXPECT_FALSE(of_the_heap.try_grow(4 * CommandReader::kBlockBytes));
}

// So the kernel moves their tables of pages, and not the entries of all pages one by one.
TEST(BlockPoolTest, BlocksThatGrowBeginWhereATableOfPagesDoes) {
  constexpr std::size_t kTable = std::size_t{2} * 1024 * 1024;
  const auto place_in_table = [](const void* memory) {
    return reinterpret_cast<std::uintptr_t>(memory) % kTable;
  };
  BlockPool pool(kPooled);
  for (std::size_t bytes : {kPooled + 1, 2 * kTable + 5}) {
    void* memory = pool.take(bytes);
    std::memset(memory, 'x', bytes);
    EXPECT_EQ(place_in_table(memory), 0U);
    for (int n = 0; n < 4; ++n) {
      void* const grown = pool.try_grow(memory, bytes, 3 * bytes);
      ASSERT_NE(grown, nullptr);
      EXPECT_EQ(place_in_table(grown), 0U);
      const std::string_view kept(static_cast<const char*>(grown), bytes);
      EXPECT_EQ(kept.find_first_not_of('x'), std::string_view::npos);
      memory = grown;
      std::memset(memory, 'x', bytes *= 3);
    }
    pool.give(memory, bytes);
  }
  EXPECT_EQ(pool.mapped(), 0U);
}

// The reader's memory for a bulk string that arrives slowly: it has no second copy of what has
// come.
TEST(BlockPoolTest, ALargeBulkStringGrowsWhereItIs) {
  constexpr std::size_t kBytes = 40 * CommandReader::kBlockBytes;
  BlockPool pool(kPooled);
  CommandReader reader({}, &pool);
  Command command;
  const auto feed = [&](std::string_view bytes) {
    while (!bytes.empty()) {
      const std::span<std::byte> space = reader.prepare();
      const std::size_t some = std::min({space.size(), bytes.size(), std::size_t{128 * 1024}});
      std::memcpy(space.data(), bytes.data(), some);
      reader.commit(some);
      bytes.remove_prefix(some);
      if (bytes.empty()) return;
      ASSERT_EQ(reader.next(command), ReadStatus::kNeedMore);
      ASSERT_LE(pool.mapped(), 2U) << "the one that grows, and the first one, which is kept";
    }
  };
  std::string payload(kBytes, 'x');
  for (std::size_t i = 0; i < kBytes; i += 1'000) payload[i] = static_cast<char>('a' + i / 1'000 % 26);
  feed("*2\r\n$4\r\nECHO\r\n$" + std::to_string(kBytes) + "\r\n");
  feed(payload);
  feed("\r\n");
  ASSERT_EQ(reader.next(command), ReadStatus::kComplete);
  EXPECT_TRUE(command.arguments[1] == payload);
}

// Else the thread that reads would free its memory, whichever thread frees the command.
TEST(BlockPoolTest, ALargeBlockGoesWithItsCommand) {
  for (const std::string_view tail : {std::string_view(), std::string_view("*1\r\n$4\r\nPI")}) {
    BlockPool pool(kPooled);
    CommandReader reader({}, &pool);
    Command command;
    ReadStatus status = ReadStatus::kNeedMore;
    const auto feed = [&](std::string_view bytes) {
      while (!bytes.empty() && status == ReadStatus::kNeedMore) {
        const std::span<std::byte> space = reader.prepare();
        const std::size_t some = std::min(space.size(), bytes.size());
        std::memcpy(space.data(), bytes.data(), some);
        reader.commit(some);
        bytes.remove_prefix(some);
        status = reader.next(command);
      }
    };
    constexpr std::size_t kBytes = 8 * CommandReader::kBlockBytes;
    std::string bytes = "*2\r\n$4\r\nECHO\r\n$" + std::to_string(kBytes) + "\r\n" + std::string(kBytes, 'x');
    feed((bytes += "\r\n") += tail);
    ASSERT_EQ(status, ReadStatus::kComplete);
    ASSERT_EQ(command.arguments[1].size(), kBytes);
    const std::size_t mapped = pool.mapped();
    Command taken = std::exchange(command, {});
    taken = {};
    EXPECT_EQ(pool.mapped(), mapped - 1);
    if (tail.empty()) continue;
    status = reader.next(command);
    ASSERT_EQ(status, ReadStatus::kNeedMore);
    feed("NG\r\n");
    ASSERT_EQ(status, ReadStatus::kComplete);
    EXPECT_EQ(command.name(), "PING");
  }
}

TEST(BlockPoolTest, ManyThreadsTakeAndGive) {
  BlockPool pool(kPooled);
  std::vector<std::jthread> threads;
  for (std::size_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&pool, thread] {
      for (std::size_t i = 0; i < 500; ++i) {
        const std::size_t bytes = BlockPool::kLeastBytes + (i * 7 + thread) % 20 * BlockPool::kStep;
        auto* const memory = static_cast<char*>(pool.take(bytes));
        memory[0] = memory[bytes - 1] = static_cast<char>(thread);
        std::this_thread::yield();
        EXPECT_EQ(memory[0], static_cast<char>(thread));
        EXPECT_EQ(memory[bytes - 1], static_cast<char>(thread));
        pool.give(memory, bytes);
      }
    });
  }
  threads.clear();
  EXPECT_LE(pool.kept(), BlockPool::kMostKept);
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

// So that the thread that drops the last of them gives back one piece at a time, and not the top of
// a heap.
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
  EXPECT_LE(pool.kept(), BlockPool::kMostKept);
  EXPECT_LE(pool.mapped(), BlockPool::kMostKept / BlockPool::kLeastBytes + 1)
      << "its own block, and those kept";
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
  const std::size_t kept = pool.kept();
  list.clear();
  EXPECT_GT(pool.kept(), kept);
}

}  // namespace
}  // namespace locksley::proto
