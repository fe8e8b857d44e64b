// Subscriptions.
#include <fmt/format.h>

#include <string>
#include <utility>

#include "daemon/server/commands/commands.h"
#include "daemon/server/session/session.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {

namespace {

// Limits of one connection. A name has room for `batch:` and the longest id.
constexpr std::size_t kMaxChannels = 10'000;  // guess
constexpr std::size_t kMaxPatterns = 100;     // guess: each is matched with each event
constexpr std::size_t kMaxNameBytes = 256;

// The confirmation of one channel: [kind, channel, subscriptions], as in Redis.
void confirm(Session& session, std::string_view kind, const std::string* channel) {
  proto::ReplyWriter reply = session.reply();
  reply.push(3);
  reply.bulk(kind);
  if (channel != nullptr) {
    reply.bulk(*channel);
  } else {
    reply.null();
  }
  reply.integer(static_cast<std::int64_t>(session.subscriptions().size()));
}

struct Kind {
  std::string_view subscribe;
  std::string_view unsubscribe;
  Subscriptions::Kind topics;
  std::size_t most;
};

constexpr Kind kChannels = {"subscribe", "unsubscribe", Subscriptions::Kind::kChannel, kMaxChannels};
constexpr Kind kPatterns = {"psubscribe", "punsubscribe", Subscriptions::Kind::kPattern, kMaxPatterns};

// Refuses the command with an error reply, if it has too many or too long names, and returns
// whether it did. Each argument has a reply of its own, so their number is bounded like that of the
// subscriptions.
bool refuses(Session& session, const proto::Command& command, const Kind& kind, std::size_t already) {
  const std::size_t topics = command.arguments.size() - 1;
  if (topics + already > kind.most) {
    session.fail(
        fmt::format("TOOBIG a connection may have at most {} subscriptions of this kind", kind.most));
    return true;
  }
  for (std::size_t i = 1; i <= topics; ++i) {
    if (command.arguments[i].size() <= kMaxNameBytes) continue;
    session.fail(
        fmt::format("TOOBIG the name of a channel, or a pattern, may have at most {} bytes", kMaxNameBytes));
    return true;
  }
  return false;
}

// Ten thousand channels take some 40 ms, so the command works in slices: after this many channels
// it checks its time.
constexpr std::size_t kTopicsAtOnce = 16;  // some 60 us; guess

Coroutine<void> subscribe(Session& session, const proto::Command& command, Kind kind)
    LOCKSLEY_REQUIRES(kIoThread) {
  if (refuses(session, command, kind, session.subscriptions().of(kind.topics).size())) co_return;
  Slices::Spending time(session.state().slices());
  for (std::size_t i = 1; i < command.arguments.size(); ++i) {
    const std::string topic(command.arguments[i]);
    session.subscriptions().add(kind.topics, topic);
    confirm(session, kind.subscribe, &topic);
    session.replies().messages_follow();
    if (i % kTopicsAtOnce != 0 || !time.is_used_up()) continue;
    if (!co_await session.waits().let_others(time)) co_return;
    if (!session.may(proto::CommandGroup::kRead)) co_return;  // its user has lost the group meanwhile
  }
}

void unsubscribe_one(Session& session, const std::string& topic, const Kind& kind)
    LOCKSLEY_REQUIRES(kIoThread) {
  session.subscriptions().remove(kind.topics, topic);
  confirm(session, kind.unsubscribe, &topic);
}

Coroutine<void> unsubscribe(Session& session, const proto::Command& command, Kind kind)
    LOCKSLEY_REQUIRES(kIoThread) {
  Slices::Spending time(session.state().slices());
  if (command.arguments.size() > 1) {
    if (refuses(session, command, kind, 0)) co_return;
    for (std::size_t i = 1; i < command.arguments.size(); ++i) {
      unsubscribe_one(session, std::string(command.arguments[i]), kind);
      if (i % kTopicsAtOnce != 0 || !time.is_used_up()) continue;
      if (!co_await session.waits().let_others(time)) co_return;
    }
    co_return;
  }
  const Subscriptions::Topics& topics = session.subscriptions().of(kind.topics);
  if (topics.empty()) confirm(session, kind.unsubscribe, nullptr);
  for (std::size_t n = 1; !topics.empty(); ++n) {
    unsubscribe_one(session, std::string(*topics.begin()), kind);
    if (n % kTopicsAtOnce != 0 || !time.is_used_up()) continue;
    if (!co_await session.waits().let_others(time)) co_return;
  }
}

}  // namespace

Coroutine<void> subscribe_command(Session& session, proto::Command& command) {
  return subscribe(session, command, kChannels);
}
Coroutine<void> unsubscribe_command(Session& session, proto::Command& command) {
  return unsubscribe(session, command, kChannels);
}
Coroutine<void> psubscribe_command(Session& session, proto::Command& command) {
  return subscribe(session, command, kPatterns);
}
Coroutine<void> punsubscribe_command(Session& session, proto::Command& command) {
  return unsubscribe(session, command, kPatterns);
}

}  // namespace locksley::daemon
