// One connection of the HTTP side.
#pragma once

#include <algorithm>
#include <asio/awaitable.hpp>
#include <asio/ip/address.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "daemon/base/time.h"
#include "daemon/http/limits.h"
#include "daemon/http/payer.h"
#include "daemon/http/router.h"
#include "daemon/http/stream.h"
#include "daemon/http/turns.h"

namespace locksley::daemon {

// The pages that a connection may ask for. kHealth: one page with Access::kEverybody; then the
// connection closes.
enum class ServedPages { kAll, kHealth };

// Reads requests and writes replies until one side closes the connection, or a limit is reached.
//
// Owned by the server, which runs serve() and destroys the connection afterwards; `router` and
// `limits` outlive it. All calls, and serve() itself, are on the I/O thread. Nothing blocks.
// Every failure ends serve().
class HttpConnection {
 public:
  // `network`: the peer's, as network_of() returns it.
  HttpConnection(asio::ip::tcp::socket socket, asio::ip::address network,
                 std::shared_ptr<const TlsContext> tls, HandshakeQueue* handshakes, const Router& router,
                 const HttpTurns* turns, const HttpLimits& limits, ServedPages served_pages);
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  asio::awaitable<void> serve();

  ServedPages served_pages() const { return served_pages_; }
  const asio::ip::address& network() const { return network_; }
  const HttpPayer& payer() const { return payer_; }
  bool is_stopped() const { return stopped_; }
  // Whether it waits for its client: for a request or the rest of one, or for the client to close.
  bool is_waiting() const { return !stopped_ && phase_ != Phase::kAnswering && phase_ != Phase::kSending; }
  // Whether bytes of a reply wait for the client to take them. Neither this nor is_waiting(): the
  // reply is being made.
  bool is_sending() const { return !stopped_ && phase_ == Phase::kSending; }
  // Waiting: when the connection began or the last reply ended; or when the request began of which
  // a part has arrived. Further parts do not count: a client that sends a byte at a time waits as
  // long as one that sends none. Otherwise: when the request was complete, or the socket last took
  // bytes of the reply.
  Instant quiet_since() const {
    return phase_ == Phase::kSending ? std::max(quiet_since_, stream_.last_write()) : quiet_since_;
  }

  // Ends serve(): at once, or after the reply that is being written.
  void stop();
  // Closes the socket, to make room. Ends serve(): at once, or when the page has replied.
  void give_way();

 private:
  // Waiting for the first byte of a request; for the rest of it; making the reply; sending it;
  // waiting for the client to close after the last reply.
  enum class Phase { kIdle, kReading, kAnswering, kSending, kLingering };
  // Whether a reply's body is sent, or only its length (HEAD).
  enum class Body { kSent, kOmitted };
  // Whether the connection stays open after a reply.
  enum class Then { kKeepAlive, kClose };
  // Why no head was read: it is too long; the bytes are not HTTP; or the client has closed, or was
  // too slow, and gets no reply.
  enum class NoHead { kTooLong, kOtherProtocol, kGone };

  // Makes the TLS handshake. False: the connection has ended.
  asio::awaitable<bool> begin();
  // Serves one request. Returns whether another may follow.
  asio::awaitable<bool> serve_one();
  // Reads a head. Returns its length: `received_` then begins with it.
  asio::awaitable<std::expected<std::size_t, NoHead>> read_head();
  // Reads the body of `request_` into `body_`. Returns kOk; the status to refuse with; or none: the
  // client has closed.
  asio::awaitable<std::optional<HttpStatus>> read_body(std::size_t head_length);
  // Whether this connection may ask for the page of `request_`.
  bool is_admitted() const;
  // The router's reply to `request_`, after the caller has been identified.
  asio::awaitable<HttpReply> answer();
  // Waits until the request may have its turn.
  asio::awaitable<void> wait_for_turn();
  // The reply of a page that replies later; a 503 if it takes longer than
  // HttpLimits::answer_timeout.
  asio::awaitable<HttpReply> come(std::function<void(HttpReply::Answer)> later);
  asio::awaitable<bool> send(HttpReply reply, Body body, Then then);
  // Waits for the client to close first, so that it gets everything that was sent.
  asio::awaitable<void> linger();

  static std::string head_of(const HttpReply& reply, Then then);
  void wait_for_request();
  // Closes the socket after `limit`, unless it is called again before. Operations on the socket
  // then fail.
  void allow(std::chrono::milliseconds limit);
  void close();

  HttpStream stream_;
  const asio::ip::address network_;
  HttpPayer payer_ = network_;
  asio::steady_timer timer_;
  const Router& router_;
  const HttpTurns* const turns_;  // null: a request does not wait
  const HttpLimits& limits_;
  const ServedPages served_pages_;
  std::string received_;  // bytes not yet consumed
  HttpRequest request_;   // the current one, until its reply is sent; its views are into received_ and body_
  std::string body_;
  Phase phase_ = Phase::kIdle;
  bool stopped_ = false;
  Instant quiet_since_;  // but for what has been written of the reply
  // Null after destruction: a handler of the timer that runs later checks it.
  const std::shared_ptr<HttpConnection*> alive_ = std::make_shared<HttpConnection*>(this);
};

}  // namespace locksley::daemon
