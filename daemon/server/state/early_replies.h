// Replies that the store's writer sends itself.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "core/sync/mutex.h"
#include "daemon/store/engine/writer_thread.h"
#include "daemon/store/write/ticket.h"
#include "proto/output_buffer.h"

namespace locksley::daemon {

// Replies that the store's writer sends itself, as soon as its group is on the disk: a client that
// is alone need not wait until the I/O thread has been woken. The I/O thread offers a reply, and
// learns how much of it was sent when it takes it back, at the latest with the outcome of the
// store. If the group failed, nothing was sent.
//
// There are places for kMost replies, each of at most kMostBytes: with many clients the I/O thread
// is awake anyway.
//
// Owned by HeldReplies. Functions say which thread calls them. The mutex is not held while a socket
// is written. Only take_back() blocks, while the writer sends the reply; the writer never waits for
// a peer. If the peer has gone or its socket takes no more bytes, the I/O thread sends the rest.
class EarlyReplies {
 public:
  static constexpr std::size_t kMost = 16;        // measured: ten clients gain, a hundred would lose
  static constexpr std::size_t kMostBytes = 120;  // of a reply: an id of the client's own, mostly
  using Place = std::size_t;

  EarlyReplies() = default;
  EarlyReplies(const EarlyReplies&) = delete;
  EarlyReplies& operator=(const EarlyReplies&) = delete;

  // ---- The I/O thread ----

  // The writer may send these bytes to this socket once the group of this ticket is written. None:
  // there is no place, or they are too many. Needs: nothing else is sent to the socket, nor is it
  // closed, before take_back().
  std::optional<Place> offer(Ticket ticket, int socket, const proto::OutputBuffer& bytes)
      LOCKSLEY_EXCLUDES(mutex_);
  // How many bytes were sent; none are sent afterwards.
  std::size_t take_back(Place place) LOCKSLEY_EXCLUDES(mutex_);

  // ---- The store's writer ----

  // The group of this ticket is on the disk, and the I/O thread does not know it yet.
  void send(Ticket ticket) LOCKSLEY_REQUIRES(kStoreWriter) LOCKSLEY_EXCLUDES(mutex_);

 private:
  enum class State : unsigned char { kFree, kOffered, kBeingSent, kSent };
  struct Entry {
    State state = State::kFree;
    Ticket ticket = 0;
    int socket = -1;
    std::size_t size = 0;  // of the bytes; once they are sent, how many the socket took
    std::array<char, kMostBytes> bytes{};
  };

  Mutex mutex_;
  CondVar sent_;  // take_back() waits for it
  std::array<Entry, kMost> entries_ LOCKSLEY_GUARDED_BY(mutex_);
};

}  // namespace locksley::daemon
