#include "daemon/http/login.h"

#include <asio/async_result.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <memory>
#include <utility>

#include "daemon/auth/authorization.h"
#include "daemon/auth/token.h"
#include "daemon/base/net/peer_network.h"

namespace locksley::daemon {
namespace {

using Scheme = HttpCredentials::Scheme;

HttpReply unauthorized() {
  return {.status = HttpStatus::kUnauthorized,
          .body = "log in with a user's name and password, or with the token\n",
          .fields = {R"(WWW-Authenticate: Basic realm="Locksley", charset="UTF-8")",
                     R"(WWW-Authenticate: Bearer realm="Locksley")"}};
}

HttpReply busy() {
  return {.status = HttpStatus::kUnavailable,
          .body = "too many passwords wait to be checked: retry later\n",
          .fields = {"Retry-After: 1"}};
}

}  // namespace

void HttpLogin::set(config::HttpLogin mode, std::optional<Secret> token) {
  mode_ = mode;
  token_ = std::move(token);
}

HttpReply HttpLogin::refusal(HttpStatus status) {
  return status == HttpStatus::kUnavailable ? busy() : unauthorized();
}

asio::awaitable<HttpLogin::Identity> HttpLogin::identify(std::string_view authorization,
                                                         asio::ip::address source) {
  Identity identity;
  if (mode_ == config::HttpLogin::kNone) co_return identity;
  identity.status = HttpStatus::kUnauthorized;
  const auto given = parse_authorization(authorization);
  if (!given) co_return identity;
  const bool is_token = given->scheme == Scheme::kBearer;
  if (is_token && token_ && is_same(*token_, given->secret.view())) {
    identity.status = HttpStatus::kOk;
    identity.caller.kind = HttpCaller::Kind::kToken;
    co_return identity;
  }
  std::optional<HttpUser> user;
  if (!is_token) user = users_(given->user);
  std::string hash;
  if (user) hash = user->hash;
  const std::string checked = hash;
  // Two statements and no conditional: g++ 12.2 destroys the temporaries of such an await twice.
  asio::awaitable<Verdict> answer =
      check(source, given->user, std::move(hash), std::string(given->secret.view()));
  const Verdict verdict = co_await std::move(answer);
  if (verdict == Verdict::kRefused) refused_(source.to_string());
  // The configuration may have changed meanwhile.
  if (user) user = users_(given->user);
  if (user && user->hash != checked) user.reset();
  if (verdict == Verdict::kBusy) identity.status = HttpStatus::kUnavailable;
  if (verdict == Verdict::kAccepted && user) {
    identity.status = HttpStatus::kOk;
    identity.caller = {
        .kind = HttpCaller::Kind::kUser, .user = given->user, .groups = std::move(user->groups)};
  }
  co_return identity;
}

asio::awaitable<Verdict> HttpLogin::check(asio::ip::address source, std::string user, std::string hash,
                                          std::string password) {
  auto begin = [this](auto handler, const asio::ip::address& from, const std::string& name, std::string of,
                      std::string secret) {
    // The handler cannot be copied, but a std::function must be copyable. If the check is dropped,
    // the coroutine is destroyed with it.
    auto waiting = std::make_shared<decltype(handler)>(std::move(handler));
    const auto wait = std::make_shared<LoginWaits::Wait>([waiting](Verdict verdict) {
      const auto executor = asio::get_associated_executor(*waiting);
      asio::post(executor, [waiting, verdict] { std::move (*waiting)(verdict); });
    });
    authenticator_.check(from.to_string(), name, std::move(of), std::move(secret),
                         [wait](Verdict verdict) { wait->end(verdict); });
    // A password that is remembered was accepted at once.
    if (!wait->has_ended()) waits_.add(network_of(from), name, wait);
  };
  return asio::async_initiate<const asio::use_awaitable_t<>&, void(Verdict)>(
      std::move(begin), asio::use_awaitable, std::move(source), std::move(user), std::move(hash),
      std::move(password));
}

std::expected<std::optional<Secret>, std::string> read_http_token(const config::Http& http) {
  if (http.token_file.empty()) return std::nullopt;
  auto token = read_token(http.token_file);
  if (!token) return std::unexpected("http.token_file: " + token.error());
  return *std::move(token);
}

}  // namespace locksley::daemon
