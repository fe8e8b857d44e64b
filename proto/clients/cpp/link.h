// Bytes over a TCP or TLS connection, with deadlines and an interrupt. Used by one thread at a
// time.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clients/cpp/deadline.h"
#include "proto/clients/cpp/error.h"
#include "proto/clients/cpp/tls.h"
#include "proto/clients/cpp/url.h"

namespace locksley::client {

// One TCP connection that sends and receives bytes, with deadlines: with tls.h the only class of
// the library that uses Asio. It writes while it waits for bytes to read, so two sides that send
// each other more than the kernel buffers do not deadlock. With TLS the bytes pass through a
// TlsStream; the rest is the same.
//
// Owned by one Client; used from one thread at a time. connect(), receive(), flush() and pause()
// block until their deadline. After a timeout, an interruption or another failure the connection is
// closed, because a late reply would be taken for the reply to the next command.
class Link final {
 public:
  // `interrupt_fd`: -1 (none), or a descriptor (an eventfd, a signalfd) that makes each blocking
  // call return kInterrupted while it is readable. Borrowed; not read from.
  explicit Link(int interrupt_fd);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // With `address.tls` the handshake is included: after it the server's certificate has been
  // verified.
  Expected<void> connect(const Address& address, Deadline deadline);
  bool is_open() const { return open_; }
  const std::string& peer() const { return peer_; }
  void close();

  // Queues `bytes` and starts to write them. They are borrowed: they must not change until flush()
  // has returned, the reply to the command in them has arrived, or the link is closed. Never
  // blocks, and never fails: the next receive() or flush() reports a write that failed.
  void send(std::string_view bytes);

  // Waits for bytes, and writes meanwhile; returns how many bytes `into` has received, at least 1.
  Expected<std::size_t> receive(std::span<std::byte> into, Deadline deadline);

  // Waits until all queued bytes were passed to the kernel.
  Expected<void> flush(Deadline deadline);

  // Waits until the time or an interrupt; for the pauses between attempts to connect.
  Expected<void> pause(Deadline until);

 private:
  Expected<void> secure(const Address& address, Deadline deadline);
  void watch_interrupt();
  void start_write();
  bool interrupted();
  // Runs handlers until `done` or the deadline; false at the deadline.
  template <class Done>
  bool run_until(Deadline deadline, Done done);
  // Closes the socket, and runs the handlers of the pending operation until `finished`.
  void give_up(const bool& finished);
  std::unexpected<ClientError> fail(ClientError::Kind kind, std::string message);

  asio::io_context io_{1};
  asio::ip::tcp::socket socket_{io_};
  std::unique_ptr<TlsStream> tls_;  // over socket_; null: plain
  asio::posix::stream_descriptor interrupt_{io_};
  std::string peer_ = "not connected";
  bool open_ = false;
  bool watching_ = false;
  bool interrupt_seen_ = false;

  // Writing: the buffers queued after the current write. Few and large ones, so a vector will do.
  std::vector<std::string_view> queued_;
  std::vector<asio::const_buffer> writing_;
  bool write_running_ = false;
  asio::error_code write_error_;

  // Reading.
  bool read_running_ = false;
  std::size_t read_count_ = 0;
  asio::error_code read_error_;
};

}  // namespace locksley::client
