// What survives the owner: its batches, and which of their jobs have a result.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/index_range.h"
#include "core/batch/batch.h"

namespace locksley::daemon::simulation {

// A batch as its user sees it.
struct BatchPlan {
  std::string handler;
  std::string tenant = "t";
  std::uint64_t jobs = 1;
  std::uint32_t slots = 0;
  Nanoseconds cost{std::chrono::milliseconds(1)};  // of a job, about
  std::chrono::milliseconds timeout{0};
};

// Steps of batches become durable when sync() says so. One thread.
class Disk {
 public:
  struct Record {
    BatchPlan plan;
    std::vector<std::uint8_t> results;  // how often each index was recorded
    std::uint64_t ended = 0;
    std::uint64_t steps = 0;
    std::uint32_t attempt = 1;
    bool is_over() const { return ended == plan.jobs; }
  };

  // Its number.
  std::uint64_t add(BatchPlan plan) {
    Record& record = records_.emplace_back();
    record.plan = std::move(plan);
    record.results.resize(record.plan.jobs);
    return records_.size();
  }
  Record& record(std::uint64_t number) { return records_.at(number - 1); }
  std::uint64_t size() const { return records_.size(); }

  std::unique_ptr<BatchJournal> journal(std::uint64_t number) {
    return std::make_unique<Journal>(*this, number);
  }
  // The number of the last step that was recorded.
  std::uint64_t last_write() const { return last_write_; }
  // At most so many steps that wait are durable from now on. Returns the number of the last durable
  // one.
  std::uint64_t sync(std::size_t most = ~std::size_t{0});
  // Steps that are not durable are lost.
  void lose_rest() { waiting_.clear(); }
  std::uint64_t recorded_twice() const { return recorded_twice_; }

 private:
  struct Step {
    std::uint64_t write;
    std::uint64_t batch;
    std::vector<IndexRange> ended;
  };
  class Journal final : public BatchJournal {
   public:
    Journal(Disk& disk, std::uint64_t number) : disk_(disk), number_(number) {}
    void record(BatchStep step) override {
      disk_.waiting_.push_back({++disk_.last_write_, number_, std::move(step.ended)});
    }
    void wait_for_room() override {}
    std::uint64_t read_rows(std::uint64_t, std::uint64_t,
                            const std::function<bool(const ResultRow&)>&) override {
      return 0;
    }

   private:
    Disk& disk_;
    const std::uint64_t number_;
  };

  std::deque<Record> records_;
  std::deque<Step> waiting_;
  std::uint64_t last_write_ = 0;
  std::uint64_t durable_ = 0;
  std::uint64_t recorded_twice_ = 0;
};

inline std::uint64_t Disk::sync(std::size_t most) {
  for (; most != 0 && !waiting_.empty(); --most) {
    const Step step = std::move(waiting_.front());
    waiting_.pop_front();
    Record& on = record(step.batch);
    ++on.steps;
    durable_ = step.write;
    for (const IndexRange& range : step.ended) {
      for (std::uint64_t index = range.low; index < range.high; ++index) {
        if (on.results.at(index)++ != 0) ++recorded_twice_;
        ++on.ended;
      }
    }
  }
  if (waiting_.empty()) durable_ = last_write_;
  return durable_;
}

}  // namespace locksley::daemon::simulation
