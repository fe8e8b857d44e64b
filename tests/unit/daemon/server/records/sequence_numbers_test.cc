#include "daemon/server/records/sequence_numbers.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace locksley::daemon {
namespace {

TEST(SequenceNumbersTest, EachIsTheNextOneAndZeroIsNone) {
  SequenceNumbers numbers;
  EXPECT_EQ(numbers.next(), 1U);
  EXPECT_EQ(numbers.take(), 1U);
  EXPECT_EQ(numbers.take(), 2U);
  EXPECT_EQ(numbers.next(), 3U);
}

TEST(SequenceNumbersTest, AreRenewedBeforeTheyAreUsedUp) {
  SequenceNumbers numbers;
  std::vector<std::uint64_t> renewed;
  numbers.begin_at(5, 7, [&](std::uint64_t next) {
    renewed.push_back(next);
    return next + 3;
  });
  for (std::uint64_t number = 5; number < 12; ++number) EXPECT_EQ(numbers.take(), number);
  EXPECT_EQ(renewed, (std::vector<std::uint64_t>{7, 10}));
}

}  // namespace
}  // namespace locksley::daemon
