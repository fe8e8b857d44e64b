// Several payloads as one value of the store.

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "daemon/store/rows/rows.h"
#include "tests/support/store_rows.h"

namespace locksley::daemon {
namespace {

using testing::Bounded;
using testing::RandomRows;

TEST(StorePayloadChunkTest, FindsEachPayload) {
  RandomRows values(9);
  for (int i = 0; i < 50; ++i) {
    const std::vector<std::string> payloads = values.texts();
    const std::vector<std::string_view> views(payloads.begin(), payloads.end());
    const Bounded bytes(encode_payload_chunk(views));
    const auto chunk = PayloadChunk::of(bytes);
    ASSERT_TRUE(chunk.has_value());
    ASSERT_EQ(chunk->size(), payloads.size());
    for (std::size_t at = payloads.size(); at-- > 0;) EXPECT_EQ((*chunk)[at], payloads[at]);
  }
}

std::string chunk_bytes(const std::vector<std::uint32_t>& numbers, std::string_view payloads) {
  std::string bytes(numbers.size() * sizeof(std::uint32_t), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes.append(payloads);
}

TEST(StorePayloadChunkTest, RefusesEndsThatCannotBe) {
  EXPECT_TRUE(PayloadChunk::of(Bounded(chunk_bytes({2, 1, 3}, "abc"))).has_value());
  EXPECT_TRUE(PayloadChunk::of(Bounded(chunk_bytes({0}, ""))).has_value());
  EXPECT_FALSE(PayloadChunk::of(Bounded("")).has_value()) << "no number";
  EXPECT_FALSE(PayloadChunk::of(Bounded("abc")).has_value()) << "half a number";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({2, 1}, ""))).has_value()) << "an end is missing";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({2, 3, 1}, "abc"))).has_value()) << "descending";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({2, 4, 3}, "abc"))).has_value())
      << "one beyond the others";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({2, 1, 4}, "abc"))).has_value()) << "beyond the bytes";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({2, 1, 2}, "abc"))).has_value())
      << "before the bytes' end";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({0}, "abc"))).has_value()) << "bytes of no payload";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({0xFFFFFFFF, 1}, "abc"))).has_value())
      << "more than there are";
}

TEST(StorePayloadChunkTest, IsRefusedWhenItIsTruncated) {
  const std::vector<std::string_view> payloads{"first", "", "third"};
  const std::string whole = encode_payload_chunk(payloads);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(PayloadChunk::of(Bounded(std::string_view(whole).substr(0, size))).has_value()) << size;
  }
}

}  // namespace
}  // namespace locksley::daemon
