// The bytes of one connection between the I/O thread and its network thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "core/pool/worker_stats.h"
#include "core/sync/mutex.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/user_lines.h"
#include "daemon/network/counted_lock.h"
#include "daemon/network/relay_buffer.h"

namespace locksley::daemon {

class RelayEnd;

// The bytes of one connection between the I/O thread, which parses and executes, and the network
// thread that has its socket: a bounded buffer each way, and the news and orders of one thread for
// the other. It knows neither sockets nor threads: each function returns whether the other thread
// must be notified, and the caller notifies it.
//
// Shared by the RelayEnd of the I/O thread, the RelayedConnection of the network thread, and the
// news that is on its way between them; the last of these drops it. The LargeBuffers outlive it.
// Each function belongs to one of the two threads. It holds the mutex for an exchange of two
// buffers, or for a copy of one buffer's bytes; `waits` is the counter of the calling thread.
// Nothing else blocks. Only allocation fails.
//
// The buffers of a peer that has not logged in stay small. Those of other peers are large while
// that is needed and there are not too many large buffers.
class Relay {
 public:
  explicit Relay(LargeBuffers& large) : large_(large) {}

  // News for the I/O thread.
  enum class News : std::uint8_t {
    kInput,  // there is input, or its end
    kRoom,   // there is room for output, or the peer has gone
    kSent,   // the socket has taken all output, or the peer has gone
  };

  // For the two ends, which exchange it with one of the relay.
  RelayBuffer make_buffer() const { return RelayBuffer(large_); }

  // ---- The I/O thread ----

  struct Input {
    bool is_end;  // nothing comes after these bytes
    bool tells_network;
  };
  // Exchanges the received bytes with `into`, which is empty. News::kInput follows as soon as more
  // bytes arrive, or the end.
  Input take_input(RelayBuffer& into, OwnedCounter& waits) LOCKSLEY_EXCLUDES(mutex_);

  struct Put {
    std::size_t bytes;  // that there was room for
    bool is_short;      // that was not all; News::kRoom follows
    bool tells_network;
  };
  // None: the peer has gone.
  std::optional<Put> put_output(std::span<const std::string_view> views, OwnedCounter& waits)
      LOCKSLEY_EXCLUDES(mutex_);

  enum class Order : std::uint8_t {
    kReport,  // News::kSent, once the socket has taken all output
    kShut,    // say that nothing more comes, after the output
    kClose,   // close the socket, after what it takes of the output at once; the last call of the I/O thread
  };
  // True: the caller must notify the network thread.
  bool order(Order order, OwnedCounter& waits) LOCKSLEY_EXCLUDES(mutex_);

  // The user whose connection it is; at first that of a stranger. The network thread learns of it
  // with its next orders.
  void set_line(LineNumber line, OwnedCounter& waits) LOCKSLEY_EXCLUDES(mutex_);

  // The I/O thread's end; null once that is closed.
  void set_end(RelayEnd* end) LOCKSLEY_REQUIRES(kIoThread) { end_ = end; }
  RelayEnd* end() const LOCKSLEY_REQUIRES(kIoThread) { return end_; }

  // ---- The network thread ----

  // How many bytes may be read now. If some, push_input() must follow; if none, take_orders() says
  // when there is room. `wants_much`: the last read filled its space, so that there may be more
  // than a small buffer holds.
  std::size_t room_for_input(bool wants_much, OwnedCounter& waits) LOCKSLEY_EXCLUDES(mutex_);
  // The bytes that were read, perhaps none. Needs: no more than room_for_input(). True:
  // News::kInput.
  bool push_input(std::string_view bytes, OwnedCounter& waits) LOCKSLEY_EXCLUDES(mutex_);
  // True: News::kInput.
  bool end_input(OwnedCounter& waits) LOCKSLEY_EXCLUDES(mutex_);

  struct Orders {
    bool is_full;  // there is no room for input
    bool reports, shuts, closes;
    LineNumber line;  // whose connection it is
  };
  // Called once for each notification of the I/O thread: its next order notifies again.
  Orders take_orders(OwnedCounter& waits) LOCKSLEY_EXCLUDES(mutex_);
  // Exchanges the output with `into`, which is empty. True: News::kRoom.
  bool take_output(RelayBuffer& into, OwnedCounter& waits) LOCKSLEY_EXCLUDES(mutex_);

  struct Failed {
    bool tells_input, tells_room;
  };
  // No more bytes can be sent. Received bytes can still be taken.
  Failed fail(OwnedCounter& waits) LOCKSLEY_EXCLUDES(mutex_);

 private:
  LargeBuffers& large_;
  RelayEnd* end_ LOCKSLEY_GUARDED_BY(kIoThread) = nullptr;

  Mutex mutex_;
  RelayBuffer input_ LOCKSLEY_GUARDED_BY(mutex_){large_};
  RelayBuffer output_ LOCKSLEY_GUARDED_BY(mutex_){large_};
  LineNumber line_ LOCKSLEY_GUARDED_BY(mutex_) = kStrangersLine;
  bool is_ended_ LOCKSLEY_GUARDED_BY(mutex_) = false;         // the input
  bool has_failed_ LOCKSLEY_GUARDED_BY(mutex_) = false;       // the output
  bool awaits_input_ LOCKSLEY_GUARDED_BY(mutex_) = true;      // the I/O thread
  bool awaits_room_ LOCKSLEY_GUARDED_BY(mutex_) = false;      // the I/O thread
  bool is_full_ LOCKSLEY_GUARDED_BY(mutex_) = false;          // the network thread has stopped reading
  bool network_is_told_ LOCKSLEY_GUARDED_BY(mutex_) = false;  // and has not taken the orders yet
  bool reports_ LOCKSLEY_GUARDED_BY(mutex_) = false;          // orders
  bool shuts_ LOCKSLEY_GUARDED_BY(mutex_) = false;
  bool closes_ LOCKSLEY_GUARDED_BY(mutex_) = false;
};

}  // namespace locksley::daemon
