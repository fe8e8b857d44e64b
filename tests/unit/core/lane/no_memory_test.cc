// Large outputs when there is no memory left. Each case runs in a process of its own, which may use
// little more memory than its output takes.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "core/batch/handler.h"
#include "core/lane/result_writer.h"
#include "tests/support/batch_fixture.h"

namespace locksley {
namespace {

using ::testing::ElementsAre;
using testing::Row;
using testing::rows_of;

constexpr std::size_t kLarge = 64 << 20;  // larger than what the allocator keeps for later
constexpr std::size_t kFirstBuffer = 128 * 1024;

// No allocation of kLarge succeeds any more.
void use_up_memory() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t most = pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) + kLarge / 4;
  const rlimit limit{most, most};
  if (::setrlimit(RLIMIT_AS, &limit) != 0) std::abort();
}

class NoMemoryDeathTest : public ::testing::Test {
 protected:
  NoMemoryDeathTest() {
    batch->jobs_added(10);
    writer.begin_batch(*batch);
    writer.begin_burst(0);
  }
  void run(std::uint64_t index, std::size_t size, JobStatus status = JobStatus::kOk) {
    writer.begin_job(index);
    writer.write(std::string(size, 'x'));
    writer.end_job(status);
  }
  // The next of 2,000 jobs, whose output the log of results copies.
  void end_next(JobStatus status) { run(ended++, kCopied, status); }
  // Until the log has begun a chunk of kChunk; then until that is nearly full.
  void fill_chunk(JobStatus status) {
    batch->jobs_added(2000);
    for (std::uint64_t before = 0; batch->memory_bytes() - before < kChunk;) {
      before = batch->memory_bytes();
      end_next(status);
      (void)writer.publish();
    }
    for (std::size_t i = 0; i < kChunk / kCopied - 20; ++i) {
      end_next(status);
      (void)writer.publish();
    }
  }
  // All memory that is left for chunks: a list of blocks, each of which begins with the address of
  // the next.
  static void* take_chunks() {
    void* taken = nullptr;
    while (void* const more = ::operator new(kChunk, std::nothrow)) {
      *static_cast<void**>(more) = std::exchange(taken, more);
    }
    return taken;
  }
  static void give_back(void* taken) {
    while (taken != nullptr) ::operator delete(std::exchange(taken, *static_cast<void**>(taken)));
  }
  // Ends the process: with 0 if the rows are these.
  template <class... Rows>
  [[noreturn]] void finish(const Rows&... rows) {
    const std::vector<Row> expected{rows...};
    const std::vector<Row> found = rows_of(*batch);
    for (const Row& row : found) {
      std::fprintf(stderr, "job %d %.100s\n", static_cast<int>(row.index), row.output.c_str());
    }
    std::_Exit(found == expected ? 0 : 1);
  }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  std::shared_ptr<Batch> batch =
      std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(0));
  ResultWriter writer;
  static constexpr std::size_t kChunk = 256 << 10;  // the largest of the log
  static constexpr std::size_t kCopied = 2000;
  std::uint64_t ended = 0;
};

const std::string kWhy = "no memory for an output of " + std::to_string(kLarge) + " bytes";

TEST_F(NoMemoryDeathTest, WithoutACopyForReadersTheJobEndsAsAnError) {
  const auto publish = [&] {
    run(0, 2000);
    run(1, kLarge);
    run(2, 3000, JobStatus::kCancelled);
    use_up_memory();
    if (writer.end_batch() != ResultWriter::Outcome::kPublished) std::abort();
    if (batch->status().ok != 1 || batch->status().failed != 1) std::abort();
    finish(Row{0, JobStatus::kOk, std::string(2000, 'x')}, Row{1, JobStatus::kError, kWhy},
           Row{2, JobStatus::kCancelled, std::string(3000, 'x')});
  };
  EXPECT_EXIT(publish(), ::testing::ExitedWithCode(0), "");
}

TEST_F(NoMemoryDeathTest, SoItDoesBesideAFailedJob) {
  const auto publish = [&] {
    writer.set_worker("pool/0");
    run(0, 20, JobStatus::kError);
    run(1, kLarge);
    use_up_memory();
    (void)writer.end_batch();
    finish(Row{0, JobStatus::kError, std::string(20, 'x')}, Row{1, JobStatus::kError, kWhy});
  };
  EXPECT_EXIT(publish(), ::testing::ExitedWithCode(0), "");
}

