// The daemon that owns the batches: the production link to workers, with lanes, a disk and
// connections of the simulation.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch/handler.h"
#include "core/lane/lane.h"
#include "daemon/workers/worker_link.h"
#include "proto/command_reader.h"
#include "tests/simulation/clock.h"
#include "tests/simulation/disk.h"
#include "tests/simulation/wire.h"

namespace locksley::daemon::simulation {

// Serves the handlers `a` and `b`, which share a lane, and `c`, which has its own. It may be
// paused, as by SIGSTOP, and crash, as by kill -9; then it starts again with what its disk has. One
// thread.
class Owner final : public WorkerHost, public RemoteExecutors {
 public:
  Owner(Clock& clock, WorkerLinkOptions options, std::uint64_t seed);
  ~Owner() override;

  void submit(BatchPlan plan);
  // False: it does not listen.
  bool accept(const std::shared_ptr<Wire>& wire);
  void crash();
  void start();
  void pause(Nanoseconds until);

  bool is_up() const { return link_ != nullptr; }
  WorkerLink& link() { return *link_; }
  Lane& lane(const std::string& handler) { return *place_of(handler).lane; }
  Disk& disk() { return disk_; }
  bool all_over();
  // What a tenant has received so far, in the lane of `handler`, with what its leases have used.
  Nanoseconds received(const std::string& handler, std::string_view tenant);
  // Writes what the link wants to send, and sets the next timer.
  void pump();

  // Of all lives.
  struct Totals {
    std::uint64_t claims = 0, lost = 0, timed_out = 0, cuts = 0, yielded = 0, reclaimed = 0;
  };
  Totals totals() const;

  // ---- RemoteExecutors ----

  void lane_has_work() override;
  void lane_has_stops() override {}  // it looks by itself

  // ---- WorkerHost ----

  bool may_work(std::string_view) override { return true; }
  bool may_serve(std::string_view, std::string_view) override { return true; }
  HandlerPlace place_of(std::string_view handler) override;
  std::vector<std::string> handlers_for(std::string_view) override { return {}; }
  std::vector<HandlerPlace> places() override;
  std::uint64_t number_of(const Batch& batch) override;
  std::shared_ptr<Batch> batch_of(std::uint64_t number) override;
  bool has_room() override { return true; }
  std::uint64_t last_write() override { return disk_.last_write(); }
  std::optional<std::string> join_refusal() override { return std::nullopt; }
  std::vector<std::string> addresses() override { return {}; }
  const std::string& store() override { return store_; }

 private:
  struct Peer {
    std::shared_ptr<Wire> wire;
    proto::CommandReader reader;
    std::string unread;
  };

  void make_lanes();
  void enter(std::uint64_t number);
  void receive(WorkerLink::Id id, std::string bytes);
  void read(WorkerLink::Id id, Peer& peer);
  void hang_up(WorkerLink::Id id);
  void execute(WorkerLink::Id id, const proto::Command& command);
  void send(WorkerLink::Id id, Peer& peer);
  // Runs the function now, or when the pause is over; not if the process ends before.
  void act(Clock::Event event);
  void set_timer();
  void sync_soon();
  void add_totals();

  Clock& clock_;
  WorkerLinkOptions options_;
  std::uint64_t life_;
  const std::string store_ = "store";
  Disk disk_;
  Totals past_;

  // Of this life.
  std::shared_ptr<bool> alive_;
  std::map<std::string, std::unique_ptr<Handler>, std::less<>> handlers_;
  std::unique_ptr<Lane> shared_, own_;
  std::map<std::string, HandlerPlace, std::less<>> places_;
  std::map<std::uint64_t, std::shared_ptr<Batch>> batches_;
  std::unique_ptr<WorkerLink> link_;
  std::map<WorkerLink::Id, Peer> peers_;
  std::optional<Nanoseconds> timer_;
  Nanoseconds paused_until_{};
  bool syncs_soon_ = false;
  bool wakes_soon_ = false;
};

}  // namespace locksley::daemon::simulation
