#include "tests/simulation/owner.h"

#include <utility>

#include "core/lane/lane_gates.h"
#include "core/lane/lane_view.h"

namespace locksley::daemon::simulation {

using namespace std::chrono_literals;

Owner::Owner(Clock& clock, WorkerLinkOptions options, std::uint64_t seed)
    : clock_(clock), options_(options), life_(seed | 1) {
  for (const char* const name : {"a", "b", "c"})
    handlers_.emplace(name, std::make_unique<Handler>(name, "", [](JobContext&, std::string_view) {}));
  start();
}

Owner::~Owner() {
  if (is_up()) crash();
}

void Owner::make_lanes() {
  const FairRing::Options ring{.quantum = 1ms, .parallelism = 1};
  shared_ = std::make_unique<Lane>("shared", ring);
  own_ = std::make_unique<Lane>("own", ring);
  places_["a"] = {.lane = shared_.get(), .gate = shared_->gates().add({}).value()};
  places_["b"] = {.lane = shared_.get(), .gate = shared_->gates().add({}).value()};
  places_["c"] = {.lane = own_.get(), .gate = 0};
  for (Lane* const lane : {shared_.get(), own_.get()}) lane->set_remote(this);
}

void Owner::lane_has_work() {
  if (std::exchange(wakes_soon_, true)) return;
  clock_.after(0ns, [this, alive = alive_] {
    if (!*alive) return;
    wakes_soon_ = false;
    act([this] { link_->wake(clock_.now()); });
  });
}

void Owner::start() {
  alive_ = std::make_shared<bool>(true);
  wakes_soon_ = syncs_soon_ = false;
  make_lanes();
  bool has_batches = false;
  for (std::uint64_t number = 1; number <= disk_.size(); ++number)
    has_batches = has_batches || !disk_.record(number).is_over();
  WorkerLinkOptions options = options_;
  options.has_recovered = has_batches;
  link_ = std::make_unique<WorkerLink>(*this, options, ++life_, clock_.now());
  for (std::uint64_t number = 1; number <= disk_.size(); ++number) {
    Disk::Record& record = disk_.record(number);
    if (record.is_over()) continue;
    ++record.attempt;
    enter(number);
  }
  pump();
}

void Owner::submit(BatchPlan plan) {
  const std::uint64_t number = disk_.add(std::move(plan));
  if (is_up()) enter(number);
}

void Owner::enter(std::uint64_t number) {
  const Disk::Record& record = disk_.record(number);
  const HandlerPlace place = place_of(record.plan.handler);
  BatchOptions options;
  options.id = "b" + std::to_string(number);
  options.tenant = record.plan.tenant;
  options.slots = record.plan.slots;
  options.timeout = record.plan.timeout;
  options.gate = place.gate;
  options.keep = Keep::kNone;
  auto batch = std::make_shared<Batch>(options, *handlers_.find(record.plan.handler)->second,
                                       std::make_unique<RangePayloads>(0), nullptr, disk_.journal(number));
  BatchHistory history;
  history.jobs = record.plan.jobs;
  history.closed = true;
  history.attempt = record.attempt;
  history.totals.by_status[static_cast<std::size_t>(JobStatus::kOk)] = record.ended;
  history.steps = record.steps;
  batch->restore(history);
  batches_[number] = batch;
  std::vector<IndexRange> left;
  for (std::uint64_t index = 0; index < record.results.size(); ++index) {
    if (record.results[index] != 0) continue;
    if (left.empty() || left.back().high != index) left.push_back({index, index});
    ++left.back().high;
  }
  place.lane->enqueue(batch, left, /*open=*/false);
}

void Owner::crash() {
  *alive_ = false;
  add_totals();
  // Some of what was being written is on the disk, though nobody was told.
  (void)disk_.sync(life_ % 3);
  disk_.lose_rest();
  for (auto& [id, peer] : peers_) peer.wire->close(Wire::End::kOwner);
  peers_.clear();
  link_.reset();
  disk_.lose_rest();
  batches_.clear();
  shared_->detach_all();
  own_->detach_all();
  shared_.reset();
  own_.reset();
  timer_.reset();
  paused_until_ = {};
}

void Owner::pause(Nanoseconds until) { paused_until_ = std::max(paused_until_, until); }

void Owner::act(Clock::Event event) {
  if (clock_.now() < paused_until_) {
    clock_.at(paused_until_, [this, alive = alive_, event = std::move(event)]() mutable {
      if (*alive) act(std::move(event));
    });
    return;
  }
  event();
  pump();
}

bool Owner::accept(const std::shared_ptr<Wire>& wire) {
  if (!is_up()) return false;
  const WorkerLink::Id id = link_->connect("w", proto::Protocol::kResp2);
  peers_[id].wire = wire;
  const auto guarded = [this, alive = alive_](auto then) {
    return [this, alive, then](auto... bytes) {
      if (*alive) act([=] { then(bytes...); });
    };
  };
  wire->attach(Wire::End::kOwner, {.receive = guarded([this, id](std::string bytes) { receive(id, bytes); }),
                                   .closed = guarded([this, id] { hang_up(id); })});
  return true;
}

void Owner::hang_up(WorkerLink::Id id) {
  if (peers_.erase(id) != 0) link_->disconnect(id, clock_.now());
}

void Owner::receive(WorkerLink::Id id, std::string bytes) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  link_->note_round_trip(id, found->second.wire->round_trip());
  link_->heard(id, clock_.now());
  found->second.unread += bytes;
  read(id, found->second);
}

