// Commands about the connection and the daemon, as Redis has them.
#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/server/client_name.h"
#include "daemon/server/commands.h"
#include "daemon/server/dispatch.h"
#include "daemon/server/info.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"
#include "proto/command_docs.h"
#include "proto/number.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

using proto::equals_ignoring_case;

constexpr std::string_view kWrongPass = "WRONGPASS invalid username-password pair or user is disabled.";

// No users are configured: everybody is `default`, whatever the password, as with Redis' user without one.
bool is_default_user(std::string_view user) { return user == "default"; }

struct Hello {
  proto::Protocol protocol;
  std::optional<std::string_view> user;
  std::optional<std::string_view> name;
};

std::expected<Hello, std::string> parse_hello(const proto::ArgumentList& arguments, proto::Protocol current) {
  Hello hello{.protocol = current, .user = {}, .name = {}};
  if (arguments.size() == 1) return hello;
  const auto version = proto::parse_int64(arguments[1]);
  if (!version) return std::unexpected("ERR Protocol version is not an integer or out of range");
  if (*version != 2 && *version != 3) return std::unexpected("NOPROTO unsupported protocol version");
  hello.protocol = *version == 3 ? proto::Protocol::kResp3 : proto::Protocol::kResp2;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::size_t left = arguments.size() - i - 1;
    if (equals_ignoring_case(arguments[i], "AUTH") && left >= 2) {
      hello.user = arguments[i + 1];
      i += 2;
    } else if (equals_ignoring_case(arguments[i], "SETNAME") && left >= 1) {
      hello.name = arguments[++i];
      if (!is_client_name(*hello.name)) return std::unexpected(std::string(kBadClientName));
    } else {
      return std::unexpected(
          fmt::format("ERR Syntax error in HELLO option '{}'", proto::printable(arguments[i])));
    }
  }
  return hello;
}

}  // namespace

void hello_command(Session& session, proto::Command& command) {
  const auto hello = parse_hello(command.arguments, session.protocol);
  if (!hello) return session.fail(hello.error());
  if (hello->user && !is_default_user(*hello->user)) return session.fail(kWrongPass);
  if (hello->name) session.name = *hello->name;
  session.protocol = hello->protocol;
  proto::ReplyWriter reply = session.reply();
  reply.map(7);
  reply.bulk("server");
  reply.bulk("locksley");
  reply.bulk("version");
  reply.bulk(kRedisVersion);
  reply.bulk("proto");
  reply.integer(static_cast<std::int64_t>(session.protocol));
  reply.bulk("id");
  reply.integer(static_cast<std::int64_t>(session.id()));
  reply.bulk("mode");
  reply.bulk("standalone");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
}

void auth_command(Session& session, proto::Command& command) {
  if (command.arguments.size() == 2) {
    return session.fail(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
        "configuration is correct?");
  }
  if (!is_default_user(command.arguments[1])) return session.fail(kWrongPass);
  session.reply().ok();
}

void ping_command(Session& session, proto::Command& command) {
  proto::ReplyWriter reply = session.reply();
  const bool has_message = command.arguments.size() > 1;
  if (session.protocol == proto::Protocol::kResp2 && session.is_subscribed()) {
    reply.array(2);
    reply.bulk("pong");
    reply.bulk(has_message ? command.arguments[1] : std::string_view());
  } else if (has_message) {
    reply.bulk(command.arguments[1]);
  } else {
    reply.simple("PONG");
  }
}

void echo_command(Session& session, proto::Command& command) { session.reply().bulk(command.arguments[1]); }

void quit_command(Session& session, proto::Command&) {
  session.reply().ok();
  session.close_after_reply();
}

void reset_command(Session& session, proto::Command&) {
  session.unsubscribe_all();
  session.protocol = proto::Protocol::kResp2;
  session.reply_mode = Session::ReplyMode::kOn;
  session.name.clear();
  session.no_evict = false;
  session.reply().simple("RESET");
}

void select_command(Session& session, proto::Command& command) {
  const auto index = proto::parse_int64(command.arguments[1]);
  if (!index) return session.fail("ERR value is not an integer or out of range");
  if (*index != 0) return session.fail("ERR DB index is out of range");
  session.reply().ok();
}

void info_command(Session& session, proto::Command& command) {
  std::vector<std::string_view> sections;
  for (std::size_t i = 1; i < command.arguments.size(); ++i) sections.push_back(command.arguments[i]);
  session.reply().verbatim(info_text(session.server(), sections));
}

void command_command(Session& session, proto::Command& command) {
  proto::ReplyWriter reply = session.reply();
  if (command.arguments.size() == 1) return proto::write_command_all(reply);
  const proto::SubcommandSpec* spec = subcommand_of(session, command, proto::CommandId::kCommand);
  if (spec == nullptr) return;
  using enum proto::SubcommandId;
  switch (spec->id) {
    case kCommandCount:
      return proto::write_command_count(reply);
    case kCommandDocs:
      return proto::write_command_docs(reply, command.arguments);
    case kCommandInfo:
      return proto::write_command_info(reply, command.arguments);
    default:
      return proto::write_command_list(reply, command.arguments);
  }
}

}  // namespace locksley::daemon
