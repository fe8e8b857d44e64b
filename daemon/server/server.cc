#include "daemon/server/server.h"

#include <utility>

#include "daemon/server/commands/dispatch.h"
#include "daemon/server/session/session.h"
#include "daemon/server/session/sessions.h"
#include "daemon/store/engine/writer_thread.h"

namespace locksley::daemon {

Server::Server(Parts parts, config::Config config)
    : state_(std::move(parts), std::move(config)),
      executor_(std::make_unique<Dispatcher>()),
      sessions_(std::make_unique<Sessions>(state_, *executor_)),
      listener_(state_.io(), state_.shared_log()),
      close_timer_(state_.io()) {
  state_.batches().on_written([&early = state_.held_replies().early()](Ticket ticket) {
    kStoreWriter.assert_held();
    early.send(ticket);
  });
  state_.batches().on_stored([this](const Outcome& outcome, Instant until) {
    kIoThread.assert_held();
    if (!state_.held_replies().settle_some(outcome, until)) return false;
    sessions_->store_advanced();
    on_outcome_();
    return true;
  });
}

Server::~Server() = default;

std::expected<asio::ip::tcp::endpoint, std::string> Server::listen() {
  const config::Listen& where = state_.config().listen;
  auto port = BoundPort::bind(where.address, where.port, "listen.port");
  if (!port) return std::unexpected(std::move(port.error()));
  return listen(*std::move(port));
}

std::expected<asio::ip::tcp::endpoint, std::string> Server::listen(BoundPort port) {
  auto bound = listener_.listen(std::move(port), [this](Socket socket) {
    kIoThread.assert_held();
    sessions_->accept(std::move(socket));
  });
  if (bound) state_.set_port(bound->port());
  return bound;
}

void Server::use_tls(std::shared_ptr<const TlsContext> context) { sessions_->use_tls(std::move(context)); }

const TlsContext* Server::tls() const { return sessions_->tls(); }

config::Config Server::reconfigure(config::Config config, config::ChangedParts parts) {
  config::Config before = state_.reconfigure(std::move(config), parts);
  sessions_->users_changed();
  const config::Config& current = state_.config();
  const bool are_limits_new = current.limits != before.limits;
  if (are_limits_new) sessions_->limits_changed();
  if (are_limits_new || current.store.max_bytes != before.store.max_bytes || parts.users) {
    state_.batches().limits_changed();
  }
  return before;
}

Session* Server::session(std::uint64_t id) const { return sessions_->find(id); }

void Server::close(std::function<void()> on_closed) {
  listener_.close();
  close_timer_.expires_after(kCloseGrace);
  close_timer_.async_wait([this](const asio::error_code& error) {
    kIoThread.assert_held();
    if (!error) sessions_->drop_all("the daemon ends");
  });
  sessions_->finish([this, on_closed = std::move(on_closed)] {
    close_timer_.cancel();
    on_closed();
  });
}

void Server::cut(std::string_view reason, std::function<void()> on_closed) {
  listener_.close();
  sessions_->finish(std::move(on_closed));
  sessions_->drop_all(reason);
}

}  // namespace locksley::daemon