void Owner::read(WorkerLink::Id id, Peer& peer) {
  std::size_t at = 0;
  proto::Command command;
  while (link_->accepts_commands(id)) {
    if (peer.reader.next(command) == proto::ReadStatus::kComplete) {
      execute(id, command);
      continue;
    }
    if (at == peer.unread.size()) break;
    const auto space = peer.reader.prepare();
    const std::size_t count = std::min(space.size(), peer.unread.size() - at);
    std::copy_n(reinterpret_cast<const std::byte*>(peer.unread.data()) + at, count, space.data());
    peer.reader.commit(count);
    at += count;
  }
  peer.unread.erase(0, at);
}

void Owner::execute(WorkerLink::Id id, const proto::Command& command) {
  if (command.name() != "HELLO") return link_->execute(id, command.arguments, clock_.now());
  link_->end_claim(id, clock_.now());
  link_->set_protocol(id, proto::Protocol::kResp3);
  proto::ReplyWriter reply(link_->output(id), proto::Protocol::kResp3);
  reply.map(1);
  reply.bulk("proto");
  reply.integer(3);
  send(id, peers_.at(id));
}

void Owner::send(WorkerLink::Id id, Peer& peer) {
  proto::OutputBuffer& output = link_->output(id);
  if (output.size() == 0) return;
  std::string bytes = output.to_string();
  if (link_->sent(id, output.size())) link_->wake(clock_.now());
  peer.wire->send(Wire::End::kOwner, std::move(bytes));
}

void Owner::pump() {
  if (!is_up()) return;
  for (auto ready = link_->take_ready(); !ready.empty(); ready = link_->take_ready()) {
    for (const WorkerLink::Id id : ready) {
      if (const auto peer = peers_.find(id); peer != peers_.end()) send(id, peer->second);
    }
  }
  sync_soon();
  set_timer();
}

void Owner::sync_soon() {
  if (std::exchange(syncs_soon_, true)) return;
  clock_.after(1ms, [this, alive = alive_] {
    if (!*alive) return;
    syncs_soon_ = false;
    const bool is_idle = disk_.last_write() == disk_.sync(0);
    if (is_idle) return;
    act([this] {
      link_->written(disk_.sync());
      // Connections that had too many replies waiting are read again.
      for (auto& [id, peer] : peers_) {
        if (!peer.unread.empty()) read(id, peer);
      }
    });
  });
}

void Owner::set_timer() {
  const auto next = link_->next_timer();
  if (!next || (timer_ && *timer_ <= *next)) return;
  timer_ = *next;
  clock_.at(*next, [this, alive = alive_, when = *next] {
    if (!*alive || timer_ != when) return;
    timer_.reset();
    act([this, when] {
      if (clock_.now() - when >= 300ms) link_->listens_again(clock_.now());  // it was paused
      link_->advance(clock_.now());
    });
  });
}

HandlerPlace Owner::place_of(std::string_view handler) {
  const auto found = places_.find(handler);
  return found == places_.end() ? HandlerPlace{} : found->second;
}

std::vector<HandlerPlace> Owner::places() {
  std::vector<HandlerPlace> result;
  for (const auto& [name, place] : places_) result.push_back(place);
  return result;
}

std::uint64_t Owner::number_of(const Batch& batch) { return std::stoull(batch.id().substr(1)); }

std::shared_ptr<Batch> Owner::batch_of(std::uint64_t number) {
  const auto found = batches_.find(number);
  return found == batches_.end() ? nullptr : found->second;
}

bool Owner::all_over() {
  for (std::uint64_t number = 1; number <= disk_.size(); ++number) {
    if (!disk_.record(number).is_over()) return false;
  }
  return true;
}

Nanoseconds Owner::received(const std::string& handler, std::string_view tenant) {
  Lane& of = lane(handler);
  Nanoseconds sum{};
  for (const TenantView& view : of.view().snapshot(0).tenants) {
    if (view.tenant == tenant) sum += view.busy;
  }
  for (const auto& [id, worker] : link_->workers()) {
    for (const auto& [number, out] : worker.leases) {
      if (&out->lease.lane() == &of && out->lease.batch().options().tenant == tenant)
        sum += worker.slots.so_far(out->occupation, clock_.now());
    }
  }
  return sum;
}

void Owner::add_totals() {
  const WorkerLinkStats stats = link_->stats();
  past_.claims += stats.claims;
  past_.lost += stats.lost_by_disconnect + stats.lost_by_silence;
  past_.timed_out += stats.timed_out;
  past_.cuts += stats.cut_orders;
  past_.yielded += stats.yielded_jobs;
  past_.reclaimed += stats.reclaimed_jobs;
}

Owner::Totals Owner::totals() const {
  Owner::Totals sum = past_;
  if (link_ == nullptr) return sum;
  const WorkerLinkStats stats = link_->stats();
  sum.claims += stats.claims;
  sum.lost += stats.lost_by_disconnect + stats.lost_by_silence;
  sum.timed_out += stats.timed_out;
  sum.cuts += stats.cut_orders;
  sum.yielded += stats.yielded_jobs;
  sum.reclaimed += stats.reclaimed_jobs;
  return sum;
}

}  // namespace locksley::daemon::simulation
