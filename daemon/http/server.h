// The HTTP side's server: HTTP/1.1, GET, HEAD and POST, on the daemon's own io_context.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <expected>
#include <memory>
#include <string>

#include "daemon/http/limits.h"
#include "daemon/http/router.h"

namespace locksley::daemon {

class HandshakeQueue;
class TlsContext;

// Serves the pages of a router.
//
// Owned by main(), and may be destroyed at any time: its connections then end as after stop(), and what is
// left of them is released by the io_context. The router and the io_context outlive it, and the router every
// run of the io_context. Threads: listen() before the io_context runs, or on its thread; stop() from any. The
// rest runs on the io_context's threads, on one strand, one page at a time. It has no threads of its own, and
// no timer runs while no connection is open. Blocks: never. Fails: listen() says why. Whatever a client sends
// or does not send costs it its connection at most.
class HttpServer {
 public:
  HttpServer(asio::io_context& io, const Router& router, HttpLimits limits = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Binds to a numeric address and a port (0: any free one), listens, and returns where: from then on clients
  // are served. Once only. The error names the address and what the system said.
  std::expected<asio::ip::tcp::endpoint, std::string> listen(const std::string& address, std::uint16_t port);

  // By TLS from now on, or another certificate; null: plain. Connections that there are stay as they are. On
  // the io_context's thread, or before it runs; `handshakes` outlives every run of the io_context.
  void use_tls(std::shared_ptr<const TlsContext> context, HandshakeQueue& handshakes);
  // The same thread. Null: plain.
  const TlsContext* tls() const;

  // Accepts nothing more and closes the connections; those that are being answered get their reply first.
  // Afterwards no work of the server keeps the io_context running. May be called more than once.
  void stop();

 private:
  class Core;
  std::shared_ptr<Core> core_;  // shared with its coroutines: the last of these drops it
};

}  // namespace locksley::daemon
