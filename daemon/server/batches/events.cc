#include "daemon/server/batches/events.h"

#include <nlohmann/json.hpp>

#include "core/batch/handler.h"

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
      {"customer", record.options().customer},
      {"state", to_string(status.state)},
      {"jobs", status.jobs},
      {"queued", status.queued},
      {"running", status.running},
      {"ok", status.ok},
      {"failed", status.failed},
      {"cancelled", status.cancelled},
      {"retried", status.retried},
      {"retry_rounds", status.retry_rounds},
      {"submitted_at", status.submitted_at},
      {"started_at", status.started_at},
      {"finished_at", status.finished_at},
  };
  // A name may be any bytes; JSON is UTF-8.
  return event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

Events::Audience& Events::audience_for(std::string_view name) {
  const auto found = audiences_.find(name);
  return found != audiences_.end() ? found->second : audiences_.try_emplace(std::string(name)).first->second;
}

const Events::Audience* Events::audience_of(std::string_view name) const {
  const auto found = audiences_.find(name);
  return found == audiences_.end() ? nullptr : &found->second;
}

void Events::drop_if_empty(Audiences::iterator audience) {
  if (audience->second.channels.empty() && audience->second.to_all.empty()) audiences_.erase(audience);
}

bool Events::subscribe(Subscriber& subscriber, std::string_view audience, std::string_view channel) {
  Topics& channels = audience_for(audience).channels;
  auto found = channels.find(channel);
  if (found == channels.end()) found = channels.try_emplace(std::string(channel)).first;
  return found->second.insert(&subscriber).second;
}

bool Events::unsubscribe(Subscriber& subscriber, std::string_view audience, std::string_view channel) {
  const auto listeners = audiences_.find(audience);
  if (listeners == audiences_.end()) return false;
  Topics& channels = listeners->second.channels;
  const auto found = channels.find(channel);
  if (found == channels.end() || found->second.erase(&subscriber) == 0) return false;
  if (found->second.empty()) channels.erase(found);
  drop_if_empty(listeners);
  return true;
}

void Events::subscribe_to_all(Subscriber& subscriber, std::string_view audience) {
  audience_for(audience).to_all.insert(&subscriber);
}

void Events::unsubscribe_from_all(Subscriber& subscriber, std::string_view audience) {
  const auto listeners = audiences_.find(audience);
  if (listeners == audiences_.end()) return;
  listeners->second.to_all.erase(&subscriber);
  drop_if_empty(listeners);
}

bool Events::has_listener(const BatchRecord& record) const {
  if (audiences_.empty()) return false;
  const Audience* const own = audience_of(record.options().tenant);
  const Audience* const everything = audience_of(kEverything);
  if (own == nullptr && everything == nullptr) return false;
  const std::string channel = channel_of(record);
  const auto listens = [&channel](const Audience* audience) {
    return audience != nullptr && (!audience->to_all.empty() || audience->channels.contains(kAllBatches) ||
                                   audience->channels.contains(channel));
  };
  return listens(own) || listens(everything);
}

void Events::publish_accepted(BatchRecord& record) {
  record.published.accepted = true;
  if (!has_listener(record)) return;
  const BatchStatus status = record.status();
  publish(record, EventKind::kAccepted, status);
  if (record.published.end_waits) publish_end(record, status);
}

void Events::publish_end(BatchRecord& record, const BatchStatus& status) {
  record.published.end_waits = !record.published.accepted;
  if (record.published.end_waits) return;
  publish(record, status.state == BatchState::kDone ? EventKind::kDone : EventKind::kCancelled, status);
}

void Events::publish(const BatchRecord& record, EventKind kind, const BatchStatus& status) {
  if (!has_listener(record)) return;
  const auto message = std::make_shared<const std::string>(event_json(record, kind, status));
  const ChannelEvent of_this{channel_of(record), message};
  const ChannelEvent of_all{std::string(kAllBatches), message};
  for (const std::string_view name : {std::string_view(record.options().tenant), kEverything}) {
    const Audience* const audience = audience_of(name);
    if (audience == nullptr) continue;
    deliver(*audience, of_this);
    deliver(*audience, of_all);
  }
  stats_.events_published.add(1);
}

void Events::deliver(const Audience& audience, const ChannelEvent& event) {
  if (const auto found = audience.channels.find(event.channel); found != audience.channels.end()) {
    for (Subscriber* subscriber : found->second) subscriber->deliver({}, event.channel, *event.message);
  }
  for (Subscriber* subscriber : audience.to_all) subscriber->queue_event(event);
}

}  // namespace locksley::daemon
