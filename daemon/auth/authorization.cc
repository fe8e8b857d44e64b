#include "daemon/auth/authorization.h"

#include <sodium.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace locksley::daemon {
namespace {

bool is_token68_char(char c) {
  if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return std::string_view("-._~+/=").find(c) != std::string_view::npos;
}

bool is_scheme(std::string_view text, std::string_view lower_case) {
  return std::ranges::equal(text, lower_case, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b;
  });
}

std::optional<HttpCredentials> parse_basic(std::string_view base64) {
  std::string decoded(base64.size() / 4 * 3, '\0');
  std::size_t size = 0;
  const char* end = nullptr;
  const bool is_base64 =
      sodium_base642bin(reinterpret_cast<unsigned char*>(decoded.data()), decoded.size(), base64.data(),
                        base64.size(), nullptr, &size, &end, sodium_base64_VARIANT_ORIGINAL) == 0 &&
      end == base64.data() + base64.size();
  const std::size_t colon = std::string_view(decoded).substr(0, is_base64 ? size : 0).find(':');
  std::optional<HttpCredentials> result;
  if (colon != std::string_view::npos) {
    result = HttpCredentials{.scheme = HttpCredentials::Scheme::kBasic, .user = decoded.substr(0, colon)};
    result->secret = Secret(decoded.substr(colon + 1, size - colon - 1));
  }
  wipe(decoded);
  return result;
}

}  // namespace

bool is_token68(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_token68_char); }

std::optional<HttpCredentials> parse_authorization(std::string_view field) {
  const std::size_t end = std::min(field.find(' '), field.size());
  const std::string_view scheme = field.substr(0, end);
  const std::string_view rest = field.substr(std::min(field.find_first_not_of(' ', end), field.size()));
  if (!is_token68(rest)) return std::nullopt;
  if (is_scheme(scheme, "basic")) return parse_basic(rest);
  if (!is_scheme(scheme, "bearer")) return std::nullopt;
  HttpCredentials result{.scheme = HttpCredentials::Scheme::kBearer};
  result.secret = Secret(std::string(rest));
  return result;
}

}  // namespace locksley::daemon
