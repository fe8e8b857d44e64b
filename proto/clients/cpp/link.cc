#include "proto/clients/cpp/link.h"

#include <poll.h>
#include <unistd.h>

#include <asio/buffer.hpp>
#include <asio/connect.hpp>
#include <asio/write.hpp>

namespace locksley::client {

using Kind = ClientError::Kind;

Link::Link(int interrupt_fd) {
  // A duplicate, because Asio closes what it is given.
  if (interrupt_fd >= 0) interrupt_.assign(::dup(interrupt_fd));
}

Link::~Link() {
  close();
  asio::error_code ignored;
  interrupt_.close(ignored);
}

bool Link::interrupted() {
  if (!interrupt_.is_open()) return false;
  pollfd entry{.fd = interrupt_.native_handle(), .events = POLLIN, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

void Link::watch_interrupt() {
  if (watching_ || !interrupt_.is_open()) return;
  watching_ = true;
  interrupt_.async_wait(asio::posix::descriptor_base::wait_read, [this](asio::error_code error) {
    watching_ = false;
    // Asio's wait may end although nothing happened, and another reader may have read the event
    // since.
    if (!error && interrupted()) interrupt_seen_ = true;
  });
}

void Link::give_up(const bool& finished) {
  asio::error_code ignored;
  socket_.close(ignored);
  while (!finished) {
    if (io_.stopped()) io_.restart();
    io_.run_one();
  }
}

template <class Done>
bool Link::run_until(Deadline deadline, Done done) {
  while (!done() && !interrupt_seen_) {
    watch_interrupt();
    if (io_.stopped()) io_.restart();
    if (io_.run_one_until(deadline) == 0) return done();
  }
  return true;
}

std::unexpected<ClientError> Link::fail(Kind kind, std::string message) {
  close();
  return client_error(kind, peer_ + ": " + std::move(message));
}

void Link::close() {
  open_ = false;
  asio::error_code ignored;
  socket_.close(ignored);
  // The handlers of the pending operations still refer to the caller's buffers: let them end.
  while (write_running_ || read_running_) {
    if (io_.stopped()) io_.restart();
    io_.run_one();
  }
  tls_.reset();
  queued_.clear();
  write_error_ = {};
}

Expected<void> Link::connect(const Address& address, Deadline deadline) {
  const std::string& host = address.host;
  const std::uint16_t port = address.port;
  close();
  interrupt_seen_ = interrupted();
  peer_ = address.text();

  asio::error_code error;
  bool finished = false;
  asio::ip::tcp::resolver resolver(io_);
  const auto connected = [&](asio::error_code result) {
    error = result;
    finished = true;
  };
  // A name goes through the resolver, which is a thread of Asio's; an IP address needs no resolver.
  asio::error_code not_a_number;
  const auto number = asio::ip::make_address(host, not_a_number);
  if (!not_a_number) {
    socket_.async_connect({number, port}, connected);
  } else {
    resolver.async_resolve(host, std::to_string(port), [&](asio::error_code result, const auto& found) {
      if (result) return connected(result);
      asio::async_connect(socket_, found, [&](asio::error_code last, const auto&) { connected(last); });
    });
  }
  run_until(deadline, [&] { return finished; });
  const bool in_time = finished;
  if (!finished) {
    resolver.cancel();
    give_up(finished);
  }
  if (interrupt_seen_) return fail(Kind::kInterrupted, "interrupted while connecting");
  if (!in_time) return fail(Kind::kUnavailable, "no connection in the time given");
  if (error) return fail(Kind::kUnavailable, "cannot connect: " + error.message());
  socket_.set_option(asio::ip::tcp::no_delay(true), error);
  // A wait can be as long as a batch: keep-alive finds a peer that has vanished.
  socket_.set_option(asio::socket_base::keep_alive(true), error);
  open_ = true;
  return address.tls ? secure(address, deadline) : Expected<void>{};
}

Expected<void> Link::secure(const Address& address, Deadline deadline) {
  auto stream = make_tls_stream(socket_, address);
  if (!stream) {
    close();
    return std::unexpected(std::move(stream.error()));
  }
  tls_ = std::move(*stream);
  asio::error_code error;
  bool finished = false;
  tls_->async_handshake(TlsStream::client, [&](asio::error_code result) {
    error = result;
    finished = true;
  });
  run_until(deadline, [&] { return finished; });
  const bool in_time = finished;
  if (!finished) {
    give_up(finished);
  }
  if (interrupt_seen_) return fail(Kind::kInterrupted, "interrupted while connecting");
  if (!in_time) return fail(Kind::kUnavailable, "no TLS handshake in the time given");
  if (error) return fail(Kind::kUnavailable, explain_handshake(*tls_, error, address));
  return {};
}

void Link::send(std::string_view bytes) {
  if (!open_ || bytes.empty()) return;
  queued_.push_back(bytes);
  if (!write_running_) start_write();
}

void Link::start_write() {
  if (queued_.empty() || write_error_ || !open_) return;
  writing_.clear();
  for (const std::string_view buffer : queued_) writing_.emplace_back(buffer.data(), buffer.size());
  queued_.clear();
  write_running_ = true;
  const auto written = [this](asio::error_code error, std::size_t) {
    write_running_ = false;
    if (error) {
      write_error_ = error;
    } else {
      start_write();
    }
  };
  if (tls_) {
    asio::async_write(*tls_, writing_, written);
  } else {
    asio::async_write(socket_, writing_, written);
  }
}

Expected<std::size_t> Link::receive(std::span<std::byte> into, Deadline deadline) {
  if (!open_) return fail(Kind::kUnavailable, "not connected");
  interrupt_seen_ = interrupted();
  read_running_ = true;
  const asio::mutable_buffer space(into.data(), into.size());
  const auto done = [this](asio::error_code error, std::size_t count) {
    read_running_ = false;
    read_error_ = error;
    read_count_ = count;
  };
  if (tls_) {
    tls_->async_read_some(space, done);
  } else {
    socket_.async_read_some(space, done);
  }
  run_until(deadline, [this] { return !read_running_; });
  if (interrupt_seen_) return fail(Kind::kInterrupted, "interrupted");
  if (read_running_) return fail(Kind::kTimeout, "no reply in the time given");
  // A failed write alone is not the end: the peer may have said why before it closed.
  if (read_error_ == asio::error::eof || read_error_ == asio::ssl::error::stream_truncated)
    return fail(Kind::kUnavailable, "the connection was closed");
  if (read_error_) return fail(Kind::kUnavailable, "the connection broke: " + read_error_.message());
  return read_count_;
}

Expected<void> Link::flush(Deadline deadline) {
  if (!open_) return fail(Kind::kUnavailable, "not connected");
  interrupt_seen_ = interrupted();
  run_until(deadline, [this] { return !write_running_; });
  if (interrupt_seen_) return fail(Kind::kInterrupted, "interrupted");
  if (write_running_) return fail(Kind::kTimeout, "the peer does not read what is sent");
  if (write_error_) return fail(Kind::kUnavailable, "the connection broke: " + write_error_.message());
  return {};
}

Expected<void> Link::pause(Deadline until) {
  // poll() skips a descriptor of -1.
  pollfd entry{.fd = interrupt_.is_open() ? interrupt_.native_handle() : -1, .events = POLLIN, .revents = 0};
  while (Clock::now() < until) {
    const auto rest = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    const int slice = static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(rest, 0, 60'000));
    if (::poll(&entry, 1, slice) > 0) return fail(Kind::kInterrupted, "interrupted");
  }
  return {};
}

}  // namespace locksley::client
