#include "daemon/http/server.h"

#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <asio/dispatch.hpp>
#include <asio/redirect_error.hpp>
#include <asio/steady_timer.hpp>
#include <asio/strand.hpp>
#include <asio/use_awaitable.hpp>
#include <iterator>
#include <list>
#include <system_error>
#include <utility>

#include "daemon/http/connection.h"

namespace locksley::daemon {
namespace {

using asio::ip::tcp;

// After accept() failed, most likely for want of descriptors. A guess.
constexpr std::chrono::milliseconds kAcceptPause{100};

}  // namespace

// What the server's coroutines share. Everything but the constants is touched on the strand only.
class HttpServer::Core : public std::enable_shared_from_this<HttpServer::Core> {
 public:
  Core(asio::io_context& io, const Router& router, HttpLimits limits)
      : router_(router),
        limits_(limits),
        strand_(asio::make_strand(io)),
        acceptor_(strand_),
        pause_(strand_) {}

  std::expected<tcp::endpoint, std::string> listen(const std::string& address, std::uint16_t port);
  void stop();
  void use_tls(std::shared_ptr<const TlsContext> context, HandshakeQueue& handshakes) {
    tls_ = std::move(context);
    handshakes_ = &handshakes;
  }
  const TlsContext* tls() const { return tls_.get(); }
  const auto& strand() const { return strand_; }

 private:
  // These two are where coroutines begin; `self` keeps the core alive while they and those that they await
  // run.
  static asio::awaitable<void> accept_all(std::shared_ptr<Core> self);
  static asio::awaitable<void> serve(std::shared_ptr<Core> self, std::list<HttpConnection>::iterator place);

  // False if it failed, so that a pause is due.
  asio::awaitable<bool> accept_one();
  // Whether there is a place for one more; if need be that of the client that has been idle longest.
  bool make_room();

  const Router& router_;
  const HttpLimits limits_;
  const asio::strand<asio::io_context::executor_type> strand_;
  tcp::acceptor acceptor_;
  asio::steady_timer pause_;
  std::list<HttpConnection> connections_;  // an element is erased by its coroutine
  bool stopped_ = false;
  std::shared_ptr<const TlsContext> tls_;  // null: plain
  HandshakeQueue* handshakes_ = nullptr;   // not null with tls_
};

std::expected<tcp::endpoint, std::string> HttpServer::Core::listen(const std::string& address,
                                                                   std::uint16_t port) {
  try {
    const tcp::endpoint wanted(asio::ip::make_address(address), port);
    // Local until it listens: a failure leaves nothing behind.
    tcp::acceptor acceptor(strand_);
    acceptor.open(wanted.protocol());
    acceptor.set_option(tcp::acceptor::reuse_address(true));
    acceptor.bind(wanted);
    acceptor.listen();
    tcp::endpoint bound = acceptor.local_endpoint();
    acceptor_ = std::move(acceptor);
    asio::co_spawn(strand_, accept_all(shared_from_this()), asio::detached);
    return bound;
  } catch (const std::system_error& error) {
    return std::unexpected(address + " port " + std::to_string(port) + ": " + error.what());
  }
}

void HttpServer::Core::stop() {
  stopped_ = true;
  std::error_code ignored;
  acceptor_.close(ignored);
  pause_.cancel();
  for (HttpConnection& connection : connections_) connection.stop();
}

asio::awaitable<void> HttpServer::Core::accept_all(std::shared_ptr<Core> self) {
  while (!self->stopped_) {
    const bool accepted = co_await self->accept_one();
    if (accepted || self->stopped_) continue;
    std::error_code ignored;
    self->pause_.expires_after(kAcceptPause);
    co_await self->pause_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

asio::awaitable<bool> HttpServer::Core::accept_one() {
  std::error_code error;
  tcp::socket socket = co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
  if (error || stopped_) co_return false;
  if (!make_room()) co_return true;  // closes the socket
  socket.set_option(tcp::no_delay(true), error);
  connections_.emplace_back(std::move(socket), tls_, handshakes_, router_, limits_);
  asio::co_spawn(strand_, serve(shared_from_this(), std::prev(connections_.end())), asio::detached);
  co_return true;
}

bool HttpServer::Core::make_room() {
  if (connections_.size() < limits_.max_connections) return true;
  HttpConnection* longest = nullptr;
  for (HttpConnection& connection : connections_) {
    if (!connection.is_idle()) continue;
    if (!longest || connection.idle_since() < longest->idle_since()) longest = &connection;
  }
  if (!longest) return false;
  // Its coroutine ends a moment later; until then it is idle no more, so that it makes room for one only.
  longest->stop();
  return true;
}

asio::awaitable<void> HttpServer::Core::serve(std::shared_ptr<Core> self,
                                              std::list<HttpConnection>::iterator place) {
  try {
    co_await place->serve();
  } catch (...) {
    // Out of memory: it costs the connection.
  }
  self->connections_.erase(place);
}

HttpServer::HttpServer(asio::io_context& io, const Router& router, HttpLimits limits)
    : core_(std::make_shared<Core>(io, router, limits)) {}

HttpServer::~HttpServer() { stop(); }

std::expected<tcp::endpoint, std::string> HttpServer::listen(const std::string& address, std::uint16_t port) {
  return core_->listen(address, port);
}

void HttpServer::use_tls(std::shared_ptr<const TlsContext> context, HandshakeQueue& handshakes) {
  core_->use_tls(std::move(context), handshakes);
}

const TlsContext* HttpServer::tls() const { return core_->tls(); }

void HttpServer::stop() {
  asio::dispatch(core_->strand(), [core = core_] { core->stop(); });
}

}  // namespace locksley::daemon
