#include "daemon/workers/state/worker_connections.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace locksley::daemon {

WorkerConnections::Id WorkerConnections::add(std::string user, proto::Protocol protocol) {
  Connection& connection = connections_[++last_id_];
  connection.user = std::move(user);
  connection.protocol = protocol;
  return last_id_;
}

void WorkerConnections::remove(Id id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  set_put_off(id, found->second, false);
  connections_.erase(found);
  holding_.erase(id);
}

WorkerConnections::Connection* WorkerConnections::find(Id id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

bool WorkerConnections::accepts_commands(Id id) {
  const Connection* const connection = find(id);
  return connection != nullptr && connection->held.size() < kMostHeld &&
         connection->unsent_bytes() < kMostBytes;
}

proto::ReplyWriter WorkerConnections::write_now(Id id, Connection& connection, Urgency urgency) {
  make_ready(id, connection);
  connection.is_urgent = urgency == Urgency::kUrgent || (connection.is_urgent && !connection.output.empty());
  return {connection.output, connection.protocol};
}

proto::ReplyWriter WorkerConnections::reply(Id id, std::uint64_t ticket, Nanoseconds now, Urgency urgency) {
  Connection* const connection = find(id);
  check(connection != nullptr, "a reply for a connection that is gone");
  if (connection->held.empty()) {
    if (ticket <= written_) return write_now(id, *connection, urgency);
    holding_.insert(id);
  }
  last_ticket_ = std::max(last_ticket_, ticket);
  // A reply that need not wait goes with the previous reply.
  if (connection->held.empty() || connection->held.back().ticket < ticket) {
    if (!connection->held.empty()) connection->held_bytes_before += connection->held.back().bytes.size();
    connection->held.push_back({.ticket = ticket, .since = now, .bytes = {}});
  }
  return {connection->held.back().bytes, connection->protocol};
}

proto::ReplyWriter WorkerConnections::push(Id id) {
  Connection* const connection = find(id);
  check(connection != nullptr, "a push for a connection that is gone");
  return write_now(id, *connection, Urgency::kUrgent);
}

void WorkerConnections::written(std::uint64_t ticket) {
  written_ = std::max(written_, ticket);
  std::erase_if(holding_, [this](Id id) {
    Connection& connection = *find(id);
    while (!connection.held.empty() && connection.held.front().ticket <= written_) {
      if (connection.held.size() > 1) connection.held_bytes_before -= connection.held.front().bytes.size();
      connection.output.append(std::move(connection.held.front().bytes));
      connection.held.pop_front();
      connection.is_urgent = true;  // it has waited long enough
      connection.waits_long = false;
      make_ready(id, connection);
    }
    return connection.held.empty();
  });
}

std::vector<WorkerConnections::Id> WorkerConnections::note_long_waits(Nanoseconds since) {
  std::vector<Id> waiting;
  for (const Id id : holding_) {
    Connection& connection = *find(id);
    connection.waits_long = connection.held.front().since <= since;
    if (connection.waits_long) waiting.push_back(id);
  }
  return waiting;
}

void WorkerConnections::hurry() {
  const std::vector<Id> put_off = std::exchange(put_off_, {});
  for (const Id id : put_off) {
    Connection* const connection = find(id);
    if (connection == nullptr || !connection->is_put_off) continue;
    set_put_off(id, *connection, false);
    connection->is_urgent = true;
    make_ready(id, *connection);
  }
}

}  // namespace locksley::daemon
