#pragma once

#include <array>
#include <asio/buffer.hpp>
#include <asio/error.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/user_lines.h"
#include "daemon/network/relay_end.h"
#include "daemon/tls/channel.h"

namespace locksley::daemon {

class NetworkThreads;

// A connection's socket, and its bytes both ways, plain or by TLS. It reads and writes what is
// possible at once; wait_readable() and wait_writable() have Asio say when there is more to do.
// (With TLS a read may have to wait until the socket is writable, and the other way round.) The
// plain way costs one test more than the system call.
//
// A plain peer that sends little at a time is read by the wait itself, into kAhead bytes of the
// Transport. That is cheaper: for a wait alone Asio changes what epoll watches, while for a read it
// only tries the socket once, and mostly finds nothing there.
//
// After hand_over() a network thread has the socket, and moves the bytes between it and buffers
// (relay.h). From then on the functions here read and write these buffers instead of the socket.
//
// A member of a connection, which lives for as long as a wait is pending. One thread: that of the
// socket's executor; that is the I/O thread, if it is handed over. Nothing blocks. If the peer has
// gone, is_at_end() is true, or send() fails.
class Transport {
 public:
  enum class Left : std::uint8_t {
    kMore,  // there may be more to read at once
    kNone,  // nothing more has come: the socket will say when it has
    kEnd,   // the peer has closed, or gone
  };
  struct Received {
    std::size_t bytes;
    bool is_first;  // nothing was received before
  };

  // `context`: null: plain.
  Transport(Socket socket, std::shared_ptr<const TlsContext> context);

  int descriptor() const { return descriptor_; }
  // The socket, if send() writes to it as it is; until close(), hand_over() or a handshake. None:
  // it does not.
  std::optional<int> plain_socket() const {
    return tls_ == nullptr && relay_ == nullptr ? std::optional(descriptor_) : std::nullopt;
  }
  // Of the peer; of one that has gone, none in particular.
  asio::ip::address address() const;

  // ---- TLS ----

  bool is_tls() const { return is_tls_; }
  // Whether what the peer has sent so far can be TLS; nothing if it has sent nothing yet.
  std::optional<bool> looks_like_tls();
  TlsChannel::Then handshake();
  // The rest is plain: the error message for a peer that does not speak TLS, or breaks it.
  void become_plain();
  // Of a handshake that has failed.
  const std::string& tls_error() const { return tls_->error(); }
  // After the handshake: the common name of the certificate that the peer has shown; empty: none.
  std::string peer_common_name() const;
  // The handshake is over.
  bool is_established() const { return relay_ != nullptr || tls_->is_established(); }
  // Needs: is_established(). Whether the peer has shown a certificate that
  // TlsContext::has_issued().
  bool has_certificate_of(const TlsContext& context) const;

  // ---- Bytes; with TLS after the handshake ----

  // Gives the socket to a network thread, after the handshake and before the first receive(). Waits
  // that are pending end without a call. `owner` has this as its member.
  void hand_over(NetworkThreads& network, RelayOwner& owner) LOCKSLEY_REQUIRES(kIoThread);
  // The user of the connection: network threads serve users by turns, and buffer little for
  // strangers. A stranger's, unless it is set.
  void set_line(LineNumber line);
  // Needs: can_receive(). Updates it.
  Received receive(std::span<std::byte> space);
  // How many bytes receive() will return, if they are known to be all that has come; 0: that is not
  // known.
  std::size_t known_input() const { return ahead_.size() < kAhead ? ahead_.size() : 0; }
  // There may be something to read now.
  bool can_receive() const { return (relay_ == nullptr ? readable_ : relay_->may_have_input()) && !at_end_; }
  // The socket does not report what TLS has read with the last bytes of the handshake.
  void expect_more() { readable_ = true; }
  // The peer sends nothing more.
  bool is_at_end() const { return at_end_; }
  // Asks the kernel whether the peer has closed its side, or gone, also while there are bytes to
  // read. The kernel learns of a close only after it has received all bytes that were sent before.
  // Needs: not closed.
  bool is_gone() const;
  // How many bytes the socket took, perhaps 0; nothing if the peer has gone. Call it again for the
  // rest after wait_writable().
  std::optional<std::size_t> send(std::span<const std::string_view> views);
  // The most bytes that a connection sends in one go, before others get their turn: a socket may
  // have room for megabytes.
  static constexpr std::size_t kMostAtOnce = TlsChannel::kMostAtOnce;
  // Whether the kernel has all that send() took, or the peer has gone: closing loses nothing of it.
  // If false, the owner is called once it is true.
  bool is_sent();

