#include "daemon/http/server.h"

#include <algorithm>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/dispatch.hpp>
#include <asio/io_context.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/use_awaitable.hpp>
#include <iterator>
#include <list>
#include <optional>
#include <system_error>
#include <utility>

#include "daemon/base/net/endpoint_text.h"
#include "daemon/http/connection.h"
#include "daemon/http/payer.h"
#include "daemon/http/places.h"

namespace locksley::daemon {
namespace {

using asio::ip::tcp;

// The pause after accept() failed, most likely because the process has no descriptors left. A
// guess.
constexpr std::chrono::milliseconds kAcceptPause{100};

// Connections that one handler accepts. While the thread has long work, it calls one handler in
// each pause of it, so that a handler for each connection would let a probe of health wait. To find
// a place for one takes some microseconds; a guess.
constexpr int kAcceptsAtOnce = 16;

}  // namespace

// The state that the server's coroutines share. Everything except the constants is used on the
// io_context's thread only. So no strand is needed. With one, a request that has its turn would not
// run within its slice, but when the strand is free, together with all others that had a turn.
class HttpServer::Core : public std::enable_shared_from_this<HttpServer::Core> {
 public:
  Core(asio::io_context& io, const Router& router, HttpLimits limits)
      : router_(router),
        limits_(limits),
        executor_(io.get_executor()),
        acceptor_(executor_),
        pause_(executor_) {}

  std::expected<tcp::endpoint, std::string> listen(BoundPort port);
  void stop();
  void use_tls(std::shared_ptr<const TlsContext> context, HandshakeQueue& handshakes) {
    tls_ = std::move(context);
    handshakes_ = &handshakes;
  }
  const TlsContext* tls() const { return tls_.get(); }
  void take_turns(HttpTurns turns) { turns_.emplace(std::move(turns)); }
  const auto& executor() const { return executor_; }

 private:
  // The two coroutines that are spawned. `self` keeps the core alive while they, and coroutines
  // that they await, run.
  static asio::awaitable<void> accept_all(std::shared_ptr<Core> self);
  static asio::awaitable<void> serve(std::shared_ptr<Core> self, std::list<HttpConnection>::iterator place);

  // Waits for a connection, and takes those that have come with it. False if accept() failed, so
  // that a pause is needed.
  asio::awaitable<bool> accept_some();
  void take(tcp::socket socket, const tcp::endpoint& peer);
  // Whether another connection from this network is allowed, and for which pages. If there are too
  // many, another gives way; if none does, only pages of health are left.
  std::optional<ServedPages> admit(const asio::ip::address& network);
  // Whether there is room for another connection of this kind, which may be made.
  bool make_room(ServedPages served_pages, std::size_t most, const asio::ip::address& network);

