#include "proto/argument_list.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <thread>
#include <vector>

#include "proto/command_writer.h"
#include "tests/unit/proto/reader_support.h"

namespace locksley::proto {
namespace {

constexpr std::size_t kMany = 60'000;     // over several blocks
constexpr std::size_t kMapped = 131'072;  // whose array is a mapping

std::string value(std::size_t i) { return "argument-" + std::to_string(i); }

// The arguments value(0), value(1), …, read as one command.
ArgumentList read_list(std::size_t count) {
  OutputBuffer out;
  CommandWriter writer(out);
  writer.begin(count);
  for (std::size_t i = 0; i < count; ++i) writer.argument(value(i));
  CommandReader reader;
  ArgumentList list;
  feed(reader, out.to_string(), [&] {
    Command command;
    if (reader.next(command) == ReadStatus::kComplete) list = std::move(command.arguments);
  });
  return list;
}

void expect_values(const ArgumentList& list, std::size_t first, std::size_t count) {
  ASSERT_EQ(list.size(), count);
  std::size_t i = first;
  std::size_t bytes = 0;
  for (std::string_view one : list) {
    bytes += one.size();
    ASSERT_EQ(one, value(i++));
  }
  EXPECT_EQ(i, first + count);
  EXPECT_EQ(list.payload_bytes(), bytes);
  for (i = 0; i < count; i += 997) ASSERT_EQ(list[i], value(first + i));
  std::array<std::string_view, 1000> views;
  for (i = 0; i < count;) {
    const std::size_t n = list.fetch(i, views);
    ASSERT_EQ(n, std::min(views.size(), count - i));
    for (std::size_t j = 0; j < n; ++j) ASSERT_EQ(views[j], value(first + i + j));
    i += n;
  }
  EXPECT_EQ(list.fetch(count, views), 0u);
}

TEST(ArgumentListTest, ReadsTheSameByIndexByIteratorAndInRuns) {
  for (const std::size_t count : {std::size_t{1}, std::size_t{2}, std::size_t{16}, std::size_t{17}, kMany,
                                  kMapped - 1, kMapped, kMapped + 1, 3 * kMapped}) {
    SCOPED_TRACE(count);
    expect_values(read_list(count), 0, count);
  }
}

TEST(ArgumentListTest, AnEmptyListHasNothing) {
  const ArgumentList list;
  std::array<std::string_view, 2> views;
  EXPECT_TRUE(list.empty());
  EXPECT_TRUE(list.begin() == list.end());
  EXPECT_EQ(list.fetch(0, views), 0u);
  EXPECT_EQ(list.memory_bytes(), 0u);
}

TEST(ArgumentListTest, DroppingTheFrontKeepsTheRestAndLetsBlocksGo) {
  ArgumentList list = read_list(kMany);
  const std::size_t memory = list.memory_bytes();
  list.drop_front(3);
  expect_values(list, 3, kMany - 3);
  list.drop_front(kMany - 103);
  expect_values(list, kMany - 100, 100);
  EXPECT_LT(list.memory_bytes(), memory);
  list.drop_front(100);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.payload_bytes(), 0u);
  list.drop_front(1);
  EXPECT_TRUE(list.empty());
}

TEST(ArgumentListTest, CompactingCopiesASmallRestOutOfLargeBlocks) {
  ArgumentList list = read_list(kMany);
  EXPECT_FALSE(list.compact()) << "all is wanted: nothing to gain";
  list.drop_front(kMany - 10);
  EXPECT_TRUE(list.compact());
  EXPECT_LT(list.memory_bytes(), 1024u);
  expect_values(list, kMany - 10, 10);
  EXPECT_FALSE(list.compact()) << "once is enough";
}

TEST(ArgumentListTest, AListWithAMappingIsMovedClearedAndFilledAgain) {
  ArgumentList large = read_list(2 * kMapped);
  ArgumentList small = read_list(3);
  large.swap(small);
  expect_values(large, 0, 3);
  expect_values(small, 0, 2 * kMapped);
  small.drop_front(2 * kMapped - 1);
  EXPECT_TRUE(small.compact());
  expect_values(small, 2 * kMapped - 1, 1);
  ArgumentList cleared = read_list(kMapped);
  cleared.clear();
  EXPECT_LT(cleared.memory_bytes(), 1024u);
  cleared = read_list(17);
  expect_values(cleared, 0, 17);
}

TEST(ArgumentListTest, MovingLeavesViewsValidAndTheSourceEmpty) {
  ArgumentList list = read_list(100);
  const std::string_view view = list[7];
  ArgumentList moved = std::move(list);
  EXPECT_EQ(view.data(), moved[7].data());
  list = ArgumentList();
  expect_values(moved, 0, 100);
}

TEST(ArgumentListTest, CopiesOfViewsAreItsOwn) {
  ArgumentList list;
  {
    const std::string text = "gone soon";
    const std::array<std::string_view, 3> views = {text, "", "x"};
    list = ArgumentList::copy_of(views);
  }
  ASSERT_EQ(list.size(), 3u);
  EXPECT_EQ(list[0], "gone soon");
  EXPECT_EQ(list[1], "");
  EXPECT_EQ(list[2], "x");
}

TEST(ArgumentListTest, ManyThreadsReadOneListWhileTheReaderGoesOnAndTheLastOneFreesIt) {
  // What ThreadSanitizer is to look at: a block is handed to threads, and used again by the reader
  // when they are done.
  CommandReader reader;
  for (int round = 0; round < 20; ++round) {
    auto shared = std::make_shared<ArgumentList>();
    feed(reader, "ECHO one two three\r\n", [&] {
      Command command;
      if (reader.next(command) == ReadStatus::kComplete) *shared = std::move(command.arguments);
    });
    ASSERT_EQ(shared->size(), 4u);
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([list = shared] {
        std::size_t bytes = 0;
        for (std::string_view one : *list) bytes += one.size();
        EXPECT_EQ(bytes, 15u);
      });
    }
    shared.reset();
    Transcript transcript;
    read_into(reader, "PING\r\nPING\r\n", transcript);
    EXPECT_EQ(transcript.commands.size(), 2u);
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace locksley::proto
