// The rows of one reply of RESULTS.
#include "daemon/server/records/results_page.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/registry_fixture.h"

namespace locksley::daemon {
namespace {

class ResultsPageTest : public RegistryFixture {
 protected:
  static constexpr std::uint64_t kMany = 1'000'000;
  static constexpr std::uint64_t kPageBytes = 256 * 1024;

  // The rows of jobs [0, count), each of which has its own publication.
  static void publish(BatchRecord& record, std::uint64_t count, std::size_t output_bytes) {
    record.jobs_added(count);
    const std::string output(output_bytes, 'x');
    for (std::uint64_t index = 0; index < count; ++index) {
      EndedJobs ended;
      ++ended.by_status[static_cast<std::size_t>(JobStatus::kOk)];
      std::vector<std::byte> bytes;
      append_row(bytes, index, JobStatus::kOk, output);
      static_cast<void>(
          record.publish({.ended = ended, .rows = {bytes, 1}, .indexes = {{index, index + 1}}}));
    }
  }
  static ResultsPage page_from(const BatchRecord& record, std::uint64_t row) {
    return results_in_memory(record, {.cursor = row + 1, .count = kMany, .max_bytes = kPageBytes}).value();
  }
};

// A batch may have a million of these.
TEST_F(ResultsPageTest, APageOfLargeRowsHoldsTheMemoryOfTheseAlone) {
  const ThreadRoleScope io_thread(kIoThread);
  constexpr std::uint64_t kRows = 1000;
  constexpr std::size_t kBytes = 5000;
  const auto record = add("a");
  publish(*record, kRows, kBytes);
  const ResultsPage page = page_from(*record, 10);
  EXPECT_GE(page.rows * (kBytes + 100), kPageBytes);
  EXPECT_EQ(page.segments.size(), page.rows);
  std::uint64_t next = 0;
  while (next < kRows) {
    const ResultsPage each = page_from(*record, next);
    ASSERT_EQ(each.first, next);
    ASSERT_GT(each.rows, 0U);
    next += each.rows;
  }
  EXPECT_EQ(next, kRows);
}

TEST_F(ResultsPageTest, APageOfSmallRowsIsFull) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = add("a");
  publish(*record, 10'000, 5);
  const ResultsPage page = page_from(*record, 1000);
  EXPECT_EQ(page.rows, kPageBytes / 45) << "5 bytes, and what surrounds them in a reply";
  EXPECT_LT(page.segments.size(), 20U);
}

}  // namespace
}  // namespace locksley::daemon
