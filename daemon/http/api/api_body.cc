#include "daemon/http/api/api_body.h"

#include <optional>
#include <set>
#include <vector>

namespace locksley::daemon {

std::expected<Json, std::string> json_of_body(std::string_view body) {
  std::vector<std::set<std::string, std::less<>>> keys;  // of the objects that are open
  std::optional<std::string> twice;
  const auto look = [&](int, Json::parse_event_t event, const Json& parsed) {
    if (event == Json::parse_event_t::object_start) {
      keys.emplace_back();
    } else if (event == Json::parse_event_t::object_end) {
      keys.pop_back();
    } else if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second && !twice) twice = key;
    }
    return true;
  };
  Json json = Json::parse(body, look, false);
  if (json.is_discarded() || !twice) return json;
  return std::unexpected("ERR the body has \"" + *twice + "\" twice: a key may appear once");
}

}  // namespace locksley::daemon
