#include "core/pool/pool.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "core/base/check.h"
#include "core/batch/handler.h"
#include "core/lane/lane_view.h"
#include "core/pool/monitor.h"
#include "core/pool/worker.h"
#include "core/sync/idle.h"
#include "core/tasks/context.h"

namespace locksley {

// The queue of posted functions: an internal batch that stays open, with one job for each function.
//
// Owned by the pool. Any thread may post; workers run the jobs. A mutex is held only to move a
// function.
class Pool::DefaultQueue {
 public:
  explicit DefaultQueue(Lane& lane)
      : lane_(lane),
        handler_("post", "posted functions",
                 [this](JobContext& context, std::string_view) { run_next(context); }),
        batch_(std::make_shared<Batch>(default_options(), handler_, std::make_unique<NoPayloads>())) {
    lane_.submit(batch_, 0, /*open=*/true);
  }
  ~DefaultQueue() { lane_.cancel(*batch_, "the pool has stopped"); }
  DefaultQueue(const DefaultQueue&) = delete;
  DefaultQueue& operator=(const DefaultQueue&) = delete;

  void post(std::move_only_function<void(Context&)> function) LOCKSLEY_EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      functions_.push_back(std::move(function));
    }
    lane_.add_jobs(*batch_, 1);
  }
  void on_error(std::function<void(std::exception_ptr)> function) LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    on_error_ = std::move(function);
  }

 private:
  static BatchOptions default_options() {
    BatchOptions options;
    options.id = "post";
    options.keep = Keep::kNone;
    options.is_internal = true;
    return options;
  }

  class NoPayloads final : public PayloadSource {
   public:
    std::size_t fetch(std::uint64_t, std::span<std::string_view> out, std::string&) override {
      std::fill(out.begin(), out.end(), std::string_view{});
      return out.size();
    }
    std::uint64_t memory_bytes() const override { return 0; }
  };

  void run_next(Context& context) LOCKSLEY_EXCLUDES(mutex_) {
    try {
      take()(context);
    } catch (...) {
      report(std::current_exception());
      throw;  // the job counts as failed
    }
  }

  std::move_only_function<void(Context&)> take() LOCKSLEY_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    auto function = std::move(functions_.front());
    functions_.pop_front();
    return function;
  }

  // noexcept: without a function to call, or if that throws, the process ends.
  void report(std::exception_ptr exception) noexcept LOCKSLEY_EXCLUDES(mutex_) {
    std::function<void(std::exception_ptr)> on_error;
    {
      const MutexLock lock(mutex_);
      on_error = on_error_;
    }
    if (!on_error) std::rethrow_exception(exception);
    on_error(std::move(exception));
  }

  // Constant.
  Lane& lane_;
  Handler handler_;
  const std::shared_ptr<Batch> batch_;

  Mutex mutex_;
  // One function for each job that has not started.
  std::deque<std::move_only_function<void(Context&)>> functions_ LOCKSLEY_GUARDED_BY(mutex_);
  std::function<void(std::exception_ptr)> on_error_ LOCKSLEY_GUARDED_BY(mutex_);
};

Pool::Pool(Lane& lane)
    : lane_(lane),
      common_idle_(std::make_unique<Idle>()),
      reserved_idle_(std::make_unique<Idle>()),
      depot_(std::make_unique<TaskDepot>()),
      monitor_(std::make_unique<Monitor>(*this)),
      table_(std::make_unique<std::atomic<Worker*>[]>(kMaxWorkers)) {
  check(!lane_.has_owner(),
        "a lane gets a second pool: destroy the first one before, or make a lane for each");
  lane_.on_work([this] {
    common_idle_->notify();
    wake_reserved();
  });
  lane_.on_wait([this] { monitor_->waits_changed(); });
  default_queue_ = std::make_unique<DefaultQueue>(lane_);
}

Pool::~Pool() {
  stop();
  default_queue_.reset();
  lane_.on_work(nullptr);
  lane_.on_wait(nullptr);
}

void Pool::start(std::uint32_t workers, std::uint32_t reserved) {
  const MutexLock lock(mutex_);
  check(!running_, "a pool is started twice");
  check_count(workers, reserved);
  reserved_.store(reserved);
  if (reserved != 0) lane_.set_brief_job(lane_.quantum());
  monitor_thread_ = monitor_->start();
  running_ = true;
  resize(workers);
}

void Pool::set_workers(std::uint32_t workers) {
  check_caller();
  const MutexLock lock(mutex_);
  check_count(workers, reserved_.load());
  if (running_) resize(workers);
}

void Pool::set_quantum(Nanoseconds quantum) {
  lane_.set_quantum(quantum);
  if (reserved_.load() != 0) lane_.set_brief_job(quantum);
  wake_reserved();  // batches may have become brief
}

