// Length: one class, the rest of which has files of its own.
#include "daemon/workers/worker_link.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.h"
#include "core/base/index_ranges.h"
#include "core/lane/lane_gates.h"
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
                stats_) {
  check(life != 0, "a link without a number of its process's life");
  if (holds_.new_life_until() > now) holds_.hold(host_.places(), holds_.new_life_until());
}

WorkerLink::~WorkerLink() {
  while (!workers_.empty()) remove(workers_.begin()->second, LeaseEnd::kSettled);
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
  // A worker that has got no reply for long may have given up the connection, and goes on with its
  // jobs: that is no fault of theirs, and it gets the time to reclaim them.
  const Nanoseconds until = holds_.returning_until(connections_.waits_long(id), clock_.now());
  const bool may_return = clock_.now() < until;
  connections_.remove(id);
  if (const auto worker = workers_.find(id); worker != workers_.end()) {
    if (may_return && !worker->second.leases.empty()) holds_.hold(worker->second.places(), until);
    remove(worker->second, may_return ? LeaseEnd::kSettled : LeaseEnd::kDisconnected);
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
      {"SETTLE", [](auto& link, auto& worker, auto& command) { link.settle(worker, command); }},
      {"NOTE", [](auto& link, auto& worker, auto& command) { link.note(worker, command); }},
      {"YIELD", [](auto& link, auto& worker, auto& command) { link.yield(worker, command); }},
      {"BEAT", [](auto& link, auto& worker, auto& command) { link.beat(worker, command); }},
      {"RECLAIM", [](auto& link, auto& worker, auto& command) { link.reclaims_.reclaim(worker, command); }},
      {"LEAVE", [](auto& link, auto& worker, auto& command) { link.leave(worker, command); }},
  };
  const std::string_view name = arguments[0];
  if (equals_ignoring_case(name, "JOIN")) return join(id, arguments);
  for (const Command& command : kCommands) {
    if (!equals_ignoring_case(name, command.name)) continue;
    const auto worker = workers_.find(id);
    if (worker == workers_.end()) return error(id, "NOTJOINED JOIN first");
    claims_.follow_handlers(worker->second);
    return command.run(*this, worker->second, arguments);
  }
  error(id, fmt::format("ERR unknown command '{}' (this is the port for workers; clients use listen.port, "
                        "7770 unless it says otherwise)",
                        proto::printable(name)));
}

void WorkerLink::join(Id id, const proto::ArgumentList& arguments) {
  const auto command = parse_join(arguments, options_.limits);
  if (!command) return error(id, command.error());
  const WorkerConnections::Connection& connection = *connections_.find(id);
  if (workers_.contains(id)) return error(id, "ERR this connection has joined; LEAVE first");
  if (command->wants_pushes && connection.protocol != proto::Protocol::kResp3)
    return error(id, "ERR PUSH needs RESP3: HELLO 3");
  if (const auto refusal = refuse(*command, connection.user)) return error(id, *refusal);

  const Nanoseconds lease = command->lease.value_or(options_.lease);
  WorkerAccount& account = accounts_.of(connection.user);
  RemoteWorker& worker =
      workers_.try_emplace(id, id, *command, connection.user, account, lease).first->second;
  handlers_.join(worker, command->handlers);
  worker.heard = worker.charged = worker.joined = clock_.now();
  account.charge(&WorkerUse::workers, 1);
  account.charge(&WorkerUse::slots, command->slots);
  account.charge(&WorkerUse::name_bytes, worker.name_bytes);

  const std::vector<std::string> addresses = host_.addresses();
  const std::uint64_t longest_output = host_.longest_output();
  proto::ReplyWriter reply = connections_.reply(id);
  const auto milliseconds = [](Nanoseconds time) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  };
  reply.map(!command->is_partial ? 7 : longest_output == 0 ? 8 : 9);
  reply.bulk("worker");
  reply.bulk(worker.name);
  reply.bulk("lease_ms");
  reply.integer(milliseconds(lease));
  reply.bulk("beat_ms");
  reply.integer(milliseconds(lease / 3));
  reply.bulk("max_jobs");
  reply.integer(static_cast<std::int64_t>(options_.max_jobs));
  reply.bulk("max_bytes");
  reply.integer(static_cast<std::int64_t>(options_.max_bytes));
  reply.bulk("addresses");
  reply.array(addresses.size());
  for (const std::string& address : addresses) reply.bulk(address);
  reply.bulk("store");
  reply.bulk(host_.store());
  if (!command->is_partial) return;
  if (longest_output != 0) {
    reply.bulk("longest_output");
    reply.integer(static_cast<std::int64_t>(longest_output));
  }
  reply.bulk("not_served");
  reply.array(worker.not_served.size());
  for (const std::string& handler : worker.not_served) reply.bulk(handler);
}

