#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "daemon/server/batch_record.h"
#include "daemon/server/server_stats.h"

namespace locksley::daemon {

// What a batch's subscribers are told of.
enum class EventKind : std::uint8_t { kAccepted, kStarted, kProgress, kDone, kCancelled };
std::string_view to_string(EventKind kind);

// The payload of a message: a JSON object with the batch's id, the event and the counts.
std::string event_json(const BatchRecord& record, EventKind kind, const BatchStatus& status);

// What a pattern may match: an event on one of its channels.
struct ChannelEvent {
  std::string channel;
  std::shared_ptr<const std::string> message;
};

// Whoever subscribes: a connection. An interface, so that the hub can be tested without one.
class Subscriber {
 public:
  virtual ~Subscriber() = default;
  // A message for a channel (and, if `pattern` is not empty, because of a pattern) that it subscribed to.
  // Must not block and must not subscribe or unsubscribe inside the call: who cannot take it has itself
  // dropped, later.
  virtual void deliver(std::string_view pattern, std::string_view channel, std::string_view message) = 0;
  // An event, for who subscribed to patterns: which of them match it is its own affair, and on its own time.
  // As deliver().
  virtual void offer(const ChannelEvent& event) = 0;
};

// Who subscribes to what. Channels: `batch:<id>` and `batches`; others may be subscribed to and stay silent,
// as in Redis. A subscriber hears of one tenant's batches, or of all (kEverything): that is its audience.
//
// Owned by the Server; the I/O thread only. Subscribers outlive their subscriptions (they unsubscribe before
// they go). Nothing blocks. With no subscriber at all an event costs one comparison; a channel costs a hash.
// Patterns are not matched here: ten thousand hostile ones would hold up everybody at each event. Each event
// is offered to every subscriber of its audience that has any.
class Events {
 public:
  explicit Events(ServerStats& stats) : stats_(stats) {}
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  // No tenant has that name.
  static constexpr std::string_view kEverything = "";

  // False if it was so already. `audience`: a tenant's name, or kEverything.
  bool subscribe(Subscriber& subscriber, std::string_view audience, std::string_view channel);
  bool unsubscribe(Subscriber& subscriber, std::string_view audience, std::string_view channel);
  // Every event of that audience is offered to it from now on, or no longer.
  void offer_all(Subscriber& subscriber, std::string_view audience);
  void offer_none(Subscriber& subscriber, std::string_view audience);

  // Whether anybody may listen to this batch; cheap when nobody listens to anything.
  bool has_listener(const BatchRecord& record) const;

  // Tells everybody who listens.
  void publish(const BatchRecord& record, EventKind kind, const BatchStatus& status);

 private:
  using Subscribers = std::unordered_set<Subscriber*>;
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  using Topics = std::unordered_map<std::string, Subscribers, Hash, std::equal_to<>>;
  // What one audience listens to; somebody does.
  struct Audience {
    Topics channels;
    Subscribers to_all;  // have patterns
  };
  using Audiences = std::unordered_map<std::string, Audience, Hash, std::equal_to<>>;
  Audience& audience_for(std::string_view name);
  const Audience* audience_of(std::string_view name) const;
  void drop_if_empty(Audiences::iterator audience);
  static void deliver(const Audience& audience, const ChannelEvent& event);

  ServerStats& stats_;
  Audiences audiences_;
};

}  // namespace locksley::daemon
