#include "daemon/network/transport.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "daemon/base/net/send_now.h"
#include "daemon/base/net/socket_error.h"
#include "daemon/network/network_threads.h"

namespace locksley::daemon {

Transport::Transport(Socket socket, std::shared_ptr<const TlsContext> context)
    : socket_(std::move(socket)), descriptor_(socket_.native_handle()), is_tls_(context != nullptr) {
  if (!context) return;
  tls_ = TlsChannel::make(std::move(context), descriptor_);
  if (!tls_) throw std::bad_alloc();
}

asio::ip::address Transport::address() const {
  asio::error_code gone;
  return socket_.remote_endpoint(gone).address();
}

std::optional<bool> Transport::looks_like_tls() {
  std::byte first{};
  const ssize_t got = ::recv(socket_.native_handle(), &first, 1, MSG_DONTWAIT | MSG_PEEK);
  if (got < 0 && is_only_busy()) return {};
  // One that has gone is left to the handshake, which will find out.
  return got <= 0 || first == kTlsFirstByte;
}

bool Transport::is_gone() const {
  pollfd entry{.fd = descriptor_, .events = POLLRDHUP, .revents = 0};
  return ::poll(&entry, 1, 0) > 0;
}

TlsChannel::Then Transport::handshake() { return tls_->handshake(); }

void Transport::become_plain() {
  tls_.reset();
  is_tls_ = false;
  read_wait_ = Socket::wait_read;
  write_wait_ = Socket::wait_write;
}

bool Transport::has_certificate_of(const TlsContext& context) const {
  return tls_ == nullptr ? context.has_issued(certificate_) : context.has_issued(tls_->peer_certificate());
}

std::string Transport::peer_common_name() const {
  return tls_ == nullptr ? certificate_.common_name() : tls_->peer_common_name();
}

void Transport::set_line(LineNumber line) {
  line_ = line;
  if (relay_ == nullptr) return;
  kIoThread.assume_held();
  relay_->set_line(line);
}

void Transport::hand_over(NetworkThreads& network, RelayOwner& owner) {
  if (tls_ != nullptr) certificate_ = tls_->peer_certificate();
  asio::error_code error;
  const int socket = socket_.release(error);
  if (error) return;  // closed
  relay_ = network.take_over(socket, std::move(tls_), owner);
  relay_->set_line(line_);
}

Transport::Received Transport::receive(std::span<std::byte> space) {
  const Read got = read(space);
  readable_ = got.left == Left::kMore;
  if (got.left == Left::kEnd) at_end_ = true;
  return {got.bytes, got.bytes != 0 && !std::exchange(has_received_, true)};
}

std::optional<Transport::Read> Transport::take_ahead(std::span<std::byte> space) {
  if (ahead_end_) return Read{0, Left::kEnd};
  if (ahead_.empty()) return {};
  const bool was_full = ahead_.data() + ahead_.size() == ahead_space_.data() + kAhead;
  const auto taken = ahead_.first(std::min(space.size(), ahead_.size()));
  std::copy_n(taken.data(), taken.size(), space.data());  // std::ranges::copy of g++ 12 goes byte by byte
  ahead_ = ahead_.subspan(taken.size());
  // It sends more at a time than fits.
  if (was_full) reads_ahead_ = false;
  return Read{taken.size(), was_full || !ahead_.empty() ? Left::kMore : Left::kNone};
}

Transport::Read Transport::read(std::span<std::byte> space) {
  if (tls_) return read_by_tls(space);
  if (relay_) return read_relay(space);
  if (const auto ahead = take_ahead(space)) return *ahead;
  const ssize_t got = ::recv(socket_.native_handle(), space.data(), space.size(), MSG_DONTWAIT);
  if (got > 0) {
    const auto n = static_cast<std::size_t>(got);
    reads_ahead_ = n < std::min(kAhead, space.size());
    // Less than there was room for: these were all bytes, and the socket will announce the next
    // ones.
    return {n, n == space.size() ? Left::kMore : Left::kNone};
  }
  // Reset: the next write will find that out.
  return {0, got < 0 && is_only_busy() ? Left::kNone : Left::kEnd};
}

Transport::Read Transport::read_by_tls(std::span<std::byte> space) {
  const TlsChannel::Moved moved = tls_->read(space);
  read_wait_ = moved.then == TlsChannel::Then::kWantWrite ? Socket::wait_write : Socket::wait_read;
  switch (moved.then) {
    case TlsChannel::Then::kDone:
      return {moved.bytes, Left::kMore};
    case TlsChannel::Then::kWantRead:
    case TlsChannel::Then::kWantWrite:
      return {moved.bytes, Left::kNone};
    case TlsChannel::Then::kEnd:
    case TlsChannel::Then::kFailed:
      break;
  }
  return {moved.bytes, Left::kEnd};
}

Transport::Read Transport::read_relay(std::span<std::byte> space) {
  kIoThread.assume_held();
  const RelayEnd::Received received = relay_->receive(space);
  if (received.is_end) return {received.bytes, Left::kEnd};
  return {received.bytes, relay_->may_have_input() ? Left::kMore : Left::kNone};
}

void Transport::await_relayed_input() {
  kIoThread.assume_held();
  relay_->await_input();
}

void Transport::await_relayed_room() {
  kIoThread.assume_held();
  relay_->await_room();
}

bool Transport::is_sent() {
  kIoThread.assume_held();
  return relay_ == nullptr || relay_->is_sent();
}

std::optional<std::size_t> Transport::send(std::span<const std::string_view> views) {
  if (tls_) return send_by_tls(views);
  if (relay_) {
    kIoThread.assume_held();
    return relay_->send(views);
  }
  return send_now(socket_.native_handle(), views);
}

std::optional<std::size_t> Transport::send_by_tls(std::span<const std::string_view> views) {
  if (!tls_->error().empty()) return {};
  const TlsChannel::Moved moved = tls_->write(views);
  write_wait_ = moved.then == TlsChannel::Then::kWantRead ? Socket::wait_read : Socket::wait_write;
  if (moved.then == TlsChannel::Then::kEnd || moved.then == TlsChannel::Then::kFailed) return {};
  return moved.bytes;
}

void Transport::shut() {
  if (relay_) {
    kIoThread.assume_held();
    return relay_->shut();
  }
  if (tls_) tls_->say_end();
  ::shutdown(socket_.native_handle(), SHUT_WR);
}

Transport::Left Transport::discard() {
  if (relay_) {
    kIoThread.assume_held();
    return relay_->discard() ? Left::kEnd : Left::kNone;
  }
  constexpr int kMostReads = 64;
  ahead_ = {};
  if (ahead_end_) return Left::kEnd;
  std::array<char, 16 * 1024> rubbish;
  for (int reads = 0; reads < kMostReads; ++reads) {
    const ssize_t got = ::recv(socket_.native_handle(), rubbish.data(), rubbish.size(), MSG_DONTWAIT);
    if (got == 0) return Left::kEnd;
    if (got < 0) return is_only_busy() ? Left::kNone : Left::kEnd;
    if (got < static_cast<ssize_t>(rubbish.size())) return Left::kNone;
  }
  return Left::kMore;
}

void Transport::close() {
  relay_.reset();
  if (tls_ && socket_.is_open()) tls_->say_end();
  asio::error_code ignored;
  socket_.close(ignored);
}

}  // namespace locksley::daemon
