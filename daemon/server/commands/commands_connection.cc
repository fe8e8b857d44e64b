// Commands about the connection and the daemon, as in Redis.
#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/server/commands/commands.h"
#include "daemon/server/commands/info.h"
#include "daemon/server/session/reply_in_slices.h"
#include "daemon/server/session/session.h"
#include "daemon/server/state/server_state.h"
#include "proto/command_docs.h"
#include "proto/number.h"
#include "proto/output_buffer.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

using proto::equals_ignoring_case;

void write_pong(Session& session, proto::ReplyWriter reply, const proto::Command& command) {
  const bool has_message = command.arguments.size() > 1;
  if (session.info().protocol == proto::Protocol::kResp2 && !session.subscriptions().empty()) {
    reply.array(2);
    reply.bulk("pong");
    reply.bulk(has_message ? command.arguments[1] : std::string_view());
  } else if (has_message) {
    reply.bulk(command.arguments[1]);
  } else {
    reply.simple("PONG");
  }
}

}  // namespace

void ping_command(Session& session, proto::Command& command) {
  write_pong(session, session.reply(), command);
}

void echo_command(Session& session, proto::Command& command) { session.reply().bulk(command.arguments[1]); }

Coroutine<void> echo_long_command(Session& session, proto::Command& command) {
  auto views = proto::OutputBuffer::of_views();
  proto::ReplyWriter(views, session.info().protocol).bulk(command.arguments[1]);
  co_await reply_in_slices(session, std::move(views));
}

Coroutine<void> ping_long_command(Session& session, proto::Command& command) {
  auto views = proto::OutputBuffer::of_views();
  write_pong(session, proto::ReplyWriter(views, session.info().protocol), command);
  co_await reply_in_slices(session, std::move(views));
}

void quit_command(Session& session, proto::Command&) {
  session.transaction().close();
  session.reply().ok();
  session.close_after_reply();
}

Coroutine<void> reset_command(Session& session, proto::Command&) {
  co_await session.subscription_moves().end();
  session.transaction().close();
  session.info().protocol = proto::Protocol::kResp2;
  session.info().reply_mode = ClientInfo::ReplyMode::kOn;
  session.info().name.clear();
  session.info().no_evict = false;
  session.login().log_out();
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
  session.reply().verbatim(info_text(session.state(), session.user(), sections));
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
