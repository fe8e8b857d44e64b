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

bool Events::insert(Topics& topics, Subscriber& subscriber, std::string_view topic) {
  auto found = topics.find(topic);
  if (found == topics.end()) found = topics.try_emplace(std::string(topic)).first;
  return found->second.insert(&subscriber).second;
}

bool Events::erase(Topics& topics, Subscriber& subscriber, std::string_view topic) {
  const auto found = topics.find(topic);
  if (found == topics.end() || found->second.erase(&subscriber) == 0) return false;
  if (found->second.empty()) topics.erase(found);
  return true;
}

bool Events::subscribe(Subscriber& subscriber, std::string_view channel) {
  return insert(channels_, subscriber, channel);
}
bool Events::unsubscribe(Subscriber& subscriber, std::string_view channel) {
  return erase(channels_, subscriber, channel);
}
bool Events::psubscribe(Subscriber& subscriber, std::string_view pattern) {
  return insert(patterns_, subscriber, pattern);
}
bool Events::punsubscribe(Subscriber& subscriber, std::string_view pattern) {
  return erase(patterns_, subscriber, pattern);
}

bool Events::has_listener(const BatchRecord& record) const {
  if (channels_.empty() && patterns_.empty()) return false;
  if (channels_.contains(kAllBatches)) return true;
  const std::string channel = channel_of(record);
  return channels_.contains(channel) || std::ranges::any_of(patterns_, [&](const auto& topic) {
           return proto::glob_match(topic.first, channel) || proto::glob_match(topic.first, kAllBatches);
         });
}

void Events::publish(const BatchRecord& record, EventKind kind, const BatchStatus& status) {
  if (!has_listener(record)) return;
  const std::string message = event_json(record, kind, status);
  deliver(channel_of(record), message);
  deliver(kAllBatches, message);
  stats_.events_published.add(1);
}

void Events::deliver(std::string_view channel, std::string_view message) {
  if (const auto found = channels_.find(channel); found != channels_.end()) {
    for (Subscriber* subscriber : found->second) subscriber->deliver({}, channel, message);
  }
  for (const auto& [pattern, subscribers] : patterns_) {
    if (!proto::glob_match(pattern, channel)) continue;
    for (Subscriber* subscriber : subscribers) subscriber->deliver(pattern, channel, message);
  }
}

}  // namespace locksley::daemon
