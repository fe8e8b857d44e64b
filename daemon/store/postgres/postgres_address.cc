#include <string>
#include <string_view>

#include "daemon/store/postgres/connection.h"
#include "daemon/store/postgres/postgres_engine.h"

namespace locksley::daemon {

std::string postgres_place(const std::string& url) {
  const auto options = parse_url(url);
  std::string host;
  std::string port;
  std::string database;
  for (const PQconninfoOption* option = options.get(); option != nullptr && option->keyword != nullptr;
       ++option) {
    const std::string_view keyword = option->keyword;
    const std::string value = option->val == nullptr ? "" : option->val;
    if (keyword == "host") host = value;
    if (keyword == "port") port = value;
    if (keyword == "dbname") database = value;
  }
  std::string place = "postgresql://" + host;
  if (!port.empty()) place += ":" + port;
  return place + "/" + database;
}

}  // namespace locksley::daemon
