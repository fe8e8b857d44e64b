#include "daemon/http/stream.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <asio/buffer.hpp>
#include <asio/completion_condition.hpp>
#include <asio/error.hpp>
#include <asio/redirect_error.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>
#include <new>
#include <utility>

namespace locksley::daemon {

using asio::ip::tcp;
using Then = TlsChannel::Then;

HttpStream::HttpStream(tcp::socket socket, std::shared_ptr<const TlsContext> context,
                       HandshakeQueue* handshakes)
    : socket_(std::move(socket)), handshakes_(handshakes) {
  // Without this option a stalled client is noticed later.
  ::setsockopt(socket_.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kMostUnsent, sizeof kMostUnsent);
  if (!context) return;
  tls_ = TlsChannel::make(std::move(context), socket_.native_handle());
  if (!tls_) throw std::bad_alloc();
}

// In this file, each await is a statement of its own, as in connection.cc.
asio::awaitable<std::error_code> HttpStream::wait_for(Then then) {
  std::error_code error;
  const auto what = then == Then::kWantWrite ? tcp::socket::wait_write : tcp::socket::wait_read;
  co_await socket_.async_wait(what, asio::redirect_error(asio::use_awaitable, error));
  // The socket has been closed meanwhile: the descriptor's number may belong to another file now.
  if (!error && !socket_.is_open()) error = asio::error::operation_aborted;
  co_return error;
}

asio::awaitable<HttpStream::Begun> HttpStream::begin() {
  if (!tls_) co_return Begun::kReady;
  std::error_code error;
  const asio::ip::address source = socket_.remote_endpoint(error).address();
  bool is_first = true;
  Then then = Then::kWantRead;
  while (then == Then::kWantRead || then == Then::kWantWrite) {
    error = co_await wait_for(then);
    if (error) co_return Begun::kFailed;
    if (std::exchange(is_first, false)) {
      std::array<unsigned char, 1> first{};
      const std::size_t got = socket_.receive(asio::buffer(first), tcp::socket::message_peek, error);
      if (got == 0) co_return Begun::kFailed;
      if (first[0] != TlsChannel::kFirstByte) {
        tls_.reset();
        co_return Begun::kNoTls;
      }
    }
    co_await handshakes_->wait_for_step(source, asio::use_awaitable);
    if (!socket_.is_open()) co_return Begun::kFailed;
    then = tls_->handshake();
  }
  co_return then == Then::kDone ? Begun::kReady : Begun::kFailed;
}

asio::awaitable<std::expected<std::size_t, std::error_code>> HttpStream::read_some(
    std::span<std::byte> into) {
  std::error_code error;
  if (!tls_) {
    const std::size_t count = co_await socket_.async_read_some(
        asio::buffer(into.data(), into.size()), asio::redirect_error(asio::use_awaitable, error));
    if (error) co_return std::unexpected(error);
    co_return count;
  }
  for (;;) {
    if (!socket_.is_open()) co_return std::unexpected(asio::error::operation_aborted);
    const TlsChannel::Moved moved = tls_->read(into);
    if (moved.bytes > 0) co_return moved.bytes;
    if (moved.then == Then::kEnd || moved.then == Then::kFailed) co_return std::unexpected(asio::error::eof);
    error = co_await wait_for(moved.then);
    if (error) co_return std::unexpected(error);
  }
}

asio::awaitable<bool> HttpStream::write(std::string_view head, std::string_view body) {
  std::error_code error;
  if (!tls_) {
    const std::array<asio::const_buffer, 2> buffers = {asio::buffer(head), asio::buffer(body)};
    // Asio calls it before the first write, and after each.
    const auto note = [this](const std::error_code& failed, std::size_t sent) {
      if (sent > 0) last_write_ = now();
      return asio::transfer_all()(failed, sent);
    };
    co_await asio::async_write(socket_, buffers, note, asio::redirect_error(asio::use_awaitable, error));
    co_return !error;
  }
  for (std::size_t sent = 0; sent < head.size() + body.size();) {
    if (!socket_.is_open()) co_return false;
    const std::size_t of_body = sent > head.size() ? sent - head.size() : 0;
    const std::array<std::string_view, 2> views = {head.substr(sent - of_body), body.substr(of_body)};
    const TlsChannel::Moved moved = tls_->write(views);
    if (moved.then == Then::kEnd || moved.then == Then::kFailed) co_return false;
    if (moved.bytes > 0) last_write_ = now();
    sent += moved.bytes;
    if (sent == head.size() + body.size()) break;
    // kDone with bytes left: other connections may run first.
    error = co_await wait_for(moved.then == Then::kWantRead ? Then::kWantRead : Then::kWantWrite);
    if (error) co_return false;
  }
  co_return true;
}

void HttpStream::shut() {
  if (tls_ && socket_.is_open()) tls_->say_end();
  std::error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

asio::awaitable<void> HttpStream::discard(std::size_t most) {
  std::array<char, 4096> block;
  std::error_code error;
  for (std::size_t total = 0; !error && total < most;) {
    total += co_await socket_.async_read_some(asio::buffer(block),
                                              asio::redirect_error(asio::use_awaitable, error));
  }
}

void HttpStream::close() {
  if (tls_ && socket_.is_open()) tls_->say_end();
  std::error_code ignored;
  socket_.close(ignored);
}

}  // namespace locksley::daemon
