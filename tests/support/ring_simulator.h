// Simulated workers on a simulated clock, for tests of the fair ring.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <vector>

#include "core/ring/fair_ring.h"
#include "core/ring/fair_ring_leases.h"

namespace locksley::test {

// A discrete-event simulator: `workers` workers claim from one ring, run jobs whose costs are
// given, and settle. As a pool's workers do, they hand back the rest of a claim once it has used
// its quantum; a job is never interrupted. One thread; nothing waits.
class RingSimulator {
 public:
  // What a job costs, by its index.
  using Cost = std::function<Nanoseconds(std::uint64_t index)>;

  // A batch, and what has happened to it so far.
  struct Batch {
    RingQueue queue;
    Cost cost;
    std::uint32_t weight = 1;
    std::uint64_t added = 0;
    std::uint64_t ended = 0;
    std::uint64_t dropped = 0;
    std::uint64_t claims = 0;
    Nanoseconds settled{};    // worker time of ended turns
    Nanoseconds began_sum{};  // of running turns
    std::uint32_t running = 0;
    std::uint32_t most_running = 0;
    Nanoseconds longest_turn{};  // the longest time, or charge, of a turn so far
    std::optional<Nanoseconds> first_start;
    std::optional<Nanoseconds> last_end;
    std::vector<std::uint8_t> runs;  // by index, if track_indexes: how often it was run

    // Worker time received until `now`.
    Nanoseconds received(Nanoseconds now) const { return settled + now * running - began_sum; }
  };

  RingSimulator(FairRing::Options options, std::uint32_t workers)
      : quantum_(options.quantum), ring(options), workers_(workers) {}
  ~RingSimulator() {
    // Turns that were running when the test ended.
    for (Worker& worker : workers_) {
      if (worker.claim) {
        Batch& batch = batch_of(*worker.claim);
        (void)ring.settle(batch.queue, {.charged = worker.claim->charged, .left = worker.claim->range}, now_);
      }
    }
    ring.detach_all();
  }
  RingSimulator(const RingSimulator&) = delete;
  RingSimulator& operator=(const RingSimulator&) = delete;

  Nanoseconds now() const { return now_; }
  const std::vector<std::unique_ptr<Batch>>& batches() const { return batches_; }

  // A batch of `jobs` jobs enters now. `open`: more may be added.
  Batch& submit(QueueOptions options, std::uint64_t jobs, Cost cost, bool open = false) {
    Batch& batch = *batches_.emplace_back(std::make_unique<Batch>());
    batch.cost = std::move(cost);
    batch.weight = options.weight;
    options.batch = &batch;
    ring.attach(batch.queue, options, nullptr);
    add(batch, jobs);
    if (!open) ring.close(batch.queue, now_);
    return batch;
  }
  Batch& submit(std::uint64_t jobs, Nanoseconds cost, std::uint32_t weight = 1) {
    return submit({.weight = weight}, jobs, [cost](std::uint64_t) { return cost; });
  }

  void add(Batch& batch, std::uint64_t jobs) {
    if (ring.add_jobs(batch.queue, jobs, now_)) batch.added += jobs;  // not to one that is closed
    if (track_indexes) batch.runs.resize(batch.added);
    step();
  }

  void cancel(Batch& batch) {
    for (const IndexRange& range : ring.cancel(batch.queue, now_)) batch.dropped += range.size();
    step();
  }

  // `action` will be called at `when`.
  void at(Nanoseconds when, std::function<void()> action) {
    events_.push({when, ++events_made_, workers_.size(), std::move(action)});
  }

  // Runs until the clock shows `end`, or until there is nothing left to happen.
  void run_until(Nanoseconds end) {
    dispatch();
    while (!events_.empty() && events_.top().when <= end) {
      Event event = events_.top();
      events_.pop();
      now_ = event.when;
      if (leases_ && event.number % 3 == 0) charge_so_far();
      if (event.worker < workers_.size()) {
        end_turn(event.worker);
      } else {
        event.action();
        step();
      }
      dispatch();
    }
    if (end != Nanoseconds::max()) now_ = std::max(now_, end);
  }
  void run_for(Nanoseconds length) { run_until(now_ + length); }
  void run() { run_until(Nanoseconds::max()); }

  // From now on worker i is a remote one: its turns have several executors each and are longer than
  // the ring's quantum, and at every third event all turns are charged for what they have used so
  // far. Call it before the first batch.
  void use_leases() {
    leases_ = true;
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      workers_[i].width = static_cast<std::uint32_t>(1 + i % 3);
      workers_[i].quantum = quantum_ * static_cast<std::int64_t>(1 + i % 2 * 4);
    }
  }
  // The number of executors of all workers together.
  std::uint32_t executors() const {
    std::uint32_t sum = 0;
    for (const Worker& worker : workers_) sum += worker.width;
    return sum;
  }

  bool track_indexes = false;
  // Whether workers that find nothing to claim help a job that runs: each turn is a quantum of its
  // sub-jobs.
  bool thieves = false;
  // The gates from which each of the first workers claims; the others claim from any.
  std::vector<GateSet> restricted;
  // Called after every call of the ring.
  std::function<void()> on_step;

 private:
  struct Worker {
    std::optional<Claim> claim;  // a thief's is an empty one
    std::uint64_t executed = 0;
    Nanoseconds length{};
    std::uint32_t width = 1;  // as how many executors its claims ask to count
    Nanoseconds quantum{0};   // of its claims; 0: the ring's
  };
  struct Event {
    Nanoseconds when;
    std::uint64_t number;
    std::size_t worker;  // workers_.size(): an action
    std::function<void()> action;
    friend bool operator<(const Event& a,
                          const Event& b) {  // std::priority_queue has the greatest at its top
      return a.when > b.when || (a.when == b.when && a.number > b.number);
    }
  };

