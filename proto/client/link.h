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

#include "proto/client/deadline.h"
#include "proto/client/error.h"
#include "proto/client/tls.h"
#include "proto/client/url.h"

namespace locksley::client {

// One TCP connection as bytes both ways, with deadlines: the only place of the library that knows Asio. It
// writes while it waits for bytes to read, so two sides that send each other more than the kernel buffers
// never wait for one another. With TLS the bytes go through another type of stream, and all else is the same.
//
// Owned by one Client; used from one thread at a time. connect(), receive(), flush() and pause() block until
// their deadline. After a timeout, an interruption or any failure the connection is closed: bytes that were
// on their way would be taken for the next reply otherwise.
class Link final {
 public:
  // `interrupt_fd`: -1 (none), or a descriptor (an eventfd, a signalfd) that makes each blocking call return
  // kInterrupted while it is readable. Borrowed; not read from.
  explicit Link(int interrupt_fd);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  // With `address.tls` the handshake is part of it: the server is who it says it is.
  Expected<void> connect(const Address& address, Deadline deadline);
  bool is_open() const { return open_; }
  const std::string& peer() const { return peer_; }
  void close();

  // Queues `bytes` and starts to write them. They are borrowed: they must stay as they are until flush() has
  // returned, a reply to what they say has come, or the link is closed. Never blocks, and never fails: a
  // write that fails is reported by the next receive() or flush().
  void send(std::string_view bytes);

  // Waits for bytes, writing meanwhile; returns how many were put into `into`, at least 1.
  Expected<std::size_t> receive(std::span<std::byte> into, Deadline deadline);

  // Waits until all that was queued has been given to the kernel.
  Expected<void> flush(Deadline deadline);

  // Waits for nothing but the time and the interrupt; for the pauses between tries to connect.
  Expected<void> pause(Deadline until);

 private:
  Expected<void> secure(const Address& address, Deadline deadline);
  void watch_interrupt();
  void start_write();
  bool interrupted();
  // Runs handlers until `done` or the deadline; false at the deadline.
  template <class Done>
  bool run_until(Deadline deadline, Done done);
  // Closes the socket, and runs the handlers of what was under way to its end, which `finished` tells.
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

  // Writing: what is queued behind the write under way. Few and large pieces, so a vector will do.
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
