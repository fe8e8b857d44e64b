#include "daemon/network/relayed_connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "daemon/base/net/socket_error.h"

namespace locksley::daemon {

namespace {

bool ends(TlsChannel::Then then) {
  return then == TlsChannel::Then::kEnd || then == TlsChannel::Then::kFailed;
}

}  // namespace

RelayedConnection::~RelayedConnection() { close(); }

void RelayedConnection::close() {
  if (is_closed()) return;
  if (tls_ != nullptr) tls_->say_end();
  ::close(std::exchange(socket_, -1));
}

void RelayedConnection::socket_is_ready(std::uint32_t events) {
  // TLS may have to write in order to read.
  const bool is_tls = tls_ != nullptr;
  if (is_tls || (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) is_readable_ = true;
  if (is_tls || (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) is_writable_ = true;
  if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) is_hung_up_ = true;
}

bool RelayedConnection::take_orders(Round& round) {
  const Relay::Orders orders = relay_->take_orders(round.waits);
  line_ = orders.line;
  may_have_output_ = true;
  is_full_ = orders.is_full;
  reports_ = reports_ || orders.reports;
  shuts_ = shuts_ || orders.shuts;
  if (!orders.closes) return false;
  // The socket may have room again without an event so far. Bytes that it does not take now are
  // lost.
  is_writable_ = true;
  send(round);
  return true;
}

void RelayedConnection::fail(Round& round) {
  const Relay::Failed failed = relay_->fail(round.waits);
  has_failed_ = true;
  is_ended_ = true;
  unsent_.clear();
  if (failed.tells_input) add_news(Relay::News::kInput, round);
  if (failed.tells_room) add_news(Relay::News::kRoom, round);
}

RelayedConnection::Then RelayedConnection::serve(Round& round) {
  moved_ = 0;
  send(round);
  receive(round);
  has_much_ = moved_ > RelayBuffer::kSmall;
  const bool can_read = is_readable_ && !is_full_ && !is_ended_;
  const bool can_write = is_writable_ && !has_failed_ && !unsent_.empty();
  return can_read || can_write ? Then::kMore : Then::kWait;
}

bool RelayedConnection::has_output(Round& round) {
  if (!unsent_.empty()) return true;
  if (!std::exchange(may_have_output_, false)) return false;
  if (relay_->take_output(unsent_, round.waits)) add_news(Relay::News::kRoom, round);
  return !unsent_.empty();
}

void RelayedConnection::send(Round& round) {
  while (!has_failed_ && has_output(round)) {
    if (!is_writable_) return;
    const Moved sent = write(unsent_.rest());
    unsent_.consume(sent.bytes);
    moved_ += sent.bytes;
    if (sent.is_end) fail(round);
  }
  finish_sending(round);
}

void RelayedConnection::finish_sending(Round& round) {
  if (std::exchange(shuts_, false)) {
    if (tls_ != nullptr) tls_->say_end();
    ::shutdown(socket_, SHUT_WR);
  }
  if (std::exchange(reports_, false)) add_news(Relay::News::kSent, round);
}

RelayedConnection::Moved RelayedConnection::write(std::string_view bytes) {
  if (tls_ != nullptr) {
    const std::array views{bytes};
    const TlsChannel::Moved moved = tls_->write(views);
    is_writable_ = moved.then == TlsChannel::Then::kDone;
    return {moved.bytes, ends(moved.then)};
  }
  const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0) {
    // It took less than there was: it is full, and will say when it is not.
    is_writable_ = static_cast<std::size_t>(sent) == bytes.size();
    return {static_cast<std::size_t>(sent), false};
  }
  is_writable_ = false;
  return {0, !is_only_busy()};
}

void RelayedConnection::receive(Round& round) {
  if (!is_readable_ || is_full_ || is_ended_) return;
  const std::size_t room = relay_->room_for_input(wants_much_, round.waits);
  is_full_ = room == 0;
  if (is_full_) return;
  const std::span space = round.scratch.first(std::min(room, round.scratch.size()));
  const Moved got = read(space);
  wants_much_ = got.bytes == space.size();
  moved_ += got.bytes;
  bool tells = relay_->push_input(std::string_view(space.data(), got.bytes), round.waits);
  ::explicit_bzero(space.data(), got.bytes);  // there may be a password in it
  if (got.is_end) {
    is_ended_ = true;
    tells = relay_->end_input(round.waits) || tells;
  }
  if (tells) add_news(Relay::News::kInput, round);
}

RelayedConnection::Moved RelayedConnection::read(std::span<char> space) {
  if (tls_ != nullptr) {
    const TlsChannel::Moved moved = tls_->read(std::as_writable_bytes(space));
    // Once the peer has hung up, no more events come: the remaining bytes are read until the end.
    is_readable_ =
        moved.then == TlsChannel::Then::kDone || (moved.then == TlsChannel::Then::kWantRead && is_hung_up_);
    return {moved.bytes, ends(moved.then)};
  }
  const ssize_t got = ::recv(socket_, space.data(), space.size(), MSG_DONTWAIT);
  if (got > 0) {
    // Less than there was room for: these were all bytes, and an event will announce the next ones.
    is_readable_ = static_cast<std::size_t>(got) == space.size() || is_hung_up_;
    return {static_cast<std::size_t>(got), false};
  }
  is_readable_ = false;
  // Reset: sending will find out.
  return {0, got == 0 || !is_only_busy()};
}

}  // namespace locksley::daemon
