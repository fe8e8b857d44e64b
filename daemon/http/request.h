// An HTTP/1.1 request as the HTTP side takes it.
#pragma once

#include <asio/ip/address.hpp>
#include <cstddef>
#include <expected>
#include <optional>
#include <string_view>

#include "daemon/http/caller.h"

namespace locksley::daemon {

// The numbers of RFC 9110 that this server sends.
enum class HttpStatus : unsigned {
  ok = 200,
  not_modified = 304,
  bad_request = 400,
  unauthorized = 401,
  forbidden = 403,
  not_found = 404,
  method_not_allowed = 405,
  length_required = 411,
  content_too_large = 413,
  uri_too_long = 414,
  unsupported_media_type = 415,
  expectation_failed = 417,
  header_fields_too_large = 431,
  internal_error = 500,
  not_implemented = 501,
  unavailable = 503,
  version_not_supported = 505,
};
std::string_view reason_phrase(HttpStatus status);

// A parsed head. The views are into the bytes that were parsed.
struct HttpRequest {
  std::string_view method = {};  // as sent: GET, HEAD, …
  std::string_view path = {};    // begins with '/', not percent-decoded: no page of ours needs it
  std::string_view query = {};   // what follows '?', not decoded; empty if there is none
  bool keep_alive = false;       // the client wants to send another request on this connection
  // Fields of that name, trimmed; empty if there is none.
  std::string_view authorization = {};
  std::string_view host = {};
  std::string_view origin = {};
  std::string_view content_type = {};
  std::string_view if_none_match = {};
  std::string_view sec_fetch_site = {};
  std::string_view x_locksley_request = {};
  std::string_view accept = {};    // of several the first
  std::size_t content_length = 0;  // of the body that follows; 0 but for POST and methods that nobody takes
  bool wants_continue = false;     // the client sends the body once it was told to go on
  std::string_view body = {};      // once it was read
  HttpCaller caller = {};          // who asks; known where the router asks for it
  asio::ip::address peer = {};     // from where
};

inline constexpr std::size_t kMaxTargetBytes = 2048;  // a guess: twice the longest query of a dashboard
inline constexpr std::size_t kMaxFields = 64;         // a guess: browsers send about 20

// Bytes of the first head in `bytes`, its empty line included; nullopt while it is incomplete.
std::optional<std::size_t> head_length(std::string_view bytes);

// Parses one complete head. Strict, after RFC 9112: line ends are CRLF, no folded lines, no space before a
// colon, Host exactly once (HTTP/1.1), the target in origin form; no field of those above twice. Where the
// body ends is beyond doubt: its length is one Content-Length of digits alone, which GET and HEAD may give as
// 0 only and POST must give, and nothing is transferred in another encoding. The error is the status to
// refuse with; the connection then closes.
std::expected<HttpRequest, HttpStatus> parse_head(std::string_view head);

}  // namespace locksley::daemon
