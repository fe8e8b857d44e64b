// Socket addresses as text. Any thread; nothing blocks or fails.
#pragma once

#include <asio/ip/tcp.hpp>
#include <string>

namespace locksley::daemon {

// "127.0.0.1:7770" or "[::1]:7770".
std::string to_text(const asio::ip::tcp::endpoint& endpoint);
// The address in such a text: "127.0.0.1", "::1".
std::string address_in(const std::string& text);

}  // namespace locksley::daemon
