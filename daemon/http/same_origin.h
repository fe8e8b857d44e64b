// Whether a request comes from a page of ours: browsers send logins by themselves, wherever a page comes
// from.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "daemon/http/request.h"

namespace locksley::daemon {

struct HttpRefusal {
  HttpStatus status;
  std::string error;  // as the wire would say it
};

// Whether `host`, as the field of that name has it, is an address or `localhost`, with or without a port.
// Names are what a page of the web can make resolve to this machine (DNS rebinding): where nobody logs in,
// they are not served.
bool is_plain_host(std::string_view host);

// Why a request that changes something is refused; none: it is not. It needs what neither a form nor a
// foreign page can send without asking first (CORS), which nobody answers: the media type of JSON, and a
// field of our own; and what browsers add by themselves, `Origin` and `Sec-Fetch-Site`, must not name another
// site. The scheme of the origin is not compared: a proxy may speak TLS for us, and no two schemes share a
// port.
std::optional<HttpRefusal> refuse_foreign(const HttpRequest& request);

}  // namespace locksley::daemon
