// Authenticates the callers of the HTTP side.
#pragma once

#include <asio/awaitable.hpp>
#include <asio/ip/address.hpp>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "daemon/auth/authenticator.h"
#include "daemon/auth/secret.h"
#include "daemon/http/caller.h"
#include "daemon/http/login_waits.h"
#include "daemon/http/router.h"

namespace locksley::daemon {

// A user, as far as the login needs it.
struct HttpUser {
  std::string hash;  // empty: the user has no password
  std::vector<config::CommandGroup> groups;
};

// Basic authentication with the users of the configuration, and `Authorization: Bearer` with a
// token, as `http.login` says. A wrong token is queued like a wrong password, and slows its sender
// down as much.
//
// Owned beside the Router. The authenticator outlives it, and it outlives every connection. The I/O
// thread only. Nothing blocks: identify() suspends its caller. If too many passwords wait, of all
// clients or of one network (LoginWaits), it returns kUnavailable.
class HttpLogin {
 public:
  using Users = std::function<std::optional<HttpUser>(const std::string& name)>;

  // `users` is called for each request. `refused` is called for each wrong password and token, with
  // the address from which it came.
  HttpLogin(
      Authenticator& authenticator, Users users,
      std::function<void(const std::string& source)> refused = [](const std::string&) {})
      : authenticator_(authenticator), users_(std::move(users)), refused_(std::move(refused)) {}

  // Sets the mode and the token for later requests. Without a token, every token is wrong.
  void set(config::HttpLogin mode, std::optional<Secret> token);

  struct Identity {
    HttpStatus status = HttpStatus::kOk;  // or kUnauthorized; kUnavailable if too many passwords wait
    HttpCaller caller = {};               // if kOk
  };
  // `authorization`: the request's field, whose bytes the caller keeps until this returns.
  // `source`: the peer's address.
  asio::awaitable<Identity> identify(std::string_view authorization, asio::ip::address source);
  // The reply to a caller that was not identified.
  static HttpReply refusal(HttpStatus status);

 private:
  asio::awaitable<Verdict> check(asio::ip::address source, std::string user, std::string hash,
                                 std::string password);

  Authenticator& authenticator_;
  const Users users_;
  const std::function<void(const std::string&)> refused_;
  LoginWaits waits_;
  config::HttpLogin mode_ = config::HttpLogin::kNone;
  std::optional<Secret> token_;
};

// Reads the token of `http.token_file`; none if that is not set. The error names the key and the
// file. Any thread; blocks on the file.
std::expected<std::optional<Secret>, std::string> read_http_token(const config::Http& http);

}  // namespace locksley::daemon