  const Router& router_;
  const HttpLimits limits_;
  const asio::io_context::executor_type executor_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::list<HttpConnection> connections_;  // each is erased by its coroutine
  bool stopped_ = false;
  std::shared_ptr<const TlsContext> tls_;  // null: plain
  HandshakeQueue* handshakes_ = nullptr;   // not null with tls_
  std::optional<HttpTurns> turns_;         // constant once it listens
};

std::expected<tcp::endpoint, std::string> HttpServer::Core::listen(BoundPort port) {
  const tcp::endpoint endpoint = port.endpoint();
  try {
    // A local variable until it listens, so that a failure changes nothing.
    tcp::acceptor acceptor(executor_);
    acceptor.assign(endpoint.protocol(), std::move(port).release());
    acceptor.non_blocking(true);
    acceptor.listen();
    acceptor_ = std::move(acceptor);
    asio::co_spawn(executor_, accept_all(shared_from_this()), asio::detached);
    return endpoint;
  } catch (const std::system_error& error) {
    return std::unexpected("cannot listen on " + to_text(endpoint) + ": " + error.what());
  }
}

void HttpServer::Core::stop() {
  stopped_ = true;
  close_acceptor(acceptor_);
  pause_.cancel();
  for (HttpConnection& connection : connections_) connection.stop();
}

asio::awaitable<void> HttpServer::Core::accept_all(std::shared_ptr<Core> self) {
  while (!self->stopped_) {
    const bool accepted = co_await self->accept_some();
    if (accepted || self->stopped_) continue;
    std::error_code ignored;
    self->pause_.expires_after(kAcceptPause);
    co_await self->pause_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

asio::awaitable<bool> HttpServer::Core::accept_some() {
  std::error_code error;
  // Known even if the peer has closed meanwhile: every connection has its payer.
  tcp::endpoint peer;
  tcp::socket socket =
      co_await acceptor_.async_accept(peer, asio::redirect_error(asio::use_awaitable, error));
  if (error || stopped_) co_return false;
  take(std::move(socket), peer);
  for (int n = 1; n < kAcceptsAtOnce; ++n) {
    tcp::socket next = acceptor_.accept(peer, error);
    if (error) break;  // mostly that none waits; if it is another error, the next call has it, too
    take(std::move(next), peer);
  }
  co_return true;
}

void HttpServer::Core::take(tcp::socket socket, const tcp::endpoint& peer) {
  const asio::ip::address network = network_of(peer.address());
  const std::optional<ServedPages> served_pages = admit(network);
  if (!served_pages) return;  // the socket is closed
  std::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
  connections_.emplace_back(std::move(socket), network, tls_, handshakes_, router_,
                            turns_ ? &*turns_ : nullptr, limits_, *served_pages);
  asio::co_spawn(executor_, serve(shared_from_this(), std::prev(connections_.end())), asio::detached);
}

std::optional<ServedPages> HttpServer::Core::admit(const asio::ip::address& network) {
  if (make_room(ServedPages::kAll, limits_.max_connections, network)) return ServedPages::kAll;
  if (make_room(ServedPages::kHealth, limits_.reserved_connections, network)) return ServedPages::kHealth;
  return std::nullopt;
}

bool HttpServer::Core::make_room(ServedPages served_pages, std::size_t most,
                                 const asio::ip::address& network) {
  // The coroutine of a connection that was stopped ends a moment later.
  const auto count = std::ranges::count_if(connections_, [served_pages](const HttpConnection& connection) {
    return connection.served_pages() == served_pages && !connection.is_stopped();
  });
  if (static_cast<std::size_t>(count) < most) return true;
  HttpConnection* const other = next_to_give_way(connections_, served_pages, network, limits_, now());
  if (other == nullptr) return false;
  other->give_way();
  return true;
}

asio::awaitable<void> HttpServer::Core::serve(std::shared_ptr<Core> self,
                                              std::list<HttpConnection>::iterator place) {
  try {
    co_await place->serve();
  } catch (...) {
    // Out of memory: the connection is closed.
  }
  self->connections_.erase(place);
}

HttpServer::HttpServer(asio::io_context& io, const Router& router, HttpLimits limits)
    : core_(std::make_shared<Core>(io, router, limits)) {}

HttpServer::~HttpServer() { stop(); }

std::expected<tcp::endpoint, std::string> HttpServer::listen(const std::string& address, std::uint16_t port) {
  auto bound = BoundPort::bind(address, port, "http.port");
  if (!bound) return std::unexpected(std::move(bound.error()));
  return listen(*std::move(bound));
}

std::expected<tcp::endpoint, std::string> HttpServer::listen(BoundPort port) {
  return core_->listen(std::move(port));
}

void HttpServer::use_tls(std::shared_ptr<const TlsContext> context, HandshakeQueue& handshakes) {
  core_->use_tls(std::move(context), handshakes);
}

const TlsContext* HttpServer::tls() const { return core_->tls(); }

void HttpServer::take_turns(HttpTurns turns) { core_->take_turns(std::move(turns)); }

void HttpServer::stop() {
  asio::dispatch(core_->executor(), [core = core_] { core->stop(); });
}

}  // namespace locksley::daemon
