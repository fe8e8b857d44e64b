#include "tests/simulation/machine.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace locksley::daemon::simulation {

Machine::Machine(Clock& clock, Options options, Connect connect, Cost cost)
    : clock_(clock),
      options_(std::move(options)),
      connect_(std::move(connect)),
      cost_(std::move(cost)),
      random_(options_.seed) {
  start();
}

void Machine::start() {
  if (is_up()) return;
  alive_ = std::make_shared<bool>(true);
  UpstreamLinkOptions options = options_.link;
  options.seed = random_();
  link_ = std::make_unique<UpstreamLink>(*this, options, clock_.now());
  clock_.after(Nanoseconds{0}, [this, alive = alive_] {
    if (*alive) pump();
  });
}

void Machine::end_life() {
  *alive_ = false;
  link_.reset();
  wire_.reset();
  running_.clear();
  timer_.reset();
  paused_until_ = {};
}

void Machine::kill() {
  if (!is_up()) return;
  if (wire_ != nullptr) wire_->close(Wire::End::kMachine);
  end_life();
}

void Machine::lose_power() {
  if (!is_up()) return;
  if (wire_ != nullptr) wire_->vanish(Wire::End::kMachine);
  end_life();
}

void Machine::act(Clock::Event event) {
  if (clock_.now() < paused_until_) {
    clock_.at(paused_until_, [this, alive = alive_, event = std::move(event)]() mutable {
      if (*alive) act(std::move(event));
    });
    return;
  }
  event();
  pump();
}

void Machine::connect() {
  auto wire = std::make_shared<Wire>(clock_, options_.delay, random_());
  if (!connect_(wire)) return link_->disconnected("refused", clock_.now());
  wire_ = wire;
  // The wire's: a connection of before has nothing to say to this one.
  const auto of_this = [this, alive = alive_, wire = wire.get()](auto then) {
    return [this, alive, wire, then](auto... bytes) {
      if (!*alive) return;
      act([=, this] {
        if (wire_.get() == wire) then(bytes...);
      });
    };
  };
  wire->attach(Wire::End::kMachine, {.receive = of_this([this](std::string bytes) {
                                       std::string_view left = bytes;
                                       while (!left.empty() && !link_->is_broken()) {
                                         const auto space = link_->space();
                                         const std::size_t n = std::min(left.size(), space.size());
                                         std::copy_n(left.data(), n, space.data());
                                         link_->received(n, clock_.now());
                                         left.remove_prefix(n);
                                       }
                                     }),
                                     .closed = of_this([this] {
                                       wire_->close(Wire::End::kMachine);
                                       wire_.reset();
                                       link_->disconnected("closed", clock_.now());
                                     })});
  link_->connected(clock_.now());
}

void Machine::pump() {
  if (!is_up()) return;
  if (wire_ == nullptr && link_->wants_connection(clock_.now())) connect();
  if (wire_ != nullptr) {
    link_->flush(clock_.now());
    link_->claim_put_off(clock_.now());
    if (std::string bytes = link_->output().to_string(); !bytes.empty()) {
      link_->output().consume(bytes.size());
      wire_->send(Wire::End::kMachine, std::move(bytes));
    }
    if (link_->is_broken()) {
      std::exchange(wire_, nullptr)->close(Wire::End::kMachine);
      link_->disconnected("broken", clock_.now());
    }
  }
  set_timer();
}

void Machine::set_timer() {
  const auto next = link_->next_timer();
  if (!next || (timer_ && *timer_ <= *next && *timer_ > clock_.now())) return;
  timer_ = std::max(*next, clock_.now() + Nanoseconds(1));
  clock_.at(*timer_, [this, alive = alive_, when = *timer_] {
    if (!*alive || timer_ != when) return;
    timer_.reset();
    act([this] { link_->advance(clock_.now()); });
  });
}

// ---- Jobs ----

bool Machine::begin(LeaseKey lease, LeasedJobs jobs) {
  running_[lease] = {
      .batch = jobs.batch, .range = jobs.range, .first = jobs.range.low, .next = jobs.range.low};
  run_burst(lease);
  return true;
}

void Machine::run_burst(LeaseKey lease) {
  Running& it = running_.at(lease);
  it.first = it.next;
  Nanoseconds time{0};
  while (it.next < it.range.high && time < kBurst) {
    const Nanoseconds cost = cost_(it.batch, it.next++);
    time += Nanoseconds(static_cast<std::int64_t>(static_cast<double>(cost.count()) * options_.slowness));
  }
  clock_.after(time, [this, alive = alive_, lease] {
    if (*alive) act([this, lease] { end_burst(lease); });
  });
}

void Machine::end_burst(LeaseKey lease) {
  const auto found = running_.find(lease);
  if (found == running_.end() || found->second.is_stopped) return;
  Running& it = found->second;
  const std::uint64_t count = it.next - it.first;
  executions_ += count;
  std::string outputs;
  for (std::uint64_t i = 0; i < count; ++i) outputs += "$1\r\nx\r\n";
  link_->settle(lease, JobStatus::kOk, it.first, count, std::move(outputs), clock_.now());
  if (it.next < it.range.high) return run_burst(lease);
  running_.erase(found);
  link_->ended(lease, clock_.now());
}

std::uint64_t Machine::withdraw(LeaseKey lease, std::uint64_t at) {
  const auto found = running_.find(lease);
  if (found == running_.end()) return std::numeric_limits<std::uint64_t>::max();
  Running& it = found->second;
  const std::uint64_t from = std::max(at, it.next);
  if (from >= it.range.high) return std::numeric_limits<std::uint64_t>::max();
  it.range.high = from;
  return from;
}

void Machine::finish(LeaseKey lease) {
  const auto found = running_.find(lease);
  if (found != running_.end()) found->second.range.high = found->second.next;  // the burst goes on
}

void Machine::stop(LeaseKey lease) {
  const auto found = running_.find(lease);
  if (found == running_.end() || std::exchange(found->second.is_stopped, true)) return;
  clock_.after(Nanoseconds{0}, [this, alive = alive_, lease] {
    if (!*alive) return;
    act([this, lease] {
      if (running_.erase(lease) != 0) link_->ended(lease, clock_.now());
    });
  });
}

std::uint64_t Machine::next(LeaseKey lease) {
  const auto found = running_.find(lease);
  return found == running_.end() ? std::numeric_limits<std::uint64_t>::max() : found->second.next;
}

}  // namespace locksley::daemon::simulation
