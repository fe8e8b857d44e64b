#include "proto/clients/cpp/url.h"

#include <charconv>
#include <optional>

namespace locksley::client {
namespace {

std::unexpected<ClientError> bad(std::string_view text, std::string_view why) {
  return client_error(ClientError::Kind::kAddress, "address '" + std::string(text) +
                                                       "': " + std::string(why) +
                                                       "; expected HOST:PORT or redis://[user@]host[:port]");
}

std::optional<std::uint16_t> parse_port(std::string_view text) {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value == 0 || value > 65535) return {};
  return static_cast<std::uint16_t>(value);
}

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    if (text.size() - i < 3) return {};
    unsigned value = 0;
    const char* first = text.data() + i + 1;
    const auto [end, error] = std::from_chars(first, first + 2, value, 16);
    if (error != std::errc{} || end != first + 2) return {};
    out.push_back(static_cast<char>(value));
    i += 2;
  }
  return out;
}

// Reads the host and port of `rest` into `address`; `whole` is for the message.
Expected<Address> with_host_and_port(Address address, std::string_view rest, std::string_view whole) {
  std::string_view host = rest;
  std::optional<std::string_view> port;
  if (rest.starts_with('[')) {
    const auto close = rest.find(']');
    if (close == std::string_view::npos) return bad(whole, "the bracket of the IPv6 address is not closed");
    host = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
    if (!rest.empty() && !rest.starts_with(':')) return bad(whole, "unexpected text after the IPv6 address");
    if (!rest.empty()) port = rest.substr(1);
  } else if (const auto colon = rest.find(':'); colon != std::string_view::npos) {
    if (rest.find(':', colon + 1) != std::string_view::npos) {
      return bad(whole, "an IPv6 address is written in brackets");
    }
    host = rest.substr(0, colon);
    port = rest.substr(colon + 1);
  }
  if (host.empty()) return bad(whole, "the host is missing");
  address.host = host;
  if (port) {
    const auto number = parse_port(*port);
    if (!number) return bad(whole, "the port is not a number from 1 to 65535");
    address.port = *number;
  }
  return address;
}

// For each host of `list`, which commas separate, `address` with this host and port.
Expected<std::vector<Address>> with_hosts_and_ports(const Address& address, std::string_view list,
                                                    std::string_view whole) {
  std::vector<Address> addresses;
  for (;;) {
    const auto comma = list.find(',');
    auto one = with_host_and_port(address, list.substr(0, comma), whole);
    if (!one) return std::unexpected(std::move(one.error()));
    addresses.push_back(*std::move(one));
    if (comma == std::string_view::npos) return addresses;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

std::string text_of(const std::vector<Address>& addresses) {
  std::string text;
  for (const Address& address : addresses) text += (text.empty() ? "" : ",") + address.text();
  return text;
}

std::string Address::text() const {
  const bool ipv6 = host.find(':') != std::string::npos;
  return (ipv6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

Expected<Address> parse_address(std::string_view text, std::uint16_t default_port) {
  auto addresses = parse_addresses(text, default_port);
  if (!addresses) return std::unexpected(std::move(addresses.error()));
  if (addresses->size() > 1) {
    return client_error(
        ClientError::Kind::kAddress,
        text_of(*addresses) + ": expected one address, found a list of " + std::to_string(addresses->size()));
  }
  return std::move(addresses->front());
}

Expected<std::vector<Address>> parse_addresses(std::string_view text, std::uint16_t default_port) {
  Address address;
  address.port = default_port;
  const auto scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) return with_hosts_and_ports(address, text, text);

  const std::string_view scheme = text.substr(0, scheme_end);
  if (scheme == "rediss" || scheme == "locksleys") {
    address.tls = true;
  } else if (scheme == "http" || scheme == "https") {
    return bad(scheme,
               "it is the scheme of the dashboard, which has a port of its own; clients use redis:// and "
               "`listen.port` (7770), workers `workers.port` (7771)");
  } else if (scheme != "redis" && scheme != "locksley") {
    return bad(scheme, "unknown scheme");
  }
  std::string_view rest = text.substr(scheme_end + 3);
  // From here on the text may hold a password: messages leave out what stands before the last @.
  const auto at = rest.rfind('@');
  const std::string_view shown = at == std::string_view::npos ? rest : rest.substr(at + 1);
  if (at != std::string_view::npos) {
    const std::string_view credentials = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    const auto colon = credentials.find(':');
    const auto user = percent_decoded(credentials.substr(0, colon));
    const auto password =
        percent_decoded(colon == std::string_view::npos ? std::string_view{} : credentials.substr(colon + 1));
    if (!user || !password) return bad(shown, "a % is not followed by two hexadecimal digits");
    address.user = *user;
    address.password = *password;
  }
  if (const auto slash = rest.find('/'); slash != std::string_view::npos) {
    const std::string_view path = rest.substr(slash);
    if (path != "/" && path != "/0") return bad(shown, "there is only database 0");
    rest = rest.substr(0, slash);
  }
  return with_hosts_and_ports(address, rest, shown);
}

}  // namespace locksley::client