std::optional<std::string> WorkerLink::refuse(const JoinCommand& command, const std::string& user) {
  if (orders_.is_draining()) return "DRAINING the daemon is about to stop";
  if (!host_.may_work(user))
    return fmt::format("NOPERM User {} has no permissions to run the 'join' command", user);
  if (auto elsewhere = host_.join_refusal()) return elsewhere;
  const auto can = [&](std::string_view handler) { return handlers_.can_serve(user, handler); };
  const auto first_refused = std::ranges::find_if_not(command.handlers, can);
  const bool is_all = first_refused == command.handlers.end();
  if (!is_all && !(command.is_partial && std::ranges::any_of(command.handlers, can)))
    return handlers_.why_not_served(user, *first_refused);
  return refuse_number(command, user);
}

std::optional<std::string> WorkerLink::refuse_number(const JoinCommand& command,
                                                     const std::string& user) const {
  const WorkerUse held = accounts_.use_of(user);
  if (accounts_.room(&WorkerUse::workers, held) == 0)
    return fmt::format(
        "TOOBIG the user has {} workers, the most that leave room for those of others: one of them must "
        "LEAVE",
        held.workers);
  const std::uint64_t room = accounts_.room(&WorkerUse::slots, held);
  if (command.slots > room)
    return fmt::format("TOOBIG the workers of the user would have more than {} slots together: {}",
                       held.slots + room,
                       room != 0 ? fmt::format("JOIN with {} at most", room) : "one of them must LEAVE");
  const std::uint64_t room_of_names = accounts_.room(&WorkerUse::name_bytes, held);
  if (bytes_of_names(command.handlers) > room_of_names)
    return fmt::format(
        "TOOBIG the names of handlers of the user's workers would take more than {} bytes, of which each "
        "name "
        "takes {} and its length: JOIN for fewer handlers, or one of them must LEAVE",
        held.name_bytes + room_of_names, kBytesOfName);
  return std::nullopt;
}

void WorkerLink::leave(RemoteWorker& worker, const proto::ArgumentList& arguments) {
  const Id id = worker.connection;
  if (arguments.size() != 1) return error(id, "ERR wrong number of arguments for 'leave' command");
  remove(worker, LeaseEnd::kSettled);
  connections_.reply(id).ok();
}

void WorkerLink::remove(RemoteWorker& worker, LeaseEnd reason) {
  claims_.end_wait(worker);
  leases_.end_all(worker, reason);
  clock_.disarm(worker);
  handlers_.leave(worker);
  worker.account.charge(&WorkerUse::workers, -std::uint64_t{1});
  worker.account.charge(&WorkerUse::slots, -std::uint64_t{worker.slots.size()});
  worker.account.charge(&WorkerUse::name_bytes, -worker.name_bytes);
  accounts_.forget_if_empty(worker.user);
  workers_.erase(worker.connection);
}

void WorkerLink::note(RemoteWorker& worker, const proto::ArgumentList& arguments) {
  const auto command = parse_note(arguments, options_.limits);
  if (!command) return error(worker.connection, command.error());
  OutLease* const out = find_lease(worker, command->lease);
  if (out == nullptr) return;
  if (!out->lease.held().contains(command->index))
    return error(worker.connection, "LOST the lease does not hold that job");
  out->reported.noted(command->index);
  if (out->timeout.job_runs(clock_.now())) {
    if (const auto at = clock_.late_at(worker, *out)) clock_.arm(worker, *at);
  }
  // A NOTE about a job that may not be shown is acknowledged, but not kept.
  const bool may_be_shown =
      out->shown.contains(command->index) || accounts_.room(&WorkerUse::shown, worker.account.use()) != 0;
  if (ShownJob* const job = may_be_shown ? out->shown_job(command->index, worker.name) : nullptr) {
    worker.count_shown(*out);
    if (command->text) job->set_note(*command->text);
    if (command->progress) job->set_progress(*command->progress);
    if (command->exit_status) job->set_exit_status(*command->exit_status);
    if (!command->log.empty()) job->add_log(command->log);
  }
  connections_.reply(worker.connection).ok();
}

std::vector<WorkerLink::Id> WorkerLink::take_ready() {
  // A worker keeps its results until it has the reply to SETTLE, so this much longer. A guess: as
  // long as some leases of the shortest jobs take.
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

}  // namespace locksley::daemon
