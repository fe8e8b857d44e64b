// The checksums that RocksDB's log gets are those that RocksDB itself would compute, and RocksDB
// calls them.
#include "daemon/store/embedded/fast_checksum.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <string_view>

#include "tests/support/seed.h"

namespace rocksdb::crc32c {
std::uint32_t Extend(std::uint32_t before, const char* data, std::size_t size);
}

namespace locksley::daemon {
namespace {

std::uint32_t extend(std::uint32_t before, std::string_view bytes) {
  return rocksdb::crc32c::Extend(before, bytes.data(), bytes.size());
}

// By its definition, a bit at a time.
std::uint32_t slow_extend(std::uint32_t before, std::string_view bytes) {
  constexpr std::uint32_t kPolynomial = 0x82F63B78;  // bits reversed
  std::uint32_t sum = ~before;
  for (const char byte : bytes) {
    sum ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) sum = (sum >> 1U) ^ ((sum & 1U) != 0 ? kPolynomial : 0U);
  }
  return ~sum;
}

TEST(FastChecksumTest, RocksDbCallsTheProgramsFunction) { EXPECT_TRUE(has_fast_checksums()); }

TEST(FastChecksumTest, HasTheValuesOfTheStandard) {
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  EXPECT_EQ(extend(0, std::string(32, '\0')), 0x8A9136AAU);
  EXPECT_EQ(extend(0, std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(extend(0, ascending), 0x46DD794EU);
  EXPECT_EQ(extend(0, "123456789"), 0xE3069283U);
  EXPECT_EQ(extend(0, ""), 0U);
}

TEST(FastChecksumTest, OfEveryLengthAndAlignmentIsThatOfTheDefinition) {
  std::mt19937_64 random = locksley::testing::stress_random(0);
  std::string bytes(3'000, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  for (std::size_t size = 0; size < 600; ++size) {
    const std::string_view some = std::string_view(bytes).substr(random() % 64, size);
    const auto before = static_cast<std::uint32_t>(random());
    ASSERT_EQ(extend(before, some), slow_extend(before, some)) << size;
  }
  EXPECT_EQ(extend(0, bytes), slow_extend(0, bytes));
}

TEST(FastChecksumTest, OfTwoPartsIsThatOfTheWhole) {
  const std::string whole(1'000, 'x');
  for (std::size_t cut = 0; cut <= whole.size(); cut += 37) {
    const std::string_view view(whole);
    ASSERT_EQ(extend(extend(0, view.substr(0, cut)), view.substr(cut)), extend(0, whole)) << cut;
  }
}

}  // namespace
}  // namespace locksley::daemon
