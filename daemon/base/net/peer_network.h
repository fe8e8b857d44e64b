// The network of a peer's address. What the daemon divides between peers, it divides between their
// networks. Any thread; nothing blocks or fails.
#pragma once

#include <algorithm>
#include <asio/ip/address.hpp>
#include <string>

namespace locksley::daemon {

// Of an IPv6 address, keeps the first 64 bits, because providers give all addresses that begin with
// them to one customer. Returns an IPv4 address whole, also if it is mapped to IPv6. Drops the
// scope of a link-local address: such peers are one network, whatever their interface.
inline asio::ip::address network_of(const asio::ip::address& peer) {
  if (!peer.is_v6()) return peer;
  const asio::ip::address_v6 v6 = peer.to_v6();
  if (v6.is_v4_mapped()) return asio::ip::make_address_v4(asio::ip::v4_mapped, v6);
  auto bytes = v6.to_bytes();
  std::fill(bytes.begin() + 8, bytes.end(), static_cast<unsigned char>(0));
  return asio::ip::address_v6(bytes);
}

// The same as text: "192.0.2.7", "2001:db8::/64".
inline std::string network_text(const asio::ip::address& peer) {
  const asio::ip::address network = network_of(peer);
  return network.is_v6() ? network.to_string() + "/64" : network.to_string();
}

}  // namespace locksley::daemon
