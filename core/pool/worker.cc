#include "core/pool/worker.h"

#include <algorithm>
#include <exception>

#include "core/batch/handler.h"
#include "core/pool/monitor.h"
#include "core/pool/pool.h"
#include "core/sync/asymmetric_barrier.h"
#include "core/tasks/context.h"

namespace locksley {
namespace {

// Each time below weighs the cost of a step (in brackets) against the delay of the work that waits
// for it.
//
// How long tiny jobs run between two readings of the clock (40 ns) and of the claim (15 ns).
constexpr Nanoseconds kBurstTime = std::chrono::microseconds(16);
// A guess: kBurstTime of jobs that take 60 ns each. The views of their payloads take 4 KiB.
constexpr std::uint64_t kLargestBurst = 256;
// How long results wait for further results before they are published, or until how many bytes (a
// publication costs 100 ns, and wakes the thread that waits for it).
constexpr Nanoseconds kPublishAfter = std::chrono::microseconds(500);
constexpr std::size_t kPublishBytes = 64 * 1024;
// If the rest of a claim takes at least this long, it is worth waking a worker (10 us).
constexpr Nanoseconds kWorthWaking = std::chrono::microseconds(20);

// Durations of jobs, collected for one turn so that jobs write nothing that is shared.
class TurnDurations {
 public:
  void add(Nanoseconds each, std::uint64_t count) {
    const std::size_t bucket = DurationHistogram::bucket_of(each);
    if (count_ != 0 && bucket != bucket_) flush();
    bucket_ = bucket;
    count_ += count;
    sum_ += each * static_cast<std::int64_t>(count);
  }
  void flush() {
    if (count_ != 0) histogram_.observe(sum_ / static_cast<std::int64_t>(count_), count_);
    count_ = 0;
    sum_ = {};
  }
  explicit TurnDurations(DurationHistogram& histogram) : histogram_(histogram) {}

