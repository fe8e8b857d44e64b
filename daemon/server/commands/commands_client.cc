// CLIENT and its subcommands.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/server/commands/commands.h"
#include "daemon/server/session/client_info.h"
#include "daemon/server/session/reply_in_slices.h"
#include "daemon/server/session/session.h"
#include "daemon/server/session/sessions.h"
#include "daemon/server/state/server_state.h"
#include "proto/hello.h"
#include "proto/number.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

using proto::equals_ignoring_case;

void set_library(Session& session, const proto::Command& command) {
  const std::string_view attribute = command.arguments[2];
  const std::string_view value = command.arguments[3];
  std::string* target = equals_ignoring_case(attribute, "LIB-NAME")  ? &session.info().library_name
                        : equals_ignoring_case(attribute, "LIB-VER") ? &session.info().library_version
                                                                     : nullptr;
  if (target == nullptr) {
    return session.fail(fmt::format("ERR Unrecognized option '{}'", proto::printable(attribute)));
  }
  if (!proto::is_client_name(value)) {
    return session.fail(proto::client_name_error(proto::printable(attribute), value));
  }
  *target = value;
  session.reply().ok();
}

void set_reply_mode(Session& session, const proto::Command& command) {
  const std::string_view mode = command.arguments[2];
  if (equals_ignoring_case(mode, "ON")) {
    session.info().reply_mode = ClientInfo::ReplyMode::kOn;
    session.reply().ok();
  } else if (equals_ignoring_case(mode, "OFF")) {
    session.info().reply_mode = ClientInfo::ReplyMode::kOff;
  } else if (equals_ignoring_case(mode, "SKIP")) {
    if (session.info().reply_mode != ClientInfo::ReplyMode::kOff)
      session.info().reply_mode = ClientInfo::ReplyMode::kSkipNext;
  } else {
    session.fail("ERR syntax error");
  }
}

// Only admins see connections of other users and of strangers.
bool may_see(const Session& session, const Session& other) {
  if (session.user().is_admin()) return true;
  return other.is_logged_in() && &other.user().tenant() == &session.user().tenant();
}

void kill_client(Session& session, const proto::Command& command) LOCKSLEY_REQUIRES(kIoThread) {
  if (command.arguments.size() != 4 || !equals_ignoring_case(command.arguments[2], "ID")) {
    return session.fail("ERR syntax error: expected CLIENT KILL ID client-id");
  }
  const auto id = proto::parse_uint64(command.arguments[3]);
  if (!id || *id == 0) return session.fail("ERR client-id should be greater than 0");
  if (*id == session.id()) {
    session.reply().integer(1);
    return session.close_after_reply();
  }
  Session* other = session.sessions().find(*id);
  if (other != nullptr && !may_see(session, *other)) other = nullptr;
  if (other != nullptr) other->drop("CLIENT KILL");
  session.reply().integer(other == nullptr ? 0 : 1);
}

// The arguments of CLIENT LIST.
struct ListedClients {
  bool is_of_ids = false;
  std::vector<std::uint64_t> ids = {};  // ascending
  enum class Type : std::uint8_t { kAny, kNormal, kSubscribed, kNone } type = Type::kAny;

  bool wants(const Session& client) const {
    if (is_of_ids && !std::ranges::binary_search(ids, client.id())) return false;
    if (type == Type::kAny) return true;
    return type == (client.is_subscribed() ? Type::kSubscribed : Type::kNormal);
  }
};

