// Heads of HTTP requests, and what is made of them: where a request ends is what its own bytes say,
// once and for all.
//
// The input is what a client sends, one request behind the other. Heads and bodies are taken off it
// as the server does it.
#include <algorithm>
#include <array>
#include <string>

#include "daemon/http/query.h"
#include "daemon/http/request.h"
#include "daemon/http/same_origin.h"
#include "tests/fuzz/target.h"

namespace locksley::fuzz {
namespace {

using daemon::HttpRequest;
using daemon::HttpStatus;

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

// How often a line of the head begins with this name and a colon, as any reader would see it.
std::size_t count_field(const std::string& head, const std::string& name) {
  std::size_t count = 0;
  const std::string line = "\r\n" + name + ":";
  for (std::size_t at = head.find(line); at != std::string::npos; at = head.find(line, at + 1)) ++count;
  return count;
}

void look_at(std::string_view head, const HttpRequest& request) {
  const std::string small = lower(head);
  require(count_field(small, "transfer-encoding") == 0, "nothing is transferred in another encoding");
  require(count_field(small, "content-length") <= 1, "a body has one length");
  require(count_field(small, "host") <= 1 && count_field(small, "authorization") <= 1 &&
              count_field(small, "origin") <= 1,
          "what decides something is there once");
  const bool has_length = count_field(small, "content-length") == 1;
  require(has_length || request.content_length == 0, "a length comes from its field");
  require(request.method != "POST" || has_length, "a POST says how long it is");
  require((request.method != "GET" && request.method != "HEAD") || request.content_length == 0,
          "what only asks has no body");
  require(request.path.starts_with('/'), "a path begins with a slash");
  for (const std::string_view view :
       {request.method, request.path, request.query, request.authorization, request.host, request.origin,
        request.content_type, request.if_none_match, request.sec_fetch_site, request.x_locksley_request}) {
    require(view.empty() || (view.data() >= head.data() && view.end() <= head.end()),
            "what was found lies in the head");
    require(view.find_first_of("\r\n") == std::string_view::npos, "a value is one line");
  }
}

void use(const HttpRequest& request) {
  const auto path = daemon::percent_decoded(request.path);
  require(!path || path->size() <= request.path.size(), "decoding makes nothing longer");
  static constexpr std::array<std::string_view, 2> kKnown = {"state", "cursor"};
  if (const auto query = daemon::Query::parse(request.query, kKnown)) {
    if (const auto cursor = query->number("cursor", {1, 1000, 7}))
      require(*cursor >= 1 && *cursor <= 1000, "a number is in its range");
  }
  const bool is_plain = daemon::is_plain_host(request.host);
  require(!is_plain || request.host.find_first_of("/@ ") == std::string_view::npos, "a host is a host");
  if (!daemon::refuse_foreign(request)) {
    require(request.x_locksley_request == "1", "a change shows our field");
    require(request.origin.empty() || request.origin.ends_with(request.host) ||
                lower(request.origin).ends_with(lower(request.host)),
            "an origin is ours");
  }
}

}  // namespace
}  // namespace locksley::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace locksley::fuzz;
  std::string_view rest = Input(data, size).rest();
  for (;;) {
    const auto length = locksley::daemon::head_length(rest);
    if (!length) return 0;
    require(*length <= rest.size(), "a head is no longer than what came");
    const std::string_view head = rest.substr(0, *length);
    const auto request = locksley::daemon::parse_head(head);
    if (!request) return 0;
    look_at(head, *request);
    use(*request);
    rest.remove_prefix(*length);
    if (request->content_length > rest.size()) return 0;
    rest.remove_prefix(request->content_length);
  }
}
