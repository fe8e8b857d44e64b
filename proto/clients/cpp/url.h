// Addresses of daemons, as HOST:PORT or as a URL. Plain values and pure functions; any thread, and
// nothing blocks: no name is resolved.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "proto/clients/cpp/error.h"

namespace locksley::client {

// The port for clients. Remote workers use another one.
inline constexpr std::uint16_t kDefaultPort = 7770;

// Where a daemon listens, and the user, password and files for a connection to it. A plain value.
struct Address {
  std::string host = "127.0.0.1";
  std::uint16_t port = kDefaultPort;
  std::string user = {};      // empty: the server's default user
  std::string password = {};  // empty: none is sent
  bool tls = false;
  // PEM files, for TLS alone; empty: the authorities that this machine trusts; no certificate is
  // shown.
  std::string ca_file = {};
  std::string certificate = {};
  std::string key = {};  // of the certificate
  // False: any certificate of the daemon will do. For a program that only asks whether a daemon is
  // there.
  bool verifies = true;

  // HOST:PORT, an IPv6 host in brackets; for messages, so without user and password.
  std::string text() const;

  friend bool operator==(const Address&, const Address&) = default;
};

// The texts of several addresses, separated by commas.
std::string text_of(const std::vector<Address>& addresses);

// Reads HOST, HOST:PORT, [IPV6]:PORT, or a URL: SCHEME://[user[:password]@]host[:port][/0]. The
// scheme is redis or locksley; with TLS, rediss or locksleys. User and password are
// percent-decoded. `default_port`: the port if none is given. Fails with kAddress.
Expected<Address> parse_address(std::string_view text, std::uint16_t default_port = kDefaultPort);

// Reads one address or several, as HOST:PORT,HOST:PORT or
// redis://[user[:password]@]host[:port],host[:port][/0]: all have the same user, password and TLS.
// At least one.
Expected<std::vector<Address>> parse_addresses(std::string_view text,
                                               std::uint16_t default_port = kDefaultPort);

}  // namespace locksley::client
