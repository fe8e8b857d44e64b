// A worker machine: the production link to the owner, and a program that runs jobs one after the
// other in each slot.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "daemon/upstream/link/upstream_link.h"
#include "tests/simulation/clock.h"
#include "tests/simulation/wire.h"

namespace locksley::daemon::simulation {

// Owned by the fleet, which connects it. It may be paused, killed (its connection is closed), lose
// its power (its peers get no notice), and be slow. One thread.
class Machine final : public UpstreamHost {
 public:
  struct Options {
    UpstreamLinkOptions link;
    Nanoseconds delay{std::chrono::milliseconds(1)};  // of its network, in one direction
    double slowness = 1;
    std::uint64_t seed = 1;
  };
  // Connects the wire to the owner; false: it does not listen.
  using Connect = std::function<bool(const std::shared_ptr<Wire>&)>;
  // The time that a job of a batch takes.
  using Cost = std::function<Nanoseconds(std::uint64_t batch, std::uint64_t index)>;

  Machine(Clock& clock, Options options, Connect connect, Cost cost);
  ~Machine() override { *alive_ = false; }

  void start();
  void kill();
  void lose_power();
  void pause(Nanoseconds until) { paused_until_ = std::max(paused_until_, until); }
  void set_slowness(double slowness) { options_.slowness = slowness; }

  bool is_up() const { return link_ != nullptr; }
  // Null: not connected.
  const std::shared_ptr<Wire>& wire() const { return wire_; }
  UpstreamLinkStats stats() const { return link_->stats(); }
  // Jobs that were run to their end, also if nobody wanted the result.
  std::uint64_t executions() const { return executions_; }

  // ---- UpstreamHost ----

  bool begin(LeaseKey lease, LeasedJobs jobs) override;
  std::uint64_t withdraw(LeaseKey lease, std::uint64_t at) override;
  void finish(LeaseKey lease) override;
  void stop(LeaseKey lease) override;
  std::uint64_t next(LeaseKey lease) override;

 private:
  // Jobs are run, and reported, in bursts of at least so long.
  static constexpr Nanoseconds kBurst = std::chrono::milliseconds(2);
  struct Running {
    std::uint64_t batch = 0;
    IndexRange range;
    std::uint64_t first = 0;  // of the burst that runs
    std::uint64_t next = 0;   // after it
    bool is_stopped = false;
  };

  void act(Clock::Event event);
  void pump();
  void connect();
  void set_timer();
  void run_burst(LeaseKey lease);
  void end_burst(LeaseKey lease);
  void end_life();

  Clock& clock_;
  Options options_;
  const Connect connect_;
  const Cost cost_;
  std::mt19937_64 random_;
  std::uint64_t executions_ = 0;

  // Of this life.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<UpstreamLink> link_;
  std::shared_ptr<Wire> wire_;
  std::map<LeaseKey, Running> running_;
  std::optional<Nanoseconds> timer_;
  Nanoseconds paused_until_{};
};

}  // namespace locksley::daemon::simulation
