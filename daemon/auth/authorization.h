// The credentials in the field `Authorization` of an HTTP request.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/auth/secret.h"

namespace locksley::daemon {

// The credentials that an HTTP client sends. A value; its destructor wipes the secret.
struct HttpCredentials {
  enum class Scheme { kBasic, kBearer };
  Scheme scheme = Scheme::kBasic;
  std::string user = {};  // of basic authentication
  Secret secret = {};     // password or token
};

// Whether the text is a token68 (RFC 9110, "HTTP Semantics", 11.2), as it follows a scheme: one or
// more of letters, digits and - . _ ~ + / =.
bool is_token68(std::string_view text);

// Parses `Basic <base64 of user:password>` and `Bearer <token>`; nothing for any other text.
// Strict: one space or more after the scheme, base64 with its padding, and nothing after it. User
// and password may be any bytes; the first colon ends the user's name.
std::optional<HttpCredentials> parse_authorization(std::string_view field);

}  // namespace locksley::daemon
