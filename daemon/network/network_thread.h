// A thread that moves the bytes of many connections, and the orders that the I/O thread gives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/pool/worker_stats.h"
#include "core/sync/mutex.h"
#include "core/sync/thread_role.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/user_lines.h"
#include "daemon/network/ready_relays.h"
#include "daemon/network/relayed_connection.h"

namespace locksley::daemon {

// The role of a network thread. Each has connections of its own.
inline constexpr ThreadRole kNetworkThread;

// One thread that moves the bytes of its connections between their sockets and their relays, and
// encrypts and decrypts them. It works in rounds. A round asks epoll which sockets are ready; takes
// the orders of the I/O thread; puts the connections of both into the lines of their users; serves
// a few connections from these lines, users in turn; and hands the news of all of them to the I/O
// thread. So a connection of one user waits for a few of another one, however many of these are
// ready, as it does for its turn on the I/O thread (../base/loop/turns.h). Connections that move
// much at a time have lines of their own, of which a round serves fewer, so that one with a short
// command does not wait for all of them.
//
// The thread can take an order as soon as it is given, so a reply waits for no other work of the
// I/O thread. An order wakes the thread only if it sleeps. While it executes orders, it takes all
// that follow with one lock, so under load one wake-up serves many orders.
//
// It does not use Asio, which changes the set of epoll for each wait. Here a socket is registered
// once, edge-triggered, and costs no further call but reads, writes and its share of a wait.
//
// Owned by NetworkThreads; the ReadyRelays outlive it. The I/O thread only, but for what run()
// calls. Nothing blocks but stop(). Only start() fails. At rest it sleeps; before that it polls for
// a while, as the I/O thread does (core/sync/adaptive_spin.h).
class NetworkThread {
 public:
  // Each counter has one writer; any thread may read it.
  struct Stats {
    OwnedCounter connections;  // gauge
    OwnedCounter io_waits;     // times that the I/O thread waited for a mutex that it shares with this thread
    OwnedCounter network_waits;  // times that this thread did
    OwnedCounter wakeups;        // system calls of the I/O thread to wake this one
  };

  // `may_look`: as IoLoopHooks::may_poll; this thread calls it.
  NetworkThread(ReadyRelays& ready, std::function<bool()> may_look);
  // Needs: it was stopped, or not started.
  ~NetworkThread();
  NetworkThread(const NetworkThread&) = delete;
  NetworkThread& operator=(const NetworkThread&) = delete;

  // Throws std::system_error.
  void start();
  // The thread executes the orders that it was given, closes the remaining connections, and ends.
  // No effect if it was not started, or has ended.
  void stop() LOCKSLEY_REQUIRES(kIoThread);

  // ---- For RelayEnd ----

  // A connection that is its own from here on.
  RelayedConnection& adopt(std::unique_ptr<RelayedConnection> connection) LOCKSLEY_REQUIRES(kIoThread);
  // There are orders for it, or output, or room for input.
  void notify(RelayedConnection& connection) LOCKSLEY_REQUIRES(kIoThread);
  // A connection was ended by its last order.
  void forget() LOCKSLEY_REQUIRES(kIoThread) { stats_.connections.set(stats_.connections.get() - 1); }
  ReadyRelays& ready() { return ready_; }
  Stats& stats() { return stats_; }
  const Stats& stats() const { return stats_; }

 private:
  struct Orders {
    std::vector<std::unique_ptr<RelayedConnection>> adopted;
    std::vector<RelayedConnection*> told;  // each is there: it ends with its last order

    bool empty() const { return adopted.empty() && told.empty(); }
  };
  enum class Wait : std::uint8_t { kNo, kUntilReady };

  static constexpr std::size_t kMostEvents = 128;
  static constexpr int kMostPolls = 64;               // a round: 8,192 sockets, some ms
  static constexpr std::size_t kMostServed = 16;      // a round; guess: some 50 us
  static constexpr std::size_t kMostHeavyServed = 2;  // beside these; guess: as long
  static constexpr std::size_t kScratchBytes = RelayBuffer::kLarge;

  void wake() LOCKSLEY_REQUIRES(kIoThread);

  void run();
  // Whether there was anything to do.
  bool run_round(Wait wait) LOCKSLEY_REQUIRES(kNetworkThread);
  // Whether there is nothing to do; if so, orders wake it from here on, until take_orders().
  bool may_sleep() LOCKSLEY_REQUIRES(kNetworkThread);
  // Whether there were any.
  bool take_orders() LOCKSLEY_REQUIRES(kNetworkThread);
  void adopt_now(std::unique_ptr<RelayedConnection> connection) LOCKSLEY_REQUIRES(kNetworkThread);
  // Whether there was anything to do.
  bool poll(Wait wait) LOCKSLEY_REQUIRES(kNetworkThread);
  bool serve() LOCKSLEY_REQUIRES(kNetworkThread);
  bool serve(UserLines<RelayedConnection*>& lines, std::size_t most) LOCKSLEY_REQUIRES(kNetworkThread);
  void put_in_line(RelayedConnection& connection) LOCKSLEY_REQUIRES(kNetworkThread);
  void close(RelayedConnection& connection) LOCKSLEY_REQUIRES(kNetworkThread);
  void tell_io() LOCKSLEY_REQUIRES(kNetworkThread);
  RelayedConnection::Round round() LOCKSLEY_REQUIRES(kNetworkThread) {
    return {.scratch = scratch_, .news = news_, .waits = stats_.network_waits};
  }

  // Constant.
  ReadyRelays& ready_;
  const std::function<bool()> may_look_;
  const int epoll_;
  const int wake_up_;  // an eventfd

  Stats stats_;
  std::thread thread_ LOCKSLEY_GUARDED_BY(kIoThread);

  Mutex mutex_;
  Orders orders_ LOCKSLEY_GUARDED_BY(mutex_);
  bool is_asleep_ LOCKSLEY_GUARDED_BY(mutex_) = false;  // or is about to be, and nothing has woken it yet
  bool is_stopping_ LOCKSLEY_GUARDED_BY(mutex_) = false;

  bool is_stopped_ LOCKSLEY_GUARDED_BY(kNetworkThread) = false;
  Orders taken_ LOCKSLEY_GUARDED_BY(kNetworkThread);
  std::unordered_map<RelayedConnection*, std::unique_ptr<RelayedConnection>> connections_
      LOCKSLEY_GUARDED_BY(kNetworkThread);
  // Connections that have something to move; those that moved much the last time have lines of
  // their own.
  UserLines<RelayedConnection*> lines_ LOCKSLEY_GUARDED_BY(kNetworkThread);
  UserLines<RelayedConnection*> heavy_lines_ LOCKSLEY_GUARDED_BY(kNetworkThread);
  std::vector<ReadyRelays::Entry> news_ LOCKSLEY_GUARDED_BY(kNetworkThread);
  std::vector<char> scratch_ LOCKSLEY_GUARDED_BY(kNetworkThread);
};

}  // namespace locksley::daemon
