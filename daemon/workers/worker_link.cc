#include "daemon/workers/worker_link.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "proto/text.h"

namespace locksley::daemon {

using proto::equals_ignoring_case;

WorkerLink::WorkerLink(WorkerHost& host, const WorkerLinkOptions& options, std::uint64_t life,
                       Nanoseconds now)
    : host_(host),
      options_(options),
      accounts_({.workers = options.max_workers,
                 .slots = options.max_slots,
                 .name_bytes = options.max_name_bytes,
                 .leased_bytes = options.max_leased_bytes,
                 .shown = options.max_shown,
                 .splits = options.max_splits}),
      handlers_(host),
      clock_(now, options.timeout_grace),
      holds_(options.reclaim, options.has_recovered, now),
      leases_(life, options.max_losses, connections_, accounts_, handlers_, clock_, backoffs_, stats_),
      orders_(life, workers_, accounts_, connections_, clock_, stats_),
      claims_(host, options_, connections_, accounts_, handlers_, clock_, holds_, leases_, orders_, stats_),
      reclaims_(host, options_, connections_, accounts_, workers_, clock_, holds_, leases_, orders_, claims_,
                stats_),
      reports_(host, options_, connections_, accounts_, clock_, leases_, orders_, stats_),
      joins_(host, options_, connections_, accounts_, workers_, handlers_, clock_, leases_, orders_,
             claims_) {
  check(life != 0, "a link without a number of its process's life");
  if (holds_.new_life_until() > now) holds_.hold(host_.places(), holds_.new_life_until());
}

WorkerLink::~WorkerLink() {
  while (!workers_.empty()) joins_.remove(workers_.begin()->second, LeaseEnd::kSettled);
}

WorkerLinkStats WorkerLink::stats() const {
  const WorkerUse& all = accounts_.of_all();
  WorkerLinkStats stats = stats_;
  stats.workers = all.workers;
  stats.slots = all.slots;
  stats.name_bytes = all.name_bytes;
  stats.leased_bytes = all.leased_bytes;
  return stats;
}

WorkerLink::Id WorkerLink::connect(std::string user, proto::Protocol protocol) {
  return connections_.add(std::move(user), protocol);
}

void WorkerLink::set_protocol(Id id, proto::Protocol protocol) { connections_.find(id)->protocol = protocol; }

void WorkerLink::set_user(Id id, std::string user) { connections_.find(id)->user = std::move(user); }

void WorkerLink::disconnect(Id id, Nanoseconds now) {
  holds_.note_absence(clock_.first_due(), now);
  clock_.advance(now);
  // A worker that has got no reply for long may have given up the connection, and go on with its
  // jobs. That is not the jobs' fault, so the worker gets time to reclaim them.
  const Nanoseconds until = holds_.returning_until(connections_.waits_long(id), clock_.now());
  const bool may_return = clock_.now() < until;
  connections_.remove(id);
  if (const auto worker = workers_.find(id); worker != workers_.end()) {
    if (may_return && !worker->second.leases.empty()) holds_.hold(worker->second.places(), until);
    joins_.remove(worker->second, may_return ? LeaseEnd::kSettled : LeaseEnd::kDisconnected);
  }
  accounts_.drop_unsent(id);
  claims_.serve_waiting();
}

void WorkerLink::heard(Id id, Nanoseconds now) {
  clock_.advance(now);
  const auto worker = workers_.find(id);
  if (worker == workers_.end()) return;
  worker->second.heard = clock_.now();
  worker->second.is_silent = false;
}

void WorkerLink::has_unfinished(Id id, Nanoseconds now) {
  clock_.advance(now);
  const auto worker = workers_.find(id);
  if (worker != workers_.end()) worker->second.slow_commands.part_came(clock_.now(), options_.timeout_grace);
}

void WorkerLink::stops_reading(Id id, Nanoseconds now) {
  clock_.advance(now);
  if (const auto worker = workers_.find(id); worker != workers_.end()) worker->second.is_read = false;
}

void WorkerLink::reads_again(Id id, Nanoseconds now) {
  const auto worker = workers_.find(id);
  if (worker == workers_.end() || std::exchange(worker->second.is_read, true)) return;
  clock_.advance(now);
  worker->second.read_since = clock_.now();
}

void WorkerLink::show_life(Id id) {
  const auto worker = workers_.find(id);
  if (worker != workers_.end()) orders_.push_life(worker->second);
}

void WorkerLink::send_away(Id id) {
  const auto worker = workers_.find(id);
  if (worker != workers_.end()) leases_.excuse(worker->second);
}

bool WorkerLink::has_leases(Id id) const {
  const auto worker = workers_.find(id);
  return worker != workers_.end() && !worker->second.leases.empty();
}

void WorkerLink::note_round_trip(Id id, Nanoseconds sample) {
  if (const auto worker = workers_.find(id); worker != workers_.end()) worker->second.round_trip.add(sample);
}

void WorkerLink::execute(Id id, const proto::ArgumentList& arguments, Nanoseconds now) {
  check(connections_.find(id) != nullptr, "a command of a connection that is gone");
  end_claim(id, now);
  if (!arguments.empty()) dispatch(id, arguments);
  claims_.serve_waiting();
  orders_.cut_for_idle_workers(claims_.waiting());
}

void WorkerLink::end_claim(Id id, Nanoseconds now) {
  heard(id, now);
  const auto worker = workers_.find(id);
  if (worker == workers_.end()) return;
  worker->second.slow_commands.whole_came(clock_.now());
  if (!worker->second.waiting) return;
  claims_.end_wait(worker->second);
  connections_.patient_reply(id).null();
}

void WorkerLink::dispatch(Id id, const proto::ArgumentList& arguments) {
  using Run = void(WorkerLink&, RemoteWorker&, const proto::ArgumentList&);
  struct Command {
    std::string_view name;
    Run* run;
  };
  static constexpr Command kCommands[] = {
      {"CLAIM", [](auto& link, auto& worker, auto& command) { link.claims_.claim(worker, command); }},
      {"SETTLE", [](auto& link, auto& worker, auto& command) { link.reports_.settle(worker, command); }},
      {"NOTE", [](auto& link, auto& worker, auto& command) { link.reports_.note(worker, command); }},
      {"YIELD", [](auto& link, auto& worker, auto& command) { link.reports_.yield(worker, command); }},
      {"BEAT", [](auto& link, auto& worker, auto& command) { link.reports_.beat(worker, command); }},
      {"RECLAIM", [](auto& link, auto& worker, auto& command) { link.reclaims_.reclaim(worker, command); }},
      {"LEAVE", [](auto& link, auto& worker, auto& command) { link.joins_.leave(worker, command); }},
  };
  const std::string_view name = arguments[0];
  if (equals_ignoring_case(name, "JOIN")) return joins_.join(id, arguments);
  for (const Command& command : kCommands) {
    if (!equals_ignoring_case(name, command.name)) continue;
    const auto worker = workers_.find(id);
    if (worker == workers_.end()) return connections_.reply(id).error("NOTJOINED JOIN first");
    claims_.follow_handlers(worker->second);
    return command.run(*this, worker->second, arguments);
  }
  connections_.reply(id).error(
      fmt::format("ERR unknown command '{}' (this is the port for workers; clients use listen.port, "
                  "7770 unless it says otherwise)",
                  proto::printable(name)));
}

std::vector<WorkerLink::Id> WorkerLink::take_ready() {
  // The most by which a reply to SETTLE is delayed, and by which the worker keeps its results
  // longer. A guess: some leases of the shortest jobs.
  constexpr std::chrono::milliseconds kPutOff{2};
  auto ready = connections_.take_ready([this](Id id) {
    const auto worker = workers_.find(id);
    return worker != workers_.end() && worker->second.waiting.has_value();
  });
  if (!connections_.is_holding()) {
    show_life_at_.reset();
  } else if (!show_life_at_) {
    show_life_at_ = clock_.now() + kLongWait;
  }
  if (!connections_.puts_off()) {
    hurry_at_.reset();
  } else if (!hurry_at_) {
    hurry_at_ = clock_.now() + kPutOff;
  }
  return ready;
}

bool WorkerLink::follow_handlers(std::size_t most, Nanoseconds now) {
  clock_.advance(now);
  auto next = workers_.lower_bound(next_to_follow_);
  for (std::size_t looked_up = 0; next != workers_.end() && looked_up < most; ++next) {
    RemoteWorker& worker = next->second;
    next_to_follow_ = worker.connection + 1;
    looked_up += worker.handlers.size() + worker.not_served.size();
    claims_.follow_handlers(worker);
  }
  claims_.serve_waiting();
  return next == workers_.end();
}

void WorkerLink::wake(Nanoseconds now) {
  clock_.advance(now);
  claims_.forget_lack();
  claims_.serve_waiting();
  orders_.cut_for_idle_workers(claims_.waiting());
}

void WorkerLink::check_batches(Nanoseconds now) {
  clock_.advance(now);
  for (auto& [id, worker] : workers_) orders_.push_orders(worker);
}

void WorkerLink::drain(Nanoseconds now) {
  clock_.advance(now);
  if (!orders_.begin_drain()) return;
  for (auto& [id, worker] : workers_) {
    claims_.end_with_null(worker);
    orders_.push_drain(worker);
    orders_.push_orders(worker);
  }
}

bool WorkerLink::sent(Id id, std::size_t bytes) {
  WorkerConnections::Connection& connection = *connections_.find(id);
  connection.output.consume(bytes);
  connection.sent += bytes;
  return accounts_.has_sent(id, connection.sent);
}

void WorkerLink::listens_again(Nanoseconds now) {
  holds_.note_absence(clock_.first_due(), now);
  clock_.advance(now);
  clock_.listens_again();
}

std::optional<Nanoseconds> WorkerLink::next_timer() const {
  std::optional<Nanoseconds> next;
  const auto consider = [&next](Nanoseconds at) { next = next ? std::min(*next, at) : at; };
  if (const auto due = clock_.first_due()) consider(*due);
  if (const auto hold = holds_.next()) consider(*hold);
  if (!claims_.waiting().empty() && clock_.now() < holds_.new_life_until()) consider(holds_.new_life_until());
  if (const auto backoff = backoffs_.next()) consider(*backoff);
  if (hurry_at_) consider(*hurry_at_);
  if (show_life_at_) consider(*show_life_at_);
  if (const auto search = orders_.next_search(); search && !claims_.waiting().empty()) consider(*search);
  return next;
}

void WorkerLink::advance(Nanoseconds now) {
  clock_.advance(now);
  // While there was no room, no connection was read.
  if (!has_room() || std::exchange(lacked_room_, false)) clock_.listens_again();
  while (const auto due = clock_.due_worker()) look_at(workers_.at(*due));
  holds_.end(clock_.now());
  if (hurry_at_ && clock_.now() >= *hurry_at_) {
    hurry_at_.reset();
    connections_.hurry();
  }
  if (show_life_at_ && clock_.now() >= *show_life_at_) {
    show_life_at_.reset();  // take_ready() sets it again
    for (const Id id : connections_.note_long_waits(clock_.now() - kLongWait)) show_life(id);
  }
  backoffs_.advance(clock_.now());
  claims_.serve_waiting();
  orders_.cut_for_idle_workers(claims_.waiting());
}

void WorkerLink::look_at(RemoteWorker& worker) {
  clock_.disarm(worker);
  // Bytes that the worker has sent since are unread.
  if (connections_.is_full(worker.connection)) worker.heard = clock_.now();
  const Nanoseconds silent = clock_.silent_at(worker);
  const bool loses_all = clock_.now() >= silent && !worker.leases.empty();
  // A silent worker gets no other lease before it has sent something. If it is alive, it claims
  // again.
  if (worker.waiting && (loses_all || worker.waiting->until <= clock_.now())) claims_.end_with_null(worker);
  if (loses_all) {
    worker.is_silent = true;
    for (const auto& [number, out] : worker.leases) orders_.push_stop(worker, *out);
    leases_.end_all(worker, LeaseEnd::kSilent);
  }
  std::vector<std::uint64_t> late;
  for (const auto& [number, out] : worker.leases) {
    const auto at = clock_.late_at(worker, *out);
    if (at && *at <= clock_.now()) late.push_back(number);
  }
  for (const std::uint64_t number : late) {
    orders_.push_stop(worker, *worker.find(number));
    leases_.end(worker, *worker.find(number), LeaseEnd::kTimedOut);
  }

  if (worker.waiting) clock_.arm(worker, worker.waiting->until);
  if (worker.leases.empty()) return;
  if (clock_.now() - worker.charged >= clock_.charge_interval(worker)) {
    leases_.charge(worker);
    orders_.shorten_leases(worker);
  }
  clock_.arm(worker, worker.charged + clock_.charge_interval(worker));
  clock_.arm(worker, silent);
  for (const auto& [number, out] : worker.leases) {
    if (const auto at = clock_.late_at(worker, *out)) clock_.arm(worker, *at);
  }
}

}  // namespace locksley::daemon
