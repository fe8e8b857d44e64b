#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "daemon/server/io.h"
#include "daemon/tls/channel.h"

namespace locksley::daemon {

// A connection's bytes both ways, plain or by TLS: reads and writes what is possible, and never waits.
// Whoever owns it waits for the socket; read_wait() and write_wait() say for what, as with TLS a read may
// have to wait until it can write. The plain way costs one test more than the system call.
//
// A member of a Session; the I/O thread only.
class Transport {
 public:
  enum class Left : std::uint8_t {
    kMore,  // there may be more to read at once
    kNone,  // nothing more has come: the socket will tell
    kEnd,   // the peer has closed, or gone
  };
  struct Received {
    std::size_t bytes;
    Left left;
  };

  // `context`: null: plain.
  Transport(Socket socket, std::shared_ptr<const TlsContext> context);

  Socket& socket() { return socket_; }
  // Of the peer; of one that has gone, none in particular.
  asio::ip::address address() const;

  // ---- TLS ----

  bool is_tls() const { return tls_ != nullptr; }
  // Whether what the peer has sent so far can be TLS; nothing if it has sent nothing yet.
  std::optional<bool> looks_like_tls();
  // Whether the peer has closed meanwhile: no use in a signature for it.
  bool is_gone() const;
  TlsChannel::Then handshake();
  // The rest is plain: for what is still to be said to a peer that does not speak TLS, or made a mess of it.
  void become_plain();
  const TlsChannel& tls() const { return *tls_; }

  // ---- Bytes; with TLS after the handshake ----

  Received receive(std::span<std::byte> space);
  // How many were taken, none or some; nothing if the peer has gone. Again after write_wait().
  std::optional<std::size_t> send(std::span<const std::string_view> views);
  // Others have their turn after so much in one go: a socket may have room for megabytes.
  static constexpr std::size_t kMostAtOnce = TlsChannel::kMostAtOnce;
  Socket::wait_type read_wait() const { return read_wait_; }
  Socket::wait_type write_wait() const { return write_wait_; }

  // Says that nothing more comes.
  void shut();
  // Reads and forgets what has come, but so much at most that a peer that goes on sending does not keep the
  // others waiting.
  Left discard();
  void close();

  static constexpr std::byte kTlsFirstByte{TlsChannel::kFirstByte};

 private:
  Received receive_by_tls(std::span<std::byte> space);
  std::optional<std::size_t> send_by_tls(std::span<const std::string_view> views);

  Socket socket_;
  std::unique_ptr<TlsChannel> tls_;  // null: plain
  Socket::wait_type read_wait_ = Socket::wait_read;
  Socket::wait_type write_wait_ = Socket::wait_write;
};

}  // namespace locksley::daemon