 private:
  DurationHistogram& histogram_;
  std::size_t bucket_ = 0;
  std::uint64_t count_ = 0;
  Nanoseconds sum_{};
};

}  // namespace

Worker::Worker(Pool& pool, std::uint32_t number)
    : pool_(pool),
      lane_(pool.lane_),
      common_idle_(*pool.common_idle_),
      number_(number),
      spawner_(*this, *pool.depot_, common_idle_),
      own_range_(range_.owner()),
      turn_(lane_, writer_),
      views_(std::make_unique<std::string_view[]>(kLargestBurst)),
      random_state_(0x9E3779B97F4A7C15u * (number + 1)) {
  writer_.set_worker("pool/" + std::to_string(number));
}

std::thread Worker::start() {
  leaving_.store(false);
  reserved_ = number_ < pool_.reserved_;
  return std::thread([this] { run(); });
}

WorkerSnapshot Worker::snapshot() const {
  return {.worker = number_,
          .queue_depth = range_.len() + spawner_.len(),
          .jobs = stats_.jobs.get(),
          .tasks = stats_.tasks.get(),
          .steals = stats_.steals.get(),
          .steal_attempts = stats_.steal_attempts.get(),
          .stolen = stats_.stolen.get(),
          .parks = stats_.parks.get(),
          .empty_wakes = stats_.empty_wakes.get(),
          .claims = stats_.claims.get(),
          .busy_ns = stats_.busy_ns.get(),
          .turn_ns = turn_ns(steady_now()),
          .ring_wait = stats_.ring_wait.snapshot()};
}

std::uint64_t Worker::turn_ns(Nanoseconds now) const {
  const auto began = static_cast<std::int64_t>(turn_began_.get());
  return began == 0 ? 0 : static_cast<std::uint64_t>(std::max<std::int64_t>(now.count() - began, 1));
}

std::uint32_t Worker::pool_workers() const { return pool_.workers(); }

void Worker::run() {
  const ThreadRoleScope own_thread(own_thread_);
  Idle& idle = own_idle();
  bool woken = false;
  while (!leaving_.load()) {
    arrivals_ = lane_.hints().arrivals();
    if (turn_.try_claim(filter())) {
      stop_searching();
      run_claims();
      woken = false;
      continue;
    }
    if (!searching_) searching_ = idle.try_search();
    if (searching_ && !reserved_ && steal() == Found::kSomething) {
      woken = false;
      continue;
    }
    if (woken) stats_.empty_wakes.add(1);
    woken = false;
    // Only one worker at a time keeps searching: others would compete with it for the same work.
    const bool may_look = searching_ && idle.is_sole_searcher();
    if (spin_.poll(may_look, [this] { return leaving_.load() || may_find_work(); })) continue;
    const bool was_searching = std::exchange(searching_, false);
    idle.enter_park(sleeper_, was_searching ? Idle::From::kSearching : Idle::From::kActive);
    see_tasks();
    if (leaving_.load() || may_find_work()) {
      idle.leave_park(sleeper_);
    } else {
      stats_.parks.add(1);
      sleeper_.parker.park();
      idle.return_from_park(sleeper_);
      spin_.parked();
      woken = true;
    }
    searching_ = true;
  }
  stop_searching();
}

Idle& Worker::own_idle() const { return reserved_ ? *pool_.reserved_idle_ : common_idle_; }

void Worker::stop_searching() {
  if (!searching_) return;
  searching_ = false;
  Idle& idle = own_idle();
  if (!idle.end_search() || !idle.has_parked_worker()) return;
  // A thread that published work while this was the last searcher has woken no worker.
  see_tasks();
  if (reserved_) {
    if (may_find_work()) idle.notify();
    return;
  }
  for (std::uint32_t i = 0, count = pool_.made_.load(); i < count; ++i) {
    const Worker& other = pool_.worker(i);
    if (&other != this && !other.spawner_.empty()) common_idle_.wake_for_task(other.spawner_.batch());
  }
  if (may_find_work()) common_idle_.notify();
}

void Worker::see_tasks() {
  if (reserved_) return;
  for (std::uint32_t i = 0, count = pool_.made_.load(); i < count; ++i) {
    if (pool_.worker(i).spawner_.has_spawned()) return AsymmetricBarrier::heavy();
  }
}

bool Worker::may_find_work() {
  if (lane_.hints().has_work(filter())) return true;
  if (reserved_) return false;
  for (std::uint32_t i = 0, count = pool_.made_.load(); i < count; ++i) {
    const Worker& other = pool_.worker(i);
    if (&other != this && (!other.range_.empty() || !other.spawner_.empty())) return true;
  }
  return false;
}

void Worker::run_claims() {
  do {
    stats_.claims.add(1);
    stats_.ring_wait.observe(turn_.waited());
    run_turn();
  } while (settle());
}

bool Worker::settle() {
  const bool goes_on = !leaving_.load();
  arrivals_ = lane_.hints().arrivals();
  if (goes_on) {
    turn_.settle_and_claim(now_, filter());
  } else {
    turn_.settle(now_);
  }
  // Jobs that were given back are work like any other, and this worker may not claim all of them.
  if (lane_.hints().has_work()) common_idle_.notify();
  // By the measured cost of its jobs, the batch may now be one for the reserved workers.
  pool_.wake_reserved();
  return turn_.is_held();
}

void Worker::begin_turn() {
  turn_.begin_at_claim();
  now_ = unpublished_since_ = turn_.began();
  turn_began_.set(static_cast<std::uint64_t>(now_.count()));
}

void Worker::leave_turn() {
  turn_.leave();
  unpublished_.set(0);
  // leave() may take long: it publishes, and waits while the journal has no room. Meanwhile the
  // worker serves no other batch.
  now_ = steady_now();
  stats_.busy_ns.add(static_cast<std::uint64_t>((now_ - turn_.began()).count()));
  turn_began_.set(0);
  // One large payload must not occupy its memory for ever.
  if (scratch_.capacity() > 2 * PayloadSource::kScratchBytes) std::string().swap(scratch_);
}

void Worker::run_turn() {
  begin_turn();
  Batch& batch = turn_.batch();
  const IndexRange range = turn_.left();
  const Nanoseconds until = now_ + std::max(turn_.expected(), lane_.quantum());
  Nanoseconds mean = turn_.expected() / static_cast<std::int64_t>(range.size());
  TurnDurations durations(batch.handler().stats.job_duration);
  std::uint64_t taken = range.low;  // [range.low, taken) was taken to be run
  std::uint64_t largest_burst = kLargestBurst;

  // A cap in slots would not count thieves as executors, so claims with a cap are not published.
  const bool shared = range.size() > 1 && !turn_.is_capped();
  if (shared) {
    own_range_.publish(range, {&batch});
    // Also for a range that a thief has just stolen, since its length in time is unknown.
    if (mean.count() == 0 || mean * static_cast<std::int64_t>(range.size()) > kWorthWaking)
      common_idle_.notify();
  }
  while (!batch.is_stopping() && !batch.is_held() && !batch.is_at_result_limit() && !leaving_.load()) {
    const std::uint64_t most =
        mean.count() == 0
            ? 1
            : std::clamp<std::uint64_t>(static_cast<std::uint64_t>(kBurstTime / mean), 1, largest_burst);
    const IndexRange burst =
        shared ? own_range_.take_burst(most) : IndexRange{taken, taken + std::min(most, range.high - taken)};
    if (burst.empty()) break;
    taken = burst.high;
    if (burst.size() > 1 || writer_.unpublished_jobs() != 0) {
      unpublished_.set(1);
      pool_.monitor_->need();
    }
    bursts_.add(1);
    writer_.begin_burst(burst.low);
    const std::size_t bytes_before = writer_.unpublished_bytes();
    const std::uint64_t ran = run_burst(batch, burst);
    if (ran == 0) break;
    turn_.count_ended(ran);
    // A burst that is cut short by large results ends the turn: so the next one is smaller.
    const std::size_t written = writer_.unpublished_bytes() - bytes_before;
    if (written > kPublishBytes / 2)
      largest_burst = std::max<std::uint64_t>(1, kPublishBytes * ran / written / 2);

    const Nanoseconds before = std::exchange(now_, steady_now());
    mean = std::max((now_ - before) / static_cast<std::int64_t>(ran), Nanoseconds(1));
    durations.add(mean, ran);
    last_progress_.set(static_cast<std::uint64_t>(now_.count()));
    if (writer_.unpublished_bytes() >= kPublishBytes || now_ - unpublished_since_ >= kPublishAfter) {
      turn_.publish();
      unpublished_since_ = now_;
      unpublished_.set(0);
    }
    if (ran < burst.size() || turn_is_over(until, now_)) break;
    if (shared && mean * static_cast<std::int64_t>(own_range_.len()) > kWorthWaking) common_idle_.notify();
  }
  if (shared) {
    // Thieves take from the high end, so the rest begins where the worker has stopped.
    const IndexRange rest = own_range_.take_all();
    turn_.set_left({turn_.left().low, rest.empty() ? taken : rest.high});
  }
  durations.flush();
  leave_turn();
}

bool Worker::turn_is_over(Nanoseconds until, Nanoseconds now) const {
  // No turn is cut shorter than this, however many batches arrive: to settle and claim is 1% of it.
  constexpr Nanoseconds kShortestTurn = std::chrono::microseconds(25);
  return now >= until || (now - turn_.began() >= kShortestTurn && lane_.hints().arrivals() != arrivals_);
}

// The burst was sized by the jobs before it. If its jobs turn out to be long, the rest is left to
// workers that are free. The burst also ends once its results are large: the account of results
// counts them only from their publication on.
inline bool Worker::burst_is_cut(const Batch& batch) const {
  // [burst-overdue] relaxed: a late look runs a job more.
  return overdue_.load(std::memory_order_relaxed) || batch.is_stopping() || batch.is_held() ||
         writer_.unpublished_bytes() >= kPublishBytes;
}

std::uint64_t Worker::run_burst(Batch& batch, IndexRange burst) {
  std::span<std::string_view> payloads(views_.get(), burst.size());
  try {
    payloads = payloads.first(batch.payloads().fetch(burst.low, payloads, scratch_));
    if (payloads.empty()) turn_.set_backoff(Backoff::kNoPayloads);
  } catch (const std::exception& exception) {
    if (burst.size() > 1) return run_one_by_one(batch, burst);
    fail_job(burst.low, exception.what());
    return 1;
  }
  // [burst-overdue] relaxed: a flag on its own; one for the burst before cuts this one, at no harm.
  overdue_.store(false, std::memory_order_relaxed);
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    if (i != 0 && burst_is_cut(batch)) return i;
    run_job(batch, burst.low + i, payloads[i]);
  }
  return payloads.size();
}

