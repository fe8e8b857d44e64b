#include "daemon/workers/desks/claim_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/batch/batch_attempts.h"
#include "core/batch/handler.h"
#include "proto/text.h"

namespace locksley::daemon {

std::expected<std::uint32_t, std::string> ClaimDesk::slot_for(const RemoteWorker& worker,
                                                              std::optional<std::uint32_t> named,
                                                              std::uint32_t width) {
  if (width > worker.slots.size() || named.value_or(0) > worker.slots.size() - width)
    return std::unexpected(fmt::format("TOOBIG the worker has {} slots", worker.slots.size()));
  const auto slot = named ? named : worker.slots.find(width);
  if (!slot || !worker.slots.has_room(*slot, width))
    return std::unexpected(fmt::format("ERR a slot has at most {} leases", SlotTimes::kMostLeases));
  return *slot;
}

void ClaimDesk::claim(RemoteWorker& worker, const proto::ArgumentList& arguments) {
  const WorkerConnections::Id id = worker.connection;
  auto command = parse_claim(arguments, options_.limits);
  if (!command) return connections_.reply(id).error(command.error());
  if (orders_.is_draining()) return connections_.reply(id).error("DRAINING the daemon is about to stop");
  if (const auto slot = slot_for(worker, command->slot, command->width); !slot)
    return connections_.reply(id).error(slot.error());
  auto lanes = wanted(worker, *command);
  if (!lanes) return connections_.reply(id).error(lanes.error());
  if (try_claim(worker, *command, *lanes)) return;
  if (command->block.count() == 0) return connections_.patient_reply(id).null();
  wait(worker, std::move(*command), std::move(*lanes));
}

Parsed<std::vector<ServedLane>> ClaimDesk::wanted(const RemoteWorker& worker, const ClaimCommand& command) {
  if (command.handlers.empty()) return worker.lanes;
  std::vector<ServedHandler> handlers;
  for (const std::string_view name : command.handlers) {
    const auto served = std::ranges::find(worker.handlers, name, &ServedHandler::name);
    if (served == worker.handlers.end())
      return std::unexpected(
          fmt::format("NOHANDLER the worker has not joined for '{}'", proto::printable(name)));
    handlers.push_back(*served);
  }
  return lanes_of(handlers);
}

bool ClaimDesk::may_claim() {
  if (orders_.is_draining() || clock_.now() < holds_.new_life_until()) return false;
  const bool has_room = host_.has_room();
  lacks_room_ = lacks_room_ || !has_room;
  return has_room;
}

bool ClaimDesk::try_claim(RemoteWorker& worker, const ClaimCommand& command,
                          std::span<const ServedLane> lanes) {
  // Each CLAIM begins with another lane, so that none of them waits for the others.
  const std::size_t first = worker.next_lane++;
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    if (try_claim(worker, command, lanes[(first + i) % lanes.size()])) return true;
  }
  return false;
}

bool ClaimDesk::try_claim(RemoteWorker& worker, const ClaimCommand& command, const ServedLane& served) {
  const std::uint64_t room = accounts_.room_for_lease(worker.account);
  if (room == 0 || !served.lane->hints().has_remote_work(served.gates) || !may_claim()) return false;
  const auto slot = command.slot ? command.slot : worker.slots.find(command.width);
  if (!slot || !worker.slots.has_room(*slot, command.width)) return false;
  auto out = leases_.make(*served.lane);
  const LeaseRequest request{.most_jobs = std::min(command.jobs, options_.max_jobs),
                             .most_bytes = std::min({command.bytes, options_.max_bytes, room}),
                             .width = command.width,
                             .quantum = worker.quantum(),
                             .gates = &served.gates};
  if (!out->lease.claim(request)) return false;
  OutLease& added = leases_.add(worker, std::move(out), *slot);
  ++stats_.claims;
  handlers_.count_claim(*served.lane);
  write_claim(worker, added);
  added.reply_end = connections_.find(worker.connection)->end_of_replies();
  return true;
}

