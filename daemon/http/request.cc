#include "daemon/http/request.h"

#include <algorithm>
#include <bitset>
#include <charconv>
#include <iterator>
#include <system_error>

#include "daemon/base/net/header_text.h"
#include "proto/text.h"

namespace locksley::daemon {
namespace {

// A character of a token (RFC 9110, 5.6.2).
bool is_token_char(char c) {
  if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_token_char); }

bool is_target_char(char c) { return c > ' ' && c < '\x7f'; }

// A character of a field's value: a tab, or any that is not a control character, including bytes
// above ASCII.
bool is_value_char(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return c == '\t' || (byte >= 0x20 && byte != 0x7f);
}

// Whether a comma-separated list contains `word`.
bool list_holds(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (proto::equals_ignoring_case(take_part(list, ','), word)) return true;
  }
  return false;
}

// Removes the next line from `rest`, and returns it without its CRLF.
std::string_view take_line(std::string_view& rest) {
  const std::size_t end = std::min(rest.find("\r\n"), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 2, rest.size()));
  return line;
}

struct RequestLine {
  HttpRequest request;
  bool is_1_1;
};

std::expected<RequestLine, HttpStatus> parse_request_line(std::string_view line) {
  const std::size_t after_method = line.find(' ');
  const std::size_t after_target = line.rfind(' ');
  if (after_method == std::string_view::npos || after_target == after_method) {
    return std::unexpected(HttpStatus::kBadRequest);
  }
  const std::string_view method = line.substr(0, after_method);
  const std::string_view target = line.substr(after_method + 1, after_target - after_method - 1);
  const std::string_view version = line.substr(after_target + 1);

  if (!is_token(method)) return std::unexpected(HttpStatus::kBadRequest);
  if (target.size() > kMaxTargetBytes) return std::unexpected(HttpStatus::kUriTooLong);
  if (!target.starts_with('/') || !std::ranges::all_of(target, is_target_char)) {
    return std::unexpected(HttpStatus::kBadRequest);
  }
  if (version.size() != 8 || !version.starts_with("HTTP/")) return std::unexpected(HttpStatus::kBadRequest);
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return std::unexpected(HttpStatus::kVersionNotSupported);

  RequestLine result{.request = {.method = method}, .is_1_1 = version == "HTTP/1.1"};
  const std::size_t question = std::min(target.find('?'), target.size());
  result.request.path = target.substr(0, question);
  result.request.query = target.substr(std::min(question + 1, target.size()));
  return result;
}

// Fields that may appear only once: if there were two, a proxy might have used the other one.
struct SingleField {
  std::string_view name;  // lower case
  std::string_view HttpRequest::* value;
};
constexpr SingleField kSingleFields[] = {
    {"host", &HttpRequest::host},
    {"authorization", &HttpRequest::authorization},
    {"origin", &HttpRequest::origin},
    {"content-type", &HttpRequest::content_type},
    {"if-none-match", &HttpRequest::if_none_match},
    {"sec-fetch-site", &HttpRequest::sec_fetch_site},
    {"x-locksley-request", &HttpRequest::x_locksley_request},
};
constexpr std::size_t kHost = 0;
constexpr std::size_t kLength = std::size(kSingleFields);
constexpr std::size_t kExpect = kLength + 1;
using Seen = std::bitset<kExpect + 1>;

// The value of a Content-Length. One with more digits than any body can need is refused.
std::expected<std::size_t, HttpStatus> parse_length(std::string_view value) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  if (value.empty() || !std::ranges::all_of(value, is_digit)) return std::unexpected(HttpStatus::kBadRequest);
  std::size_t length = 0;
  const auto parsed = std::from_chars(value.data(), value.data() + value.size(), length);
  if (parsed.ec != std::errc()) return std::unexpected(HttpStatus::kContentTooLarge);
  return length;
}

std::expected<void, HttpStatus> take_field(HttpRequest& request, Seen& seen, std::string_view name,
                                           std::string_view value) {
  const auto single = std::ranges::find_if(
      kSingleFields, [name](const SingleField& one) { return proto::equals_ignoring_case(name, one.name); });
  std::size_t place = static_cast<std::size_t>(single - std::begin(kSingleFields));
  if (single == std::end(kSingleFields)) {
    if (proto::equals_ignoring_case(name, "expect")) {
      place = kExpect;
    } else if (!proto::equals_ignoring_case(name, "content-length")) {
      return {};
    }
  }
  if (seen.test(place)) return std::unexpected(HttpStatus::kBadRequest);
  seen.set(place);
  if (place == kLength) {
    const auto length = parse_length(value);
    if (!length) return std::unexpected(length.error());
    request.content_length = *length;
  } else if (place == kExpect) {
    if (!proto::equals_ignoring_case(value, "100-continue"))
      return std::unexpected(HttpStatus::kExpectationFailed);
    request.wants_continue = true;
  } else {
    request.*single->value = value;
  }
  return {};
}

}  // namespace

