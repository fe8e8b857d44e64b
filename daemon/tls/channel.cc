#include "daemon/tls/channel.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "daemon/base/net/socket_error.h"

namespace locksley::daemon {
namespace {
constexpr std::size_t kRecordBytes = SSL3_RT_MAX_PLAIN_LENGTH;
}  // namespace

// Replaces OpenSSL's BIO for sockets, for two reasons. OpenSSL's BIO reads the socket once more
// after a read that has emptied it, which is a system call for each command. And it does not bound
// how much one call reads.
int TlsChannel::read_socket(BIO* bio, char* into, int size) {
  Wire& wire = *static_cast<Wire*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  wire.is_paused = wire.may_read == 0;
  if (wire.is_drained || wire.is_paused) {
    BIO_set_retry_read(bio);
    return -1;
  }
  const ssize_t got = ::recv(wire.socket, into, static_cast<std::size_t>(size), MSG_DONTWAIT);
  if (got < 0 && is_only_busy()) {
    wire.is_drained = true;
    BIO_set_retry_read(bio);
    return -1;
  }
  wire.is_end = got == 0;
  if (got > 0) {
    wire.is_drained = got < size;
    wire.may_read -= std::min(wire.may_read, static_cast<std::size_t>(got));
  }
  return static_cast<int>(got);
}

int TlsChannel::write_socket(BIO* bio, const char* from, int size) {
  const Wire& wire = *static_cast<Wire*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const ssize_t sent = ::send(wire.socket, from, static_cast<std::size_t>(size), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent < 0 && is_only_busy()) BIO_set_retry_write(bio);
  return static_cast<int>(sent);
}

long TlsChannel::control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return static_cast<const Wire*>(BIO_get_data(bio))->is_end ? 1 : 0;
  return 0;
}

TlsChannel::TlsChannel(std::shared_ptr<const TlsContext> context, int socket)
    : context_(std::move(context)),
      wire_{.socket = socket},
      method_(BIO_meth_new(BIO_TYPE_SOURCE_SINK, "socket")) {}

TlsChannel::~TlsChannel() = default;

std::unique_ptr<TlsChannel> TlsChannel::make(std::shared_ptr<const TlsContext> context, int socket) {
  std::unique_ptr<TlsChannel> channel(new TlsChannel(std::move(context), socket));
  if (!channel->method_) return nullptr;
  BIO_METHOD* const method = channel->method_.get();
  BIO_meth_set_read(method, read_socket);
  BIO_meth_set_write(method, write_socket);
  BIO_meth_set_ctrl(method, control);
  channel->session_ = channel->context_->make_session();
  BIO* const bio = BIO_new(method);
  if (!channel->session_ || bio == nullptr) {
    BIO_free(bio);
    return nullptr;
  }
  BIO_set_data(bio, &channel->wire_);
  BIO_set_init(bio, 1);
  SSL_set_bio(channel->session_.get(), bio, bio);
  SSL_set_accept_state(channel->session_.get());
  return channel;
}

void TlsChannel::begin_reading(std::size_t most) {
  wire_.is_drained = false;
  wire_.is_paused = false;
  wire_.may_read = most;
  ERR_clear_error();
}

TlsChannel::Then TlsChannel::outcome(int result) {
  switch (SSL_get_error(session_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return wire_.is_paused ? Then::kDone : Then::kWantRead;
    case SSL_ERROR_WANT_WRITE:
      return Then::kWantWrite;
    case SSL_ERROR_ZERO_RETURN:
      return Then::kEnd;
    case SSL_ERROR_SYSCALL:
      error_ = wire_.is_end ? "closed by the peer" : std::generic_category().message(errno);
      break;
    default:
      error_ = take_openssl_error();
  }
  if (const long verified = SSL_get_verify_result(session_.get()); verified != X509_V_OK) {
    error_ = std::string("the client's certificate: ") + X509_verify_cert_error_string(verified);
  }
  ERR_clear_error();
  return Then::kFailed;
}

TlsChannel::Then TlsChannel::handshake() {
  begin_reading(kMostAtOnce);
  const int result = SSL_do_handshake(session_.get());
  if (result == 1) return Then::kDone;
  const Then then = outcome(result);
  // The peer has closed the connection, or has sent more than a handshake reads in one step.
  if (then == Then::kDone || then == Then::kEnd) {
    error_ = then == Then::kEnd ? "closed by the peer" : "too long a handshake";
    return Then::kFailed;
  }
  return then;
}

TlsChannel::Moved TlsChannel::read(std::span<std::byte> into) {
  begin_reading(std::min(into.size(), kMostAtOnce) + kRecordBytes);
  std::size_t total = 0;
  while (total < into.size()) {
    std::size_t got = 0;
    const int result = SSL_read_ex(session_.get(), into.data() + total, into.size() - total, &got);
    if (result != 1) return {total, outcome(result)};
    total += got;
  }
  return {total, Then::kDone};
}

TlsChannel::Moved TlsChannel::write(std::span<const std::string_view> views) {
  ERR_clear_error();
  std::array<char, kRecordBytes> gathered;
  std::size_t total = 0;
  std::size_t skip = 0;  // bytes of the first view that have been sent
  while (total < kMostAtOnce) {
    while (!views.empty() && skip == views.front().size()) {
      views = views.subspan(1);
      skip = 0;
    }
    if (views.empty()) break;
    // Records are as long as possible: small views are copied together, large ones are encrypted in
    // place. So a record that the socket refused is never shorter in the next call, as OpenSSL
    // demands.
    std::string_view record = views.front().substr(skip, kRecordBytes);
    if (record.size() < kRecordBytes && views.size() > 1) {
      std::size_t filled = 0;
      for (std::size_t i = 0; i < views.size() && filled < kRecordBytes; ++i) {
        const std::string_view piece = views[i].substr(i == 0 ? skip : 0, kRecordBytes - filled);
        std::memcpy(gathered.data() + filled, piece.data(), piece.size());
        filled += piece.size();
      }
      record = {gathered.data(), filled};
    }
    std::size_t sent = 0;
    const int result = SSL_write_ex(session_.get(), record.data(), record.size(), &sent);
    if (result != 1) return {total, outcome(result)};
    total += sent;
    while (sent > 0) {
      const std::size_t of_this = std::min(sent, views.front().size() - skip);
      skip += of_this;
      sent -= of_this;
      if (skip == views.front().size()) {
        views = views.subspan(1);
        skip = 0;
      }
    }
  }
  return {total, Then::kDone};
}

void TlsChannel::say_end() {
  if (!error_.empty() || SSL_is_init_finished(session_.get()) != 1) return;
  ERR_clear_error();
  SSL_shutdown(session_.get());
  ERR_clear_error();
}

std::string TlsChannel::peer_common_name() const {
  const Certificate peer(SSL_get1_peer_certificate(session_.get()));
  return peer ? common_name(*peer) : std::string();
}

}  // namespace locksley::daemon
