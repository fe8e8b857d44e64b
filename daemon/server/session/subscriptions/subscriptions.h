// The channels and patterns of one connection.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/time.h"
#include "daemon/server/batches/events/events.h"
#include "daemon/server/records/batch_record.h"

namespace locksley::daemon {

// The subscriptions of one connection: channels, whose messages Events delivers, and patterns,
// which are matched here, so that their connection bears the cost, and not the connection that
// caused the event.
//
// A member of a Session; clear() comes before it is destroyed. The I/O thread only. Nothing blocks:
// matching takes as long as its caller allows.
class Subscriptions final : public Subscriber {
 public:
  enum class Kind : std::uint8_t { kChannel, kPattern };
  using Topics = std::set<std::string, std::less<>>;

  // The connection's side. Neither call may change subscriptions.
  class Sink {
   public:
    virtual ~Sink() = default;
    // Whether messages are still wanted.
    virtual bool takes_messages() const = 0;
    // A message to write; `pattern` is empty for one of a channel.
    virtual void write_message(std::string_view pattern, std::string_view channel,
                               std::string_view message) = 0;
    // An event waits for match_until().
    virtual void event_waits() = 0;
    // Some events will not come.
    virtual void events_are_missed() = 0;
  };

  // `subscribers`: the gauge of connections that subscribe to something.
  Subscriptions(Events& events, OwnedCounter& subscribers, Sink& sink)
      : events_(events), subscribers_(subscribers), sink_(sink) {}
  Subscriptions(const Subscriptions&) = delete;
  Subscriptions& operator=(const Subscriptions&) = delete;

  // add() has no effect if the connection subscribes to the topic already, remove() none if it does
  // not.
  void add(Kind kind, const std::string& topic) LOCKSLEY_REQUIRES(kIoThread);
  void remove(Kind kind, const std::string& topic) LOCKSLEY_REQUIRES(kIoThread);
  void clear() LOCKSLEY_REQUIRES(kIoThread);
  // clear() in parts: each call goes on until about `until`, and returns whether all is done. As
  // many events as limits.output_buffer lets wait take some 20 ms, and so do ten thousand channels.
  bool clear_until(Instant until) LOCKSLEY_REQUIRES(kIoThread);
  // Sets the audience (Events) whose events the connection receives, in parts, as clear_until().
  // Each call moves at least one channel. Events that were published before stay queued. Between
  // the parts the topics may change. A call with another audience, also with the present one, first
  // takes back an unfinished move. An event that is published during a move comes once, to the
  // audience in which its channel is then. But an event whose delivery is not done when its channel
  // moves (Events::kAtOnce) may be missed, or come from both audiences.
  bool move_until(std::string_view audience, Instant until) LOCKSLEY_REQUIRES(kIoThread);
  // Until a move_until() is done, only events for this audience are received, whichever channels
  // have moved: the user may no longer receive the others.
  void restrict_to(std::string_view audience) LOCKSLEY_REQUIRES(kIoThread);

  const Topics& of(Kind kind) const { return kind == Kind::kChannel ? channels_ : patterns_; }
  bool empty() const { return channels_.empty() && patterns_.empty(); }
  // Whether clear() has nothing to do: events may wait after the last pattern was removed.
  bool is_clear() const { return empty() && waiting_.empty(); }
  std::size_t size() const { return channels_.size() + patterns_.size(); }

  // Matches waiting events with the patterns, in the order of both, and writes those that match;
  // goes on where it stopped the time before. False if the time ran out first.
  bool match_until(Instant deadline);
  bool has_waiting_events() const { return !waiting_.empty(); }

  // Bytes of the waiting events; and of the waiting events and the topics together.
  std::uint64_t waiting_bytes() const { return waiting_bytes_; }
  std::uint64_t memory_bytes() const { return waiting_bytes_ + topic_bytes_; }

  // ---- Subscriber ----

  void deliver(const ChannelEvent& event) override;
  void queue_event(const ChannelEvent& event) override;
  void miss_events() override { sink_.events_are_missed(); }

 private:
  static std::uint64_t bytes_of(const ChannelEvent& event);
  // Whether it is wanted, and restrict_to() allows it.
  bool may_receive(const ChannelEvent& event) const;
  // The audience of the channel: during a move, some channels have the new one already.
  std::string_view audience_of(std::string_view channel) const;
  void count_subscriber(std::int64_t change);
  // Takes back the moved channels of a move_until() to another audience, until about `until`.
  // Returns whether all are back.
  bool take_back_until(Instant until) LOCKSLEY_REQUIRES(kIoThread);
  // Drops the waiting events, since there is no pattern left, until about `until`. Returns whether
  // all are gone.
  bool drop_waiting_until(Instant until);

  Events& events_;
  OwnedCounter& subscribers_;
  Sink& sink_;
  std::string audience_;
  Topics channels_;
  Topics patterns_;
  // A move_until() that is not done: the audience to which the channels move, and the last channel
  // that has moved. None: no move.
  std::string moving_to_;
  std::optional<std::string> moved_up_to_;
  std::optional<std::string> restricted_to_;  // restrict_to(); none: all events of its audience are received
  std::uint64_t topic_bytes_ = 0;
  std::deque<ChannelEvent> waiting_;  // to be matched with the patterns
  std::uint64_t waiting_bytes_ = 0;
  std::string matched_up_to_;  // the last pattern that the first event was matched with; empty: none
};

}  // namespace locksley::daemon