  // Calls `owner.socket_is_ready()` once, as soon as the socket is readable or writable; no effect
  // while such a wait is pending. The wait shares the owner, whose member this is. Closing ends it
  // without a call.
  template <class Owner>
  void wait_readable(Owner& owner);
  template <class Owner>
  void wait_writable(Owner& owner);

  // Tells the peer that no more bytes will follow.
  void shut();
  // Reads and discards received bytes: a bounded number, so that a peer that sends all the time
  // does not keep the others waiting.
  Left discard();
  void close();

  static constexpr std::byte kTlsFirstByte{TlsChannel::kFirstByte};

 private:
  static constexpr std::size_t kAhead = 256;  // guess: a command with a small payload

  struct Read {
    std::size_t bytes;
    Left left;
  };
  // What a wait has read, if it has.
  std::optional<Read> take_ahead(std::span<std::byte> space);
  Read read(std::span<std::byte> space);
  Read read_by_tls(std::span<std::byte> space);
  Read read_relay(std::span<std::byte> space);
  void await_relayed_input();
  void await_relayed_room();
  std::optional<std::size_t> send_by_tls(std::span<const std::string_view> views);

  Socket socket_;
  int descriptor_;
  bool is_tls_;
  std::unique_ptr<TlsChannel> tls_;  // null: plain, or handed over
  std::unique_ptr<RelayEnd> relay_;  // null: not handed over
  PeerCertificate certificate_;      // of the peer, after hand_over()
  LineNumber line_ = kStrangersLine;
  Socket::wait_type read_wait_ = Socket::wait_read;
  Socket::wait_type write_wait_ = Socket::wait_write;
  bool readable_ = true;  // there may be something to read
  bool at_end_ = false;   // the peer has closed its side
  bool has_received_ = false;
  bool read_pending_ = false;  // a wait
  bool write_pending_ = false;
  bool reads_ahead_ = false;          // the next wait reads, since the last read was small
  bool ahead_end_ = false;            // a wait found that the peer has closed its side, or gone
  std::span<const std::byte> ahead_;  // in ahead_space_: what a wait has read and receive() has not returned
  std::array<std::byte, kAhead> ahead_space_{};
};

template <class Owner>
void Transport::wait_readable(Owner& owner) {
  if (relay_ != nullptr) return await_relayed_input();
  if (std::exchange(read_pending_, true)) return;
  if (reads_ahead_) {
    const auto on_read = [this, self = owner.shared_from_this()](const asio::error_code& error,
                                                                 std::size_t bytes) {
      read_pending_ = false;
      if (error == asio::error::operation_aborted) return;
      ahead_ = std::span(ahead_space_).first(bytes);
      ahead_end_ = static_cast<bool>(error);
      readable_ = true;
      self->socket_is_ready();
    };
    socket_.async_receive(asio::buffer(ahead_space_), on_read);
    return;
  }
  socket_.async_wait(read_wait_, [this, self = owner.shared_from_this()](const asio::error_code& error) {
    read_pending_ = false;
    if (error) return;
    readable_ = true;
    self->socket_is_ready();
  });
}

template <class Owner>
void Transport::wait_writable(Owner& owner) {
  if (relay_ != nullptr) return await_relayed_room();
  if (std::exchange(write_pending_, true)) return;
  socket_.async_wait(write_wait_, [this, self = owner.shared_from_this()](const asio::error_code& error) {
    write_pending_ = false;
    if (!error) self->socket_is_ready();
  });
}

}  // namespace locksley::daemon
