#include "daemon/server/server.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/post.hpp>
#include <utility>

#include "daemon/auth/authenticator.h"
#include "daemon/server/batch_replies.h"
#include "daemon/server/session.h"
#include "proto/command_reader.h"

namespace locksley::daemon {

namespace {
constexpr std::chrono::minutes kMinute{1};

std::string to_text(const asio::ip::tcp::endpoint& endpoint) {
  const bool is_v6 = endpoint.address().is_v6();
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", endpoint.address().to_string(), is_v6 ? "]" : "",
                     endpoint.port());
}
}  // namespace

Server::Server(Parts parts, config::Config config)
    : parts_(std::move(parts)),
      lanes_(parts_.lanes),
      config_(std::move(config)),
      stats_(parts_.handlers.names()),
      batches_(parts_.io, config_, parts_.handlers, stats_, parts_.store, parts_.log),
      users_(batches_.registry().tenants()),
      listener_(parts_.io, parts_.log),
      handshakes_(parts_.io.get_executor()),
      warnings_{RateGate(kMinute), RateGate(kMinute), RateGate(kMinute), RateGate(kMinute),
                RateGate(kMinute), RateGate(kMinute), RateGate(kMinute), RateGate(kMinute),
                RateGate(kMinute), RateGate(kMinute)},
      close_timer_(parts_.io) {
  batches_.on_stored([this](const Outcome& outcome) { tell_holding(outcome); });
  users_.replace(config_.users);
  tell_authenticator();
  for (Lane* lane : lanes_) weigh_tenants(*lane);
}

Server::~Server() = default;

std::expected<asio::ip::tcp::endpoint, std::string> Server::listen() {
  auto bound = listener_.listen(config_.listen.address, config_.listen.port,
                                [this](Socket socket) { accept(std::move(socket)); });
  if (bound) port_ = bound->port();
  return bound;
}

void Server::reconfigure(config::Config config) {
  const bool are_limits_other = config.limits != config_.limits;
  config_ = std::move(config);
  const auto changed = users_.replace(config_.users);
  tell_authenticator();
  for (Lane* lane : lanes_) {
    for (const auto& [tenant, weight] : changed) lane->ring().set_tenant_weight(tenant, weight);
  }
  for (const auto& [id, session] : sessions_) {
    session->users_changed();
    if (are_limits_other) session->look_again();
  }
  batches_.limits_changed();
}

void Server::add_lane(Lane& lane) {
  if (std::ranges::find(lanes_, &lane) != lanes_.end()) return;
  weigh_tenants(lane);
  lanes_.push_back(&lane);
}

void Server::tell_authenticator() {
  std::vector<std::string> hashes;
  for (const auto& [name, user] : config_.users) {
    if (!user.password_hash.empty()) hashes.push_back(user.password_hash);
  }
  parts_.authenticator.set_hashes(std::move(hashes));
}

void Server::weigh_tenants(Lane& lane) const {
  for (const auto& [tenant, weight] : users_.weights()) lane.ring().set_tenant_weight(tenant, weight);
}

proto::Limits Server::reader_limits() const {
  proto::Limits limits;
  limits.max_command_bytes = config_.limits.max_command.count;
  // A payload over limits.max_payload is still read, up to what Redis reads, so that the refusal can name the
  // limit.
  limits.max_bulk_bytes = std::max<std::size_t>(limits.max_bulk_bytes, config_.limits.max_payload.count);
  return limits;
}

void Server::accept(Socket socket) {
  asio::error_code error;
  const auto remote = socket.remote_endpoint(error);
  if (error) return;  // gone already
  const auto local = socket.local_endpoint(error);
  if (error) return;
  const std::string peer = to_text(remote);
  socket.non_blocking(true, error);
  const auto refuse = [&](Warning kind, std::string_view reply, std::string_view why) {
    stats_.connections_refused.add(1);
    warn_sometimes(kind, peer, why);
    // In plain text a TLS client would not understand it.
    if (!tls_) socket.write_some(asio::buffer(reply.data(), reply.size()), error);
  };
  if (config_.users.empty() && !is_loopback(remote.address())) {
    return refuse(Warning::kDenied,
                  "-DENIED no users are configured, so only connections from this machine are served\r\n",
                  "a peer that is not on this machine was refused: no users are configured");
  }
  if (sessions_.size() >= config_.limits.max_clients) {
    return refuse(Warning::kMaxClients, "-ERR max number of clients reached\r\n",
                  "limits.max_clients reached");
  }
  socket.set_option(asio::ip::tcp::no_delay(true), error);
  socket.set_option(asio::socket_base::keep_alive(true), error);
  const std::uint64_t id = next_session_++;
  auto session =
      std::make_shared<Session>(*this, Transport(std::move(socket), tls_), id, peer, to_text(local));
  sessions_.emplace_hint(sessions_.end(), id, session);
  stats_.connections_accepted.add(1);
  stats_.connections.set(sessions_.size());
  asio::co_spawn(executor(), Session::serve(std::move(session)), asio::detached);
}

