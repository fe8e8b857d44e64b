// The events of batches, and which subscribers get each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/sliced_work.h"
#include "daemon/base/loop/slices.h"
#include "daemon/base/time.h"
#include "daemon/metrics/server_stats.h"
#include "daemon/server/records/batch_record.h"

namespace locksley::daemon {

struct Tenant;

// The events of a batch that are published.
enum class EventKind : std::uint8_t { kAccepted, kStarted, kProgress, kDone, kCancelled };
std::string_view to_string(EventKind kind);

// The payload of a message: a JSON object with the batch's id, the event and the counts.
std::string event_json(const BatchRecord& record, EventKind kind, const BatchStatus& status);

// An event on one of its channels, as a pattern may match it.
struct ChannelEvent {
  std::string channel;
  std::shared_ptr<const std::string> message;
  const Tenant* owner = nullptr;  // of the batch
};

// A subscriber: a connection. An interface, so that Events can be tested without connections. Both
// calls must not block, and must not subscribe or unsubscribe: a subscriber that cannot take a
// message drops its connection later.
class Subscriber {
 public:
  virtual ~Subscriber() = default;
  // An event of the subscriber's audience, on a channel to which it subscribed.
  virtual void deliver(const ChannelEvent& event) = 0;
  // An event of the subscriber's audience. The subscriber queues it, and matches it with its
  // patterns later, in its own turn.
  virtual void queue_event(const ChannelEvent& event) = 0;
  // The subscriber will not receive all events: its audience has more subscribers and events than
  // the daemon can deliver.
  virtual void miss_events() = 0;
};

// The subscriptions of all connections, and the publication of events to them. There are two kinds
// of channels, `batch:<id>` and `batches`; a connection may subscribe to other names, which stay
// silent, as in Redis. A subscriber's audience decides which events it receives: those of one
// tenant's batches, or of all (kEverything).
//
// Owned by Batches; the I/O thread only. A subscriber unsubscribes before it is destroyed. Nothing
// blocks. Without subscribers an event costs one comparison; with subscribers, one look-up in a
// hash table for each channel. Patterns are not matched here, because ten thousand patterns of a
// hostile client would delay all connections at each event. Subscribers that have patterns receive
// every event of their audience instead (queue_event()), and match it in their own turn.
//
// An event with more than kAtOnce subscribers is delivered in slices. Meanwhile the next events of
// its audience wait. Events of a tenant's audience wait in the tenant's line of Slices, and are
// charged to the tenant like the memory of its connections. Events of the audience of all wait in
// the daemon's line and are charged to no tenant, because the owners of the batches did not
// subscribe.
// If kMostWaiting events of an audience wait, the daemon cannot keep up. Then it tells all
// subscribers of the audience (Subscriber::miss_events()), and they close their connections.
class Events {
 public:
  static constexpr std::size_t kAtOnce = 16;         // guess: some 40 us
  static constexpr std::size_t kMostWaiting = 4096;  // of an audience; guess: some 4 MB

  Events(ServerStats& stats, Slices& slices) : stats_(stats), slices_(slices) {}
  Events(const Events&) = delete;
  Events& operator=(const Events&) = delete;

  // No tenant has that name.
  static constexpr std::string_view kEverything = "";

  // False, without effect, if the subscription exists already, or does not exist. `audience`: a
  // tenant's name, or kEverything.
  bool subscribe(Subscriber& subscriber, std::string_view audience, std::string_view channel)
      LOCKSLEY_REQUIRES(kIoThread);
  bool unsubscribe(Subscriber& subscriber, std::string_view audience, std::string_view channel)
      LOCKSLEY_REQUIRES(kIoThread);
  // Begins or ends the delivery of every event of that audience by queue_event().
  void subscribe_to_all(Subscriber& subscriber, std::string_view audience) LOCKSLEY_REQUIRES(kIoThread);
  void unsubscribe_from_all(Subscriber& subscriber, std::string_view audience) LOCKSLEY_REQUIRES(kIoThread);

  // Whether this batch's events may have subscribers; cheap while there are none at all.
  bool has_listener(const BatchRecord& record) const LOCKSLEY_REQUIRES(kIoThread);

  // The batch is accepted: publishes that, then its start and its end, if it has started and is
  // over already.
  void publish_accepted(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);
  // A job of the batch has started; publishes that once. If the batch is not accepted yet,
  // publish_accepted() publishes the start later.
  void publish_started(BatchRecord& record, const BatchStatus& status, Instant at)
      LOCKSLEY_REQUIRES(kIoThread);
  // The batch is over; publishes that, now or in publish_accepted(), as publish_started() does.
  void publish_end(BatchRecord& record, const BatchStatus& status) LOCKSLEY_REQUIRES(kIoThread);

  // Sends the event to its subscribers.
  void publish(const BatchRecord& record, EventKind kind, const BatchStatus& status)
      LOCKSLEY_REQUIRES(kIoThread);

 private:
  // Trees: a hash table moves all its entries at once when it grows, which took 100 ms with 400,000
  // channels. Their order lets a delivery go on where it stopped.
  using Subscribers = std::set<Subscriber*>;
  using Topics = std::map<std::string, Subscribers, std::less<>>;
  struct Waiting {
    ChannelEvent event;
    Tenant* tenant;  // that is charged; null: none
  };
  // The subscribers of one audience; never empty.
  struct Audience {
    explicit Audience(Slices& slices) : going_on(slices) {}
    Topics channels;
    Subscribers to_all;  // those that have patterns
    std::deque<Waiting> waiting;
    // How far the delivery of the first waiting event has come: `last` is the last subscriber of
    // this step that has it; null: none.
    enum class Step : std::uint8_t { kChannel, kAll } step = Step::kChannel;
    Subscriber* last = nullptr;
    // All subscribers are being told that they miss events. Already told: the subscribers of the
    // channels before `told_up_to`, and of that channel up to `last`.
    bool is_overrun = false;
    std::string told_up_to = {};
    SlicedWork going_on;  // go_on()
  };
  using Audiences = std::map<std::string, Audience, std::less<>>;
  Audience& audience_for(std::string_view name) LOCKSLEY_REQUIRES(kIoThread);
  const Audience* audience_of(std::string_view name) const LOCKSLEY_REQUIRES(kIoThread);
  void drop_if_empty(Audiences::iterator audience) LOCKSLEY_REQUIRES(kIoThread);
  void send(const std::string& name, Audience& audience, const BatchRecord& record, const ChannelEvent& event)
      LOCKSLEY_REQUIRES(kIoThread);
  // Delivers what waits, or tells that events are missed, until about `until`. True if nothing is
  // left.
  bool go_on(Audience& audience, Instant until) LOCKSLEY_REQUIRES(kIoThread);
  bool tell_missed(Audience& audience, Instant until) LOCKSLEY_REQUIRES(kIoThread);
  static void drop_first(Audience& audience);
  static void overrun(Audience& audience);
  static std::size_t count_listeners(const Audience& audience, std::string_view channel);
  // Calls `tell` for the subscribers after `last`, and advances `last`; null: for all. True if it
  // came to the end.
  template <class Tell>
  static bool tell_until(const Subscribers& subscribers, Subscriber*& last, Instant until, Tell tell);

  ServerStats& stats_;
  Slices& slices_;
  Audiences audiences_ LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon
