#include "daemon/base/net/endpoint_text.h"

#include <fmt/format.h>

namespace locksley::daemon {

std::string to_text(const asio::ip::tcp::endpoint& endpoint) {
  const bool is_v6 = endpoint.address().is_v6();
  return fmt::format("{}{}{}:{}", is_v6 ? "[" : "", endpoint.address().to_string(), is_v6 ? "]" : "",
                     endpoint.port());
}

std::string address_in(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  return text.front() == '[' ? text.substr(1, colon - 2) : text.substr(0, colon);
}

}  // namespace locksley::daemon
