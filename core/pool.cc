#include "core/pool.h"

#include <algorithm>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/context.h"
#include "core/handler.h"
#include "core/idle.h"
#include "core/monitor.h"
#include "core/worker.h"

namespace locksley {

// The queue of single pieces of work: a batch like any other, that stays open, whose jobs are closures.
class Pool::DefaultQueue {
 public:
  explicit DefaultQueue(Lane& lane)
      : lane_(lane),
        handler_("post", "single pieces of work",
                 [this](JobContext& context, std::string_view) { take()(context); }),
        batch_(std::make_shared<Batch>(default_options(), handler_, std::make_unique<NoPayloads>())) {
    lane_.submit(batch_, 0, /*open=*/true);
  }
  ~DefaultQueue() { lane_.cancel(*batch_, "the pool has stopped"); }

  void post(std::move_only_function<void(Context&)> function) {
    {
      const std::lock_guard lock(mutex_);
      functions_.push_back(std::move(function));
    }
    lane_.add_jobs(*batch_, 1);
  }

 private:
  static BatchOptions default_options() {
    BatchOptions options;
    options.id = "post";
    options.keep = Keep::none;
    options.is_internal = true;
    return options;
  }

  class NoPayloads final : public PayloadSource {
   public:
    void fetch(std::uint64_t, std::span<std::string_view> out, std::string&) override {
      std::fill(out.begin(), out.end(), std::string_view{});
    }
    std::uint64_t memory_bytes() const override { return 0; }
  };

  std::move_only_function<void(Context&)> take() {
    const std::lock_guard lock(mutex_);
    auto function = std::move(functions_.front());
    functions_.pop_front();
    return function;
  }

  Lane& lane_;
  Handler handler_;
  const std::shared_ptr<Batch> batch_;
  std::mutex mutex_;
  std::deque<std::move_only_function<void(Context&)>>
      functions_;  // guarded by mutex_; one for each job not started
};

Pool::Pool(Lane& lane)
    : lane_(lane),
      idle_(std::make_unique<Idle>()),
      reserved_idle_(std::make_unique<Idle>()),
      depot_(std::make_unique<TaskDepot>()),
      monitor_(std::make_unique<Monitor>(*this)),
      slots_(std::make_unique<std::atomic<Worker*>[]>(kMaxWorkers)) {
  lane_.on_work([this] {
    idle_->notify();
    wake_reserved();
  });
  default_queue_ = std::make_unique<DefaultQueue>(lane_);
}

Pool::~Pool() {
  stop();
  default_queue_.reset();
  lane_.on_work(nullptr);
}

void Pool::start(std::uint32_t workers, std::uint32_t reserved) {
  const std::lock_guard lock(mutex_);
  check(!running_, "a pool is started twice");
  check_count(workers, reserved);
  reserved_.store(reserved);
  if (reserved != 0) lane_.ring().set_brief_job(lane_.quantum(), steady_now());
  monitor_->start();
  running_ = true;
  resize(workers);
}

void Pool::set_workers(std::uint32_t workers) {
  const std::lock_guard lock(mutex_);
  check_count(workers, reserved_.load());
  if (running_) resize(workers);
}

void Pool::set_quantum(Nanoseconds quantum) {
  lane_.set_quantum(quantum);
  if (reserved_.load() != 0) lane_.ring().set_brief_job(quantum, steady_now());
}

void Pool::check_count(std::uint32_t workers, std::uint32_t reserved) {
  if (workers < 1 || workers > kMaxWorkers || workers <= reserved) {
    throw std::invalid_argument("a pool has 1 to " + std::to_string(kMaxWorkers) +
                                " workers, and more than its " + std::to_string(reserved) +
                                " reserved ones, not " + std::to_string(workers));
  }
}

void Pool::wake_reserved() {
  if (reserved_.load() != 0 && lane_.ring().has_work(ClaimFilter::brief)) reserved_idle_->notify();
}

// [needs mutex_]
void Pool::resize(std::uint32_t workers) {
  const std::uint32_t before = workers_.load();
  const std::uint32_t reserved = reserved_.load();
  idle_->set_workers(workers > reserved ? workers - reserved : 1);
  reserved_idle_->set_workers(reserved);
  lane_.ring().set_parallelism(std::max<std::uint32_t>(workers, 1));
  // A worker is counted when its slot is filled and its thread runs: if that cannot be had, the pool is as
  // large as it got.
  for (std::uint32_t i = before; i < workers; ++i) {
    if (i == owned_.size()) {
      owned_.push_back(std::make_unique<Worker>(*this, i));
      slots_[i].store(owned_[i].get());
      slot_count_.store(i + 1);
    }
    owned_[i]->start();
    workers_.store(i + 1);
  }
  workers_.store(workers);
  for (std::uint32_t i = workers; i < before; ++i) owned_[i]->ask_to_leave();
  if (workers < before) {
    idle_->wake_all();
    reserved_idle_->wake_all();
  }
  for (std::uint32_t i = workers; i < before; ++i) owned_[i]->join();
}

bool Pool::has_free_worker() const { return idle_->anybody_free(); }

std::uint32_t Pool::workers() const { return workers_.load(); }

Worker& Pool::slot(std::uint32_t number) { return *slots_[number].load(); }

bool Pool::drain(Nanoseconds deadline) {
  // Polled: it happens once in a process's life, and nobody waits for the last millisecond.
  for (;;) {
    const RingSnapshot ring = lane_.ring().snapshot(0, steady_now());
    if (ring.queued == 0 && ring.claimed == 0 && ring.executors == 0) return true;
    const Nanoseconds now = steady_now();
    if (now >= deadline) return false;
    std::this_thread::sleep_for(std::min<Nanoseconds>(deadline - now, std::chrono::milliseconds(1)));
  }
}

void Pool::stop() {
  const std::lock_guard lock(mutex_);
  if (!running_) return;
  resize(0);
  monitor_->stop();
  running_ = false;
}

void Pool::post(std::move_only_function<void(Context&)> function) {
  default_queue_->post(std::move(function));
}

std::vector<WorkerSnapshot> Pool::snapshot() const {
  std::vector<WorkerSnapshot> result;
  for (std::uint32_t i = 0, count = workers_.load(); i < count; ++i) {
    result.push_back(slots_[i].load()->snapshot());
  }
  return result;
}

std::vector<Pool::StealPair> Pool::steal_pairs() const {
  std::vector<StealPair> result;
  const std::uint32_t count = workers_.load();
  if (count > Worker::kMostVictims) return result;
  for (std::uint32_t thief = 0; thief < count; ++thief) {
    for (std::uint32_t victim = 0; victim < count; ++victim) {
      const std::uint64_t steals = slots_[thief].load()->steals_from(victim);
      if (steals != 0) result.push_back({thief, victim, steals});
    }
  }
  return result;
}

Pool::Progress Pool::progress() const {
  Progress result{lane_.ring().has_work(), {}};
  for (std::uint32_t i = 0, count = slot_count_.load(); i < count; ++i) {
    const Worker& worker = *slots_[i].load();
    result.has_work = result.has_work || worker.is_busy();
    result.last_progress = std::max(result.last_progress, worker.last_progress());
  }
  return result;
}

}  // namespace locksley