void Server::tell_holding(const Outcome& outcome) {
  for (const std::uint64_t id : std::exchange(holding_, {})) {
    if (Session* session = this->session(id)) session->stored(outcome);
  }
  for (auto& [ticket, told] : std::exchange(awaiting_, {})) {
    if (ticket > outcome.up_to) {
      awaiting_.emplace_back(ticket, std::move(told));
    } else {
      told(outcome.error.empty() ? std::string() : not_stored(outcome.error));
    }
  }
}

void Server::when_stored(Ticket ticket, StoreTold told) {
  if (batches_.is_settled(ticket)) return told({});
  awaiting_.emplace_back(ticket, std::move(told));
}

std::uint64_t Server::batches_accepted() const {
  std::uint64_t sum = 0;
  for (const auto& [handler, counters] : stats_.batches) {
    sum += counters[static_cast<std::size_t>(BatchEvent::kAccepted)].get();
  }
  return sum;
}

Session* Server::session(std::uint64_t id) const {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void Server::session_ended(Session& session, std::uint64_t input_memory) {
  account_input(0, input_memory);
  batches_.connection_gone(session.id());
  sessions_.erase(session.id());
  stats_.connections.set(sessions_.size());
  look_whether_closed();
}

bool Server::account_input(std::uint64_t memory, std::uint64_t before) {
  input_memory_ += memory - before;
  const config::Limits& limits = config_.limits;
  // Whoever holds no more than an equal share, or what a few small commands take, is not the one to blame.
  const std::uint64_t share =
      std::max<std::uint64_t>(2 * proto::CommandReader::kFirstBlockBytes,
                              limits.max_queued_bytes.count / std::max<std::uint64_t>(limits.max_clients, 1));
  return memory <= std::max(before, share) || input_memory_ <= limits.max_queued_bytes.count;
}

void Server::account_output(std::uint64_t memory, std::uint64_t before) {
  output_memory_ += memory - before;
  while (output_memory_ > config_.limits.client_memory.count) {
    // O(connections), and as rare as it takes to fill so much memory.
    const auto most =
        std::ranges::max_element(sessions_, {}, [](const auto& entry) { return entry.second->accounted(); });
    if (most == sessions_.end() || most->second->accounted() == 0) return;
    most->second->evict();
  }
}

std::uint64_t Server::page_room() const {
  return std::max(kLeastPage, kRoundPages - std::min(kRoundPages, round_pages_));
}

void Server::count_page(std::uint64_t bytes) {
  if (bytes == 0) return;
  // Behind all that is ready now.
  if (round_pages_ == 0) asio::post(executor(), [this] { round_pages_ = 0; });
  round_pages_ += bytes;
}

void Server::count_subscriber(int change) {
  stats_.subscribers.add(static_cast<std::uint64_t>(static_cast<std::int64_t>(change)));
}

void Server::count_blocked(int change) {
  stats_.blocked.add(static_cast<std::uint64_t>(static_cast<std::int64_t>(change)));
}

void Server::warn_sometimes(Warning kind, std::string_view peer, LogLine what) {
  RateGate& gate = warnings_[static_cast<std::size_t>(kind)];
  if (gate.open(std::chrono::steady_clock::now())) {
    what.with("peer", peer).with("unlogged", gate.held_back()).write(log(), spdlog::level::warn);
  }
}

void Server::close(std::function<void()> on_closed) {
  on_closed_ = std::move(on_closed);
  listener_.close();
  for (const auto& [id, session] : sessions_) session->finish();
  close_timer_.expires_after(kCloseGrace);
  close_timer_.async_wait([this](const asio::error_code& error) {
    if (error) return;
    for (const auto& [id, session] : sessions_) session->drop("the daemon ends");
  });
  look_whether_closed();
}

void Server::look_whether_closed() {
  if (!on_closed_ || !sessions_.empty()) return;
  close_timer_.cancel();
  std::exchange(on_closed_, nullptr)();
}

}  // namespace locksley::daemon
