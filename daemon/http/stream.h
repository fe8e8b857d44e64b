// The byte stream of one HTTP connection, plain or by TLS.
#pragma once

#include <asio/awaitable.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <expected>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>

#include "daemon/base/time.h"
#include "daemon/tls/channel.h"
#include "daemon/tls/handshake_queue.h"

namespace locksley::daemon {

// Owned by an HttpConnection. All calls are on the I/O thread. Nothing blocks: the coroutines
// suspend. They have no timeouts, so the connection needs a timer that calls close(), which ends
// them with an error.
class HttpStream {
 public:
  // `context`: null: plain. `handshakes`: needed only with a context; outlives every run of the
  // io_context.
  HttpStream(asio::ip::tcp::socket socket, std::shared_ptr<const TlsContext> context,
             HandshakeQueue* handshakes);
  HttpStream(const HttpStream&) = delete;
  HttpStream& operator=(const HttpStream&) = delete;

  asio::ip::tcp::socket& socket() { return socket_; }

  // The outcome of the handshake. kNoTls: the peer does not use TLS; the stream is plain from now
  // on.
  enum class Begun { kReady, kNoTls, kFailed };
  // Call it first. Without TLS it returns kReady at once.
  asio::awaitable<Begun> begin();

  // Reads at least one byte, or returns an error; the end of the connection is an error.
  asio::awaitable<std::expected<std::size_t, std::error_code>> read_some(std::span<std::byte> into);
  // Writes all bytes. False if the client has closed.
  asio::awaitable<bool> write(std::string_view head, std::string_view body);
  // When the socket last took bytes from write(). It takes them as the client does: at most
  // kMostUnsent wait in it.
  Instant last_write() const { return last_write_; }
  // Tells the client that no more bytes follow.
  void shut();
  // Reads and discards up to `most` bytes, until the client has closed.
  asio::awaitable<void> discard(std::size_t most);
  void close();

 private:
  // Of a reply, in the kernel, besides those on their way. A guess: so that a client on a slow
  // link, of 7 KB/s, takes some within HttpLimits::stall_timeout (the socket is ready again when
  // half of them are sent).
  static constexpr int kMostUnsent = 64 * 1024;

  asio::awaitable<std::error_code> wait_for(TlsChannel::Then then);

  asio::ip::tcp::socket socket_;
  std::unique_ptr<TlsChannel> tls_;  // null: plain
  HandshakeQueue* handshakes_;       // not null if tls_ is not
  Instant last_write_;
};

}  // namespace locksley::daemon
