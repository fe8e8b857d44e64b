#pragma once

#include <asio/ip/tcp.hpp>
#include <string>

namespace locksley::daemon {

// "127.0.0.1:7770" or "[::1]:7770".
std::string to_text(const asio::ip::tcp::endpoint& endpoint);

}  // namespace locksley::daemon
