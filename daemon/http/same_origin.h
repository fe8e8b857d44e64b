// Refuses requests that pages of other sites make a browser send. Browsers add logins to requests
// by themselves, whichever page makes the request.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/request.h"

namespace locksley::daemon {

// Why a request is refused. Any thread may call the functions below; none blocks.
struct HttpRefusal {
  HttpStatus status;
  std::string error;  // "CODE text", as on the wire
};

// Whether the value of the field Host is an IP address or `localhost`, with or without a port. A
// web page can make any other name resolve to this machine (DNS rebinding): see HttpHosts.
bool is_plain_host(std::string_view host);

// The name in the value of the field Host, without the port; empty if the value is an IPv6 address
// or malformed.
std::string_view name_in(std::string_view host);

// Why a request that makes a change is refused; none: it is not. The request must have the media
// type of JSON and a field of our own. A form cannot send these, and a page of another site only
// after a preflight request (CORS), which this server refuses. `Origin` and `Sec-Fetch-Site`, which
// browsers add, must not name another site. The scheme of the origin is not compared, because a
// proxy may terminate TLS, and no two schemes share a port.
std::optional<HttpRefusal> refuse_foreign(const HttpRequest& request);

}  // namespace locksley::daemon