void Pool::check_count(std::uint32_t workers, std::uint32_t reserved) {
  if (workers < 1 || workers > kMaxWorkers || workers <= reserved) {
    throw std::invalid_argument("a pool has 1 to " + std::to_string(kMaxWorkers) +
                                " workers, and more than its " + std::to_string(reserved) +
                                " reserved ones, not " + std::to_string(workers));
  }
}

void Pool::wake_reserved() {
  if (reserved_.load() != 0 && lane_.hints().has_work(ClaimFilter::kBrief)) reserved_idle_->notify();
}

void Pool::resize(std::uint32_t workers) {
  const std::uint32_t before = workers_.load();
  const auto announce = [this](std::uint32_t count) {
    const std::uint32_t reserved = reserved_.load();
    common_idle_->set_workers(count > reserved ? count - reserved : 1);
    reserved_idle_->set_workers(reserved);
    lane_.set_parallelism(std::max<std::uint32_t>(count, 1));
  };
  announce(workers);
  threads_.reserve(workers);  // now, since lack of memory after a start would lose the thread
  // A worker is counted once its thread runs: if a thread cannot be started, the pool has those
  // before it.
  for (std::uint32_t i = before; i < workers; ++i) {
    if (i == owned_.size()) {
      owned_.push_back(std::make_unique<Worker>(*this, i));
      table_[i].store(owned_[i].get());
      made_.store(i + 1);
    }
    try {
      threads_.push_back(owned_[i]->start());
    } catch (...) {
      announce(i);
      throw;
    }
    workers_.store(i + 1);
  }
  workers_.store(workers);
  for (std::uint32_t i = workers; i < before; ++i) owned_[i]->ask_to_leave();
  if (workers < before) {
    common_idle_->wake_all();
    reserved_idle_->wake_all();
  }
  for (; threads_.size() > workers; threads_.pop_back()) threads_.back().join();
}

bool Pool::has_free_worker() const { return common_idle_->has_free_worker(); }

void Pool::check_caller() const {
  for (std::uint32_t i = 0, count = made_.load(); i < count; ++i) {
    check(!worker(i).is_own_thread(),
          "a worker calls stop(), drain() or set_workers() of its pool, and would wait for itself");
  }
}

bool Pool::drain(Instant deadline) {
  check_caller();
  // Polled: a process drains once in its life, and a millisecond more or less does not matter then.
  for (;;) {
    const RingTotals ring = lane_.view().totals();
    if (ring.queued == 0 && ring.claimed == 0 && ring.executors == 0) return true;
    const Instant now = locksley::now();
    if (now >= deadline) return false;
    std::this_thread::sleep_for(std::min<Nanoseconds>(deadline - now, std::chrono::milliseconds(1)));
  }
}

void Pool::stop() {
  check_caller();
  const MutexLock lock(mutex_);
  if (!running_) return;
  resize(0);
  monitor_->ask_to_stop();
  monitor_thread_.join();
  running_ = false;
}

void Pool::post(std::move_only_function<void(Context&)> function) {
  default_queue_->post(std::move(function));
}

void Pool::on_post_error(std::function<void(std::exception_ptr)> function) {
  default_queue_->on_error(std::move(function));
}

std::vector<WorkerSnapshot> Pool::snapshot() const {
  std::vector<WorkerSnapshot> result;
  for (std::uint32_t i = 0, count = workers_.load(); i < count; ++i) {
    result.push_back(worker(i).snapshot());
  }
  return result;
}

std::vector<Pool::RunningJob> Pool::running(const std::function<bool(const Batch&)>& is_wanted) const {
  std::vector<RunningJob> result;
  for (std::uint32_t i = 0, count = made_.load(); i < count; ++i) {
    auto job = worker(i).writer().running();
    if (job && !job->batch->options().is_internal && is_wanted(*job->batch))
      result.push_back({i, *std::move(job)});
  }
  return result;
}

std::vector<Pool::StealPair> Pool::steal_pairs() const {
  std::vector<StealPair> result;
  const std::uint32_t count = workers_.load();
  if (count > Worker::kMostVictims) return result;
  for (std::uint32_t thief = 0; thief < count; ++thief) {
    for (std::uint32_t victim = 0; victim < count; ++victim) {
      const std::uint64_t steals = worker(thief).steals_from(victim);
      if (steals != 0) result.push_back({thief, victim, steals});
    }
  }
  return result;
}

Pool::Progress Pool::progress() const {
  Progress result{lane_.hints().has_work(), {}};
  for (std::uint32_t i = 0, count = made_.load(); i < count; ++i) {
    result.has_work = result.has_work || worker(i).is_busy();
    result.last_progress = std::max(result.last_progress, Instant(worker(i).last_progress()));
  }
  return result;
}

}  // namespace locksley
