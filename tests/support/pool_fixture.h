// A lane with a pool and handlers made on the spot, for tests of what happens in process.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/batch/batch.h"
#include "core/batch/batch_results.h"
#include "core/batch/handler.h"
#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "core/tasks/context.h"

namespace locksley::testing {

using namespace std::chrono_literals;

// Waits for a condition that other threads bring about, and says what it waited for if they do not.
// The limit is far longer than any of them takes, also on a processor that other tests keep busy.
template <class Condition>
void wait_until(Condition condition, const char* what, std::chrono::seconds limit = 120s) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "timed out waiting until " << what;
    std::this_thread::sleep_for(200us);
  }
}

// Keeps the thread busy.
inline void spin_for(Nanoseconds duration) {
  const Nanoseconds end = steady_now() + duration;
  while (steady_now() < end) {
  }
}

struct Row {
  std::uint64_t index;
  JobStatus status;
  std::string output;
  friend bool operator==(const Row&, const Row&) = default;
};

inline std::vector<Row> rows_of(const Batch& batch) {
  std::vector<Row> rows;
  batch.results().read(0, ~std::uint64_t{0}, [&](const ResultRow& row) {
    rows.push_back({row.index, row.status, std::string(row.output)});
    return true;
  });
  return rows;
}

class PoolFixture : public ::testing::Test {
 protected:
  explicit PoolFixture(std::uint32_t workers = 2, Nanoseconds quantum = 1ms)
      : lane("cpu", {.quantum = quantum}), workers_(workers) {}
  void SetUp() override { pool.start(workers_); }
  void TearDown() override { pool.stop(); }

  Handler& handler(NativeHandler run) {
    handlers_.push_back(std::make_unique<Handler>("test", "", std::move(run)));
    return *handlers_.back();
  }
  std::shared_ptr<Batch> make(Handler& run, std::unique_ptr<PayloadSource> payloads,
                              BatchOptions options = {}) {
    return std::make_shared<Batch>(std::move(options), run, std::move(payloads), observer);
  }
  std::shared_ptr<Batch> submit_range(Handler& run, std::uint64_t jobs, BatchOptions options = {}) {
    auto batch = make(run, std::make_unique<RangePayloads>(0), std::move(options));
    lane.submit(batch, jobs, /*open=*/false);
    return batch;
  }
  void wait_over(const Batch& batch) {
    wait_until([&] { return batch.is_over(); }, "the batch is over");
  }

  BatchObserver* observer = nullptr;
  Lane lane;
  Pool pool{lane};

 private:
  const std::uint32_t workers_;
  std::deque<std::unique_ptr<Handler>> handlers_;
};

}  // namespace locksley::testing