  static Batch& batch_of(const Claim& claim) { return *static_cast<Batch*>(claim.queue->batch()); }

  const GateSet* gates_of(std::size_t worker) const {
    return worker < restricted.size() ? &restricted[worker] : nullptr;
  }

  void step() {
    if (on_step) on_step();
  }

  void dispatch() {
    if (ring.has_new_wait()) look_at_waits();
    for (std::size_t i = 0; i < workers_.size(); ++i) {
      if (workers_[i].claim) continue;
      if (std::optional<Claim> claim = try_claim(i)) {
        begin_turn(i, *claim);
        step();
      } else if (thieves) {
        steal(i);
      }
    }
    if (ring.has_new_wait()) look_at_waits();
  }

  // Does what the owner of the executors does: ends waits now, and again when the next wait ends.
  void look_at_waits() {
    const std::optional<Nanoseconds> next = ring.end_waits(now_);
    step();
    if (!next || (next_wait_ > now_ && next_wait_ <= *next)) return;
    next_wait_ = *next;
    at(*next, [this, when = *next] {
      if (next_wait_ == when) look_at_waits();
    });
  }

  std::optional<Claim> try_claim(std::size_t index) {
    return ring.try_claim(now_, ClaimRequest{.width = workers_[index].width,
                                             .quantum = workers_[index].quantum,
                                             .gates = gates_of(index)});
  }

  void charge_so_far() {
    for (Worker& worker : workers_) {
      if (!worker.claim) continue;
      Charge& charged = worker.claim->charged;
      ring.leases().charge_so_far(*worker.claim->queue, charged, (now_ - charged.began) * charged.width(),
                                  now_);
      step();
    }
  }

  void steal(std::size_t index) {
    for (std::size_t i = 1; i < workers_.size(); ++i) {
      const Worker& victim = workers_[(index + i) % workers_.size()];
      if (!victim.claim || victim.claim->range.empty()) continue;
      RingQueue& queue = *victim.claim->queue;
      Worker& thief = workers_[index];
      thief.claim = Claim{.queue = &queue, .charged = ring.join(queue, now_)};
      thief.executed = 0;
      thief.length = quantum_;
      start(index);
      step();
      return;
    }
  }

  void begin_turn(std::size_t index, const Claim& claim) {
    Worker& worker = workers_[index];
    Batch& batch = batch_of(claim);
    worker.claim = claim;
    worker.executed = 0;
    worker.length = Nanoseconds{0};
    const std::uint32_t width = claim.charged.width();
    Nanoseconds sum{0}, longest{0};
    while (worker.executed < claim.range.size() &&
           (worker.executed < width || worker.length < std::max(quantum_, worker.quantum))) {
      const std::uint64_t job = claim.range.low + worker.executed++;
      const Nanoseconds cost = batch.cost(job);
      sum += cost;
      longest = std::max(longest, cost);
      worker.length = std::max(longest, sum / width);
      if (track_indexes) ++batch.runs[job];
    }
    ++batch.claims;
    start(index);
  }

  // Begins the worker's turn, whose length is known.
  void start(std::size_t index) {
    const Worker& worker = workers_[index];
    const Claim& claim = *worker.claim;
    Batch& batch = batch_of(claim);
    const std::uint32_t width = claim.charged.width();
    batch.running += width;
    batch.most_running = std::max(batch.most_running, batch.running);
    batch.began_sum += now_ * width;
    batch.longest_turn = std::max({batch.longest_turn, worker.length, claim.charged.time / width});
    if (!batch.first_start) batch.first_start = now_;
    events_.push({now_ + worker.length, ++events_made_, index, {}});
  }

  void end_turn(std::size_t index) {
    Worker& worker = workers_[index];
    const Claim claim = *worker.claim;
    Batch& batch = batch_of(claim);
    const std::uint32_t width = claim.charged.width();
    batch.running -= width;
    batch.began_sum -= claim.charged.began * width;
    batch.settled += worker.length * width;
    batch.ended += worker.executed;
    batch.last_end = now_;
    worker.claim.reset();
    const Settlement settlement{.charged = claim.charged,
                                .actual = worker.length * width,
                                .executed = worker.executed,
                                .left = {claim.range.low + worker.executed, claim.range.high}};
    Settled settled =
        leases_ ? ring.settle(batch.queue, settlement, now_)
                : ring.settle_and_claim(batch.queue, settlement, now_, ClaimFilter::kAny, gates_of(index));
    batch.dropped += settled.dropped.size();
    if (leases_) settled.claim = try_claim(index);
    if (settled.claim) begin_turn(index, *settled.claim);
    step();
  }

  const Nanoseconds quantum_;
  bool leases_ = false;

 public:
  FairRing ring;

 private:
  std::vector<Worker> workers_;
  std::vector<std::unique_ptr<Batch>> batches_;
  std::priority_queue<Event> events_;
  std::uint64_t events_made_ = 0;
  Nanoseconds now_{0};
  Nanoseconds next_wait_{0};  // the last one of which the timer was told
};

// More jobs than any test runs.
inline constexpr std::uint64_t kEndless = std::uint64_t{1} << 40;

// Jobs of one length; and jobs of 0 to `most`, of half of it on average, in no order.
inline RingSimulator::Cost always(Nanoseconds cost) {
  return [cost](std::uint64_t) { return cost; };
}
inline RingSimulator::Cost uneven(Nanoseconds most) {
  return [most](std::uint64_t i) {
    return Nanoseconds{most.count() * static_cast<std::int64_t>(i * 2654435761U % 1000 + 1) / 1000};
  };
}

}  // namespace locksley::test
