// The text of INFO.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "daemon/base/loop/io_thread.h"

namespace locksley::daemon {

class ServerState;
class User;

// The text of INFO: `# Section` lines and `key:value` lines, ended by CRLF. `all` and `everything`
// stand for all sections; no section, or `default`, for all but Lanes, which locks each lane's
// mutex. Only admins see numbers of other users; another user sees its own numbers in their place,
// or nothing.
std::string info_text(ServerState& state, const User& user, std::span<const std::string_view> sections)
    LOCKSLEY_REQUIRES(kIoThread);

}  // namespace locksley::daemon
