// CLIENT and its subcommands.
#include <fmt/format.h>

#include <algorithm>
#include <asio/post.hpp>
#include <string>

#include "daemon/server/client_name.h"
#include "daemon/server/commands.h"
#include "daemon/server/dispatch.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"
#include "proto/number.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

using proto::equals_ignoring_case;

void set_library(Session& session, const proto::Command& command) {
  const std::string_view attribute = command.arguments[2];
  const std::string_view value = command.arguments[3];
  std::string* target = equals_ignoring_case(attribute, "LIB-NAME")  ? &session.library_name
                        : equals_ignoring_case(attribute, "LIB-VER") ? &session.library_version
                                                                     : nullptr;
  if (target == nullptr) {
    return session.fail(fmt::format("ERR Unrecognized option '{}'", proto::printable(attribute)));
  }
  if (!is_client_name(value)) {
    return session.fail(fmt::format("ERR {} cannot contain spaces, newlines or special characters.",
                                    proto::printable(attribute)));
  }
  *target = value;
  session.reply().ok();
}

void set_reply_mode(Session& session, const proto::Command& command) {
  const std::string_view mode = command.arguments[2];
  if (equals_ignoring_case(mode, "ON")) {
    session.reply_mode = Session::ReplyMode::kOn;
    session.reply().ok();
  } else if (equals_ignoring_case(mode, "OFF")) {
    session.reply_mode = Session::ReplyMode::kOff;
  } else if (equals_ignoring_case(mode, "SKIP")) {
    if (session.reply_mode != Session::ReplyMode::kOff) session.reply_mode = Session::ReplyMode::kSkipNext;
  } else {
    session.fail("ERR syntax error");
  }
}

// Connections of others, and those of nobody yet, are the admins'.
bool may_see(const Session& session, const Session& other) {
  if (session.user().is_admin()) return true;
  return other.is_logged_in() && &other.user().tenant() == &session.user().tenant();
}

void kill_client(Session& session, const proto::Command& command) {
  if (command.arguments.size() != 4 || !equals_ignoring_case(command.arguments[2], "ID")) {
    return session.fail("ERR syntax error: expected CLIENT KILL ID client-id");
  }
  const auto id = proto::parse_uint64(command.arguments[3]);
  if (!id || *id == 0) return session.fail("ERR client-id should be greater than 0");
  if (*id == session.id()) {
    session.reply().integer(1);
    return session.close_after_reply();
  }
  Session* other = session.server().session(*id);
  if (other != nullptr && !may_see(session, *other)) other = nullptr;
  if (other != nullptr) other->drop("CLIENT KILL");
  session.reply().integer(other == nullptr ? 0 : 1);
}

// In pieces, between which other connections have their turns: ten thousand lines take some 10 ms.
Coroutine<void> list_clients(Session& session) {
  constexpr int kAtOnce = 100;
  Server& server = session.server();
  std::string lines;
  std::uint64_t last = 0;
  for (;;) {
    auto next = server.sessions().upper_bound(last);
    for (int n = 0; n < kAtOnce && next != server.sessions().end(); ++n, ++next) {
      last = next->first;
      if (!may_see(session, *next->second)) continue;
      lines += next->second->describe();
      lines += '\n';
    }
    if (next == server.sessions().end()) break;
    session.account(lines.size());
    co_await asio::post(server.executor(), kAwait);
    if (session.is_dropped()) co_return;
  }
  session.reply().verbatim(lines);
}

void switch_option(Session& session, const proto::Command& command, bool* option) {
  const bool on = equals_ignoring_case(command.arguments[2], "ON");
  if (!on && !equals_ignoring_case(command.arguments[2], "OFF")) return session.fail("ERR syntax error");
  if (option != nullptr) *option = on;
  session.reply().ok();
}

// All but LIST, which takes its time.
void execute(Session& session, const proto::Command& command, const proto::SubcommandSpec& spec) {
  using enum proto::SubcommandId;
  switch (spec.id) {
    case kClientGetname:
      return session.name.empty() ? session.reply().null() : session.reply().bulk(session.name);
    case kClientId:
      return session.reply().integer(static_cast<std::int64_t>(session.id()));
    case kClientInfo:
      return session.reply().verbatim(session.describe() + "\n");
    case kClientKill:
      return kill_client(session, command);
    case kClientNoEvict:
      return switch_option(session, command, &session.no_evict);
    case kClientNoTouch:
      return switch_option(session, command, nullptr);
    case kClientReply:
      return set_reply_mode(session, command);
    case kClientSetinfo:
      return set_library(session, command);
    case kClientSetname:
      if (!is_client_name(command.arguments[2])) return session.fail(kBadClientName);
      session.name = command.arguments[2];
      return session.reply().ok();
    default:
      return session.fail(
          proto::unknown_subcommand_error(proto::command(proto::CommandId::kClient), spec.name));
  }
}

}  // namespace

Coroutine<void> client_command(Session& session, proto::Command command) {
  const proto::SubcommandSpec* spec = subcommand_of(session, command, proto::CommandId::kClient);
  if (spec == nullptr) co_return;
  if (spec->id == proto::SubcommandId::kClientList) {
    co_await list_clients(session);
  } else {
    execute(session, command, *spec);
  }
}

}  // namespace locksley::daemon