// Of few bytes, which the log of results copies into a chunk of many publications: it needs a new
// one.
TEST_F(NoMemoryDeathTest, WithoutANewChunkForFewBytesNothingIsRecorded) {
  for (const JobStatus status : {JobStatus::kOk, JobStatus::kError}) {
    const auto publish = [&] {
      fill_chunk(status);
      use_up_memory();
      void* const taken = take_chunks();
      do {
        end_next(status);
      } while (writer.publish_for_worker([](Batch&) {}) == ResultWriter::Outcome::kPublished);
      const BatchStatus refused = batch->status();
      if (refused.ok + refused.failed != ended - 1 || refused.rows != ended - 1) std::_Exit(1);
      give_back(taken);
      (void)writer.end_batch();
      const BatchStatus recorded = batch->status();
      std::_Exit(recorded.ok + recorded.failed == ended && recorded.rows == ended ? 0 : 2);
    };
    EXPECT_EXIT(publish(), ::testing::ExitedWithCode(0), "") << to_string(status);
  }
}

// Else the job would have lost its retry when the publication is repeated.
TEST_F(NoMemoryDeathTest, SoNoJobIsRetriedBeforeThereIsAChunk) {
  const auto publish = [&] {
    BatchOptions options;
    options.retries = 1;
    writer.end_batch();
    batch = std::make_shared<Batch>(std::move(options), handler, std::make_unique<RangePayloads>(0));
    batch->jobs_added(10);
    writer.begin_batch(*batch);
    writer.begin_burst(0);
    fill_chunk(JobStatus::kOk);
    use_up_memory();
    void* const taken = take_chunks();
    do {
      end_next(JobStatus::kOk);
    } while (writer.publish_for_worker([](Batch&) {}) == ResultWriter::Outcome::kPublished);
    end_next(JobStatus::kError);
    if (writer.publish_for_worker([](Batch&) {}) != ResultWriter::Outcome::kNothing) std::_Exit(1);
    if (batch->status().retried != 0) std::_Exit(2);
    give_back(taken);
    (void)writer.end_batch();
    const BatchStatus recorded = batch->status();
    std::_Exit(recorded.ok == ended - 1 && recorded.retried == 1 && recorded.failed == 0 ? 0 : 3);
  };
  EXPECT_EXIT(publish(), ::testing::ExitedWithCode(0), "");
}

TEST_F(NoMemoryDeathTest, TheMonitorLeavesThePublicationToTheWorker) {
  const auto publish = [&] {
    run(0, kLarge);
    use_up_memory();
    if (writer.publish_for_worker([](Batch&) {}) != ResultWriter::Outcome::kNothing) std::abort();
    (void)writer.publish();
    finish(Row{0, JobStatus::kError, kWhy});
  };
  EXPECT_EXIT(publish(), ::testing::ExitedWithCode(0), "");
}

// The buffer would have to become larger for the next job.
TEST_F(NoMemoryDeathTest, WithoutRoomForTheNextJobTheJobEndsAsAnError) {
  for (const bool has_facts : {false, true}) {
    const auto end = [&] {
      writer.begin_job(0);
      writer.write(std::string(kFirstBuffer - sizeof(ResultHead), 'x'));
      // The buffer grows to twice its size, and then is full.
      for (std::size_t buffer = kFirstBuffer; buffer < kLarge; buffer *= 2) {
        writer.write("x");
        writer.write(std::string(buffer - 1, 'x'));
      }
      use_up_memory();
      std::string facts = "facts";
      has_facts ? writer.end_job(JobStatus::kOk, facts) : writer.end_job(JobStatus::kOk);
      run(1, 5);
      (void)writer.end_batch();
      const std::vector<Row> rows = rows_of(*batch);
      std::_Exit(rows.size() == 2 && rows[0].status == JobStatus::kError && rows[1].output == "xxxxx" ? 0
                                                                                                      : 1);
    };
    EXPECT_EXIT(end(), ::testing::ExitedWithCode(0), "") << has_facts;
  }
}

TEST_F(NoMemoryDeathTest, AHandlerThatWritesTooMuchIsTold) {
  const auto write = [&] {
    const std::string given(kLarge, 'x');
    use_up_memory();
    writer.begin_job(0);
    try {
      writer.write(given);
    } catch (const std::bad_alloc& error) {
      std::_Exit(error.what() == kWhy ? 0 : 1);
    }
    std::_Exit(2);
  };
  EXPECT_EXIT(write(), ::testing::ExitedWithCode(0), "");
}

TEST_F(NoMemoryDeathTest, AGivenOutputForWhichThereIsNoRoomBecomesAnError) {
  const auto end = [&] {
    const std::string given(kLarge, 'x');
    const std::string_view both[] = {given, "small"};
    use_up_memory();
    writer.end_jobs(JobStatus::kOk, 0, both);
    writer.begin_job(2);
    writer.replace_output(given);
    writer.end_job(JobStatus::kError);
    (void)writer.end_batch();
    finish(Row{0, JobStatus::kError, kWhy}, Row{1, JobStatus::kOk, "small"},
           Row{2, JobStatus::kError, std::string(1024, 'x')});
  };
  EXPECT_EXIT(end(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace locksley
