#include "daemon/worker_port/machines_publisher.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/base/job.h"

namespace locksley::daemon {

namespace {

// How old the view may be. A guess: people and scrapers do not notice it.
constexpr auto kViewPeriod = std::chrono::milliseconds(50);
constexpr int kViewCost = 100;  // making the view takes at most one part in this many of the thread's time

}  // namespace

void MachinesPublisher::publish_soon() {
  timer_.set(std::max<Nanoseconds>(kViewPeriod, view_took_ * kViewCost), [this] {
    kLinkThread.assert_held();
    if (link_ == nullptr) return;
    view_ == nullptr ? publish() : publish_soon();
  });
}

void MachinesPublisher::publish() {
  view_ = std::make_shared<MachinesView>();
  next_in_view_ = 0;
  view_took_ = Nanoseconds{0};
  for (const auto& [name, place] : host_.directory().handlers) {
    view_->handlers[name];
    view_->lanes[place.lane->name()];
  }
  if (has_slices_ || describe_until(now() + Slices::kSlice)) return;
  has_slices_ = true;
  slices_.add([this](Instant until) {
    kLinkThread.assert_held();
    has_slices_ = link_ != nullptr && !describe_until(until);
    return !has_slices_;
  });
}

void MachinesPublisher::stop() {
  timer_.cancel();
  link_ = nullptr;
}

bool MachinesPublisher::describe_until(Instant until) {
  const Instant began = now();
  const auto& workers = link_->workers();
  for (auto next = workers.lower_bound(next_in_view_); next != workers.end(); ++next) {
    const auto& [id, worker] = *next;
    next_in_view_ = id + 1;
    if (const std::string* const peer = peer_of_(id)) add_to_view(worker, *peer);
    if (const Instant at = now(); at >= until) {
      view_took_ += at - began;
      return false;
    }
  }
  view_->is_open = true;
  view_->stats = link_->stats();
  view_->settle_time = tickets_.settle_time().snapshot();
  for (const auto& [lane, service] : link_->lanes()) {
    view_->lanes[lane->name()] = {.slots = service.slots, .leases = service.leases, .claims = service.claims};
  }
  board_.set(std::exchange(view_, nullptr));
  view_took_ += now() - began;
  return true;
}

void MachinesPublisher::add_to_view(const RemoteWorker& worker, const std::string& peer) {
  view_->machines.push_back(describe(worker, peer));
  if (worker.is_silent) return;
  for (const ServedHandler& handler : worker.handlers) {
    RemoteHandlerView& served = view_->handlers[handler.name];
    ++served.workers;
    if (link_->is_at_limit(worker)) ++served.at_limit;
  }
}

MachineView MachinesPublisher::describe(const RemoteWorker& worker, const std::string& peer) {
  MachineView machine;
  machine.id = worker.connection;
  machine.name = worker.name;
  machine.user = worker.user;
  machine.peer = peer;
  for (const ServedHandler& handler : worker.handlers) machine.handlers.push_back(handler.name);
  machine.slots = static_cast<std::uint32_t>(worker.slots.size());
  machine.busy = worker.slots.size() - worker.slots.idle();
  machine.leases = worker.leases.size();
  machine.jobs = worker.jobs;
  machine.lost = worker.lost;
  machine.since = wall_now() - std::chrono::duration_cast<std::chrono::system_clock::duration>(boot_time() -
                                                                                               worker.joined);
  machine.round_trip = worker.round_trip.mean();
  return machine;
}

}  // namespace locksley::daemon
