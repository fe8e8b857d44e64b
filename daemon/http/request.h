// HTTP/1.1 requests, and the parser of their heads. Any thread; nothing blocks.
#pragma once

#include <asio/ip/address.hpp>
#include <cstddef>
#include <expected>
#include <optional>
#include <string_view>

#include "daemon/http/caller.h"

namespace locksley::daemon {

// The status codes of RFC 9110, "HTTP Semantics", that this server sends.
enum class HttpStatus : unsigned {
  kOk = 200,
  kNotModified = 304,
  kBadRequest = 400,
  kUnauthorized = 401,
  kForbidden = 403,
  kNotFound = 404,
  kMethodNotAllowed = 405,
  kLengthRequired = 411,
  kContentTooLarge = 413,
  kUriTooLong = 414,
  kUnsupportedMediaType = 415,
  kExpectationFailed = 417,
  kHeaderFieldsTooLarge = 431,
  kInternalError = 500,
  kNotImplemented = 501,
  kUnavailable = 503,
  kVersionNotSupported = 505,
};
std::string_view reason_phrase(HttpStatus status);

// A request. The views of a parsed head are into the bytes that were parsed.
struct HttpRequest {
  std::string_view method = {};  // as sent: GET, HEAD, …
  std::string_view path = {};    // begins with '/'; not percent-decoded
  std::string_view query = {};   // what follows '?', not decoded; empty if there is none
  bool keep_alive = false;       // the client wants to send another request on this connection
  // The fields of these names, trimmed; empty if absent.
  std::string_view authorization = {};
  std::string_view host = {};
  std::string_view origin = {};
  std::string_view content_type = {};
  std::string_view if_none_match = {};
  std::string_view sec_fetch_site = {};
  std::string_view x_locksley_request = {};
  std::string_view accept = {};    // the first, if there are several
  std::size_t content_length = 0;  // of the body; 0 except for POST and for methods that are refused
  bool wants_continue = false;     // the client waits for 100 (Continue) before it sends the body
  std::string_view body = {};      // set after it has been read
  HttpCaller caller = {};          // set if the router asks for a login
  asio::ip::address peer = {};     // the address of the client
};

inline constexpr std::size_t kMaxTargetBytes = 2048;  // a guess: twice the longest query of a dashboard
inline constexpr std::size_t kMaxFields = 64;         // a guess: browsers send about 20

// The length of the first head in `bytes`, including its empty line; nullopt while it is
// incomplete.
std::optional<std::size_t> head_length(std::string_view bytes);

// Whether these may be the first bytes of a head: they begin with a token, and their first line,
// once it is there, names a version of HTTP. A client of another protocol, such as the wire
// protocol, may send no more before it has a reply.
bool may_be_http(std::string_view bytes);

// Parses one complete head. Strict, as in RFC 9112, "HTTP/1.1": line ends are CRLF; no folded
// lines; no space before a colon; Host exactly once in HTTP/1.1; the target in origin form; none of
// the fields above twice. The end of the body is unambiguous: its length is one Content-Length of
// digits only, which POST must have and which is 0 for GET and HEAD; Transfer-Encoding is refused.
// The error is the status to refuse with; the connection must then be closed.
std::expected<HttpRequest, HttpStatus> parse_head(std::string_view head);

}  // namespace locksley::daemon
