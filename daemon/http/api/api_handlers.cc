// Changes of a handler.
#include <array>

#include "daemon/base/log/log_line.h"
#include "daemon/http/api/api.h"
#include "daemon/http/api/api_body.h"
#include "daemon/http/api/api_json.h"

namespace locksley::daemon {

HttpReply Api::restart(const HttpRequest& request, const std::string& handler) {
  const auto user = admitted(request, proto::CommandGroup::kAdmin, "handler");
  if (!user) return json_error(user.error());
  const auto query = Query::parse(request.query, std::array<std::string_view, 0>{});
  if (!query) return json_error("ERR " + query.error());
  const auto body = json_of_body(request.body.empty() ? "{}" : request.body);
  if (!body) return json_error(body.error());
  if (!body->is_object() || !body->empty()) return json_error("ERR the body must be {}");
  const auto entry = state_.audit().begin(**user, request.peer.to_string(), Audit::Kind::kOther);
  const auto restarted = restart_handler(state_, **user, handler);
  if (entry != nullptr) {
    entry->command = "HTTP restart";
    entry->handler = handler.substr(0, LogLine::kMostValueBytes);
    if (!restarted) entry->outcome = Audit::code_of(restarted.error());
    state_.audit().write(*entry);
  }
  if (!restarted) return json_error(restarted.error());
  return json_reply({{"ok", true}, {"processes", *restarted}});
}

}  // namespace locksley::daemon
