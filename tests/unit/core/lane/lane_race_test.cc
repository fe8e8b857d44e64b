// Calls of a lane for one batch at a time from two threads, in all orders that chance brings about.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/batch/batch.h"
#include "core/batch/handler.h"
#include "core/batch/payload.h"
#include "core/lane/lane.h"
#include "core/lane/lane_view.h"

namespace locksley {
namespace {

// Another thread that does something to each batch while the test submits it, after a pause that
// differs.
class Meddler {
 public:
  explicit Meddler(std::function<void(Batch&)> meddle)
      : thread_([this, meddle = std::move(meddle)] { run(meddle); }) {}
  ~Meddler() {
    batch_.store(&end_);
    thread_.join();
  }
  Meddler(const Meddler&) = delete;
  Meddler& operator=(const Meddler&) = delete;
  void begin(Batch& batch) { batch_.store(&batch); }
  void await() const {
    while (batch_.load() != nullptr) std::this_thread::yield();
  }

 private:
  void run(const std::function<void(Batch&)>& meddle) {
    for (std::uint64_t round = 0;; ++round) {
      Batch* batch = nullptr;
      while ((batch = static_cast<Batch*>(batch_.load())) == nullptr) std::this_thread::yield();
      if (batch_.load() == &end_) return;
      for (std::uint64_t i = round * 7 % 301; i != 0; --i) pause_.store(i);
      meddle(*batch);
      batch_.store(nullptr);
    }
  }

  char end_ = 0;
  std::atomic<void*> batch_{nullptr};  // &end_: the thread is to end
  std::atomic<std::uint64_t> pause_{0};
  std::thread thread_;
};
constexpr int kMeddledRounds = 20'000;  // enough to fail without the order that they check, on two processors

class LaneRaceTest : public ::testing::Test {
 protected:
  std::shared_ptr<Batch> make() {
    return std::make_shared<Batch>(BatchOptions{}, handler, std::make_unique<RangePayloads>(0));
  }

  Handler handler{"test", "", [](JobContext&, std::string_view) {}};
  Lane lane{"a lane", {}};
};

TEST_F(LaneRaceTest, JobsThatAreSubmittedDuringACancellationAreCancelledOrWereNeverAdded) {
  Meddler canceller([this](Batch& batch) { lane.cancel(batch, "no"); });
  std::vector<IndexRange> ranges;
  for (std::uint64_t i = 0; i < 20; ++i) ranges.push_back({2 * i, 2 * i + 1});
  for (int round = 0; round < kMeddledRounds; ++round) {
    const auto batch = make();
    if (round % 2 == 0) {
      canceller.begin(*batch);
      lane.submit(batch, 10, /*open=*/false);
    } else {
      batch->jobs_added(ranges.size());
      batch->close();
      canceller.begin(*batch);
      lane.enqueue(batch, ranges, /*open=*/false);
    }
    canceller.await();
    const BatchStatus status = batch->status();
    ASSERT_TRUE(batch->is_over()) << "round " << round << ": queued " << status.queued;
    ASSERT_EQ(status.cancelled, status.jobs);
  }
}

TEST_F(LaneRaceTest, AReleaseDuringTheSubmissionIsNotLost) {
  Meddler releaser([this](Batch& batch) { lane.release(batch, Hold::kDelay); });
  for (int round = 0; round < kMeddledRounds; ++round) {
    const auto batch = make();
    lane.hold(*batch, Hold::kDelay);
    releaser.begin(*batch);
    lane.submit(batch, 10, /*open=*/false);
    releaser.await();
    ASSERT_FALSE(lane.view().batch(*batch).paused) << "round " << round;
    lane.cancel(*batch, "over");
  }
}

}  // namespace
}  // namespace locksley
