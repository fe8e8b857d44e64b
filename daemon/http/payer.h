// Who pays for a connection of the HTTP side.
#pragma once

#include <asio/ip/address.hpp>
#include <string>
#include <variant>

#include "daemon/base/net/peer_network.h"

namespace locksley::daemon {

// A user, by name, while a reply to a request of this user is made or sent; otherwise the network
// of the peer. The holder of the token has no name, and pays as its network.
using HttpPayer = std::variant<asio::ip::address, std::string>;

}  // namespace locksley::daemon
