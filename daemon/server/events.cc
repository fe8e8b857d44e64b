#include "daemon/server/events.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/handler.h"
#include "proto/glob.h"

namespace locksley::daemon {

namespace {
constexpr std::string_view kAllBatches = "batches";
std::string channel_of(const BatchRecord& record) { return "batch:" + record.id(); }
}  // namespace

std::string_view to_string(EventKind kind) {
  switch (kind) {
    case EventKind::kAccepted:
      return "accepted";
    case EventKind::kStarted:
      return "started";
    case EventKind::kProgress:
      return "progress";
    case EventKind::kDone:
      return "done";
    case EventKind::kCancelled:
      break;
  }
  return "cancelled";
}

std::string event_json(const BatchRecord& record, EventKind kind, const BatchStatus& status) {
  const nlohmann::ordered_json event = {
      {"batch", record.id()},
      {"event", to_string(kind)},
      {"name", record.options().name},
      {"handler", record.handler().name()},
      {"tenant", record.options().tenant},
      {"state", to_string(status.state)},
      {"jobs", status.jobs},
      {"queued", status.queued},
      {"running", status.running},
      {"ok", status.ok},
      {"failed", status.failed},
      {"cancelled", status.cancelled},
      {"submitted_at", status.submitted_at},
      {"started_at", status.started_at},
      {"finished_at", status.finished_at},
  };
  // A name may be any bytes; JSON is UTF-8.
  return event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

bool Events::insert(std::string_view audience, Topics Audience::* kind, Subscriber& subscriber,
                    std::string_view topic) {
  auto listeners = audiences_.find(audience);
  if (listeners == audiences_.end()) listeners = audiences_.try_emplace(std::string(audience)).first;
  Topics& topics = listeners->second.*kind;
  auto found = topics.find(topic);
  if (found == topics.end()) found = topics.try_emplace(std::string(topic)).first;
  return found->second.insert(&subscriber).second;
}

bool Events::erase(std::string_view audience, Topics Audience::* kind, Subscriber& subscriber,
                   std::string_view topic) {
  const auto listeners = audiences_.find(audience);
  if (listeners == audiences_.end()) return false;
  Topics& topics = listeners->second.*kind;
  const auto found = topics.find(topic);
  if (found == topics.end() || found->second.erase(&subscriber) == 0) return false;
  if (found->second.empty()) topics.erase(found);
  if (listeners->second.channels.empty() && listeners->second.patterns.empty()) audiences_.erase(listeners);
  return true;
}

bool Events::subscribe(Subscriber& subscriber, std::string_view audience, std::string_view channel) {
  return insert(audience, &Audience::channels, subscriber, channel);
}
bool Events::unsubscribe(Subscriber& subscriber, std::string_view audience, std::string_view channel) {
  return erase(audience, &Audience::channels, subscriber, channel);
}
bool Events::psubscribe(Subscriber& subscriber, std::string_view audience, std::string_view pattern) {
  return insert(audience, &Audience::patterns, subscriber, pattern);
}
bool Events::punsubscribe(Subscriber& subscriber, std::string_view audience, std::string_view pattern) {
  return erase(audience, &Audience::patterns, subscriber, pattern);
}

const Events::Audience* Events::audience_of(std::string_view name) const {
  const auto found = audiences_.find(name);
  return found == audiences_.end() ? nullptr : &found->second;
}

bool Events::listens(const Audience& audience, std::string_view channel) {
  return audience.channels.contains(kAllBatches) || audience.channels.contains(channel) ||
         std::ranges::any_of(audience.patterns, [&](const auto& topic) {
           return proto::glob_match(topic.first, channel) || proto::glob_match(topic.first, kAllBatches);
         });
}

bool Events::has_listener(const BatchRecord& record) const {
  if (audiences_.empty()) return false;
  const Audience* const own = audience_of(record.options().tenant);
  const Audience* const everything = audience_of(kEverything);
  if (own == nullptr && everything == nullptr) return false;
  const std::string channel = channel_of(record);
  return (own != nullptr && listens(*own, channel)) ||
         (everything != nullptr && listens(*everything, channel));
}

void Events::publish(const BatchRecord& record, EventKind kind, const BatchStatus& status) {
  if (!has_listener(record)) return;
  const std::string message = event_json(record, kind, status);
  const std::string channel = channel_of(record);
  for (const std::string_view name : {std::string_view(record.options().tenant), kEverything}) {
    const Audience* const audience = audience_of(name);
    if (audience == nullptr) continue;
    deliver(*audience, channel, message);
    deliver(*audience, kAllBatches, message);
  }
  stats_.events_published.add(1);
}

void Events::deliver(const Audience& audience, std::string_view channel, std::string_view message) {
  if (const auto found = audience.channels.find(channel); found != audience.channels.end()) {
    for (Subscriber* subscriber : found->second) subscriber->deliver({}, channel, message);
  }
  for (const auto& [pattern, subscribers] : audience.patterns) {
    if (!proto::glob_match(pattern, channel)) continue;
    for (Subscriber* subscriber : subscribers) subscriber->deliver(pattern, channel, message);
  }
}

}  // namespace locksley::daemon
