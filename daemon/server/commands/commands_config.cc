// CONFIG: shows and changes the configuration in force.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "config/dump.h"
#include "daemon/server/commands/commands.h"
#include "daemon/server/session/session.h"
#include "daemon/server/state/config_changes.h"
#include "daemon/server/state/server_state.h"
#include "proto/glob.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = proto::to_lower(c);
  return result;
}

// The keys that stock clients ask for, under their names in Redis.
Pairs redis_keys(const ServerState& state) LOCKSLEY_REQUIRES(kIoThread) {
  const config::Config& config = state.config();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(config.limits.idle_timeout);
  return {{"save", ""},
          {"appendonly", "no"},
          {"databases", "1"},
          {"maxclients", std::to_string(config.limits.max_clients)},
          {"port", std::to_string(state.port())},
          {"bind", config.listen.address},
          {"timeout", std::to_string(seconds.count())},
          {"proto-max-bulk-len", std::to_string(state.reader_limits().max_bulk_bytes)}};
}

// Works in slices: a hundred hostile patterns may take a millisecond for each key, and five
// thousand users have very many keys.
Coroutine<void> get(Session& session, const proto::ArgumentList& arguments) LOCKSLEY_REQUIRES(kIoThread) {
  constexpr std::size_t kAtOnce = 64;      // pairs that are written: some 10 us
  constexpr std::size_t kPairBytes = 128;  // about, with its texts
  std::vector<std::string> patterns;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    if (arguments[i].size() <= proto::kMaxGlobBytes) patterns.push_back(lower(arguments[i]));
  }
  std::deque<Pairs::value_type> keys;
  Pairs part = redis_keys(session.state());
  config::ValueParts parts;
  bool is_last = !session.may(proto::CommandGroup::kAdmin);
  Slices::Spending time(session.state().slices());
  for (;;) {
    for (auto& each : part) {
      const std::string key = lower(each.first);
      const auto matches = [&key](const std::string& pattern) { return proto::glob_match(pattern, key); };
      if (std::ranges::any_of(patterns, matches)) keys.push_back(std::move(each));
      if (!time.is_used_up()) continue;
      if (!co_await session.waits().let_others(time, keys.size() * kPairBytes)) co_return;
    }
    if (is_last) break;
    part.clear();
    is_last = parts.read_some(session.state().config(), part);
  }
  proto::OutputBuffer pairs;
  proto::ReplyWriter reply(pairs, session.info().protocol);
  reply.map(keys.size());
  for (; !keys.empty(); keys.pop_front()) {
    reply.bulk(keys.front().first);
    reply.bulk(keys.front().second);
    if (keys.size() % kAtOnce != 0 || !time.is_used_up()) continue;
    if (!co_await session.waits().let_others(time, keys.size() * kPairBytes + pairs.memory_bytes()))
      co_return;
  }
  session.reply().buffer().append(std::move(pairs));
}

// The keys and values of one CONFIG SET. The YAML reader takes some 80 ns for each byte of a text,
// and up to 800 ns for each byte of a list: 3 ms.
constexpr std::size_t kMostSetBytes = 4 * 1024;

std::string in_one_line(const std::vector<std::string>& problems) {
  std::string result = "ERR nothing was changed: ";
  for (const std::string& problem : problems) {
    if (&problem != &problems.front()) result += "; ";
    result += proto::printable(problem, problem.size());
  }
  return result;
}

}  // namespace

Coroutine<void> config_command(Session& session, proto::Command& command) {
  const proto::SubcommandSpec* const spec = subcommand_of(session, command, proto::CommandId::kConfig);
  if (spec == nullptr) co_return;
  const proto::ArgumentList& arguments = command.arguments;
  if (spec->id == proto::SubcommandId::kConfigGet) {
    co_await get(session, arguments);
    co_return;
  }
  const ConfigChanges& changes = session.state().config_changes();
  const auto answer = std::make_shared<std::optional<ConfigChanges::Result>>();
  const auto done = [answer, weak = session.weak_from_this()](const ConfigChanges::Result& result) {
    *answer = result;
    if (const auto waiting = weak.lock()) waiting->wake();
  };
  if (spec->id == proto::SubcommandId::kConfigReload) {
    changes.reload(done);
  } else {
    if (arguments.size() % 2 != 0) {
      session.fail(proto::arity_error(*spec));
      co_return;
    }
    ConfigChanges::Values values;
    std::size_t bytes = 0;
    for (std::size_t i = 2; i < arguments.size(); i += 2) {
      bytes += arguments[i].size() + arguments[i + 1].size();
      if (bytes > kMostSetBytes) {
        session.fail("ERR CONFIG SET takes keys and values of at most " + std::to_string(kMostSetBytes) +
                     " bytes together");
        co_return;
      }
      values.emplace_back(arguments[i], arguments[i + 1]);
    }
    changes.set(std::move(values), done);
  }
  const auto is_answered = [answer] { return answer->has_value(); };
  if (!co_await session.waits().await(is_answered)) co_return;
  if (const ConfigChanges::Result& result = **answer; !result) {
    session.fail(in_one_line(result.error()));
  } else {
    session.reply().ok();
  }
}

}  // namespace locksley::daemon