std::uint64_t Worker::run_one_by_one(Batch& batch, IndexRange burst) {
  std::uint64_t ran = 0;
  do {
    if (run_burst(batch, {burst.low + ran, burst.low + ran + 1}) == 0) break;
  } while (++ran < burst.size() && !burst_is_cut(batch));
  return ran;
}

void Worker::fail_job(std::uint64_t index, std::string_view why) {
  turn_.job_begins();
  writer_.begin_job(index);
  writer_.replace_output("cannot read the payload: " + std::string(why));
  writer_.end_job(JobStatus::kError);
  stats_.jobs.add(1);
}

void Worker::run_job(Batch& batch, std::uint64_t index, std::string_view payload) {
  turn_.job_begins();
  JobFrame frame{&batch, index};
  const bool timed = batch.options().timeout.count() != 0;
  if (timed) frame.time_limit = after(Instant::clock::now(), batch.options().timeout);
  JobContext context(spawner_, frame, writer_);
  writer_.begin_job(index);
  try {
    batch.handler().native()(context, payload);
  } catch (const std::exception& exception) {
    context.fail(exception.what());
    batch.report_throw(index, exception.what());
  } catch (...) {
    context.fail("the handler threw something that is no std::exception");
    batch.report_throw(index, "not a std::exception");
  }
  if (spawner_.is_spawning()) spawner_.end();
  JobStatus status = context.status();
  if (timed && status == JobStatus::kOk && Instant::clock::now() > frame.time_limit) {
    writer_.replace_output("timed out");
    status = JobStatus::kTimeout;
  }
  writer_.end_job(status);
  stats_.jobs.add(1);
}

