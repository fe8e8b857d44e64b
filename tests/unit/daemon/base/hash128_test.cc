#include "daemon/base/hash128.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace locksley::daemon {
namespace {

TEST(Hash128, IsThatOfAllBytesHoweverTheyAreDivided) {
  const std::string bytes(10'000, 'x');
  const Hash128::Value whole = Hash128::of(bytes);
  for (const std::size_t part : {1UZ, 7UZ, 256UZ, 10'000UZ}) {
    Hash128 hash;
    for (std::string_view left = bytes; !left.empty(); left.remove_prefix(std::min(part, left.size())))
      hash.add(left.substr(0, part));
    EXPECT_EQ(hash.value(), whole) << part;
  }
  EXPECT_NE(Hash128::of(std::string_view(bytes).substr(1)), whole);
}

// The store has the digests of batches, so they stay the same in later versions.
TEST(Hash128, OfNothingIsThatOfXXH3) {
  const Hash128::Value nothing = Hash128().value();
  EXPECT_EQ(nothing.high, 0x99AA06D3014798D8U);
  EXPECT_EQ(nothing.low, 0x6001C324468D497FU);
}

}  // namespace
}  // namespace locksley::daemon
