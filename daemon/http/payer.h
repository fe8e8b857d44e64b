// Who pays for a connection of the HTTP side. A plain value.
#pragma once

#include <asio/ip/address.hpp>
#include <string>
#include <variant>

#include "daemon/base/net/peer_network.h"

namespace locksley::daemon {

// A user, by name, from the time at which a request of this user was identified until another one
// of the connection is; otherwise the network of the peer. The holder of the token has no name, and
// pays as its network.
using HttpPayer = std::variant<asio::ip::address, std::string>;

}  // namespace locksley::daemon