void ClaimDesk::write_claim(RemoteWorker& worker, const OutLease& out) {
  const Lease& lease = out.lease;
  const Batch& batch = lease.batch();
  proto::ReplyWriter reply = connections_.reply(worker.connection);
  reply.array(14);
  reply.bulk(LeaseName::Text(leases_.name_of(out)).view());
  reply.integer(static_cast<std::int64_t>(host_.number_of(batch)));
  reply.bulk(batch.handler().name());
  reply.integer(static_cast<std::int64_t>(lease.range().low));
  reply.integer(static_cast<std::int64_t>(lease.range().size()));
  reply.integer(lease.attempt());
  reply.integer(batch.options().timeout.count());
  batch.options().trace.empty() ? reply.null() : reply.bulk(batch.options().trace);
  reply.array(lease.payloads().size());
  for (const std::string_view payload : lease.payloads()) reply.bulk(payload);
  reply.bulk(batch.id());
  reply.bulk(batch.options().tenant);
  reply.array(out.occupation.width);
  for (std::uint32_t i = 0; i < out.occupation.width; ++i)
    reply.bulk(std::to_string(out.occupation.first + i));
  if (const RangePayloads* const range = lease.batch().payloads().range()) {
    reply.array(2);
    reply.integer(range->low() + static_cast<std::int64_t>(lease.range().low));
    range->pattern() ? reply.bulk(*range->pattern()) : reply.null();
  } else {
    reply.null();
  }
  const std::string note = batch.attempts().note(lease.range().low);
  note.empty() ? reply.null() : reply.bulk(note);
}

void ClaimDesk::wait(RemoteWorker& worker, ClaimCommand command, std::vector<ServedLane> lanes) {
  const Nanoseconds until = clock_.now() + command.block;
  command.handlers.clear();
  worker.waiting = WaitingClaim{
      .claim = std::move(command), .lanes = std::move(lanes), .order = ++last_wait_, .until = until};
  if (worker.waits_idle()) {
    if (worker.idle_order == 0) worker.idle_order = last_wait_;
    worker.waiting->order = worker.idle_order;
  }
  for (const ServedLane& served : worker.waiting->lanes) {
    waiting_[served.lane].add(worker, served.gates);
    // serve_waiting() looks for jobs once more.
    served.lane->want_remote_work(true);
  }
  clock_.arm(worker, until);
}

void ClaimDesk::end_wait(RemoteWorker& worker) {
  if (!worker.waiting) return;
  for (const ServedLane& served : worker.waiting->lanes) {
    const auto lane = waiting_.find(served.lane);
    if (lane == waiting_.end()) continue;
    lane->second.remove(worker, served.gates);
    if (!lane->second.empty()) continue;
    waiting_.erase(lane);
    served.lane->want_remote_work(false);
  }
  worker.waiting.reset();
}

void ClaimDesk::end_with_null(RemoteWorker& worker) {
  if (!worker.waiting) return;
  end_wait(worker);
  connections_.reply(worker.connection).null();
}

void ClaimDesk::serve_waiting() {
  if (waiting_.empty() || !may_claim()) return;
  // A lane leaves the map when no CLAIM waits for it any longer.
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    Lane& lane = *at->first;
    // Workers with an idle slot come before those that want their next lease early.
    serve_waiting_of(lane, Claims::kOfIdleSlots);
    serve_waiting_of(lane, Claims::kOfBusySlots);
    at = waiting_.upper_bound(&lane);
  }
}

void ClaimDesk::serve_waiting_of(Lane& lane, Claims which) {
  const auto waiting = waiting_.find(&lane);
  const auto goes_on = [this, &lane] { return lane.hints().has_remote_work() && may_claim(); };
  if (waiting == waiting_.end() || !goes_on()) return;
  const auto has_jobs = [&lane](const GateSet& gates) { return lane.hints().has_remote_work(gates); };
  const auto has_room = [this](const WorkerAccount& account) {
    return accounts_.room_for_lease(account) != 0;
  };
  waiting->second.visit(has_jobs, has_room, [&](RemoteWorker& worker) {
    if (worker.waits_idle() != (which == Claims::kOfIdleSlots)) return true;
    follow_handlers(worker);
    if (!worker.waiting) return goes_on();
    const WaitingClaim& claim = *worker.waiting;
    const auto served = std::ranges::find(claim.lanes, &lane, &ServedLane::lane);
    if (try_claim(worker, claim.claim, *served)) end_wait(worker);
    return goes_on();
  });
}

void ClaimDesk::follow_handlers(RemoteWorker& worker) {
  auto handlers = handlers_.follow(worker);
  if (!handlers) return;
  // The waiting CLAIM names old places: end it, and the worker asks again.
  end_with_null(worker);
  handlers_.serve(worker, std::move(*handlers));
}

}  // namespace locksley::daemon
