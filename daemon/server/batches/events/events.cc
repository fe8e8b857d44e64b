#include "daemon/server/batches/events/events.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/batch/handler.h"
#include "daemon/server/accounts/tenants.h"

namespace locksley::daemon {

namespace {
constexpr std::string_view kAllBatches = "batches";
std::string channel_of(const BatchRecord& record) { return "batch:" + record.id(); }

// The bytes that a waiting event takes.
std::uint64_t bytes_of(const ChannelEvent& event) {
  return sizeof event + event.channel.size() + event.message->size();
}
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
  if (found != audiences_.end()) return found->second;
  return audiences_.try_emplace(std::string(name), slices_).first->second;
}

const Events::Audience* Events::audience_of(std::string_view name) const {
  const auto found = audiences_.find(name);
  return found == audiences_.end() ? nullptr : &found->second;
}

void Events::drop_if_empty(Audiences::iterator audience) {
  if (!audience->second.channels.empty() || !audience->second.to_all.empty()) return;
  while (!audience->second.waiting.empty()) drop_first(audience->second);
  audiences_.erase(audience);
}

bool Events::subscribe(Subscriber& subscriber, std::string_view audience, std::string_view channel) {
  Audience& of = audience_for(audience);
  if (of.is_overrun) subscriber.miss_events();
  Topics& channels = of.channels;
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
  Audience& of = audience_for(audience);
  if (of.is_overrun) subscriber.miss_events();
  of.to_all.insert(&subscriber);
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
  if (record.published.start_waits) publish_started(record, status, now());
  if (record.published.end_waits) publish_end(record, status);
}

void Events::publish_started(BatchRecord& record, const BatchStatus& status, Instant at) {
  if (record.published.started) return;
  record.published.start_waits = !record.published.accepted;
  if (record.published.start_waits) return;
  record.published.started = true;
  publish(record, EventKind::kStarted, status);
  record.published.progress = at;
}

void Events::publish_end(BatchRecord& record, const BatchStatus& status) {
  record.published.end_waits = !record.published.accepted;
  if (record.published.end_waits) return;
  publish(record, status.state == BatchState::kDone ? EventKind::kDone : EventKind::kCancelled, status);
}

void Events::publish(const BatchRecord& record, EventKind kind, const BatchStatus& status) {
  if (!has_listener(record)) return;
  const auto message = std::make_shared<const std::string>(event_json(record, kind, status));
  const Tenant* const owner = record.charged.tenant;
  const ChannelEvent of_this{channel_of(record), message, owner};
  const ChannelEvent of_all{std::string(kAllBatches), message, owner};
  for (const std::string_view name : {std::string_view(record.options().tenant), kEverything}) {
    const auto found = audiences_.find(name);
    if (found == audiences_.end()) continue;
    send(found->first, found->second, record, of_this);
    send(found->first, found->second, record, of_all);
  }
  stats_.events_published.add(1);
}

std::size_t Events::count_listeners(const Audience& audience, std::string_view channel) {
  const auto found = audience.channels.find(channel);
  return audience.to_all.size() + (found == audience.channels.end() ? 0 : found->second.size());
}

void Events::send(const std::string& name, Audience& audience, const BatchRecord& record,
                  const ChannelEvent& event) {
  const std::size_t listeners = count_listeners(audience, event.channel);
  if (listeners == 0 || audience.is_overrun) return;
  const bool is_delivered_now = audience.waiting.empty() && listeners <= kAtOnce;
  Tenant* const payer = is_delivered_now || name == kEverything ? nullptr : record.charged.tenant;
  audience.waiting.push_back({event, payer});
  if (is_delivered_now) {
    go_on(audience, Instant::max());
    return;
  }
  if (payer != nullptr) payer->account.charge(Resource::kClientBytes, bytes_of(event));
  if (audience.waiting.size() > kMostWaiting) overrun(audience);
  const LineNumber line = payer == nullptr ? kDaemonsLine : line_of_tenant(payer->number);
  audience.going_on.start(
      [this, &audience](Instant until) {
        kIoThread.assert_held();
        return go_on(audience, until);
      },
      line);
}

template <class Tell>
bool Events::tell_until(const Subscribers& subscribers, Subscriber*& last, Instant until, Tell tell) {
  auto next = last == nullptr ? subscribers.begin() : subscribers.upper_bound(last);
  for (; next != subscribers.end(); ++next) {
    tell(**next);
    last = *next;
    if (until != Instant::max() && now() >= until) return false;
  }
  last = nullptr;
  return true;
}

bool Events::go_on(Audience& audience, Instant until) {
  if (audience.is_overrun) return tell_missed(audience, until);
  while (!audience.waiting.empty()) {
    const ChannelEvent& event = audience.waiting.front().event;
    if (audience.step == Audience::Step::kChannel) {
      const auto found = audience.channels.find(event.channel);
      const auto deliver = [&event](Subscriber& to) { to.deliver(event); };
      if (found != audience.channels.end() && !tell_until(found->second, audience.last, until, deliver))
        return false;
      audience.last = nullptr;
      audience.step = Audience::Step::kAll;
    }
    const auto queue = [&event](Subscriber& to) { to.queue_event(event); };
    if (!tell_until(audience.to_all, audience.last, until, queue)) return false;
    drop_first(audience);
  }
  return true;
}

void Events::drop_first(Audience& audience) {
  const Waiting& first = audience.waiting.front();
  if (first.tenant != nullptr) first.tenant->account.refund(Resource::kClientBytes, bytes_of(first.event));
  audience.waiting.pop_front();
  audience.step = Audience::Step::kChannel;
  audience.last = nullptr;
}

void Events::overrun(Audience& audience) {
  while (!audience.waiting.empty()) drop_first(audience);
  audience.is_overrun = true;
  audience.told_up_to.clear();
}

bool Events::tell_missed(Audience& audience, Instant until) {
  const auto tell = [](Subscriber& to) { to.miss_events(); };
  if (audience.step == Audience::Step::kChannel) {
    for (auto next = audience.channels.lower_bound(audience.told_up_to); next != audience.channels.end();
         ++next) {
      if (next->first != audience.told_up_to) audience.last = nullptr;
      audience.told_up_to = next->first;
      if (!tell_until(next->second, audience.last, until, tell)) return false;
    }
    audience.last = nullptr;
    audience.step = Audience::Step::kAll;
  }
  if (!tell_until(audience.to_all, audience.last, until, tell)) return false;
  audience.step = Audience::Step::kChannel;
  audience.is_overrun = false;
  return true;
}

}  // namespace locksley::daemon
