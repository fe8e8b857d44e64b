// The network that a peer is in.
#include "daemon/base/net/peer_network.h"

#include <gtest/gtest.h>

#include <asio/ip/address.hpp>
#include <string>

namespace locksley::daemon {
namespace {

std::string text(const std::string& peer) { return network_text(asio::ip::make_address(peer)); }

TEST(PeerNetworkTest, AsText) {
  EXPECT_EQ(text("192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(text("::ffff:192.0.2.7"), "192.0.2.7");
  EXPECT_EQ(text("2001:db8::1:2:3:4"), "2001:db8::/64");
  EXPECT_EQ(text("2001:db8:0:1::5"), "2001:db8:0:1::/64");
}

TEST(PeerNetworkTest, LinkLocalPeersAreOneByWhateverInterfaceTheyCome) {
  asio::ip::address_v6 peer = asio::ip::make_address_v6("fe80::1");
  peer.scope_id(3);
  EXPECT_EQ(network_text(peer), "fe80::/64");
  EXPECT_EQ(network_of(peer), network_of(asio::ip::make_address("fe80::2")));
}

}  // namespace
}  // namespace locksley::daemon
