#pragma once

#include <span>
#include <string>
#include <string_view>

namespace locksley::daemon {

class Server;
class User;

// The version of Redis whose connection commands we follow; clients decide by it what they may send.
inline constexpr std::string_view kRedisVersion = "7.4.0";

// The text of INFO: `# Section` lines and `key:value` lines, ended by CRLF. No section, or all, default or
// everything: all of them. What others do is for admins: who is none sees its own numbers in their place, or
// nothing.
std::string info_text(Server& server, const User& user, std::span<const std::string_view> sections);

}  // namespace locksley::daemon
