#include "daemon/http/request.h"

#include <algorithm>

#include "daemon/http/header_text.h"

namespace locksley::daemon {
namespace {

// RFC 9110, 5.6.2.
bool is_token_char(char c) {
  if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return true;
  return std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_token_char); }

bool is_target_char(char c) { return c > ' ' && c < '\x7f'; }

// A tab, and what is no control character; bytes above ASCII are let through, as the RFC has it.
bool is_value_char(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return c == '\t' || (byte >= 0x20 && byte != 0x7f);
}

// Whether a comma-separated list holds `word`.
bool list_holds(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    if (equal_ignoring_case(take_part(list, ','), word)) return true;
  }
  return false;
}

// The next line without its CRLF, taken off `rest`.
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
    return std::unexpected(HttpStatus::bad_request);
  }
  const std::string_view method = line.substr(0, after_method);
  const std::string_view target = line.substr(after_method + 1, after_target - after_method - 1);
  const std::string_view version = line.substr(after_target + 1);

  if (!is_token(method)) return std::unexpected(HttpStatus::bad_request);
  if (target.size() > kMaxTargetBytes) return std::unexpected(HttpStatus::uri_too_long);
  if (!target.starts_with('/') || !std::ranges::all_of(target, is_target_char)) {
    return std::unexpected(HttpStatus::bad_request);
  }
  if (version.size() != 8 || !version.starts_with("HTTP/")) return std::unexpected(HttpStatus::bad_request);
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return std::unexpected(HttpStatus::version_not_supported);

  RequestLine result{.request = {.method = method}, .is_1_1 = version == "HTTP/1.1"};
  const std::size_t question = std::min(target.find('?'), target.size());
  result.request.path = target.substr(0, question);
  result.request.query = target.substr(std::min(question + 1, target.size()));
  return result;
}

}  // namespace

std::string_view reason_phrase(HttpStatus status) {
  switch (status) {
    case HttpStatus::ok:
      return "OK";
    case HttpStatus::bad_request:
      return "Bad Request";
    case HttpStatus::unauthorized:
      return "Unauthorized";
    case HttpStatus::forbidden:
      return "Forbidden";
    case HttpStatus::not_found:
      return "Not Found";
    case HttpStatus::method_not_allowed:
      return "Method Not Allowed";
    case HttpStatus::content_too_large:
      return "Content Too Large";
    case HttpStatus::uri_too_long:
      return "URI Too Long";
    case HttpStatus::header_fields_too_large:
      return "Request Header Fields Too Large";
    case HttpStatus::internal_error:
      return "Internal Server Error";
    case HttpStatus::not_implemented:
      return "Not Implemented";
    case HttpStatus::unavailable:
      return "Service Unavailable";
    case HttpStatus::version_not_supported:
      return "HTTP Version Not Supported";
  }
  return "";
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

  std::size_t fields = 0;
  std::size_t hosts = 0;
  std::size_t lengths = 0;
  bool wants_close = false;
  bool wants_keep_alive = false;
  while (!rest.empty()) {
    const std::string_view field = take_line(rest);
    if (field.empty()) break;
    if (++fields > kMaxFields) return std::unexpected(HttpStatus::header_fields_too_large);
    const std::size_t colon = field.find(':');
    if (colon == std::string_view::npos || !is_token(field.substr(0, colon))) {
      return std::unexpected(HttpStatus::bad_request);
    }
    const std::string_view name = field.substr(0, colon);
    const std::string_view value = trimmed(field.substr(colon + 1));
    if (!std::ranges::all_of(value, is_value_char)) return std::unexpected(HttpStatus::bad_request);

    if (equal_ignoring_case(name, "host")) {
      ++hosts;
    } else if (equal_ignoring_case(name, "authorization")) {
      // Of two nobody knows which a proxy has looked at.
      if (!line->request.authorization.empty()) return std::unexpected(HttpStatus::bad_request);
      line->request.authorization = value;
    } else if (equal_ignoring_case(name, "accept")) {
      // Several are one list; those who ask us send one.
      if (line->request.accept.empty()) line->request.accept = value;
    } else if (equal_ignoring_case(name, "connection")) {
      wants_close = wants_close || list_holds(value, "close");
      wants_keep_alive = wants_keep_alive || list_holds(value, "keep-alive");
    } else if (equal_ignoring_case(name, "transfer-encoding")) {
      return std::unexpected(HttpStatus::not_implemented);
    } else if (equal_ignoring_case(name, "content-length")) {
      const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
      if (++lengths > 1 || value.empty() || !std::ranges::all_of(value, is_digit)) {
        return std::unexpected(HttpStatus::bad_request);
      }
      if (value.find_first_not_of('0') != std::string_view::npos) {
        return std::unexpected(HttpStatus::content_too_large);
      }
    }
  }
  if (hosts > 1 || (line->is_1_1 && hosts == 0)) return std::unexpected(HttpStatus::bad_request);

  line->request.keep_alive = !wants_close && (line->is_1_1 || wants_keep_alive);
  return line->request;
}

}  // namespace locksley::daemon
