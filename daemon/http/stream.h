// The bytes of one client of the HTTP side, plain or by TLS.
#pragma once

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <expected>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>

#include "daemon/tls/channel.h"
#include "daemon/tls/handshake_queue.h"

namespace locksley::daemon {

// A member of an HttpConnection, on whose strand every call is made. close() ends what waits; nothing else
// does, so whoever calls has a timer.
class HttpStream {
 public:
  // `context`: null: plain. `handshakes` outlives every run of the io_context.
  HttpStream(asio::ip::tcp::socket socket, std::shared_ptr<const TlsContext> context,
             HandshakeQueue* handshakes);
  HttpStream(const HttpStream&) = delete;
  HttpStream& operator=(const HttpStream&) = delete;

  asio::ip::tcp::socket& socket() { return socket_; }

  // What the handshake ended with. kNoTls: the peer speaks plainly; and so does the stream from here on.
  enum class Begun { kReady, kNoTls, kFailed };
  // Before anything else. Ready at once without TLS.
  asio::awaitable<Begun> begin();

  // At least a byte, or an error: the end of the connection is one.
  asio::awaitable<std::expected<std::size_t, std::error_code>> read_some(std::span<std::byte> into);
  // All of it. False if the client has gone.
  asio::awaitable<bool> write(std::string_view head, std::string_view body);
  // Says that nothing more comes.
  void shut();
  // What comes is forgotten, `most` bytes of it, until the client has closed.
  asio::awaitable<void> discard(std::size_t most);
  void close();

 private:
  asio::awaitable<std::error_code> wait_for(TlsChannel::Then then);

  asio::ip::tcp::socket socket_;
  std::unique_ptr<TlsChannel> tls_;  // null: plain
  HandshakeQueue* handshakes_;       // null with tls_
};

}  // namespace locksley::daemon
