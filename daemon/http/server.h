// The HTTP server: HTTP/1.1 with GET, HEAD and POST, on the daemon's io_context.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>

#include "daemon/base/net/bound_port.h"
#include "daemon/http/limits.h"
#include "daemon/http/router.h"
#include "daemon/http/turns.h"

namespace locksley::daemon {

class HandshakeQueue;
class TlsContext;

// Serves the pages of a router.
//
// Owned beside its Router, and may be destroyed at any time: its connections then end as after
// stop(), and the io_context releases their memory. The io_context outlives it; the router outlives
// it and every run of the io_context.
//
// listen(): before the io_context runs, or on its thread. stop(): any thread. Everything else runs
// on the one thread that runs the io_context, one page at a time. The server has no threads of its
// own, and no timer runs while no connection is open. Nothing blocks. listen() returns its error;
// whatever a client does, at worst its own connection is closed. When all places are taken, a
// newcomer takes that of another connection, or is refused: places.h.
class HttpServer {
 public:
  HttpServer(asio::io_context& io, const Router& router, HttpLimits limits = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Binds to a numeric address and a port (0: any free one), begins to serve, and returns the
  // endpoint. Call it once. The error names the address and the system's reason.
  std::expected<asio::ip::tcp::endpoint, std::string> listen(const std::string& address, std::uint16_t port);

  // The same on a port that is bound already.
  std::expected<asio::ip::tcp::endpoint, std::string> listen(BoundPort port);

  // New connections use TLS with this context; null: plain. Existing connections do not change. On
  // the io_context's thread, or before it runs; `handshakes` outlives every run of the io_context.
  void use_tls(std::shared_ptr<const TlsContext> context, HandshakeQueue& handshakes);
  // On the same thread. Null: plain.
  const TlsContext* tls() const;

  // Requests have their turns by this; before listen(). Without it each has its turn when it has
  // arrived.
  void take_turns(HttpTurns turns);

  // Stops accepting, and closes the connections; a reply that is being written is finished first.
  // Afterwards the server does not keep the io_context running. May be called more than once.
  void stop();

 private:
  class Core;
  std::shared_ptr<Core> core_;  // shared with its coroutines; the last of these drops it
};

}  // namespace locksley::daemon
