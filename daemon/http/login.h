// Who asks a page of the HTTP side, and whether it is who it says.
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
#include "daemon/http/router.h"

namespace locksley::daemon {

// What has to be known of a user.
struct HttpUser {
  std::string hash;  // empty: none with a password
  std::vector<config::CommandGroup> groups;
};

// Basic authentication by the users of the configuration, and `Authorization: Bearer` with a token; see
// `http.login`. A wrong token takes its turn like a wrong password, and slows its sender down as much.
//
// Owned by main(); the authenticator outlives it, and it every connection. I/O thread. Nothing blocks.
class HttpLogin {
 public:
  using Users = std::function<std::optional<HttpUser>(const std::string& name)>;

  // `users` is asked at each request. `refused` is told of each wrong password and token, and from
  // which address it came.
  HttpLogin(
      Authenticator& authenticator, Users users,
      std::function<void(const std::string& source)> refused = [](const std::string&) {})
      : authenticator_(authenticator), users_(std::move(users)), refused_(std::move(refused)) {}

  // What is in force from now on; no token: none is right.
  void set(config::HttpLogin mode, std::optional<Secret> token);

  struct Identity {
    HttpStatus status = HttpStatus::ok;  // or unauthorized; unavailable, if too many passwords wait
    HttpCaller caller = {};              // if ok
  };
  // `authorization`: the request's field, which stays until it is answered; `source`: the peer's address.
  asio::awaitable<Identity> identify(std::string_view authorization, asio::ip::address source);
  // The reply to who was not identified.
  static HttpReply refusal(HttpStatus status);

 private:
  asio::awaitable<Verdict> check(std::string source, std::string user, std::string hash,
                                 std::string password);

  Authenticator& authenticator_;
  const Users users_;
  const std::function<void(const std::string&)> refused_;
  config::HttpLogin mode_ = config::HttpLogin::kNone;
  std::optional<Secret> token_;
};

// The token that `http.token_file` names; none if it names none. The error names key and file. Blocks as long
// as the file takes.
std::expected<std::optional<Secret>, std::string> read_http_token(const config::Http& http);

}  // namespace locksley::daemon
