#include "proto/hello.h"

#include <algorithm>
#include <string>
#include <utility>

#include "proto/number.h"
#include "proto/text.h"

namespace locksley::proto {

std::expected<Hello, std::string> parse_hello(const ArgumentList& arguments, Protocol current) {
  Hello hello{.protocol = current, .user = 0, .name = {}};
  if (arguments.size() == 1) return hello;
  const auto version = parse_int64(arguments[1]);
  if (!version) return std::unexpected("ERR Protocol version is not an integer or out of range");
  if (*version != 2 && *version != 3) return std::unexpected("NOPROTO unsupported protocol version");
  hello.protocol = *version == 3 ? Protocol::kResp3 : Protocol::kResp2;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::size_t left = arguments.size() - i - 1;
    if (equals_ignoring_case(arguments[i], "AUTH") && left >= 2) {
      hello.user = i + 1;
      i += 2;
    } else if (equals_ignoring_case(arguments[i], "SETNAME") && left >= 1) {
      hello.name = arguments[++i];
    } else {
      return std::unexpected("ERR Syntax error in HELLO option '" + printable(arguments[i]) + "'");
    }
  }
  if (hello.name && !is_client_name(*hello.name))
    return std::unexpected(client_name_error("Client names", *hello.name));
  return hello;
}

std::expected<Auth, std::string> parse_auth(const ArgumentList& arguments, bool has_users) {
  switch (arguments.size()) {
    case 2:
      if (!has_users) return std::unexpected(std::string(kAuthWithoutUsers));
      return Auth{.user = kDefaultUser, .password = 1};
    case 3:
      return Auth{.user = arguments[1], .password = 2};
    default:
      return std::unexpected("ERR wrong number of arguments for 'auth' command");
  }
}

void write_hello(ReplyWriter reply, Protocol protocol, std::uint64_t id) {
  reply.map(7);
  reply.bulk("server");
  reply.bulk("locksley");
  reply.bulk("version");
  reply.bulk(kRedisVersion);
  reply.bulk("proto");
  reply.integer(static_cast<std::int64_t>(protocol));
  reply.bulk("id");
  reply.integer(static_cast<std::int64_t>(id));
  reply.bulk("mode");
  reply.bulk("standalone");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
}

bool is_client_name(std::string_view name) {
  return name.size() <= kMaxClientNameBytes &&
         std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
}

std::string client_name_error(std::string_view what, std::string_view name) {
  std::string text = "ERR " + std::string(what);
  if (name.size() > kMaxClientNameBytes) {
    return text + " cannot have more than " + std::to_string(kMaxClientNameBytes) + " bytes, found " +
           std::to_string(name.size()) + ".";
  }
  return text + " cannot contain spaces, newlines or special characters.";
}

}  // namespace locksley::proto
