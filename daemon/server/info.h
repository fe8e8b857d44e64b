#pragma once

#include <span>
#include <string>
#include <string_view>

namespace locksley::daemon {

class Server;
class User;

// The version of Redis whose connection commands we follow; clients decide by it what they may send.
inline constexpr std::string_view kRedisVersion = "7.4.0";

// The text of INFO: `# Section` lines and `key:value` lines, ended by CRLF. `all`, `everything`: all of them;
// no section, or `default`: all but Lanes, which takes each lane's mutex. What others do is for admins: who
// is none sees its own numbers in their place, or nothing.
std::string info_text(Server& server, const User& user, std::span<const std::string_view> sections);

}  // namespace locksley::daemon