std::string_view reason_phrase(HttpStatus status) {
  switch (status) {
    case HttpStatus::kOk:
      return "OK";
    case HttpStatus::kNotModified:
      return "Not Modified";
    case HttpStatus::kBadRequest:
      return "Bad Request";
    case HttpStatus::kUnauthorized:
      return "Unauthorized";
    case HttpStatus::kForbidden:
      return "Forbidden";
    case HttpStatus::kNotFound:
      return "Not Found";
    case HttpStatus::kMethodNotAllowed:
      return "Method Not Allowed";
    case HttpStatus::kLengthRequired:
      return "Length Required";
    case HttpStatus::kContentTooLarge:
      return "Content Too Large";
    case HttpStatus::kUriTooLong:
      return "URI Too Long";
    case HttpStatus::kUnsupportedMediaType:
      return "Unsupported Media Type";
    case HttpStatus::kExpectationFailed:
      return "Expectation Failed";
    case HttpStatus::kHeaderFieldsTooLarge:
      return "Request Header Fields Too Large";
    case HttpStatus::kInternalError:
      return "Internal Server Error";
    case HttpStatus::kNotImplemented:
      return "Not Implemented";
    case HttpStatus::kUnavailable:
      return "Service Unavailable";
    case HttpStatus::kVersionNotSupported:
      return "HTTP Version Not Supported";
  }
  return "";
}

bool may_be_http(std::string_view bytes) {
  if (!bytes.empty() && !is_token_char(bytes.front())) return false;
  const std::size_t end = bytes.find('\n');
  return end == std::string_view::npos || bytes.substr(0, end).contains(" HTTP/");
}

std::optional<std::size_t> head_length(std::string_view bytes) {
  const std::size_t end = bytes.find("\r\n\r\n");
  if (end == std::string_view::npos) return std::nullopt;
  return end + 4;
}

std::expected<HttpRequest, HttpStatus> parse_head(std::string_view head) {
  std::string_view rest = head;
  auto line = parse_request_line(take_line(rest));
  if (!line) return std::unexpected(line.error());
  HttpRequest& request = line->request;

  std::size_t fields = 0;
  Seen seen;
  bool wants_close = false;
  bool wants_keep_alive = false;
  while (!rest.empty()) {
    const std::string_view field = take_line(rest);
    if (field.empty()) break;
    if (++fields > kMaxFields) return std::unexpected(HttpStatus::kHeaderFieldsTooLarge);
    const std::size_t colon = field.find(':');
    if (colon == std::string_view::npos || !is_token(field.substr(0, colon))) {
      return std::unexpected(HttpStatus::kBadRequest);
    }
    const std::string_view name = field.substr(0, colon);
    const std::string_view value = trimmed(field.substr(colon + 1));
    if (!std::ranges::all_of(value, is_value_char)) return std::unexpected(HttpStatus::kBadRequest);

    if (proto::equals_ignoring_case(name, "accept")) {
      // Several fields would be one list; clients of this server send one.
      if (line->request.accept.empty()) line->request.accept = value;
    } else if (proto::equals_ignoring_case(name, "connection")) {
      wants_close = wants_close || list_holds(value, "close");
      wants_keep_alive = wants_keep_alive || list_holds(value, "keep-alive");
    } else if (proto::equals_ignoring_case(name, "transfer-encoding")) {
      return std::unexpected(HttpStatus::kNotImplemented);
    } else if (auto taken = take_field(request, seen, name, value); !taken) {
      return std::unexpected(taken.error());
    }
  }
  if (line->is_1_1 && !seen.test(kHost)) return std::unexpected(HttpStatus::kBadRequest);
  if (request.method == "POST" && !seen.test(kLength)) return std::unexpected(HttpStatus::kLengthRequired);
  if ((request.method == "GET" || request.method == "HEAD") && request.content_length != 0) {
    return std::unexpected(HttpStatus::kContentTooLarge);
  }
  request.keep_alive = !wants_close && (line->is_1_1 || wants_keep_alive);
  return request;
}

}  // namespace locksley::daemon
