#include "daemon/workers/desks/join_desk.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace locksley::daemon {

void JoinDesk::join(Id id, const proto::ArgumentList& arguments) {
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

void JoinDesk::leave(RemoteWorker& worker, const proto::ArgumentList& arguments) {
  const Id id = worker.connection;
  if (arguments.size() != 1) return error(id, "ERR wrong number of arguments for 'leave' command");
  remove(worker, LeaseEnd::kSettled);
  connections_.reply(id).ok();
}

void JoinDesk::remove(RemoteWorker& worker, LeaseEnd reason) {
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

std::optional<std::string> JoinDesk::refuse(const JoinCommand& command, const std::string& user) {
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

std::optional<std::string> JoinDesk::refuse_number(const JoinCommand& command,
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

}  // namespace locksley::daemon
