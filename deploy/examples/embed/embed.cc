// The scheduler of Locksley inside a program of your own, without the daemon: fork-join, a parallel
// loop, and two batches that share the workers fairly. core/EMBEDDING.md explains each step.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "core/batch/batch.h"
#include "core/batch/batch_results.h"
#include "core/batch/handler.h"
#include "core/batch/payload.h"
#include "core/lane/lane.h"
#include "core/pool/pool.h"
#include "core/tasks/parallel_for.h"
#include "core/tasks/task_group.h"

namespace {

using namespace locksley;

// Fork-join: each call spawns one half as a sub-job, computes the other half itself, and waits for
// both.
std::uint64_t fib(Context& context, std::uint64_t n) {
  if (n < 2) return n;
  std::uint64_t first = 0;
  TaskGroup group(context);
  group.spawn([&first, n](Context& inner) { first = fib(inner, n - 1); });
  const std::uint64_t second = fib(context, n - 2);
  group.wait();
  return first + second;
}

// Posts a function to the pool, and blocks the calling thread, which must not be one of the pool's
// threads, until its result is there.
template <class Work>
auto run_on(Pool& pool, Work work) {
  std::promise<std::uint64_t> promise;
  std::future<std::uint64_t> result = promise.get_future();
  pool.post([&promise, work](Context& context) { promise.set_value(work(context)); });
  return result.get();
}

// The ids of batches that are over, in the order of their ends.
class FinishOrder final : public BatchObserver {
 public:
  // Called by workers, perhaps several times for one batch; must not block.
  void batch_changed(const std::shared_ptr<Batch>& batch) override {
    if (!batch->is_over()) return;
    const std::lock_guard lock(mutex_);
    if (std::ranges::find(ids_, batch->id()) != ids_.end()) return;
    ids_.push_back(batch->id());
    changed_.notify_all();
  }
  void handler_threw(const Batch&, std::uint64_t, std::string_view) override {}
  void attempt_failed(const Batch&, std::uint64_t, JobStatus, std::string_view) override {}

  // Blocks until that many batches are over.
  std::vector<std::string> wait_for(std::size_t batches) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ids_.size() >= batches; });
    return ids_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> ids_;
};

std::shared_ptr<Batch> submit(Lane& lane, Handler& handler, BatchObserver& observer, std::string id,
                              std::uint64_t jobs) {
  BatchOptions options;
  options.id = std::move(id);
  auto batch =
      std::make_shared<Batch>(std::move(options), handler, std::make_unique<RangePayloads>(0), &observer);
  lane.submit(batch, jobs, /*open=*/false);
  return batch;
}

}  // namespace

int main() {
  // A handler outlives the lane, and the lane outlives the pool.
  Handler square("square", "the square of a number", [](JobContext& job, std::string_view payload) {
    const std::uint64_t number = std::stoull(std::string(payload));
    std::this_thread::sleep_for(std::chrono::microseconds(20));  // as if it had more to do
    job.write(std::to_string(number * number));
  });
  FinishOrder order;
  const std::uint32_t workers = std::max(1U, std::thread::hardware_concurrency());
  Lane lane("cpu", {.parallelism = workers});
  Pool pool(lane);
  pool.start(workers);

  const std::uint64_t fib_of_25 = run_on(pool, [](Context& context) { return fib(context, 25); });
  std::printf("fork-join: fib(25) = %llu\n", static_cast<unsigned long long>(fib_of_25));

  const std::uint64_t sum = run_on(pool, [](Context& context) {
    std::atomic<std::uint64_t> total{0};
    context.parallel_for(0, 1'000'000, [&total](IndexRange range) {
      std::uint64_t part = 0;
      for (std::uint64_t i = range.low; i < range.high; ++i) part += i;
      total += part;
    });
    return total.load();
  });
  std::printf("parallel loop: the numbers below 1000000 add up to %llu\n",
              static_cast<unsigned long long>(sum));

  // The small batch comes second and is over first: the two share worker time, not places in a
  // queue.
  const auto large = submit(lane, square, order, "large", 20'000);
  const auto small = submit(lane, square, order, "small", 10);
  const std::string first = order.wait_for(2).front();
  std::uint64_t squares = 0;
  large->results().read(0, large->status().rows, [&squares](const ResultRow& row) {
    squares += row.status == JobStatus::kOk ? 1 : 0;
    return true;
  });
  std::printf("batches: '%s' was over first; 'large' has %llu results\n", first.c_str(),
              static_cast<unsigned long long>(squares));
  pool.stop();
  return fib_of_25 == 75'025 && sum == 499'999'500'000 && first == "small" && squares == 20'000 ? 0 : 1;
}
