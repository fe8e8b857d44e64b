#include "daemon/http/same_origin.h"

#include <algorithm>
#include <asio/ip/address.hpp>
#include <cstddef>
#include <system_error>

#include "daemon/base/net/header_text.h"
#include "proto/text.h"

namespace locksley::daemon {
namespace {

bool is_port(std::string_view text) {
  return text.empty() || (text.starts_with(':') && text.size() > 1 &&
                          text.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

bool is_json(std::string_view content_type) {
  return proto::equals_ignoring_case(take_part(content_type, ';'), "application/json");
}

bool is_of_host(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) {
      return !host.empty() && proto::equals_ignoring_case(origin.substr(scheme.size()), host);
    }
  }
  return false;
}

}  // namespace

bool is_plain_host(std::string_view host) {
  std::error_code error;
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    if (end == std::string_view::npos || !is_port(host.substr(end + 1))) return false;
    // Addresses with a zone are refused: its name may be any text, and browsers send none.
    if (host.find('%') != std::string_view::npos) return false;
    asio::ip::make_address_v6(std::string(host.substr(1, end - 1)), error);
    return !error;
  }
  const std::string name(name_in(host));
  if (proto::equals_ignoring_case(name, "localhost")) return true;
  asio::ip::make_address_v4(name, error);
  return !error;
}

std::string_view name_in(std::string_view host) {
  const std::size_t colon = std::min(host.find(':'), host.size());
  return is_port(host.substr(colon)) ? host.substr(0, colon) : std::string_view();
}

std::optional<HttpRefusal> refuse_foreign(const HttpRequest& request) {
  if (!request.origin.empty() && !is_of_host(request.origin, request.host)) {
    return HttpRefusal{HttpStatus::kForbidden,
                       "NOPERM the request comes from a page of another site (Origin)"};
  }
  if (!request.sec_fetch_site.empty() && request.sec_fetch_site != "same-origin") {
    return HttpRefusal{HttpStatus::kForbidden,
                       "NOPERM the request comes from a page of another site (Sec-Fetch-Site)"};
  }
  if (request.x_locksley_request != "1") {
    return HttpRefusal{HttpStatus::kForbidden, "NOPERM a change needs the field X-Locksley-Request: 1"};
  }
  if (!is_json(request.content_type)) {
    return HttpRefusal{HttpStatus::kUnsupportedMediaType,
                       "ERR a change needs Content-Type: application/json"};
  }
  return std::nullopt;
}

}  // namespace locksley::daemon
