// How a command of a connection waits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/base/loop/wakeup.h"
#include "daemon/base/time.h"
#include "daemon/connection/connection.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/session/waiter_place.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {

class Session;

// How a command of one connection waits: for a batch, for a row that is read from the store, for an
// answer of another thread, or for its turn among the long work of its user. Meanwhile the
// connection sleeps on its Wakeup and sends replies. While it waits for a batch it also reads
// pipelined commands.
//
// A member of a Session, whose other parts it uses: the input, the replies, the messages. Waits for
// the socket and the timer share the session. The I/O thread only. Nothing blocks. A peer that has
// gone ends the wait.
class CommandWaits {
 public:
  // How often a waiting command whose input is full checks whether its peer is still there. Guess.
  static constexpr auto kLookAtPeer = std::chrono::seconds(1);
  static constexpr auto kLookAtRole = std::chrono::milliseconds(50);  // while output is withheld; guess

  CommandWaits(Session& session, ServerState& state, Connection& connection)
      : session_(session), state_(state), connection_(connection) {}
  CommandWaits(const CommandWaits&) = delete;
  CommandWaits& operator=(const CommandWaits&) = delete;

  enum class Awaited : std::uint8_t {
    kDone,
    kTimeout,
    kGone,  // the peer has gone or the connection is to close: no reply is wanted
  };
  // Waits until `done(*record)`, or until the deadline. Checks `done` when the batch is over or has
  // the row `row` (BatchRecord::kItsEnd: when it is over).
  template <class Done>
  Coroutine<Awaited> await_batch(std::shared_ptr<BatchRecord> record, Done done, Instant deadline,
                                 std::uint64_t row = BatchRecord::kItsEnd) LOCKSLEY_REQUIRES(kIoThread);
  // Waits for rows of the batch that are being read from the store, which takes a moment: a peer
  // that has closed its side gets the reply all the same. False if the connection is to close.
  template <class Done>
  Coroutine<bool> await_rows(std::shared_ptr<BatchRecord> record, Done done) LOCKSLEY_REQUIRES(kIoThread);
  // Waits in the same way until `done()`; the code that makes it true calls Session::wake().
  template <class Done>
  Coroutine<bool> await(Done done) LOCKSLEY_REQUIRES(kIoThread);
  // Waits for its place in the line of its user's long work, and then has about a slice.
  auto wait_for_slice() LOCKSLEY_REQUIRES(kIoThread) {
    return state_.slices().wait_for_slice(connection_.wakeup().line());
  }
  // For a command that does very many small things, once its time is used up: waits for its next
  // slice. `held`: the bytes that it holds meanwhile, for SessionMemory::update(). False: the
  // connection is to close.
  Coroutine<bool> let_others(Slices::Spending& time, std::size_t held = 0) LOCKSLEY_REQUIRES(kIoThread);

  // Wakes the coroutine when more of the output may be sent, if there is any. For a connection that
  // comes to rest.
  void wait_to_send() LOCKSLEY_REQUIRES(kIoThread);

 private:
  bool is_dropped() const { return connection_.life().is_dropped(); }
  // As SessionReplies::flush(), and drops the connection if the peer has gone. False if it is
  // dropped.
  bool flush_or_drop() LOCKSLEY_REQUIRES(kIoThread);
  // Reads and writes as far as the socket is ready. False if no reply is wanted any more.
  bool serve_socket() LOCKSLEY_REQUIRES(kIoThread);
  void wake_at(Instant at);

  Session& session_;
  ServerState& state_;
  Connection& connection_;
};

template <class Done>
Coroutine<CommandWaits::Awaited> CommandWaits::await_batch(std::shared_ptr<BatchRecord> record, Done done,
                                                           Instant deadline, std::uint64_t row) {
  Wakeup& wakeup = connection_.wakeup();
  WaiterPlace place(wakeup, state_.stats().blocked, *record, row);
  for (;;) {
    place.rearm();
    if (done(*record)) co_return Awaited::kDone;
    if (deadline != kNever) {
      if (now() >= deadline) co_return Awaited::kTimeout;
      wake_at(deadline);
    }
    if (!serve_socket()) co_return Awaited::kGone;
    if (!wakeup.take()) co_await wakeup.wait();
  }
}

template <class Done>
Coroutine<bool> CommandWaits::await_rows(std::shared_ptr<BatchRecord> record, Done done) {
  Wakeup& wakeup = connection_.wakeup();
  WaiterPlace place(wakeup, state_.stats().blocked, *record, BatchRecord::kReadRows);
  flush_or_drop();
  while (!is_dropped() && !done(*record)) {
    if (!wakeup.take()) co_await wakeup.wait();
    place.rearm();
  }
  co_return !is_dropped();
}

template <class Done>
Coroutine<bool> CommandWaits::await(Done done) {
  Wakeup& wakeup = connection_.wakeup();
  flush_or_drop();
  while (!is_dropped() && !done()) {
    if (!wakeup.take()) co_await wakeup.wait();
  }
  co_return !is_dropped();
}

}  // namespace locksley::daemon
