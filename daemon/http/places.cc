#include "daemon/http/places.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>

#include "daemon/http/payer.h"

namespace locksley::daemon {

HttpConnection* next_to_give_way(std::list<HttpConnection>& connections, ServedPages served_pages,
                                 const asio::ip::address& newcomer, const HttpLimits& limits, Instant at) {
  std::map<HttpPayer, std::size_t> held;
  std::size_t most = 0;
  std::size_t left_behind = 0;
  for (const HttpConnection& connection : connections) {
    if (connection.served_pages() != served_pages) continue;
    if (connection.is_stopped()) {
      ++left_behind;
    } else {
      most = std::max(most, ++held[connection.payer()]);
    }
  }
  const std::size_t would_hold = held[newcomer] + 1;

  constexpr int kNoRule = 5;
  const auto rule_for = [&](const HttpConnection& connection) {
    const std::size_t holds = held.at(connection.payer());
    const bool is_neighbour = connection.network() == newcomer;
    const bool is_late = at - connection.quiet_since() >= limits.stall_timeout;
    if (connection.is_waiting() && (is_late || is_neighbour || holds > would_hold)) return 1;
    const bool may_close = connection.is_sending() || left_behind < limits.max_connections;
    if (holds == most && most > would_hold && may_close) return 2;
    if (connection.is_sending() && is_late && is_neighbour) return 3;
    if (connection.is_waiting() && holds == would_hold) return 4;
    return kNoRule;
  };
  HttpConnection* chosen = nullptr;
  std::pair<int, Instant> first(kNoRule, kNever);
  for (HttpConnection& connection : connections) {
    if (connection.served_pages() != served_pages || connection.is_stopped()) continue;
    const std::pair<int, Instant> rank(rule_for(connection), connection.quiet_since());
    if (rank.first == kNoRule || rank >= first) continue;
    first = rank;
    chosen = &connection;
  }
  return chosen;
}

}  // namespace locksley::daemon
