// How a connection of either port begins: the parsers of HELLO and AUTH, the reply to HELLO, and
// the errors for a peer that has to log in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include "proto/argument_list.h"
#include "proto/reply_writer.h"

namespace locksley::proto {

// HELLO [version [AUTH user password] [SETNAME name]], as in Redis.
struct Hello {
  Protocol protocol = Protocol::kResp2;
  std::size_t user = 0;  // the index of the argument; the next one is the password. 0: no AUTH
  std::optional<std::string_view> name;  // of the command's arguments: a client name
};

// `arguments`: the whole command, its name included. `current`: the protocol if the command names
// none. The error is the text of the reply. Any thread; nothing blocks.
std::expected<Hello, std::string> parse_hello(const ArgumentList& arguments, Protocol current);

// AUTH [user] password, as in Redis.
struct Auth {
  std::string_view user;     // of the command's arguments
  std::size_t password = 0;  // the index of the argument
};
inline constexpr std::string_view kDefaultUser = "default";

// `has_users`: whether any user is configured. The arguments and the error are as for
// parse_hello().
std::expected<Auth, std::string> parse_auth(const ArgumentList& arguments, bool has_users);

// The reply to a HELLO: a map of 7 pairs, in the order of Redis. `id`: of the connection.
void write_hello(ReplyWriter reply, Protocol protocol, std::uint64_t id);

// The errors of a peer that has to log in first: of HELLO, and of other commands; and of a wrong
// password.
inline constexpr std::string_view kHelloNoAuth =
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
    "<user> "
    "<pass> option can be used to authenticate the client and select the RESP protocol version at the same "
    "time";
inline constexpr std::string_view kNoAuth = "NOAUTH Authentication required.";
inline constexpr std::string_view kWrongPass =
    "WRONGPASS invalid username-password pair or user is disabled.";
// The same for a user's name if no users are configured: as in Redis, `default` exists, and other
// names get WRONGPASS.
inline constexpr std::string_view kNoUsers =
    "WRONGPASS invalid username-password pair or user is disabled. No users are configured here: log in "
    "without a name, or not at all";
inline constexpr std::string_view kAuthWithoutUsers =
    "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
    "configuration is correct?";

// The version of Redis that the daemon claims to be.
inline constexpr std::string_view kRedisVersion = "7.4.0";

// Whether a client may give itself this name: printable ASCII without spaces, and not too long. An
// empty name removes the one that was set.
bool is_client_name(std::string_view name);
inline constexpr std::size_t kMaxClientNameBytes = 256;  // guess
// Redis' text.
inline constexpr std::string_view kBadClientName =
    "ERR Client names cannot contain spaces, newlines or special characters.";
// The error about an invalid name; `what` is its subject, for a client's name "Client names".
// Redis' text, unless the name is too long.
std::string client_name_error(std::string_view what, std::string_view name);

}  // namespace locksley::proto
