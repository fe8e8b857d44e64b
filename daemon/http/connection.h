// One client of the HTTP side.
#pragma once

#include <asio/awaitable.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/http/limits.h"
#include "daemon/http/router.h"
#include "daemon/http/stream.h"

namespace locksley::daemon {

// Reads requests and writes replies until one of the two sides has had enough, or a limit is reached.
//
// Owned by the server, which runs serve() and destroys it afterwards; `router` and `limits` outlive it. Every
// call, and all that serve() does, is made on the server's strand. Nothing blocks. Whatever goes wrong ends
// serve().
class HttpConnection {
 public:
  HttpConnection(asio::ip::tcp::socket socket, std::shared_ptr<const TlsContext> tls,
                 HandshakeQueue* handshakes, const Router& router, const HttpLimits& limits);
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  asio::awaitable<void> serve();

  // Waits for the first byte of a request, and since when.
  bool is_idle() const { return phase_ == Phase::idle && !stopped_; }
  std::chrono::steady_clock::time_point idle_since() const { return idle_since_; }

  // serve() ends: at once, unless a reply is being written, which is finished before.
  void stop();

 private:
  // Waits for the first byte of a request; for the rest of its head; is being answered.
  enum class Phase { idle, reading, replying };
  // Whether a reply's body is sent, or only its length (HEAD).
  enum class Body { sent, omitted };
  // What becomes of the connection after a reply.
  enum class Then { keep_alive, close };
  // Why no head was read: it is longer than allowed; or the client has gone or let its time pass, so that
  // nobody is there to be told.
  enum class NoHead { too_long, gone };

  // The TLS handshake. False: the connection is over.
  asio::awaitable<bool> begin();
  // Whether there may be a next request.
  asio::awaitable<bool> serve_one();
  // The length of the head that `received_` now begins with.
  asio::awaitable<std::expected<std::size_t, NoHead>> read_head();
  // The body of `request_`, into `body_`. Ok; the status to refuse with; or none: the client has gone.
  asio::awaitable<std::optional<HttpStatus>> read_body(std::size_t head_length);
  // What the router says to `request_`, once it is known who asks.
  asio::awaitable<HttpReply> answer();
  static asio::awaitable<HttpReply> come(std::function<void(HttpReply::Answer)> later);
  asio::awaitable<bool> send(HttpReply reply, Body body, Then then);
  // Lets the client close first, so that it gets all that was sent.
  asio::awaitable<void> linger();

  static std::string head_of(const HttpReply& reply, Then then);
  void wait_for_request();
  // Closes the socket when `limit` has passed, unless it is called again before; what runs on the socket then
  // fails.
  void allow(std::chrono::milliseconds limit);
  void close();

  HttpStream stream_;
  asio::steady_timer timer_;
  const Router& router_;
  const HttpLimits& limits_;
  std::string received_;  // and not yet consumed
  HttpRequest request_;   // that is being answered; refers to received_ and body_
  std::string body_;
  Phase phase_ = Phase::idle;
  bool stopped_ = false;
  std::chrono::steady_clock::time_point idle_since_;
  // A handler of the timer that is on its way when the connection is destroyed looks here first.
  const std::shared_ptr<HttpConnection*> alive_ = std::make_shared<HttpConnection*>(this);
};

}  // namespace locksley::daemon
