#include "core/worker.h"

#include <algorithm>
#include <exception>

#include "core/asymmetric_barrier.h"
#include "core/context.h"
#include "core/handler.h"
#include "core/monitor.h"
#include "core/pool.h"

namespace locksley {
namespace {

// Constants of time; all are compromises between the cost of a step (in brackets) and what waits for it.
// A piece of tiny jobs: run without looking at the clock (40 ns) or the claim (15 ns).
constexpr Nanoseconds kPieceTime = std::chrono::microseconds(16);
constexpr std::uint64_t kLargestPiece = 256;
// Results wait so long for company (publication: 100 ns and a wake-up of whoever waits), or until there are
// so many bytes.
constexpr Nanoseconds kPublishAfter = std::chrono::microseconds(500);
constexpr std::size_t kPublishBytes = 64 * 1024;
// What is left of a claim is worth waking somebody for (10 us) from here on.
constexpr Nanoseconds kWorthWaking = std::chrono::microseconds(20);
// Durations of jobs, collected for one turn so that nothing shared is written a job.
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
      idle_(*pool.idle_),
      number_(number),
      own_tasks_(deque_.owner()),
      own_range_(range_.owner()),
      tasks_(*pool.depot_),
      views_(std::make_unique<std::string_view[]>(kLargestPiece)),
      random_state_(0x9E3779B97F4A7C15u * (number + 1)) {}

Worker::~Worker() { check(!thread_.joinable(), "a worker is destroyed while its thread runs"); }

void Worker::start() {
  leaving_.store(false);
  reserved_ = number_ < pool_.reserved_;
  thread_ = std::thread([this] { run(); });
}

void Worker::join() { thread_.join(); }

WorkerSnapshot Worker::snapshot() const {
  return {.worker = number_,
          .queue_depth = range_.len() + deque_.len(),
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
  Idle& idle = reserved_ ? *pool_.reserved_idle_ : idle_;
  bool woken = false;
  while (!leaving_.load()) {
    arrivals_ = lane_.ring().arrivals();
    if (auto claim = lane_.ring().try_claim(steady_now(), filter())) {
      stop_searching();
      run_claims(*claim);
      woken = false;
      continue;
    }
    if (!searching_) searching_ = idle.try_search();
    if (searching_ && !reserved_ && steal() == Found::something) {
      woken = false;
      continue;
    }
    if (woken) stats_.empty_wakes.add(1);
    woken = false;
    // One at a time looks on: the others would only be in its way.
    const bool may_look = searching_ && idle.is_sole_searcher();
    if (spin_.look(may_look, [this] { return leaving_.load() || may_find_work(); })) continue;
    idle.enter_park(sleeper_, std::exchange(searching_, false));
    if (leaving_.load() || may_find_work()) {
      idle.leave_park(sleeper_);
      woken = false;
    } else {
      stats_.parks.add(1);
      sleeper_.parker.park();
      idle.after_park(sleeper_);
      spin_.slept();
      woken = true;
    }
    searching_ = true;
  }
  stop_searching();
}

void Worker::stop_searching() {
  if (!searching_) return;
  searching_ = false;
  Idle& idle = reserved_ ? *pool_.reserved_idle_ : idle_;
  if (!idle.end_search() || !idle.anybody_parked()) return;
  // Whoever published work while this was the last searcher has woken nobody. Tasks are published without a
  // barrier, so one is made here; but only where tasks are about, since it is dear.
  for (std::uint32_t i = 0, count = reserved_ ? 0 : pool_.slot_count_.load(); i < count; ++i) {
    if (pool_.slot(i).spawns_.load()) {
      AsymmetricBarrier::heavy();
      break;
    }
  }
  if (reserved_) {
    if (may_find_work()) idle.notify();
    return;
  }
  for (std::uint32_t i = 0, count = pool_.slot_count_.load(); i < count; ++i) {
    const Worker& other = pool_.slot(i);
    if (&other != this && !other.deque_.empty()) idle_.wake_for_task(other.task_batch_.load());
  }
  if (may_find_work()) idle_.notify();
}

bool Worker::may_find_work() {
  if (lane_.ring().has_work(filter())) return true;
  if (reserved_) return false;
  for (std::uint32_t i = 0, count = pool_.slot_count_.load(); i < count; ++i) {
    const Worker& other = pool_.slot(i);
    if (&other != this && (!other.range_.empty() || !other.deque_.empty())) return true;
  }
  return false;
}

void Worker::run_claims(Claim claim) {
  std::optional<Claim> turn = claim;
  while (turn) {
    Batch& batch = *static_cast<Batch*>(turn->queue->owner());
    stats_.claims.add(1);
    stats_.ring_wait.observe(turn->waited);
    const Settlement settlement = run_turn(batch, turn->range, turn->charged);
    turn = settle(batch, settlement);
  }
}

std::optional<Claim> Worker::settle(Batch& batch, const Settlement& settlement) {
  const auto next = leaving_.load() ? Lane::Next::nothing : Lane::Next::claim;
  arrivals_ = lane_.ring().arrivals();
  auto claim = lane_.settle(batch, settlement, now_, next, filter());
  // What was handed back is work like any other, and whoever hands it back may take none of it, or not all.
  if (lane_.ring().has_work()) idle_.notify();
  // What was learned of the cost of its jobs may have made the batch one for the reserved workers.
  pool_.wake_reserved();
  return claim;
}

Settlement Worker::run_turn(Batch& batch, IndexRange range, const Charge& charge) {
  now_ = steady_now();
  const Nanoseconds began = now_;
  turn_began_.set(static_cast<std::uint64_t>(began.count()));
  batch.executor_joined();
  writer_.begin_batch(batch);
  unpublished_since_ = now_;
  const Nanoseconds until = began + std::max(charge.time, lane_.quantum());
  Nanoseconds mean = charge.time / static_cast<std::int64_t>(range.size());
  TurnDurations durations(batch.handler().stats.job_duration);
  Settlement settlement{.charged = charge};
  IndexRange cut;  // what was not run of the last piece

  // A batch with a limit on jobs at once keeps its claims to those that the ring has counted: nobody steals
  // from them.
  const bool shared = range.size() > 1 && batch.options().slots == 0;
  if (shared) {
    own_range_.publish(range, {&batch});
    // A thief's range, of which nothing is known, too.
    if (mean.count() == 0 || mean * static_cast<std::int64_t>(range.size()) > kWorthWaking) idle_.notify();
  }
  while (!batch.is_stopping() && !batch.is_held() && !leaving_.load()) {
    const std::uint64_t most =
        mean.count() == 0
            ? 1
            : std::clamp<std::uint64_t>(static_cast<std::uint64_t>(kPieceTime / mean), 1, kLargestPiece);
    IndexRange piece;
    if (shared) {
      piece = own_range_.take_piece(most);
    } else {
      piece = {range.low, range.low + std::min(most, range.size())};
      range.low = piece.high;
    }
    if (piece.empty()) break;
    if (piece.size() > 1 || writer_.unpublished_jobs() != 0) {
      unpublished_.set(1);
      pool_.monitor_->need();
    }
    pieces_.add(1);
    writer_.begin_piece(piece.low);
    const std::uint64_t ran = run_piece(batch, piece);
    settlement.executed += ran;

    const Nanoseconds before = std::exchange(now_, steady_now());
    mean = std::max((now_ - before) / static_cast<std::int64_t>(ran), Nanoseconds(1));
    durations.add(mean, ran);
    last_progress_.set(static_cast<std::uint64_t>(now_.count()));
    if (writer_.unpublished_bytes() >= kPublishBytes || now_ - unpublished_since_ >= kPublishAfter) {
      after_publication(batch, writer_.publish());
      unpublished_since_ = now_;
      unpublished_.set(0);
    }
    if (ran < piece.size()) {
      cut = {piece.low + ran, piece.high};
      break;
    }
    if (turn_is_over(began, until, now_)) break;
    if (shared && mean * static_cast<std::int64_t>(own_range_.len()) > kWorthWaking) idle_.notify();
  }
  settlement.left = shared ? own_range_.take_all() : range;
  if (!cut.empty()) {
    // Thieves take from the high end, so what is left of the range begins where the piece ended.
    settlement.left = {cut.low, settlement.left.empty() ? cut.high : settlement.left.high};
  }
  durations.flush();
  batch.executor_left();
  after_publication(batch, writer_.end_batch());
  unpublished_.set(0);
  settlement.actual = now_ - began;
  stats_.busy_ns.add(static_cast<std::uint64_t>(settlement.actual.count()));
  turn_began_.set(0);
  return settlement;
}

bool Worker::turn_is_over(Nanoseconds began, Nanoseconds until, Nanoseconds now) const {
  // A turn is not cut shorter than this, however many batches arrive: to settle and claim is 1% of it.
  constexpr Nanoseconds kShortestTurn = std::chrono::microseconds(25);
  return now >= until || (now - began >= kShortestTurn && lane_.ring().arrivals() != arrivals_);
}

void Worker::after_publication(Batch& batch, ResultWriter::Outcome outcome) {
  if (outcome == ResultWriter::Outcome::too_many_failures) lane_.cancel_after_failures(batch);
  if (BatchJournal* const journal = batch.journal()) journal->wait_for_room();
}

std::uint64_t Worker::run_piece(Batch& batch, IndexRange piece) {
  const std::span<std::string_view> payloads(views_.get(), piece.size());
  try {
    batch.payloads().fetch(piece.low, payloads, scratch_);
  } catch (const std::exception& exception) {
    fail_piece(piece, exception.what());
    return piece.size();
  }
  // [piece-overdue] relaxed: a flag on its own; one that was meant for the piece before cuts this one, at no
  // harm.
  overdue_.store(false, std::memory_order_relaxed);
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    // [piece-overdue] relaxed: a late look runs a job more.
    const bool overdue = overdue_.load(std::memory_order_relaxed);
    // The piece is short, as jobs were so far. If they are long now, the rest is not kept from whoever is
    // free.
    if (i != 0 && (overdue || batch.is_stopping() || batch.is_held())) return i;
    run_job(batch, piece.low + i, payloads[i]);
  }
  return piece.size();
}

void Worker::fail_piece(IndexRange piece, std::string_view why) {
  for (std::uint64_t index = piece.low; index < piece.high; ++index) {
    writer_.begin_job(index);
    writer_.write("the payload cannot be had: ");
    writer_.write(why);
    writer_.end_job(JobStatus::error);
    stats_.jobs.add(1);
  }
}

void Worker::run_job(Batch& batch, std::uint64_t index, std::string_view payload) {
  JobFrame frame{&batch, index, {}};
  const bool timed = batch.options().timeout.count() != 0;
  if (timed) frame.time_limit = steady_now() + batch.options().timeout;
  JobContext context(*this, frame, writer_);
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
  if (spawning_) end_spawning();
  JobStatus status = context.status();
  if (timed && status == JobStatus::ok && steady_now() > frame.time_limit) {
    writer_.clear_output();
    writer_.write("timed out");
    status = JobStatus::timeout;
  }
  writer_.end_job(status);
  stats_.jobs.add(1);
}

Worker::Found Worker::steal() {
  const std::uint32_t count = pool_.slot_count_.load();
  const std::uint32_t first = random();
  for (std::uint32_t i = 0; i < count; ++i) {
    Worker& victim = pool_.slot((first + i) % count);
    if (&victim != this && steal_from(victim) == Found::something) return Found::something;
  }
  return Found::nothing;
}

Worker::Found Worker::steal_from(Worker& victim) {
  stats_.steal_attempts.add(1);
  if (!victim.deque_.empty()) {
    if (const auto stolen = victim.deque_.thief().steal(); stolen.stolen()) {
      count_steal(victim, 1);
      stop_searching();
      run_stolen_tasks(victim, stolen.value);
      return Found::something;
    }
  }
  if (!victim.range_.empty()) {
    if (const auto stolen = victim.range_.thief().steal(); stolen.stolen()) {
      const IndexRange range = stolen.value.range;
      count_steal(victim, range.size());
      stop_searching();
      Batch& batch = *stolen.value.payload.batch;
      arrivals_ = lane_.ring().arrivals();
      const Charge charge = lane_.ring().join(batch.ring_queue(), steady_now());
      const Settlement settlement = run_turn(batch, range, charge);
      if (const auto next = settle(batch, settlement)) run_claims(*next);
      return Found::something;
    }
  }
  return Found::nothing;
}

std::uint32_t Worker::random() {
  // xorshift64 (Marsaglia 2003): where to begin a pass, nothing more.
  random_state_ ^= random_state_ << 13;
  random_state_ ^= random_state_ >> 7;
  random_state_ ^= random_state_ << 17;
  return static_cast<std::uint32_t>(random_state_ >> 32);
}

}  // namespace locksley
