#pragma once

#include <span>
#include <string>
#include <string_view>

namespace locksley::daemon {

class Server;

// The version of Redis whose connection commands we follow; clients decide by it what they may send.
inline constexpr std::string_view kRedisVersion = "7.4.0";

// The text of INFO: `# Section` lines and `key:value` lines, ended by CRLF. No section, or all, default or
// everything: all of them.
std::string info_text(Server& server, std::span<const std::string_view> sections);

}  // namespace locksley::daemon
