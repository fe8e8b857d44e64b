// Who pays for a connection of the HTTP side.
#pragma once

#include <algorithm>
#include <asio/ip/address.hpp>
#include <string>
#include <variant>

namespace locksley::daemon {

// The network of a peer: of an IPv6 address the first 64 bits, because one customer gets all
// addresses that begin with them; an IPv4 address as it is, also if it is mapped to IPv6.
inline asio::ip::address network_of(const asio::ip::address& peer) {
  if (!peer.is_v6()) return peer;
  const asio::ip::address_v6 v6 = peer.to_v6();
  if (v6.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, v6);
  auto bytes = v6.to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), static_cast<unsigned char>(0));
  return asio::ip::address_v6(bytes);
}

// A user, by name, while a reply to a request of this user is made or sent; otherwise the network
// of the peer. The holder of the token has no name, and pays as its network.
using HttpPayer = std::variant<asio::ip::address, std::string>;

}  // namespace locksley::daemon
