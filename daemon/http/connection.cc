#include "daemon/http/connection.h"

#include <array>
#include <cstddef>
#include <string_view>
#include <system_error>
#include <utility>

#include "daemon/auth/secret.h"
#include "daemon/http/login.h"

namespace locksley::daemon {
namespace {

// What a closing connection may still have sent and is read to no purpose: without it the kernel would reset
// the connection and the client might lose the reply. A guess.
constexpr std::size_t kMaxLingerBytes = 256 * 1024;

HttpReply refusal(HttpStatus status) {
  return {.status = status, .body = std::string(reason_phrase(status)) + "\n"};
}

HttpReply route(const Router& router, const HttpRequest& request) {
  try {
    return router.route(request);
  } catch (...) {
    return refusal(HttpStatus::internal_error);
  }
}

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, std::shared_ptr<const TlsContext> tls,
                               HandshakeQueue* handshakes, const Router& router, const HttpLimits& limits)
    : stream_(std::move(socket), std::move(tls), handshakes),
      timer_(stream_.socket().get_executor()),
      router_(router),
      limits_(limits) {
  wait_for_request();
  allow(limits_.head_timeout);
}

// An await stands in a statement of its own in this file: as the condition of a loop inside a try block,
// g++ 12.2 compiled it to a coroutine that cannot be resumed.
asio::awaitable<void> HttpConnection::serve() {
  bool goes_on = co_await begin();
  while (goes_on) {
    goes_on = co_await serve_one();
    wait_for_request();
  }
}

void HttpConnection::stop() {
  stopped_ = true;
  if (phase_ != Phase::replying) close();
}

asio::awaitable<bool> HttpConnection::begin() {
  const HttpStream::Begun begun = co_await stream_.begin();
  if (begun == HttpStream::Begun::kNoTls) {
    HttpReply reply = refusal(HttpStatus::bad_request);
    reply.body = "this port speaks TLS: https:// in place of http://\n";
    const bool sent = co_await send(std::move(reply), Body::sent, Then::close);
    if (!sent) co_return false;
  }
  if (begun == HttpStream::Begun::kReady) co_return true;
  // A handshake that failed has left an alert for the client.
  co_await linger();
  co_return false;
}

asio::awaitable<bool> HttpConnection::serve_one() {
  const auto length = co_await read_head();
  if (!length && length.error() == NoHead::gone) co_return false;
  phase_ = Phase::replying;

  HttpReply reply;
  Body body = Body::sent;
  Then then = Then::close;
  std::expected<HttpRequest, HttpStatus> request = std::unexpected(HttpStatus::header_fields_too_large);
  if (length) request = parse_head(std::string_view(received_).substr(0, *length));
  if (request) {
    request_ = *std::move(request);
    reply = co_await answer();
    if (request_.method == "HEAD") body = Body::omitted;
    // A refused method may have a body that nobody asked for.
    const bool is_clean = reply.status != HttpStatus::method_not_allowed;
    if (request_.keep_alive && is_clean && !stopped_) then = Then::keep_alive;
    if (!request_.authorization.empty()) wipe_bytes(received_.data(), *length);
    received_.erase(0, *length);
  } else {
    reply = refusal(request.error());
  }
  const bool sent = co_await send(std::move(reply), body, then);
  if (!sent) co_return false;
  if (then == Then::close) co_await linger();
  co_return then == Then::keep_alive && !stopped_;
}

asio::awaitable<std::expected<std::size_t, HttpConnection::NoHead>> HttpConnection::read_head() {
  std::array<std::byte, 4096> block;
  for (;;) {
    const auto length = head_length(received_);
    if (length.value_or(received_.size()) > limits_.max_head_bytes)
      co_return std::unexpected(NoHead::too_long);
    if (length) co_return *length;
    const auto count = co_await stream_.read_some(block);
    if (!count) co_return std::unexpected(NoHead::gone);
    if (phase_ == Phase::idle) allow(limits_.head_timeout);
    phase_ = Phase::reading;
    received_.append(reinterpret_cast<const char*>(block.data()), *count);
  }
}

asio::awaitable<HttpReply> HttpConnection::answer() {
  if (HttpLogin* const login = router_.login_for(request_.path)) {
    allow(limits_.login_timeout);
    std::error_code ignored;
    const asio::ip::address source = stream_.socket().remote_endpoint(ignored).address();
    HttpLogin::Identity identity = co_await login->identify(request_.authorization, source);
    if (identity.status != HttpStatus::ok) co_return HttpLogin::refusal(identity.status);
    request_.caller = std::move(identity.caller);
  }
  co_return route(router_, request_);
}

asio::awaitable<bool> HttpConnection::send(HttpReply reply, Body body, Then then) {
  const std::string head = head_of(reply, then);
  const std::string_view content = body == Body::sent ? std::string_view(reply.body) : std::string_view();
  allow(limits_.write_timeout);
  const bool sent = co_await stream_.write(head, content);
  co_return sent;
}

asio::awaitable<void> HttpConnection::linger() {
  stream_.shut();
  allow(limits_.linger_timeout);
  co_await stream_.discard(kMaxLingerBytes);
}

std::string HttpConnection::head_of(const HttpReply& reply, Then then) {
  std::string head = "HTTP/1.1 " + std::to_string(static_cast<unsigned>(reply.status)) + " ";
  head += reason_phrase(reply.status);
  head += "\r\nContent-Type: " + reply.content_type;
  head += "\r\nContent-Length: " + std::to_string(reply.body.size());
  head += "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff";
  for (const std::string& field : reply.fields) head += "\r\n" + field;
  if (reply.status == HttpStatus::method_not_allowed) head += "\r\nAllow: GET, HEAD";
  head += then == Then::keep_alive ? "\r\nConnection: keep-alive\r\n\r\n" : "\r\nConnection: close\r\n\r\n";
  return head;
}

void HttpConnection::wait_for_request() {
  const bool is_idle_now = received_.empty();
  phase_ = is_idle_now ? Phase::idle : Phase::reading;
  idle_since_ = std::chrono::steady_clock::now();
  allow(is_idle_now ? limits_.idle_timeout : limits_.head_timeout);
}

void HttpConnection::allow(std::chrono::milliseconds limit) {
  timer_.expires_after(limit);
  timer_.async_wait([alive = std::weak_ptr(alive_)](std::error_code error) {
    if (const auto self = alive.lock(); self && !error) (*self)->close();
  });
}

void HttpConnection::close() { stream_.close(); }

}  // namespace locksley::daemon
