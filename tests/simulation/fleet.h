// Machines, their owner, and what goes wrong between them.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "tests/simulation/clock.h"
#include "tests/simulation/machine.h"
#include "tests/simulation/owner.h"

namespace locksley::daemon::simulation {

// One owner and any number of machines on one clock. One thread.
class Fleet {
 public:
  explicit Fleet(std::uint64_t seed, WorkerLinkOptions options = {})
      : random_(seed), owner_(clock_, options, random_()) {}

  Clock& clock() { return clock_; }
  Owner& owner() { return owner_; }
  Machine& machine(std::size_t i) { return *machines_.at(i); }
  std::size_t size() const { return machines_.size(); }

  void add_machine(std::uint32_t slots, Nanoseconds delay,
                   std::vector<std::string> handlers = {"a", "b", "c"}, double slowness = 1);
  void run_for(Nanoseconds time) { clock_.run_until(clock_.now() + time); }

  // ---- Faults ----

  // From now on, one about each `every`, until stop_faults().
  void begin_faults(Nanoseconds every);
  // What is cut comes through, what is down starts.
  void stop_faults();
  std::uint64_t faults() const { return faults_; }

  // Until all batches are over and durable, at most for so long. Whether they are.
  bool finish(Nanoseconds longest);

  std::uint64_t up_to(std::uint64_t most) { return random_() % (most + 1); }

 private:
  static constexpr Nanoseconds kOneMs = std::chrono::milliseconds(1);

  Nanoseconds some(std::uint64_t most_ms) { return kOneMs * static_cast<std::int64_t>(up_to(most_ms)); }
  void next_fault();
  void disturb(Machine& machine);
  void cut(const std::shared_ptr<Wire>& wire, bool up, bool down, Nanoseconds time);
  void crash_owner();
  Nanoseconds cost_of(std::uint64_t batch, std::uint64_t index);

  std::mt19937_64 random_;
  Clock clock_;
  Owner owner_;
  std::vector<std::unique_ptr<Machine>> machines_;
  Nanoseconds fault_every_{0};  // 0: there are none
  std::uint64_t faults_ = 0;
};

}  // namespace locksley::daemon::simulation
