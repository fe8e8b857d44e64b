#include "daemon/http/connection.h"

#include <algorithm>
#include <array>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/dispatch.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <cstddef>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include "daemon/auth/secret.h"
#include "daemon/base/time.h"
#include "daemon/http/login.h"

namespace locksley::daemon {
namespace {

// Bytes that are read and discarded from a connection that is being closed. If they stayed unread,
// the kernel would reset the connection and the client might lose the reply. A guess.
constexpr std::size_t kMaxLingerBytes = 256 * 1024;

// A browser loads and runs our own files only; no page can frame ours, and no other page can read
// them.
constexpr std::string_view kSecurityFields =
    "\r\nX-Content-Type-Options: nosniff"
    "\r\nContent-Security-Policy: default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors "
    "'none'"
    "\r\nReferrer-Policy: no-referrer"
    "\r\nCross-Origin-Resource-Policy: same-origin";

HttpReply refusal(HttpStatus status) {
  return {.status = status, .body = std::string(reason_phrase(status)) + "\n"};
}

HttpReply other_protocol() {
  return {
      .status = HttpStatus::kBadRequest,
      .body =
          "this port speaks HTTP: clients of the wire protocol connect to the port of `listen`, 7770 unless "
          "it is configured otherwise\n"};
}

HttpReply crowded() {
  return {.status = HttpStatus::kUnavailable,
          .body = "too many connections: only /healthz and /readyz are served; retry later\n",
          .fields = {"Retry-After: 1"}};
}

HttpReply too_late() {
  return {
      .status = HttpStatus::kUnavailable,
      .body =
          "no answer in time, because the store or the disk is slow: retry later; a change that was asked "
          "for may be in effect, or take effect later\n",
      .fields = {"Retry-After: 1"}};
}

HttpReply route(const Router& router, const HttpRequest& request) {
  try {
    return router.route(request);
  } catch (...) {
    return refusal(HttpStatus::kInternalError);
  }
}

}  // namespace

HttpConnection::HttpConnection(asio::ip::tcp::socket socket, asio::ip::address network,
                               std::shared_ptr<const TlsContext> tls, HandshakeQueue* handshakes,
                               const Router& router, const HttpTurns* turns, const HttpLimits& limits,
                               ServedPages served_pages)
    : stream_(std::move(socket), std::move(tls), handshakes),
      network_(std::move(network)),
      timer_(stream_.socket().get_executor()),
      router_(router),
      turns_(turns),
      limits_(limits),
      served_pages_(served_pages) {
  wait_for_request();
  allow(limits_.head_timeout);
}

// In this file, each await is a statement of its own: when it was the condition of a loop inside a
// try block, g++ 12.2 compiled the coroutine to one that cannot be resumed.
asio::awaitable<void> HttpConnection::serve() {
  bool goes_on = co_await begin();
  while (goes_on) {
    goes_on = co_await serve_one();
    wait_for_request();
  }
}

void HttpConnection::stop() {
  stopped_ = true;
  if (phase_ == Phase::kIdle || phase_ == Phase::kReading) close();
}

void HttpConnection::give_way() {
  stopped_ = true;
  close();
}

asio::awaitable<bool> HttpConnection::begin() {
  const HttpStream::Begun begun = co_await stream_.begin();
  if (begun == HttpStream::Begun::kNoTls) {
    HttpReply reply = refusal(HttpStatus::kBadRequest);
    reply.body = "this port speaks TLS: use https:// instead of http://\n";
    const bool sent = co_await send(std::move(reply), Body::kSent, Then::kClose);
    if (!sent) co_return false;
  }
  if (begun == HttpStream::Begun::kReady) co_return true;
  // A failed handshake has sent the client an alert.
  co_await linger();
  co_return false;
}

asio::awaitable<bool> HttpConnection::serve_one() {
  const auto length = co_await read_head();
  if (!length && length.error() == NoHead::kGone) co_return false;

  HttpReply reply;
  Body body = Body::kSent;
  Then then = Then::kClose;
  std::expected<HttpRequest, HttpStatus> request = std::unexpected(HttpStatus::kHeaderFieldsTooLarge);
  if (length) request = parse_head(std::string_view(received_).substr(0, *length));
  if (request) {
    request_ = *std::move(request);
    const std::optional<HttpStatus> body_status = co_await read_body(*length);
    if (!body_status) co_return false;
    phase_ = Phase::kAnswering;
    quiet_since_ = now();
    // The bytes of a body that was not read would be taken for the next request.
    bool is_clean = *body_status == HttpStatus::kOk && request_.body.size() == request_.content_length;
    if (*body_status == HttpStatus::kOk) {
      reply = co_await answer();
    } else {
      reply = is_admitted() ? refusal(*body_status) : crowded();
    }
    if (request_.method == "HEAD" || reply.status == HttpStatus::kNotModified) body = Body::kOmitted;
    // A request with a refused method may have a body of unknown length.
    if (reply.status == HttpStatus::kMethodNotAllowed) is_clean = false;
    if (request_.keep_alive && is_clean && !stopped_ && served_pages_ == ServedPages::kAll)
      then = Then::kKeepAlive;
    if (!request_.authorization.empty()) wipe_bytes(received_.data(), *length);
    received_.erase(0, *length);
  } else {
    reply = !length && length.error() == NoHead::kOtherProtocol ? other_protocol() : refusal(request.error());
  }
  const bool sent = co_await send(std::move(reply), body, then);
  if (!sent) co_return false;
  if (then == Then::kClose) co_await linger();
  co_return then == Then::kKeepAlive && !stopped_;
}

asio::awaitable<std::expected<std::size_t, HttpConnection::NoHead>> HttpConnection::read_head() {
  std::array<std::byte, 4096> block;
  for (;;) {
    const auto length = head_length(received_);
    if (length.value_or(received_.size()) > limits_.max_head_bytes)
      co_return std::unexpected(NoHead::kTooLong);
    if (length) co_return *length;
    if (!may_be_http(received_)) co_return std::unexpected(NoHead::kOtherProtocol);
    const auto count = co_await stream_.read_some(block);
    if (!count) co_return std::unexpected(NoHead::kGone);
    if (phase_ == Phase::kIdle) {
      phase_ = Phase::kReading;
      quiet_since_ = now();
      allow(limits_.head_timeout);
    }
    received_.append(reinterpret_cast<const char*>(block.data()), *count);
  }
}

asio::awaitable<std::optional<HttpStatus>> HttpConnection::read_body(std::size_t head_length) {
  if (!is_admitted()) co_return HttpStatus::kUnavailable;
  const std::size_t size = request_.content_length;
  if (size == 0 || !router_.takes_body(request_.method, request_.path)) co_return HttpStatus::kOk;
  if (size > limits_.max_body_bytes) co_return HttpStatus::kContentTooLarge;
  // The part of the body that arrived with the head; the next request may follow it.
  const std::size_t here = std::min(size, received_.size() - head_length);
  body_.assign(received_, head_length, here);
  received_.erase(head_length, here);
  body_.resize(size);
  allow(limits_.head_timeout);
  if (request_.wants_continue && here == 0) {
    const bool is_sent = co_await stream_.write("HTTP/1.1 100 Continue\r\n\r\n", {});
    if (!is_sent) co_return std::nullopt;
  }
  for (std::size_t read = here; read < size;) {
    const auto count = co_await stream_.read_some(std::as_writable_bytes(std::span(body_).subspan(read)));
    if (!count) co_return std::nullopt;
    read += *count;
  }
  request_.body = body_;
  co_return HttpStatus::kOk;
}

bool HttpConnection::is_admitted() const {
  return served_pages_ == ServedPages::kAll || router_.is_for_everybody(request_.path);
}

asio::awaitable<HttpReply> HttpConnection::answer() {
  std::error_code ignored;
  request_.peer = stream_.socket().remote_endpoint(ignored).address();
  if (HttpLogin* const login = router_.login_for(request_.path)) {
    allow(limits_.login_timeout);
    HttpLogin::Identity identity = co_await login->identify(request_.authorization, request_.peer);
    // This reply may come at once: so that guesses cost a connection each.
    if (identity.status == HttpStatus::kUnavailable) request_.keep_alive = false;
    if (identity.status != HttpStatus::kOk) co_return HttpLogin::refusal(identity.status);
    request_.caller = std::move(identity.caller);
  }
  const bool is_user = request_.caller.kind == HttpCaller::Kind::kUser;
  payer_ = is_user ? HttpPayer(request_.caller.user) : HttpPayer(network_);
  if (turns_ != nullptr && !turns_->slices.has_time()) {
    allow(limits_.answer_timeout);
    co_await wait_for_turn();
  }
  const Instant began = now();
  HttpReply reply = route(router_, request_);
  if (turns_ != nullptr) turns_->slices.charge(now() - began + HttpTurns::kAroundPage);
  if (!reply.later) co_return reply;
  // Two statements, as in login.cc.
  asio::awaitable<HttpReply> coming = come(std::move(reply.later));
  reply = co_await std::move(coming);
  // The page was right when it was asked for; another daemon may have the batches now.
  if (auto refused = router_.refuse_now(request_)) reply = std::move(*refused);
  co_return reply;
}

asio::awaitable<void> HttpConnection::wait_for_turn() {
  auto begin = [](auto handler, const HttpTurns* turns, LineNumber line) {
    // Within the slice, so that the slice is charged for the time of the page and of its first
    // bytes.
    auto resume = [handler = std::move(handler)](Instant) mutable {
      const auto executor = asio::get_associated_executor(handler);
      asio::dispatch(executor, std::move(handler));
      return true;
    };
    turns->slices.add(std::move(resume), line);
  };
  const LineNumber line = turns_->line_of(request_.caller);
  return asio::async_initiate<const asio::use_awaitable_t<>&, void()>(std::move(begin), asio::use_awaitable,
                                                                      turns_, line);
}

asio::awaitable<HttpReply> HttpConnection::come(std::function<void(HttpReply::Answer)> later) {
  auto begin = [this](auto handler, std::function<void(HttpReply::Answer)> ask) {
    // The page and the timer hold it; the first of them that answers counts. If both destroy it
    // without a call, the coroutine is destroyed with it.
    const HttpReply::Answer answer = [handler = std::move(handler)](HttpReply reply) mutable {
      const auto executor = asio::get_associated_executor(handler);
      asio::post(executor, [handler = std::move(handler), reply = std::move(reply)]() mutable {
        std::move(handler)(std::move(reply));
      });
    };
    timer_.expires_after(limits_.answer_timeout);
    timer_.async_wait([answer](std::error_code error) {
      if (!error) answer(too_late());
    });
    ask(answer);
  };
  return asio::async_initiate<const asio::use_awaitable_t<>&, void(HttpReply)>(
      std::move(begin), asio::use_awaitable, std::move(later));
}

asio::awaitable<bool> HttpConnection::send(HttpReply reply, Body body, Then then) {
  const std::string head = head_of(reply, then);
  const std::string_view content = body == Body::kSent ? std::string_view(reply.body) : std::string_view();
  phase_ = Phase::kSending;
  quiet_since_ = now();
  allow(limits_.write_timeout);
  const bool sent = co_await stream_.write(head, content);
  co_return sent;
}

asio::awaitable<void> HttpConnection::linger() {
  stream_.shut();
  phase_ = Phase::kLingering;
  quiet_since_ = now();
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
  head += then == Then::kKeepAlive ? "\r\nConnection: keep-alive\r\n\r\n" : "\r\nConnection: close\r\n\r\n";
  return head;
}

void HttpConnection::wait_for_request() {
  request_ = {};
  const bool is_idle_now = received_.empty();
  phase_ = is_idle_now ? Phase::kIdle : Phase::kReading;
  quiet_since_ = now();
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
