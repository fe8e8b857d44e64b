// What a crash in the middle of a write leaves, and the next start makes of it.

#include <gmock/gmock.h>

#include "daemon/store/store.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/rocks_disk.h"
#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::add_jobs;
using testing::count_rows;
using testing::FaultyFileSystem;
using testing::files_of;
using testing::is_same;
using ::testing::IsEmpty;
using testing::open_batch;
using testing::StepMaker;
using testing::StoreBench;
using Tail = FaultyFileSystem::Tail;
using testing::large_payloads;

TEST(StoreCrashTest, PayloadsOfABatchThatACrashCutAreRemovedAtTheNextStart) {
  int orphans = 0;
  for (std::uint64_t operations = 0;; ++operations) {
    ASSERT_LT(operations, 100U);
    StoreBench bench;
    bench.open();
    bench.commit(accept_batch(1, 3));
    AcceptBatch large{.sequence = 5, .row = {}, .payloads = testing::payloads_of(large_payloads())};
    large.row.jobs = large_payloads().size();
    // The process ends; the system has everything that it wrote.
    files_of(bench).cut_power(operations);
    const bool was_taken = bench.outcomes->await(bench.store->put(large, Urgency::kAwaited)).error.empty();
    files_of(bench).cut_power();
    bench.close();
    files_of(bench).restore_power();
    if (was_taken) break;
    testing::Picture found = bench.open();
    if (found.contains(5)) continue;  // everything was written, and only the sync failed
    EXPECT_TRUE(is_same(found, bench.model.picture()));
    const bool had_orphans = bench.store->next_sequence() == 6;
    orphans += had_orphans ? 1 : 0;
    bench.flush();
    bench.close();
    EXPECT_THAT(rows_of_nothing(bench.raw(), bench.model), IsEmpty()) << operations;
  }
  EXPECT_GT(orphans, 0) << "this shows nothing";
}

// The disk may have a batch that was refused. Its end is then written with the writes that were
// kept, and the process ends before the batch is forgotten.
TEST(StoreCrashTest, RowsOfABatchThatIsNotThereDoNotBecomeTheNextBatchs) {
  StoreBench bench;
  bench.open();
  bench.commit(accept_batch(1, 3));
  StepMaker steps(2);
  bench.store->put(StepMaker::as_last(steps.cancel_jobs({0, 5}, "the store refused the batch")),
                   Urgency::kWithNext);
  ChangesRow changes;
  changes.is_cancelled = true;
  EXPECT_EQ(bench.outcomes
                ->await(bench.store->put(ChangeBatch{.sequence = 3, .changes = changes}, Urgency::kAwaited))
                .error,
            "");
  for (int batches = 0; batches < 2; ++batches) {
    bench.reopen();
    bench.commit(accept_batch(bench.store->next_sequence(), 7));
    EXPECT_TRUE(is_same(bench.reopen(), bench.model.picture()));
  }
}

TEST(StoreCrashTest, JobsThatAreAddedAppearWholeOrNotAtAll) {
  for (std::uint64_t operations = 0;; ++operations) {
    StoreBench bench(operations);
    bench.open();
    bench.commit(open_batch(1));
    bench.commit(add_jobs(1, 0, {"a", "b"}));
    const testing::Picture before = bench.model.picture();
    files_of(bench).cut_power(operations);
    const Ticket ticket = bench.put(add_jobs(1, 2, large_payloads()));
    const bool was_taken = bench.outcomes->await(ticket).error.empty();
    files_of(bench).cut_power();
    bench.close();
    files_of(bench).lose_power(Tail::kTorn);
    const testing::Picture after = bench.open();
    if (after != before || was_taken) {
      EXPECT_TRUE(is_same(after, bench.model.picture())) << operations;
    }
    if (was_taken) break;
    ASSERT_LT(operations, 100U);
    if (after != before) continue;
    // As the server does with open batches.
    ChangesRow changes;
    changes.jobs = 2;
    EXPECT_EQ(
        bench.outcomes
            ->await(bench.store->put(ChangeBatch{.sequence = 1, .changes = changes, .trims_payloads = true},
                                     Urgency::kAwaited))
            .error,
        "");
    bench.close();
    EXPECT_EQ(count_rows(bench.raw(), 1, "payloads"), 1U) << operations;
  }
}

}  // namespace
}  // namespace locksley::daemon
