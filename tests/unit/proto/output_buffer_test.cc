#include "proto/output_buffer.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <random>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace locksley::proto {
namespace {

TEST(OutputBufferTest, BytesComeOutAsTheyWentInWhateverTheSizes) {
  std::mt19937_64 random(20261121);
  OutputBuffer buffer;
  std::string expected;
  for (int i = 0; i < 3000; ++i) {
    const std::size_t n = std::uniform_int_distribution<std::size_t>(0, i % 50 == 0 ? 700'000 : 300)(random);
    const std::string bytes(n, static_cast<char>('a' + i % 26));
    buffer.append(bytes);
    expected += bytes;
    if (i % 7 != 0) continue;
    const std::size_t taken = std::uniform_int_distribution<std::size_t>(0, expected.size())(random);
    std::array<std::string_view, 64> views;
    const std::size_t count = buffer.gather(views);
    std::string front;
    for (std::size_t v = 0; v < count && front.size() < taken; ++v) front += views[v];
    if (front.size() >= taken) {
      ASSERT_EQ(front.substr(0, taken), expected.substr(0, taken));
    }
    buffer.consume(taken);
    expected.erase(0, taken);
    ASSERT_EQ(buffer.size(), expected.size());
    ASSERT_EQ(buffer.to_string(taken), expected.substr(0, taken));
  }
  EXPECT_EQ(buffer.to_string(), expected);
}

TEST(OutputBufferTest, ViewsAreCopiedByNobodyAndMixWithBytesOfItsOwn) {
  const std::string large(300'000, 'l');
  OutputBuffer views = OutputBuffer::of_views();
  OutputBuffer copies;
  std::string expected;
  for (OutputBuffer* const buffer : {&views, &copies}) {
    for (int i = 0; i < 3; ++i) {
      buffer->append("head");
      buffer->append_large(large);
      buffer->append_large(std::string_view(large).substr(1));
    }
    buffer->append("tail");
  }
  for (int i = 0; i < 3; ++i) expected += "head" + large + large.substr(1);
  expected += "tail";
  EXPECT_EQ(views.to_string(), expected);
  EXPECT_EQ(copies.to_string(), expected);
  EXPECT_LT(views.memory_bytes(), 20'000U);
  std::array<std::string_view, 2> first;
  ASSERT_EQ(views.gather(first), 2U);
  EXPECT_EQ(first[1].data(), large.data());
  OutputBuffer copy;
  while (!views.empty()) {
    views.gather(first);
    const std::string_view some = first[0].substr(0, 65'536);
    copy.append(some);
    views.consume(some.size());
  }
  EXPECT_EQ(copy.to_string(), expected);
  views.append_large(large);
  views.consume(large.size());
  views.append("its own bytes again");
  EXPECT_EQ(views.to_string(), "its own bytes again");
  EXPECT_EQ(large, std::string(300'000, 'l'));
}

TEST(OutputBufferTest, ManyBytesOfAnotherBufferAreTakenOverWithoutACopy) {
  for (const std::size_t size : {std::size_t{10}, std::size_t{100'000}, std::size_t{1'000'000}}) {
    OutputBuffer from;
    for (std::size_t i = 0; i < size; i += 10) from.append("0123456789");
    from.consume(3);
    const std::string expected = "before" + from.to_string() + "after";
    std::array<std::string_view, 2> views;
    from.gather(views);
    const char* const begin = views[0].data();
    OutputBuffer to;
    to.append("before");
    to.append(std::move(from));
    EXPECT_TRUE(from.empty());
    EXPECT_EQ(to.size(), expected.size() - 5);
    EXPECT_EQ(to.gather(views) == 2 && views[1].data() == begin, size >= 100'000) << size;
    to.append("after");
    EXPECT_EQ(to.to_string(), expected);
    to.consume(to.size());
    to.append("and again");
    EXPECT_EQ(to.to_string(), "and again");
  }
}

TEST(OutputBufferTest, AppendingMovesNothingThatIsBeingWritten) {
  OutputBuffer buffer;
  buffer.append("first");
  std::array<std::string_view, 4> views;
  ASSERT_EQ(buffer.gather(views), 1u);
  const std::string_view first = views[0];
  for (int i = 0; i < 1000; ++i) buffer.append(std::string(1000, 'x'));
  EXPECT_EQ(first, "first");
  ASSERT_GE(buffer.gather(views), 1u);
  EXPECT_EQ(views[0].data(), first.data());
}

TEST(OutputBufferTest, ReservedBytesAreInOnePieceAndCountOnceCommitted) {
  OutputBuffer buffer;
  buffer.append(std::string(OutputBuffer::kFirstChunkBytes - 1, 'a'));
  char* const space = buffer.reserve(100'000);
  std::fill_n(space, 100'000, 'b');
  EXPECT_EQ(buffer.size(), OutputBuffer::kFirstChunkBytes - 1);
  buffer.commit(50'000);
  EXPECT_EQ(buffer.to_string(),
            std::string(OutputBuffer::kFirstChunkBytes - 1, 'a') + std::string(50'000, 'b'));
}

TEST(OutputBufferTest, MemoryFollowsWhatIsUnwritten) {
  OutputBuffer buffer;
  buffer.append(std::string(10'000'000, 'x'));
  buffer.consume(buffer.size());
  EXPECT_LT(buffer.memory_bytes(), 2 * OutputBuffer::kChunkBytes);
  buffer.append("y");
  buffer.release();
  EXPECT_EQ(buffer.to_string(), "y") << "release() keeps what is not written";
  buffer.consume(1);
  buffer.release();
  EXPECT_LT(buffer.memory_bytes(), 1024u);
}

bool is_mapped(const char* address) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  const std::uintptr_t start = reinterpret_cast<std::uintptr_t>(address) / page * page;
  unsigned char is_in_memory = 0;
  return ::mincore(reinterpret_cast<void*>(start), 1, &is_in_memory) == 0;
}

TEST(OutputBufferTest, LargeChunksGoBackToTheSystemWhateverTheAllocatorKeeps) {
  constexpr std::size_t kChunks = 64;
  constexpr std::size_t kKept = 8;
  // From now on the allocator takes blocks up to this size from its heap.
  EXPECT_EQ(std::string(16 << 20, 'z').back(), 'z');
  OutputBuffer buffer;
  while (buffer.size() < (kChunks + 1) * OutputBuffer::kChunkBytes) buffer.append(std::string(16 << 10, 'x'));
  std::array<std::string_view, 2 * kChunks> views;
  const std::size_t count = buffer.gather(views);
  std::vector<const char*> chunks;
  for (const std::string_view view : std::span(views).first(count)) {
    if (view.size() == OutputBuffer::kChunkBytes) chunks.push_back(view.data());
  }
  ASSERT_GE(chunks.size(), kChunks);
  EXPECT_EQ(std::ranges::count_if(chunks, is_mapped), std::ssize(chunks));
  buffer.clear();
  EXPECT_LE(std::ranges::count_if(chunks, is_mapped), kKept);
}

TEST(OutputBufferTest, LargeChunksAreUsedAgain) {
  // Where the chunks of 64 KiB and of 256 KiB lie.
  const auto large_chunks = [] {
    OutputBuffer buffer;
    while (buffer.size() < 512U << 10) buffer.append(std::string(4 << 10, 'x'));
    std::array<std::string_view, 16> views;
    std::set<const char*> places;
    for (const std::string_view view : std::span(views).first(buffer.gather(views))) {
      if (view.size() >= 64U << 10) places.insert(view.data());
    }
    return places;
  };
  const auto places = large_chunks();
  EXPECT_GE(places.size(), 2U);
  EXPECT_EQ(large_chunks(), places);
}

TEST(OutputBufferTest, AMovedFromBufferIsEmptyAndUsable) {
  OutputBuffer buffer;
  buffer.append("abc");
  OutputBuffer moved = std::move(buffer);
  buffer = OutputBuffer();
  buffer.append("def");
  EXPECT_EQ(moved.to_string(), "abc");
  EXPECT_EQ(buffer.to_string(), "def");
}

}  // namespace
}  // namespace locksley::proto
