#include "daemon/server/session/session_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

namespace locksley::daemon {

SessionInput::SessionInput(ServerState& state, WriteWaiters& waiters, Connection& connection,
                           SessionReplies& replies, SessionMemory& memory)
    : state_(state),
      connection_(connection),
      replies_(replies),
      memory_(memory),
      reader_(proto::Limits::before_authentication(), state.blocks()),
      gate_(waiters, [this] { connection_.wakeup().wake(); }),
      active_at_(connection.connected_at()) {}

void SessionInput::receive() {
  Transport& transport = connection_.transport();
  const std::size_t known = transport.known_input();
  std::span<std::byte> space = known == 0 ? reader_.prepare() : reader_.prepare_for(known);
  space = space.first(std::min(space.size(), kMostRead));
  const Transport::Received received = transport.receive(space);
  if (received.bytes == 0) return;
  if (received.is_first && !transport.is_tls() && space.front() == Transport::kTlsFirstByte) {
    return refuse_tls();
  }
  reader_.commit(received.bytes);
  state_.stats().received_bytes.add(received.bytes);
  if (state_.config().limits.idle_timeout.count() != 0) active_at_ = now();
  update_memory();
}

void SessionInput::refuse_tls() {
  state_.warnings().warn(Warning::kWrongPort, connection_.peer(),
                         "a client that speaks TLS came to a port that does not");
  replies_.fail("ERR this port does not speak TLS: use redis:// in place of rediss://, or set listen.tls");
  connection_.life().go_to(Life::kLastReply);
}

void SessionInput::update_memory() {
  if (memory_.set_input(memory_bytes())) return;
  const Account& account = memory_.account();
  const Account& all = memory_.all();
  const std::string too_much =
      all.exceeds_limit(Resource::kInputBytes)
          ? "unfinished commands of all clients together pass limits.max_queued_bytes"
          : fmt::format("unfinished commands of {} take more of limits.max_queued_bytes than they leave free",
                        limits().authenticated ? "the user's clients" : "clients that have not logged in");
  state_.warnings().warn(Warning::kInputMemory, connection_.peer(), too_much);
  const std::uint64_t most =
      std::min(all.limit(Resource::kInputBytes), account.most_alone(Resource::kInputBytes));
  replies_.fail(memory_.input() > most
                    ? fmt::format("TOOBIG {}, as this one does alone: send it in parts (OPEN, ADD)", too_much)
                    : fmt::format("QUEUEFULL {}: send it later, or in parts (OPEN, ADD)", too_much));
  connection_.life().go_to(Life::kLastReply);
  drop();
}

std::uint64_t SessionInput::memory_bytes() const {
  return reader_.memory_bytes() + (gate_.is_holding() ? command_.arguments.memory_bytes() : 0);
}

void SessionInput::drop() {
  if (gate_.is_holding()) {
    gate_.leave();
    state_.batches().free_words_aside(std::move(command_.arguments));
  }
  if (reader_.memory_bytes() > SessionReplies::kMuchToFree) {
    state_.batches().free_words_aside(reader_.abandon());
  } else {
    reader_.abandon();
  }
  memory_.set_input(0);
}

void SessionInput::release() {
  if (reader_.is_idle()) reader_.release();
  // The memory only shrinks here, so set_input() does not refuse it.
  if (const std::uint64_t memory = memory_bytes(); memory != memory_.input()) {
    memory_.set_input(memory);
  }
}

}  // namespace locksley::daemon
