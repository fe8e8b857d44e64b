// Results that are not ok, found without reading the others.
#include <gmock/gmock.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::count_rows;
using ::testing::ElementsAre;
using testing::ended;
using testing::StepMaker;
using testing::StoreBench;

constexpr std::uint64_t kSequence = 1;
constexpr std::uint64_t kSteps = 100;

// Makes of a store what an earlier version would have left: without marks, and without the note
// from which batch on there are any.
void make_earlier(const StoreBench& bench) {
  bench.edit([](Engine::Group& rows) {
    rows.erase(Table::kIndex, Key(kFirstMarkedKey));
    rows.erase_range(Table::kResults, mark_key(kSequence, 0), part_key(kSequence + 1, 0),
                     Engine::Group::Rows::kAllCommitted);
  });
}

// A batch with a step for each job; jobs 30 and 31 are one step, of which the second failed; job 90
// failed.
class FailedResultsTest : public ::testing::Test {
 protected:
  FailedResultsTest() {
    bench.open();
    bench.commit(accept_batch(kSequence, kSteps));
    const std::string output(1000, 'x');
    for (std::uint64_t i = 0; i < kSteps; ++i) {
      if (i == 31) continue;
      if (i == 30) {
        bench.put(steps.end_jobs({{30, 32}}, ended(1, 1),
                                 {{30, JobStatus::kOk, output}, {31, JobStatus::kError, "bad"}}));
      } else if (i == 90) {
        bench.put(steps.end_jobs({{90, 91}}, ended(0, 1), {{90, JobStatus::kError, "worse"}}));
      } else {
        bench.put(steps.end_jobs({{i, i + 1}}, ended(1, 0), {{i, JobStatus::kOk, output}}));
      }
    }
    bench.flush();
  }
  std::uint64_t read(std::uint64_t first, std::uint64_t end) {
    found.clear();
    return bench.store->journal(kSequence)->read_others(first, end,
                                                        [&](std::uint64_t place, const ResultRow& row) {
                                                          if (found.size() == most) return false;
                                                          found.emplace_back(place, std::string(row.output));
                                                          return true;
                                                        });
  }

  StoreBench bench;
  StepMaker steps{kSequence};
  std::vector<std::pair<std::uint64_t, std::string>> found;
  std::size_t most = 100;
};

TEST_F(FailedResultsTest, AreFoundFromAnyRowOn) {
  EXPECT_EQ(read(0, kSteps), kSteps);
  EXPECT_THAT(found, ElementsAre(std::pair(31, "bad"), std::pair(90, "worse")));
  EXPECT_EQ(read(31, kSteps), kSteps) << "in the middle of a step";
  EXPECT_THAT(found, ElementsAre(std::pair(31, "bad"), std::pair(90, "worse")));
  EXPECT_EQ(read(32, kSteps), kSteps);
  EXPECT_THAT(found, ElementsAre(std::pair(90, "worse")));
  EXPECT_EQ(read(0, 90), 90U) << "the row at the end is not asked for";
  EXPECT_THAT(found, ElementsAre(std::pair(31, "bad")));
  most = 1;
  EXPECT_EQ(read(0, kSteps), 90U) << "the row that was refused";
}

TEST_F(FailedResultsTest, OnlyStepsThatHaveSomeHaveAMarkAndItGoesWithThem) {
  const auto results = [&] { return count_rows(bench.raw(), kSequence, "results"); };
  bench.close();
  EXPECT_EQ(results(), kSteps - 1 + 2) << "a row for each step, and two marks";
  bench.open();
  ChangesRow changes;
  changes.discarded_rows = 50;
  bench.commit(ChangeBatch{.sequence = kSequence, .changes = changes, .freed_rows = {0, 50}});
  bench.close();
  EXPECT_EQ(results(), 50U + 1);
  bench.open();
  EXPECT_EQ(read(50, kSteps), kSteps);
  EXPECT_THAT(found, ElementsAre(std::pair(90, "worse")));
  bench.commit(ForgetBatch{kSequence});
  bench.close();
  EXPECT_EQ(results(), 0U);
}

TEST_F(FailedResultsTest, OfABatchOfAnEarlierVersionAreFoundRowByRow) {
  bench.close();
  make_earlier(bench);
  bench.open();
  EXPECT_EQ(read(0, kSteps), kSteps);
  EXPECT_THAT(found, ElementsAre(std::pair(31, "bad"), std::pair(90, "worse")));
  // A batch of this version, in the same store.
  bench.commit(accept_batch(2, 2));
  StepMaker later(2);
  bench.put(later.end_jobs({{0, 2}}, ended(1, 1), {{0, JobStatus::kOk, ""}, {1, JobStatus::kError, "new"}}));
  bench.flush();
  bench.close();
  EXPECT_EQ(count_rows(bench.raw(), 2, "results"), 2U) << "with a mark";
  EXPECT_EQ(count_rows(bench.raw(), kSequence, "results"), kSteps - 1);
}

}  // namespace
}  // namespace locksley::daemon