Worker::Found Worker::steal() {
  const std::uint32_t count = pool_.made_.load();
  const std::uint32_t first = random();
  for (std::uint32_t i = 0; i < count; ++i) {
    Worker& victim = pool_.worker((first + i) % count);
    if (&victim != this && steal_from(victim) == Found::kSomething) return Found::kSomething;
  }
  return Found::kNothing;
}

Worker::Found Worker::steal_from(Worker& victim) {
  stats_.steal_attempts.add(1);
  if (!victim.spawner_.empty()) {
    if (const auto stolen = victim.spawner_.steal(); stolen.stolen()) {
      count_steal(victim, 1);
      stop_searching();
      run_stolen_tasks(victim, stolen.value);
      return Found::kSomething;
    }
  }
  if (!victim.range_.empty()) {
    if (const auto stolen = victim.range_.thief().steal(); stolen.stolen()) {
      const IndexRange range = stolen.value.range;
      count_steal(victim, range.size());
      stop_searching();
      Batch& batch = *stolen.value.payload.batch;
      arrivals_ = lane_.hints().arrivals();
      turn_.join(batch, range);
      run_turn();
      if (settle()) run_claims();
      return Found::kSomething;
    }
  }
  return Found::kNothing;
}

std::uint32_t Worker::random() {
  // xorshift64 (Marsaglia 2003): where to begin a pass, nothing more.
  random_state_ ^= random_state_ << 13;
  random_state_ ^= random_state_ >> 7;
  random_state_ ^= random_state_ << 17;
  return static_cast<std::uint32_t>(random_state_ >> 32);
}

}  // namespace locksley
