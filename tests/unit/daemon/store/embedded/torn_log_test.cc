#include "daemon/store/embedded/torn_log.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>

namespace locksley::daemon {
namespace {

constexpr std::size_t kBlock = 32U << 10;
constexpr std::size_t kHeader = 7;
constexpr std::size_t kSector = 512;

// Appends a record of `size` bytes, none of them zero, as RocksDB does. Returns where it begins.
std::size_t append(std::string& log, std::size_t size) {
  std::optional<std::size_t> begin;
  while (!begin || size != 0) {
    const std::size_t left = kBlock - log.size() % kBlock;
    if (left < kHeader) {
      log.append(left, '\0');
      continue;
    }
    const std::size_t length = std::min(size, left - kHeader);
    const bool is_first = !begin;
    if (is_first) begin = log.size();
    size -= length;
    const char kind = is_first ? (size == 0 ? 1 : 2) : (size == 0 ? 4 : 3);
    log.append("sums").append(1, static_cast<char>(length & 0xff)).append(1, static_cast<char>(length >> 8U));
    log.append(1, kind).append(length, 'x');
  }
  return *begin;
}

void lose(std::string& log, std::size_t begin, std::size_t end) {
  log.replace(begin, end - begin, end - begin, '\0');
}

TEST(TornLogTest, ARecordThatLacksASectorIsTornIfItIsTheLast) {
  std::string log;
  append(log, 700);
  const std::size_t last = append(log, 2000);
  log.append(4096, '\0');
  lose(log, 2 * kSector, 3 * kSector);
  EXPECT_EQ(torn_record(log, 1), last);
  lose(log, last, 2 * kSector);  // its header, too
  EXPECT_EQ(torn_record(log, 1), last);
}

TEST(TornLogTest, NothingButZerosIsNoRecord) {
  std::string log;
  append(log, 700);
  EXPECT_EQ(torn_record(log, 1), std::nullopt);
  log.append(4096, '\0');
  EXPECT_EQ(torn_record(log, 1), std::nullopt);
}

TEST(TornLogTest, ARecordThatLacksNoSectorIsDamaged) {
  std::string log;
  append(log, 700);
  append(log, 2000);
  log.append(4096, '\0');
  EXPECT_EQ(torn_record(log, 1), std::nullopt);
}

TEST(TornLogTest, ARecordThatIsNotTheLastIsDamaged) {
  std::string log;
  append(log, 700);
  append(log, 2000);
  lose(log, 2 * kSector, 3 * kSector);
  append(log, 10);
  log.append(4096, '\0');
  EXPECT_EQ(torn_record(log, 1), std::nullopt);
}

TEST(TornLogTest, ATornRecordMayCrossBlocksAndLackAnyOfItsHeaders) {
  std::string whole;
  append(whole, kBlock - 2000);
  const std::size_t last = append(whole, 2 * kBlock);
  whole.append(4096, '\0');
  for (const std::size_t lost : {last, kBlock, 2 * kBlock}) {
    std::string log = whole;
    const std::size_t sector_end = (lost / kSector + 1) * kSector;
    lose(log, lost, sector_end);
    EXPECT_EQ(torn_record(log, 1), last) << lost;
  }
}

TEST(TornLogTest, ARecordInALaterBlockMeansDamage) {
  std::string log;
  append(log, 700);
  const std::size_t middle = append(log, kBlock - 2000);
  append(log, 3000);
  const std::size_t later = append(log, 10);
  ASSERT_GT(later, kBlock);
  lose(log, middle, kSector * 4);
  EXPECT_EQ(torn_record(log, 1), std::nullopt);
}

TEST(TornLogTest, ALogThatDoesNotHaveTheRecordsIsDamaged) {
  std::string log;
  append(log, 700);
  EXPECT_EQ(torn_record(log, 2), std::nullopt);
}

}  // namespace
}  // namespace locksley::daemon
