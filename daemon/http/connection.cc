#include "daemon/http/connection.h"

#include <algorithm>
#include <array>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <cstddef>
#include <span>
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

// Whatever is shown in a browser is ours alone, nobody frames it, and no other page reads it.
constexpr std::string_view kSecurityFields =
    "\r\nX-Content-Type-Options: nosniff"
    "\r\nContent-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
    "'none'"
    "\r\nReferrer-Policy: no-referrer"
    "\r\nCross-Origin-Resource-Policy: same-origin";

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
    const std::optional<HttpStatus> has_body = co_await read_body(*length);
    if (!has_body) co_return false;
    // What nobody takes lies unread, and what follows it would be taken for a request.
    bool is_clean = *has_body == HttpStatus::ok && request_.body.size() == request_.content_length;
    if (*has_body == HttpStatus::ok) {
      reply = co_await answer();
    } else {
      reply = refusal(*has_body);
    }
    if (request_.method == "HEAD" || reply.status == HttpStatus::not_modified) body = Body::omitted;
    // A refused method may have a body whose length it does not say.
    if (reply.status == HttpStatus::method_not_allowed) is_clean = false;
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

asio::awaitable<std::optional<HttpStatus>> HttpConnection::read_body(std::size_t head_length) {
  const std::size_t size = request_.content_length;
  if (size == 0 || !router_.takes_body(request_.method, request_.path)) co_return HttpStatus::ok;
  if (size > limits_.max_body_bytes) co_return HttpStatus::content_too_large;
  // What came with the head; behind it may be the next request.
  const std::size_t here = std::min(size, received_.size() - head_length);
  body_.assign(received_, head_length, here);
  received_.erase(head_length, here);
  body_.resize(size);
  allow(limits_.head_timeout);
  if (request_.wants_continue && here == 0) {
    const bool told = co_await stream_.write("HTTP/1.1 100 Continue\r\n\r\n", {});
    if (!told) co_return std::nullopt;
  }
  for (std::size_t read = here; read < size;) {
    const auto count = co_await stream_.read_some(std::as_writable_bytes(std::span(body_).subspan(read)));
    if (!count) co_return std::nullopt;
    read += *count;
  }
  request_.body = body_;
  co_return HttpStatus::ok;
}

asio::awaitable<HttpReply> HttpConnection::answer() {
  std::error_code ignored;
  request_.peer = stream_.socket().remote_endpoint(ignored).address();
  if (HttpLogin* const login = router_.login_for(request_.path)) {
    allow(limits_.login_timeout);
    HttpLogin::Identity identity = co_await login->identify(request_.authorization, request_.peer);
    if (identity.status != HttpStatus::ok) co_return HttpLogin::refusal(identity.status);
    request_.caller = std::move(identity.caller);
  }
  HttpReply reply = route(router_, request_);
  if (!reply.later) co_return reply;
  allow(limits_.answer_timeout);
  // In two statements, as in login.cc.
  asio::awaitable<HttpReply> coming = come(std::move(reply.later));
  reply = co_await std::move(coming);
  co_return reply;
}

asio::awaitable<HttpReply> HttpConnection::come(std::function<void(HttpReply::Answer)> later) {
  auto begin = [](auto handler, std::function<void(HttpReply::Answer)> ask) {
    // Functions can be copied, which the handler cannot. If nobody answers, the coroutine ends with it.
    auto waiting = std::make_shared<decltype(handler)>(std::move(handler));
    ask([waiting](HttpReply reply) {
      const auto executor = asio::get_associated_executor(*waiting);
      asio::post(executor,
                 [waiting, reply = std::move(reply)]() mutable { std::move (*waiting)(std::move(reply)); });
    });
  };
  return asio::async_initiate<const asio::use_awaitable_t<>&, void(HttpReply)>(
      std::move(begin), asio::use_awaitable, std::move(later));
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
  head += reply.etag.empty() ? "\r\nCache-Control: no-store"
                             : "\r\nCache-Control: private, no-cache\r\nETag: " + reply.etag;
  head += kSecurityFields;
  for (const std::string& field : reply.fields) head += "\r\n" + field;
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
