#include "daemon/workers/desks/reclaim_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <expected>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/index_ranges.h"
#include "core/batch/batch_attempts.h"
#include "core/batch/handler.h"
#include "core/lane/lane_gates.h"

namespace locksley::daemon {

namespace {

// The batch waits for its start (DELAY, AFTER), so no worker should have had its jobs. But a
// restored batch may wait again after it had started: its condition was met in the last moments of
// the previous process, or by another wall clock.
bool may_not_have_begun(const Batch& batch) {
  const Holds holds = batch.holds();
  return (has(holds, Hold::kDelay) || has(holds, Hold::kBatches)) && batch.status().started_at == 0;
}

}  // namespace

void ReclaimDesk::reclaim(RemoteWorker& worker, const proto::ArgumentList& arguments) {
  const WorkerConnections::Id id = worker.connection;
  const auto command = parse_reclaim(arguments);
  if (!command) return connections_.reply(id).error(command.error());
  if (command->jobs.size() > options_.max_jobs)
    return connections_.reply(id).error(fmt::format("TOOBIG a lease has at most {} jobs", options_.max_jobs));
  const auto slot = ClaimDesk::slot_for(worker, command->slot, command->width);
  if (!slot) return connections_.reply(id).error(slot.error());
  const std::shared_ptr<Batch> batch = host_.batch_of(command->batch);
  // A user learns nothing of batches that it may not serve.
  if (batch == nullptr || !host_.may_serve(worker.user, batch->handler().name()))
    return connections_.reply(id).error("LOST there is no such batch");
  const auto served = std::ranges::find(worker.handlers, batch->handler().name(), &ServedHandler::name);
  if (served == worker.handlers.end())
    return connections_.reply(id).error(
        fmt::format("NOHANDLER the worker has not joined for '{}'", batch->handler().name()));

  auto out = leases_.make(*served->place.lane);
  const auto attempt = reclaim_jobs(worker, *command, *batch, served->place, out->lease);
  if (!attempt) return connections_.reply(id).error(attempt.error());
  const std::vector<IndexRange> held = out->lease.held().ranges();
  stats_.reclaimed_jobs += count_of(held);
  out->reported.reclaimed();
  OutLease& added = leases_.add(worker, std::move(out), *slot);
  if (command->former) leases_.add_former(worker, added, *command->former);

  proto::ReplyWriter reply = connections_.reply(id);
  reply.array(3);
  reply.bulk(LeaseName::Text(leases_.name_of(added)).view());
  reply.array(held.size());
  for (const IndexRange& range : held) {
    reply.array(2);
    reply.integer(static_cast<std::int64_t>(range.low));
    reply.integer(static_cast<std::int64_t>(range.high));
  }
  reply.integer(*attempt);
}

std::expected<std::uint32_t, std::string_view> ReclaimDesk::reclaim_jobs(const RemoteWorker& worker,
                                                                         const ReclaimCommand& command,
                                                                         Batch& batch,
                                                                         const HandlerPlace& place,
                                                                         Lease& lease) {
  const auto elsewhere = find_elsewhere(worker, command, batch);
  if (!elsewhere) return reclaim_queued(worker, command, batch, lease, leases_.losses());
  // No executor gets the jobs while they are queued.
  const bool is_held = holds_.holds(place);
  if (!is_held) place.lane->gates().set_hold(place.gate, true);
  give_up(workers_.at(elsewhere->connection), elsewhere->number);
  // No loss was counted, so there is none to take back.
  LossCounts none(options_.max_losses);
  const auto attempt = reclaim_queued(worker, command, batch, lease, none);
  if (!is_held) place.lane->gates().set_hold(place.gate, false);
  return attempt;
}

std::optional<LeasePlaces::Place> ReclaimDesk::find_elsewhere(const RemoteWorker& worker,
                                                              const ReclaimCommand& command,
                                                              const Batch& batch) {
  if (!command.former) return std::nullopt;
  const auto place = leases_.place_of(*command.former);
  if (!place || place->connection == worker.connection) return std::nullopt;
  RemoteWorker& other = workers_.at(place->connection);
  const bool is_its_own = other.user == worker.user && &other.find(place->number)->lease.batch() == &batch;
  return is_its_own ? place : std::nullopt;
}

void ReclaimDesk::give_up(RemoteWorker& worker, std::uint64_t lease) {
  leases_.excuse(worker);
  claims_.end_with_null(worker);
  OutLease& out = *worker.find(lease);
  orders_.push_stop(worker, out);
  leases_.end(worker, out, LeaseEnd::kReclaimed);
}

std::expected<std::uint32_t, std::string_view> ReclaimDesk::reclaim_queued(const RemoteWorker& worker,
                                                                           const ReclaimCommand& command,
                                                                           Batch& batch, Lease& lease,
                                                                           LossCounts& losses) const {
  // Ranges beyond the user's room stay queued.
  const std::uint64_t splits = accounts_.room(&WorkerUse::splits, worker.account.use());
  const auto most_parts = static_cast<std::size_t>(std::min<std::uint64_t>(options_.max_parts, splits + 1));
  const std::uint32_t first = batch.attempts().first();  // of the jobs that have not failed
  const auto try_reclaim = [&](std::uint32_t attempt) {
    return attempt >= first && lease.reclaim(batch, command.jobs, attempt, command.width, losses, most_parts);
  };
  // Attempt numbers begin with 1, and each restart of the daemon increases all of them by one.
  // Failed attempts survive restarts. So a job that has not failed is still at the attempt that an
  // earlier process gave to the worker, however many restarts there have been since. For a job that
  // has failed this is unknown: its number may be that of a later attempt.
  const bool was_numbered_lower =
      command.attempt != 0 && command.attempt < std::numeric_limits<std::uint32_t>::max();
  const bool is_of_this_life = command.former && leases_.is_of_this_life(*command.former);
  const bool is_of_former_life =
      was_numbered_lower && command.former && command.former->life != 0 && !is_of_this_life;
  const bool is_new_life = was_numbered_lower && !is_of_this_life && clock_.now() < holds_.new_life_until();
  if (is_of_former_life && command.attempt < first && try_reclaim(first)) return first;
  if (is_new_life && try_reclaim(command.attempt + 1)) return command.attempt + 1;
  if (may_not_have_begun(batch)) return std::unexpected("LOST the batch may not start yet");
  if (!try_reclaim(command.attempt))
    return std::unexpected("LOST none of these jobs is queued for this attempt");
  return command.attempt;
}

}  // namespace locksley::daemon
