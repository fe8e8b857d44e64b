// What the store's reader has read for a client that has left meanwhile.
#include "daemon/server/batches/stored/store_reads.h"

#include <gtest/gtest.h>

#include <asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "tests/support/registry_fixture.h"
#include "tests/support/store_fixture.h"

namespace locksley::daemon {
namespace {

// Has rows of the same output.
class LargeRows final : public BatchJournal {
 public:
  explicit LargeRows(std::size_t bytes) : output_(bytes, 'x') {}
  void record(BatchStep) override {}
  void wait_for_room() override {}
  std::uint64_t read_rows(std::uint64_t first, std::uint64_t max_rows,
                          const std::function<bool(const ResultRow&)>& visit) override {
    for (std::uint64_t i = 0; i < max_rows; ++i) {
      if (!visit({first + i, JobStatus::kOk, output_})) return i;
    }
    return max_rows;
  }

 private:
  const std::string output_;
};

class StoreReadsTest : public RegistryFixture {
 protected:
  ~StoreReadsTest() override { store_->stop(); }

  std::shared_ptr<BatchRecord> with_row_of(std::size_t bytes) LOCKSLEY_REQUIRES(kIoThread) {
    const auto record = add(std::to_string(bytes), "default", std::make_unique<LargeRows>(bytes));
    BatchHistory history;
    history.jobs = history.rows = 1;
    history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = 1;
    record->restore(history);
    return record;
  }
  // Until the read has ended.
  void run(const bool& has_ended) {
    while (!has_ended) {
      io_.restart();
      io_.run_for(std::chrono::milliseconds(10));
    }
  }

  static constexpr ResultsDemand kFirst{.cursor = 0, .count = 1, .max_bytes = 1000};
  const std::shared_ptr<int> client_ = std::make_shared<int>();  // that waits
  asio::io_context io_;
  Slices slices_{io_.get_executor()};
  testing::StoreBench bench_;
  std::unique_ptr<Store> store_ = std::move(Store::open(bench_.options(), testing::silent_log()).value());
  // Its only thread starts with the first task.
  int freed_aside_ = 0;
  Reader aside_{1, [this](std::move_only_function<void()> function) {
                  ++freed_aside_;
                  return std::thread(std::move(function));
                }};
  StoreReads reads_{
      {.io = io_, .slices = slices_, .registry = registry_, .store = store_.get(), .aside = aside_}};
};

TEST_F(StoreReadsTest, ALargePageForWhichNoClientWaitsIsFreedOnAnotherThread) {
  const ThreadRoleScope io_thread(kIoThread);
  bool has_ended = false;
  reads_.read_rows(with_row_of(2U << 20), kFirst, client_, [&](const StoreReads::ReadRows& read) {
    EXPECT_GT(read.memory_bytes(), 2U << 20);
    has_ended = true;
  });
  run(has_ended);
  EXPECT_EQ(freed_aside_, 1);
}

TEST_F(StoreReadsTest, APageForWhichACommandWaitsStaysAsItIs) {
  const ThreadRoleScope io_thread(kIoThread);
  bool has_ended = false;
  const auto read = reads_.read_rows(with_row_of(2U << 20), kFirst, client_,
                                     [&](const StoreReads::ReadRows&) { has_ended = true; });
  run(has_ended);
  EXPECT_EQ(freed_aside_, 0);
  ASSERT_TRUE(read->page.has_value());
  EXPECT_EQ(read->page->rows, 1U);
}

TEST_F(StoreReadsTest, APageForWhichNoClientWaitsAnyMoreIsNotRead) {
  const ThreadRoleScope io_thread(kIoThread);
  auto client = std::make_shared<int>();
  bool was_told = false;
  std::promise<void> left;
  store_->read([&] { left.get_future().get(); });
  const auto read = reads_.read_rows(with_row_of(2U << 20), kFirst, client,
                                     [&](const StoreReads::ReadRows&) { was_told = true; });
  client.reset();
  left.set_value();
  run(read->is_done);
  EXPECT_EQ(read->memory_bytes(), ResultsPage{}.memory_bytes());
  EXPECT_FALSE(was_told);
}

}  // namespace
}  // namespace locksley::daemon
