// One connection between a machine and the owner of the batches.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>

#include "tests/simulation/clock.h"

namespace locksley::daemon::simulation {

// Both directions of a TCP connection: bytes come in order, late, or not before a partition is
// over. Owned by both ends and by the events on their way. One thread.
class Wire : public std::enable_shared_from_this<Wire> {
 public:
  enum class End : std::uint8_t { kOwner, kMachine };
  // What an end does with bytes, and when the other end has closed the connection.
  struct Ears {
    std::function<void(std::string)> receive;
    std::function<void()> closed;
  };

  Wire(Clock& clock, Nanoseconds delay, std::uint64_t seed) : clock_(clock), delay_(delay), random_(seed) {}

  Nanoseconds round_trip() const { return 2 * delay_; }
  void attach(End end, Ears ears) { side(end).ears = std::move(ears); }

  void send(End from, std::string bytes) { put(from, {.bytes = std::move(bytes)}); }
  // This end hears nothing more; the other one does, when it comes through.
  void close(End from) {
    if (!side(from).is_open) return;
    vanish(from);
    put(from, {.is_end = true});
  }
  // This end is gone without a word, as by a loss of power.
  void vanish(End from) {
    side(from).is_open = false;
    side(from).ears = {};
  }
  // The network breaks the connection: both ends hear of it, whatever is on its way.
  void reset() {
    for (const End end : {End::kOwner, End::kMachine}) {
      clock_.after(delay_, [self = shared_from_this(), end] {
        const Ears ears = self->side(end).ears;
        if (ears.closed) ears.closed();
      });
    }
  }
  // A machine on the way breaks the connection for this end alone. The other end is not told, and
  // receives nothing more.
  void reset(End end) {
    clock_.after(delay_, [self = shared_from_this(), end] {
      const Ears ears = self->side(end).ears;
      self->vanish(end);
      if (ears.closed) ears.closed();
    });
  }
  // From now on bytes from this end wait, or come through again.
  void cut(End from, bool is_cut) {
    Side& sender = side(from);
    sender.is_cut = is_cut;
    if (is_cut) return;
    for (Item& item : std::exchange(sender.waiting, {})) travel(from, std::move(item));
  }
  void add_delay(Nanoseconds by) { delay_ += by; }

 private:
  struct Item {
    std::string bytes = {};
    bool is_end = false;
  };
  struct Side {
    Ears ears;
    bool is_open = true;
    bool is_cut = false;
    std::deque<Item> waiting;    // sent from here, and not yet on its way
    Nanoseconds last_arrival{};  // of what was sent from here
  };
  Side& side(End end) { return sides_[static_cast<std::size_t>(end)]; }
  static End other(End end) { return end == End::kOwner ? End::kMachine : End::kOwner; }

  void put(End from, Item item) {
    Side& sender = side(from);
    if (sender.is_cut) {
      sender.waiting.push_back(std::move(item));
    } else {
      travel(from, std::move(item));
    }
  }
  void travel(End from, Item item) {
    const auto most = static_cast<std::uint64_t>(delay_.count() / 4);
    const Nanoseconds jitter{static_cast<std::int64_t>(random_() % (most + 1))};
    Side& sender = side(from);
    sender.last_arrival = std::max(sender.last_arrival, clock_.now() + delay_ + jitter);
    clock_.at(sender.last_arrival, [self = shared_from_this(), from, item = std::move(item)] {
      // A copy: the ears may hang up.
      const Ears ears = self->side(other(from)).ears;
      if (item.is_end) {
        if (ears.closed) ears.closed();
      } else if (ears.receive) {
        ears.receive(item.bytes);
      }
    });
  }

  Clock& clock_;
  Nanoseconds delay_;
  std::mt19937_64 random_;
  std::array<Side, 2> sides_;
};

}  // namespace locksley::daemon::simulation
