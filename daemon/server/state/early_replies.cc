#include "daemon/server/state/early_replies.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "daemon/base/net/send_now.h"

namespace locksley::daemon {

std::optional<EarlyReplies::Place> EarlyReplies::offer(Ticket ticket, int socket,
                                                       const proto::OutputBuffer& bytes) {
  std::array<std::string_view, 1> view;
  if (bytes.size() > kMostBytes || bytes.gather(view) != 1 || view[0].size() != bytes.size()) return {};
  const MutexLock lock(mutex_);
  const auto free = std::ranges::find(entries_, State::kFree, &Entry::state);
  if (free == entries_.end()) return {};
  free->state = State::kOffered;
  free->ticket = ticket;
  free->socket = socket;
  free->size = bytes.size();
  std::copy_n(view[0].data(), view[0].size(), free->bytes.data());
  return static_cast<Place>(free - entries_.begin());
}

std::size_t EarlyReplies::take_back(Place place) {
  const MutexLock lock(mutex_);
  Entry& entry = entries_[place];
  while (entry.state == State::kBeingSent) sent_.wait(mutex_);
  const std::size_t sent = entry.state == State::kSent ? entry.size : 0;
  entry.state = State::kFree;
  return sent;
}

void EarlyReplies::send(Ticket ticket) {
  struct Sending {
    Place place = 0;
    int socket = -1;
    std::size_t size = 0;
    std::array<char, kMostBytes> bytes;
  };
  std::array<Sending, kMost> all;
  std::size_t count = 0;
  {
    const MutexLock lock(mutex_);
    for (Place place = 0; place < kMost; ++place) {
      Entry& entry = entries_[place];
      // Not an earlier ticket: the reply of a failed group may not have been taken back yet.
      if (entry.state != State::kOffered || entry.ticket != ticket) continue;
      entry.state = State::kBeingSent;
      Sending& sending = all[count++];
      sending.place = place;
      sending.socket = entry.socket;
      sending.size = entry.size;
      std::copy_n(entry.bytes.data(), entry.size, sending.bytes.data());
    }
  }
  if (count == 0) return;
  const auto some = std::span(all).first(count);
  for (Sending& each : some) {
    const std::string_view bytes(each.bytes.data(), each.size);
    // The I/O thread will find out that the connection is broken.
    each.size = send_now(each.socket, {&bytes, 1}).value_or(0);
  }
  {
    const MutexLock lock(mutex_);
    for (const Sending& each : some) {
      entries_[each.place].size = each.size;
      entries_[each.place].state = State::kSent;
    }
  }
  sent_.notify_all();
}

}  // namespace locksley::daemon
