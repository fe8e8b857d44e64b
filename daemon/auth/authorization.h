// What the field `Authorization` of an HTTP request says.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/auth/secret.h"

namespace locksley::daemon {

struct HttpCredentials {
  enum class Scheme { kBasic, kBearer };
  Scheme scheme = Scheme::kBasic;
  std::string user = {};  // of basic authentication
  Secret secret = {};     // password or token
};

// What may stand behind a scheme (RFC 9110, 11.2): letters, digits and - . _ ~ + / =; at least one.
bool is_token68(std::string_view text);

// `Basic <base64 of user:password>` or `Bearer <token>`; nothing for whatever else. Strict: one space or more
// between the two, base64 with its padding and nothing behind it. User and password are any bytes; the first
// colon ends the user's name.
std::optional<HttpCredentials> parse_authorization(std::string_view field);

}  // namespace locksley::daemon
