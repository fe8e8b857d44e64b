// The bytes of a connection: how they get from the socket to the link, and back.
#include <array>
#include <asio/buffer.hpp>
#include <asio/ssl/stream.hpp>
#include <span>
#include <string_view>

#include "daemon/base/net/send_now.h"
#include "daemon/base/time.h"
#include "daemon/upstream/upstream_connection.h"

namespace locksley::daemon {
namespace {

// How many parts of the output one system call takes, and how many such calls follow each other:
// the other connections of this thread have their turn after a few hundred KiB. Guesses.
constexpr std::size_t kMostViews = 16;
constexpr int kMostWrites = 4;

}  // namespace

void UpstreamConnection::read() {
  ++operations_;
  const auto space = link_.space();
  const auto done = [this](const asio::error_code& error, std::size_t bytes) {
    kUpstreamThread.assert_held();
    if (error && !is_closing_) {
      const bool is_end = error == asio::error::eof || error == asio::ssl::error::stream_truncated;
      close(is_end ? "the connection was closed" : "the connection broke: " + error.message());
    }
    if (is_closing_) return end_operation();
    --operations_;
    link_.received(bytes, steady_now());
    serve();
    if (is_open_) read();
  };
  const asio::mutable_buffer into(space.data(), space.size());
  tls_ ? tls_->async_read_some(into, done) : socket_.async_read_some(into, done);
}

void UpstreamConnection::write(Nanoseconds now) {
  if (is_writing_ || (tls_ == nullptr && !write_now(now)) || link_.output().empty()) return;
  is_writing_ = true;
  ++operations_;
  std::array<std::string_view, kMostViews> views;
  std::array<asio::const_buffer, kMostViews> buffers;
  const std::size_t used = link_.output().gather(views);
  for (std::size_t i = 0; i < used; ++i) buffers[i] = asio::const_buffer(views[i].data(), views[i].size());
  const auto done = [this](const asio::error_code& error, std::size_t bytes) {
    kUpstreamThread.assert_held();
    is_writing_ = false;
    // The upstream may have said why before it closed: a read tells.
    if (error || is_closing_) return end_operation();
    --operations_;
    link_.sent(bytes, steady_now());
    serve();
  };
  tls_ ? tls_->async_write_some(buffers, done) : socket_.async_write_some(buffers, done);
}

bool UpstreamConnection::write_now(Nanoseconds now) {
  proto::OutputBuffer& output = link_.output();
  for (int writes = 0; writes < kMostWrites && !output.empty(); ++writes) {
    std::array<std::string_view, kMostViews> views;
    const std::size_t used = output.gather(views);
    const auto sent = send_now(socket_.native_handle(), std::span(views).first(used));
    // The upstream may have said why before it closed: a read tells.
    if (!sent) return false;
    if (*sent == 0) return true;
    link_.sent(*sent, now);
  }
  return true;
}

}  // namespace locksley::daemon
