// A batch by itself: a fixture whose tests play its executors, its observer, its journal and its
// readers.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/batch/batch.h"
#include "core/batch/batch_results.h"
#include "core/batch/handler.h"
#include "tests/support/pool_fixture.h"

namespace locksley::testing {

// A journal with the rows "j0", "j1", …; keeps the steps, and which rows it was asked for.
class RecordingJournal final : public BatchJournal {
 public:
  struct Record {
    std::vector<BatchStep> steps;
    std::vector<std::pair<std::uint64_t, std::uint64_t>> asked;  // first, max_rows
  };
  explicit RecordingJournal(Record& kept) : kept_(kept) {}
  void record(BatchStep step) override { kept_.steps.push_back(std::move(step)); }
  void wait_for_room() override {}
  std::uint64_t read_rows(std::uint64_t first, std::uint64_t max_rows,
                          const std::function<bool(const ResultRow&)>& visit) override {
    kept_.asked.emplace_back(first, max_rows);
    for (std::uint64_t i = 0; i < max_rows; ++i) {
      const std::string output = "j" + std::to_string(first + i);
      if (!visit({first + i, JobStatus::kOk, output})) return i;
    }
    return max_rows;
  }

 private:
  Record& kept_;
};

class CountingObserver final : public BatchObserver {
 public:
  void batch_changed(const std::shared_ptr<Batch>&) override { ++changes; }
  void handler_threw(const Batch&, std::uint64_t, std::string_view) override {}
  void attempt_failed(const Batch&, std::uint64_t index, JobStatus status, std::string_view output) override {
    attempts.push_back({index, status, std::string(output)});
  }
  // How many changes there were since the last call.
  int take() { return std::exchange(changes, 0); }
  int changes = 0;
  std::vector<Row> attempts;  // that failed and are retried
};

class BatchFixture : public ::testing::Test {
 protected:
  std::shared_ptr<Batch> make(BatchOptions options = {}) {
    return std::make_shared<Batch>(std::move(options), handler, std::make_unique<RangePayloads>(0), &observer,
                                   std::make_unique<RecordingJournal>(journal));
  }
  // Publishes these rows at once. Returns what Batch::publish() returns.
  static bool publish(Batch& batch, const std::vector<Row>& rows) {
    EndedJobs ended;
    std::vector<std::byte> bytes;
    std::vector<IndexRange> indexes;
    for (const Row& row : rows) {
      ++ended.by_status[static_cast<std::size_t>(row.status)];
      const ResultHead head{row.index, static_cast<std::uint32_t>(row.output.size()), row.status, {}};
      const std::size_t at = bytes.size();
      bytes.resize(at + ResultHead::bytes_of(row.output.size()));
      std::memcpy(bytes.data() + at, &head, sizeof head);
      std::memcpy(bytes.data() + at + sizeof head, row.output.data(), row.output.size());
      indexes.push_back({row.index, row.index + 1});
    }
    return batch.publish({.ended = ended, .rows = {bytes, rows.size()}, .indexes = std::move(indexes)});
  }
  static std::vector<std::string> read(const Batch& batch, std::uint64_t first, std::uint64_t max_rows) {
    std::vector<std::string> outputs;
    const std::uint64_t consumed = batch.results().read(first, max_rows, [&](const ResultRow& row) {
      outputs.emplace_back(row.output);
      return true;
    });
    EXPECT_EQ(consumed, outputs.size());
    return outputs;
  }
  // How many durations a histogram has.
  static std::uint64_t observations(const DurationHistogram& histogram) {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : histogram.snapshot().counts) sum += count;
    return sum;
  }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  CountingObserver observer;
  RecordingJournal::Record journal;
};

}  // namespace locksley::testing
