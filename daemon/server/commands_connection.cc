// Commands about the connection and the daemon, as Redis has them.
#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/server/commands.h"
#include "daemon/server/dispatch.h"
#include "daemon/server/info.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"
#include "proto/command_docs.h"
#include "proto/glob.h"
#include "proto/number.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

using proto::equals_ignoring_case;

}  // namespace

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
  session.log_out();
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
  session.reply().verbatim(info_text(session.server(), session.user(), sections));
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

// CONFIG GET: the keys that stock clients ask for, under their names in Redis, and our limits under their
// own.
void config_command(Session& session, proto::Command& command) {
  if (subcommand_of(session, command, proto::CommandId::kConfig) == nullptr) return;
  const config::Config& config = session.server().config();
  const config::Limits& limits = config.limits;
  const std::vector<std::pair<std::string_view, std::string>> keys = {
      {"save", ""},
      {"appendonly", "no"},
      {"databases", "1"},
      {"maxclients", std::to_string(limits.max_clients)},
      {"port", std::to_string(session.server().port())},
      {"bind", config.listen.address},
      {"timeout",
       std::to_string(std::chrono::duration_cast<std::chrono::seconds>(limits.idle_timeout).count())},
      {"proto-max-bulk-len", std::to_string(session.server().reader_limits().max_bulk_bytes)},
      {"limits.max_batch_jobs", std::to_string(limits.max_batch_jobs)},
      {"limits.max_payload", std::to_string(limits.max_payload.count)},
      {"limits.max_command", std::to_string(limits.max_command.count)},
      {"limits.max_queued_jobs", std::to_string(limits.max_queued_jobs)},
      {"limits.max_queued_bytes", std::to_string(limits.max_queued_bytes.count)},
      {"limits.output_buffer", std::to_string(limits.output_buffer.count)},
  };
  std::vector<const std::pair<std::string_view, std::string>*> found;
  for (const auto& key : keys) {
    for (std::size_t i = 2; i < command.arguments.size(); ++i) {
      std::string pattern(command.arguments[i]);
      for (char& c : pattern) c = proto::to_lower(c);
      if (!proto::glob_match(pattern, key.first)) continue;
      found.push_back(&key);
      break;
    }
  }
  proto::ReplyWriter reply = session.reply();
  reply.map(found.size());
  for (const auto* key : found) {
    reply.bulk(key->first);
    reply.bulk(key->second);
  }
}

}  // namespace locksley::daemon
