// Subscriptions.
#include <string>

#include "daemon/server/commands.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"

namespace locksley::daemon {

namespace {

constexpr std::size_t kMaxSubscriptions = 10'000;  // of a connection; guess

// The confirmation of one channel: [kind, channel, subscriptions], as Redis has it.
void confirm(Session& session, std::string_view kind, const std::string* channel) {
  proto::ReplyWriter reply = session.reply();
  reply.push(3);
  reply.bulk(kind);
  if (channel != nullptr) {
    reply.bulk(*channel);
  } else {
    reply.null();
  }
  reply.integer(static_cast<std::int64_t>(session.subscriptions()));
}

struct Kind {
  std::string_view subscribe;
  std::string_view unsubscribe;
  std::set<std::string, std::less<>> Session::* topics;
  bool (Events::*add)(Subscriber&, std::string_view audience, std::string_view topic);
  bool (Events::*remove)(Subscriber&, std::string_view audience, std::string_view topic);
};

constexpr Kind kChannels = {"subscribe", "unsubscribe", &Session::channels, &Events::subscribe,
                            &Events::unsubscribe};
constexpr Kind kPatterns = {"psubscribe", "punsubscribe", &Session::patterns, &Events::psubscribe,
                            &Events::punsubscribe};

void subscribe(Session& session, const proto::Command& command, const Kind& kind) {
  if (session.subscriptions() + command.arguments.size() - 1 > kMaxSubscriptions) {
    return session.fail("TOOBIG a connection may have 10000 subscriptions");
  }
  for (std::size_t i = 1; i < command.arguments.size(); ++i) {
    const std::string topic(command.arguments[i]);
    const bool was_subscribed = session.is_subscribed();
    if ((session.*kind.topics).insert(topic).second) {
      (session.server().batches().events().*kind.add)(session, session.audience(), topic);
      if (!was_subscribed) session.server().count_subscriber(1);
    }
    confirm(session, kind.subscribe, &topic);
  }
}

void unsubscribe_one(Session& session, const std::string& topic, const Kind& kind) {
  if ((session.*kind.topics).erase(topic) > 0) {
    (session.server().batches().events().*kind.remove)(session, session.audience(), topic);
    if (!session.is_subscribed()) session.server().count_subscriber(-1);
  }
  confirm(session, kind.unsubscribe, &topic);
}

void unsubscribe(Session& session, const proto::Command& command, const Kind& kind) {
  if (command.arguments.size() > 1) {
    for (std::size_t i = 1; i < command.arguments.size(); ++i) {
      unsubscribe_one(session, std::string(command.arguments[i]), kind);
    }
    return;
  }
  const auto topics = session.*kind.topics;
  if (topics.empty()) confirm(session, kind.unsubscribe, nullptr);
  for (const std::string& topic : topics) unsubscribe_one(session, topic, kind);
}

}  // namespace

void subscribe_command(Session& session, proto::Command& command) { subscribe(session, command, kChannels); }
void unsubscribe_command(Session& session, proto::Command& command) {
  unsubscribe(session, command, kChannels);
}
void psubscribe_command(Session& session, proto::Command& command) { subscribe(session, command, kPatterns); }
void punsubscribe_command(Session& session, proto::Command& command) {
  unsubscribe(session, command, kPatterns);
}

}  // namespace locksley::daemon