// CLIENT LIST [TYPE type] [ID client-id …], each at most once and in this order, as in Redis. The
// error is the text of the reply.
std::expected<ListedClients, std::string> parse_client_list(const proto::ArgumentList& words) {
  ListedClients listed;
  std::size_t at = 2;
  if (words.size() >= at + 2 && equals_ignoring_case(words[at], "TYPE")) {
    const std::string_view type = words[at + 1];
    if (equals_ignoring_case(type, "NORMAL")) {
      listed.type = ListedClients::Type::kNormal;
    } else if (equals_ignoring_case(type, "PUBSUB")) {
      listed.type = ListedClients::Type::kSubscribed;
    } else if (equals_ignoring_case(type, "MASTER") || equals_ignoring_case(type, "REPLICA") ||
               equals_ignoring_case(type, "SLAVE")) {
      listed.type = ListedClients::Type::kNone;
    } else {
      return std::unexpected(fmt::format("ERR Unknown client type '{}'", proto::printable(type)));
    }
    at += 2;
  }
  if (at == words.size()) return listed;
  if (!equals_ignoring_case(words[at], "ID") || ++at == words.size()) {
    return std::unexpected("ERR syntax error: expected CLIENT LIST [TYPE type] [ID client-id ...]");
  }
  listed.is_of_ids = true;
  for (; at < words.size(); ++at) {
    const auto id = proto::parse_uint64(words[at]);
    if (!id || *id == 0) return std::unexpected("ERR Invalid client ID");
    listed.ids.push_back(*id);
  }
  std::ranges::sort(listed.ids);
  return listed;
}

// Ten thousand lines take some 20 ms, so it works in slices: other users have their turns, however
// many connections of one user ask.
Coroutine<void> list_clients(Session& session, const proto::Command& command) LOCKSLEY_REQUIRES(kIoThread) {
  const auto listed = parse_client_list(command.arguments);
  if (!listed) {
    session.fail(listed.error());
    co_return;
  }
  constexpr int kAtOnce = 16;  // some 30 us
  const Sessions::ById& all = session.sessions().by_id();
  std::string lines;
  std::uint64_t last = 0;
  Slices::Spending time(session.state().slices());
  for (;;) {
    auto next = all.upper_bound(last);
    for (int n = 0; n < kAtOnce && next != all.end(); ++n, ++next) {
      last = next->first;
      if (!may_see(session, *next->second) || !listed->wants(*next->second)) continue;
      lines += next->second->describe();
      lines += '\n';
    }
    if (next == all.end()) break;
    if (!time.is_used_up()) continue;
    if (!co_await session.waits().let_others(time, lines.size())) co_return;
  }
  if (lines.size() < kLargeReply) {
    session.reply().verbatim(lines);
    co_return;
  }
  auto views = proto::OutputBuffer::of_views();
  proto::ReplyWriter(views, session.info().protocol).verbatim(lines);
  session.memory().update(lines.size());
  co_await reply_in_slices(session, std::move(views));
}

void switch_option(Session& session, const proto::Command& command, bool* option) {
  const bool on = equals_ignoring_case(command.arguments[2], "ON");
  if (!on && !equals_ignoring_case(command.arguments[2], "OFF")) return session.fail("ERR syntax error");
  if (option != nullptr) *option = on;
  session.reply().ok();
}

// All subcommands but LIST, which suspends.
void execute(Session& session, const proto::Command& command, const proto::SubcommandSpec& spec)
    LOCKSLEY_REQUIRES(kIoThread) {
  using enum proto::SubcommandId;
  switch (spec.id) {
    case kClientGetname:
      return session.info().name.empty() ? session.reply().null() : session.reply().bulk(session.info().name);
    case kClientId:
      return session.reply().integer(static_cast<std::int64_t>(session.id()));
    case kClientInfo:
      return session.reply().verbatim(session.describe() + "\n");
    case kClientKill:
      return kill_client(session, command);
    case kClientNoEvict:
      return switch_option(session, command, &session.info().no_evict);
    case kClientNoTouch:
      return switch_option(session, command, nullptr);
    case kClientReply:
      return set_reply_mode(session, command);
    case kClientSetinfo:
      return set_library(session, command);
    case kClientSetname:
      if (!proto::is_client_name(command.arguments[2]))
        return session.fail(proto::client_name_error("Client names", command.arguments[2]));
      session.info().name = command.arguments[2];
      return session.reply().ok();
    default:
      return session.fail(
          proto::unknown_subcommand_error(proto::command(proto::CommandId::kClient), spec.name));
  }
}

}  // namespace

Coroutine<void> client_command(Session& session, proto::Command& command) {
  const proto::SubcommandSpec* spec = subcommand_of(session, command, proto::CommandId::kClient);
  if (spec == nullptr) co_return;
  if (spec->id == proto::SubcommandId::kClientList) {
    co_await list_clients(session, command);
  } else {
    execute(session, command, *spec);
  }
}

}  // namespace locksley::daemon
