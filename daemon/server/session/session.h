// One connection of the client port.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/wakeup.h"
#include "daemon/base/time.h"
#include "daemon/connection/connection.h"
#include "daemon/connection/strangers.h"
#include "daemon/network/transport.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/server/session/client_info.h"
#include "daemon/server/session/client_memory.h"
#include "daemon/server/session/command_executor.h"
#include "daemon/server/session/login.h"
#include "daemon/server/session/session_output.h"
#include "daemon/server/session/subscription_moves.h"
#include "daemon/server/session/subscriptions.h"
#include "daemon/server/session/transaction.h"
#include "daemon/server/session/waiter_place.h"
#include "daemon/server/session/write_gate.h"
#include "daemon/server/state/server_state.h"
#include "daemon/store/write/ticket.h"
#include "proto/command_reader.h"
#include "proto/command_table.h"
#include "proto/reply_writer.h"

namespace locksley::daemon {

class Sessions;

// One connection: reads commands, has them executed in order, writes their replies.
//
// It is one coroutine, serve(), that sleeps on one Wakeup. Its socket, the batch that a command
// waits for, a timer and an order to close all wake it, and it checks which of them happened. It
// reads and writes without blocking, and asks Asio only when the socket is ready; so no operation
// is ever cancelled half-way, and no byte is lost by a race. Its parts are classes of their own:
// Connection (the socket from the handshake to the farewell, and the states), SessionOutput
// (replies, and which of them wait for the store), WriteGate (which commands wait for the store),
// Subscriptions, SubscriptionMoves (when the user changes), Login, ClientMemory::Part.
//
// Owned by its coroutine, by the pending waits for the socket and the timer, and by Sessions until
// the coroutine ends; the last of them destroys it. The I/O thread only. Nothing blocks it. An
// error of the connection ends this connection alone.
//
// Bounds:
//   - Input of a turn: up to kMostRead, once all commands that have arrived are executed.
//   - Input while a command waits: up to kBlockedInput. If that is full, a look each kLookAtPeer
//     finds peers that have gone.
//   - Unfinished commands: each may grow to limits.max_command, all of all clients together to
//     limits.max_queued_bytes.
//   - Output. No command is executed while more than kPauseOutput waits for the peer (before
//     authentication: kPauseStranger). The connection is dropped when more than
//     limits.output_buffer waits for its peer. It is also dropped when it holds more than every
//     other connection of its user, and that user is over its client_memory, or all users together
//     are over limits.client_memory and this user holds most for its weight
//     (Sessions::enforce_memory_limit()).
//   - Turns go round users, and then round their connections (Turns). After kTurnCommands,
//     kTurnTime or kTurnOutput the connection goes to the end of its user's line of Slices, and so
//     does one whose last two turns were longer than kCheapTurn while that line is busy.
//   - Time before authentication: limits.login_timeout.
class Session final : private Subscriptions::Sink,
                      private RelayOwner,
                      public std::enable_shared_from_this<Session> {
 public:
  static constexpr std::size_t kPauseOutput = 1 << 20;     // guess: a few socket buffers
  static constexpr std::size_t kPauseStranger = 1 << 14;   // the same before authentication; guess
  static constexpr std::size_t kBlockedInput = 64 * 1024;  // guess: room for a pipeline of small commands
  // How often a waiting command whose input is full looks for its peer. Guess.
  static constexpr auto kLookAtPeer = std::chrono::seconds(1);
  // 1 MiB at once took 4 ms with 130,000 payloads in it, page faults included.
  static constexpr std::size_t kMostRead = 128 * 1024;
  static constexpr auto kLookAtRole = std::chrono::milliseconds(50);  // while output is withheld; guess
  static constexpr int kTurnCommands = 1024;                          // 100 us of PINGs
  static constexpr auto kTurnTime = Slices::kSlice;
  static constexpr auto kCheapTurn = std::chrono::microseconds(100);  // a page of 64 KiB; guess
  static constexpr std::size_t kTurnOutput = 256 * 1024;              // a socket buffer

  Session(Sessions& sessions, Transport transport, std::uint64_t id, std::string peer, std::string local)
      LOCKSLEY_REQUIRES(kIoThread);
  ~Session() override;

  // The connection from its first byte to its end.
  static Coroutine<void> serve(std::shared_ptr<Session> self);

  // ---- Login: session_login.cc ----

  // False until the peer has logged in. While no users are configured, every peer counts as logged
  // in.
  bool is_logged_in() const { return login_.user() != nullptr; }
  // Needs: is_logged_in(). Do not keep the reference: each change of the configuration replaces the
  // object.
  const User& user() const { return *login_.user(); }
  UserRef user_ref() const { return login_.user(); }
  // That of its user. Needs: is_logged_in().
  Account& account() const { return user().tenant().account; }
  // Whether the peer may send commands of this group. False for all until it is logged in.
  bool may(proto::CommandGroup group) const { return login_.may(group); }
  // False, without effect, if the user has all the connections that it may have.
  bool log_in(const UserRef& user, Credential credential) LOCKSLEY_REQUIRES(kIoThread);
  // A password for this connection is being checked, until log_in() or check_failed().
  void check_begins() LOCKSLEY_REQUIRES(kIoThread) { stranger_.check_begins(); }
  void check_failed() LOCKSLEY_REQUIRES(kIoThread);
  // Makes the connection what it was at the beginning.
  void log_out() LOCKSLEY_REQUIRES(kIoThread);
  // After a TLS handshake. False if no user has that certificate, or log_in() refuses.
  bool log_in_by_certificate(std::string_view common_name) LOCKSLEY_REQUIRES(kIoThread);

  // ---- For commands ----

  ServerState& state() { return state_; }
  // All connections.
  Sessions& sessions() { return sessions_; }
  ClientInfo& info() { return info_; }
  Subscriptions& subscriptions() { return subscriptions_; }
  bool is_subscribed() const { return !subscriptions_.empty(); }
  SubscriptionMoves& subscription_moves() { return subscription_moves_; }
  // The commands from MULTI to EXEC.
  Transaction& transaction() { return transaction_; }
  // The audit's line about the command that is executed; null: it has none.
  std::unique_ptr<Audit::Entry>& audit_entry() { return audit_entry_; }
  // Executes the commands of the transaction, which is open and not spoiled, one after another;
  // other connections have their turns in between. Writes one reply, the array of their replies.
  // Ends early if the connection is dropped. session_transaction.cc
  Coroutine<void> run_transaction() LOCKSLEY_REQUIRES(kIoThread);
  // Writes a reply, in the protocol of the connection.
  proto::ReplyWriter reply();
  // Bytes of replies that were written and not sent.
  std::size_t output_size() const { return output_.size(); }
  // Writes the reply that is in `views` (OutputBuffer::of_views()), in slices if it has very many
  // bytes. These stay where they are until all are copied.
  Coroutine<void> reply_in_slices(proto::OutputBuffer views) LOCKSLEY_REQUIRES(kIoThread);
  // Replies of at least this many bytes should be written by reply_in_slices(). Some 100 us of
  // copying.
  static constexpr std::size_t kLargeReply = 256 * 1024;
  // Writes an error reply, and counts it by its code.
  void fail(std::string_view text);
  // The reply that `write(ReplyWriter&)` writes goes out, and all replies after it, once everything
  // up to `ticket` is on the disk; if that write fails, an error goes out in its place. 0: at once.
  // `earlier`: the ticket of an earlier write that the reply reports, too, so that it fails with
  // either; 0: there is none.
  template <class Write>
  void reply_when_stored(Ticket ticket, Write write, Ticket earlier = 0) LOCKSLEY_REQUIRES(kIoThread);
  // Replies that are written from now on go out once the writes up to `ticket` have had their
  // outcome, whatever it is. 0: they wait for nothing new. `earlier`: as above.
  void hold_replies(Ticket ticket, Ticket earlier = 0) LOCKSLEY_REQUIRES(kIoThread);
  // From now on, messages of channels are sent after all replies that were written so far;
  // otherwise they pass the replies that wait for the store. Called after the confirmation of a
  // subscription, and after the reply to HELLO, which changes the form of messages. With RESP2 a
  // subscribed connection can send no command that writes, so its messages never pass a reply.
  void messages_follow() { output_.messages_follow(); }
  // What is written from now on, until all output is sent, may tell of batches: it leaves only
  // while this daemon may still speak of them. Each command that is executed while the daemon is
  // the active one calls it.
  void tell_of_batches() { tells_of_batches_ = true; }
  // After this reply nothing more is executed, and the connection closes once the reply is out.
  void close_after_reply() { life().go_to(Life::kLastReply); }
  // Call it when the memory that the connection holds may have changed. `more`: bytes that a
  // command under way holds.
  void update_memory(std::size_t more = 0) LOCKSLEY_REQUIRES(kIoThread);
  // For ReadMemory: what was read for the command under way counts to that memory until
  // forget_read(), which takes effect with the next update_memory().
  void count_read(std::size_t bytes) LOCKSLEY_REQUIRES(kIoThread);
  void forget_read() { read_bytes_ = 0; }

  enum class Awaited : std::uint8_t {
    kDone,
    kTimeout,
    kGone,  // the peer has gone or the connection is to close: no reply is wanted
  };
  // Waits until `done(*record)`, or until the deadline. Looks when the batch is over or has the row
  // `row` (BatchRecord::kItsEnd: when it is over).
  template <class Done>
  Coroutine<Awaited> await_batch(std::shared_ptr<BatchRecord> record, Done done, Instant deadline,
                                 std::uint64_t row = BatchRecord::kItsEnd) LOCKSLEY_REQUIRES(kIoThread);
  // Waits for rows of the batch that are being read from the store, which takes a moment: a peer
  // that has closed its side gets the reply all the same. False if the connection is to close.
  template <class Done>
  Coroutine<bool> await_rows(std::shared_ptr<BatchRecord> record, Done done) LOCKSLEY_REQUIRES(kIoThread);
  // Waits in the same way until `done()`; the code that makes it true calls wake().
  template <class Done>
  Coroutine<bool> await(Done done) LOCKSLEY_REQUIRES(kIoThread);
  void wake() { wakeup().wake(); }
  // Waits for its place in the line of its user's long work, and then has about a slice.
  auto wait_for_slice() LOCKSLEY_REQUIRES(kIoThread) {
    return state_.slices().wait_for_slice(wakeup().line());
  }
  // For a command that does very many small things, once its time is used up: waits for its next
  // slice. `held`: the bytes that it holds meanwhile, for update_memory(). False: the connection is
  // to close.
  Coroutine<bool> let_others(Slices::Spending& time, std::size_t held = 0) LOCKSLEY_REQUIRES(kIoThread);

  // ---- For Sessions and for other connections ----

  std::uint64_t id() const { return id_; }
  // The line of its user in Slices.
  LineNumber line() { return wakeup().line(); }
  const std::string& peer() const { return connection_.peer(); }
  // Its line in CLIENT LIST.
  std::string describe() const;
  const ClientMemory::Part& memory() const { return memory_; }
  // Closes it soon, without another word: CLIENT KILL, too much output, end of the process.
  void drop(std::string_view reason);
  bool is_dropped() const { return life().is_dropped(); }
  // Drops it, because it holds more than the other connections of its user while `limit` (the key
  // of a limit) is exceeded. From now on its memory does not count.
  void evict(const std::string& limit) LOCKSLEY_REQUIRES(kIoThread);
  // Drops it, because it has not logged in and a new connection needs its place.
  void give_way() LOCKSLEY_REQUIRES(kIoThread);
  // Closes it as soon as its input is executed and what is written is out.
  void finish();
  // The users in force have changed: takes over its user, or drops it if the user was removed or
  // the credential that logged it in has changed.
  void users_changed() LOCKSLEY_REQUIRES(kIoThread);
  // The authorities of client certificates have changed; null: TLS is off. Drops the connection if
  // it needs a certificate (it logged in by one, or every client needs one) and has none of a
  // current authority, and if its handshake is not over. Takes some 0.1 ms if it has a certificate.
  void authorities_changed(const TlsContext* context);
  // The limits in force have changed. limits.idle_timeout counts from now.
  void limits_changed() LOCKSLEY_REQUIRES(kIoThread);

  // ---- For Transport ----

  void socket_is_ready() override { wakeup().wake_here(); }

 private:
  class ExecReply;
  enum class TurnEnd : std::uint8_t { kNeedMore, kYield, kBlock, kClose };

  Transport& transport() { return connection_.transport(); }
  Wakeup& wakeup() { return connection_.wakeup(); }
  ConnectionLife& life() { return connection_.life(); }
  const ConnectionLife& life() const { return connection_.life(); }

  // session.cc
  Coroutine<void> converse() LOCKSLEY_REQUIRES(kIoThread);
  // Executes complete commands until the turn is over. `began`: now, when the turn begins.
  TurnEnd execute(Instant began) LOCKSLEY_REQUIRES(kIoThread);
  TurnEnd refuse_stream() LOCKSLEY_REQUIRES(kIoThread);
  // Nothing more is to be executed or read until some output is sent, or until the command that
  // waits may write.
  bool is_held_up() LOCKSLEY_REQUIRES(kIoThread);
  // WriteGate::wait_unless_room() for the command. Returns whether it waits.
  bool wait_unless_room_to_write(const proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
  // The store has an outcome for the replies `held`. `error`: what it said; empty: the disk has the
  // write.
  void release_replies(SessionOutput::HeldNumber held, const std::string& error) LOCKSLEY_REQUIRES(kIoThread);
  // To free more takes milliseconds: another thread does it.
  static constexpr std::size_t kMuchToFree = 1 << 20;
  void free_if_large(proto::OutputBuffer bytes);
  // Whether the client wants no reply to the command.
  bool is_muted() const;
  // Matches events with the patterns for a turn's time at most.
  void match_events() LOCKSLEY_REQUIRES(kIoThread);
  bool takes_messages() const override { return !is_dropped(); }
  void write_message(std::string_view pattern, std::string_view channel, std::string_view message) override;
  void event_waits() override;
  void events_are_missed() override;
  void end() LOCKSLEY_REQUIRES(kIoThread);

  // session_tls.cc
  // False if the connection ended. A peer that failed gets an error message, after which it closes.
  Coroutine<bool> shake_hands() LOCKSLEY_REQUIRES(kIoThread);
  // The error message for a peer that speaks plainly where TLS is spoken, or the other way round.
  void refuse_plain() LOCKSLEY_REQUIRES(kIoThread);
  void refuse_tls() LOCKSLEY_REQUIRES(kIoThread);

  // session_login.cc
  // Null: no user.
  void set_user(UserRef user, Credential credential) LOCKSLEY_REQUIRES(kIoThread);
  // When the connection closes, unless a user has logged in by then.
  Instant login_deadline() const LOCKSLEY_REQUIRES(kIoThread) {
    return login_.stranger_since() + state_.config().limits.login_timeout;
  }

  // session_io.cc
  // One read of what is there.
  void receive() LOCKSLEY_REQUIRES(kIoThread);
  void update_input_memory() LOCKSLEY_REQUIRES(kIoThread);
  // Of what was received and is not executed yet.
  std::uint64_t input_bytes() const;
  // Frees what was received of a command that is not executed any more. A client that does not
  // close takes no memory for it until its connection is closed here.
  void drop_input() LOCKSLEY_REQUIRES(kIoThread);
  // Gives the memory of what was read back, unless a part of a command is in it.
  void release_input();
  // Writes what the socket takes, unless it is withheld. False if the peer has gone.
  bool flush() LOCKSLEY_REQUIRES(kIoThread);
  // Whether the output has replies or events that tell of batches, and another daemon may have
  // taken these over meanwhile. They were right when they were written. Soon this daemon knows that
  // none has, and sends them, or it ends.
  bool is_withheld() const LOCKSLEY_REQUIRES(kIoThread);
  // Wakes the coroutine when more of the output may be sent, if there is any.
  void wait_to_send() LOCKSLEY_REQUIRES(kIoThread);
  // As those of SessionOutput.
  void offer_early() LOCKSLEY_REQUIRES(kIoThread);
  void take_back_early();
  // As flush(), and drops the connection if the peer has gone. False if it is dropped.
  bool flush_or_drop() LOCKSLEY_REQUIRES(kIoThread);
  bool is_over_output_limit() LOCKSLEY_REQUIRES(kIoThread);
  // While a command waits: reads and writes what the socket allows. False if no reply is wanted any
  // more.
  bool serve_socket() LOCKSLEY_REQUIRES(kIoThread);
  void wake_at(Instant at) { connection_.wake_at(*this, at); }
  // The connection is at rest: gives memory back, and arms the idle timeout, or that of the login.
  // False if that has run out.
  bool rest() LOCKSLEY_REQUIRES(kIoThread);
  // Sends the last replies, and waits for the peer to close.
  Coroutine<void> say_goodbye() LOCKSLEY_REQUIRES(kIoThread);

  Sessions& sessions_;
  ServerState& state_;
  Connection connection_;
  const std::uint64_t id_;
  const std::string local_;

  Login login_;
  Strangers::Entry stranger_ LOCKSLEY_GUARDED_BY(kIoThread);
  ClientInfo info_;

  proto::CommandReader reader_;
  SessionOutput output_;
  Subscriptions subscriptions_;
  SubscriptionMoves subscription_moves_{*this};
  Transaction transaction_;
  std::unique_ptr<Audit::Entry> audit_entry_;
  ClientMemory::Part memory_;
  WriteGate write_gate_;
  std::size_t read_bytes_ = 0;

  proto::Command command_;
  const proto::CommandSpec* spec_ = nullptr;  // of the last command
  std::uint64_t commands_ = 0;
  Instant active_at_;
  bool tells_of_batches_ = false;
  bool was_long_ = false;  // the last turn took longer than kCheapTurn
};

template <class Write>
void Session::reply_when_stored(Ticket ticket, Write write, Ticket earlier) {
  const bool waits = !state_.batches().is_settled(ticket);
  hold_replies(ticket, earlier);
  const std::size_t begin = output_.end().size();
  proto::ReplyWriter writer = reply();
  write(writer);
  if (waits) output_.mark(begin, output_.end().size());
}

template <class Done>
Coroutine<Session::Awaited> Session::await_batch(std::shared_ptr<BatchRecord> record, Done done,
                                                 Instant deadline, std::uint64_t row) {
  WaiterPlace place(wakeup(), state_.stats().blocked, *record, row);
  for (;;) {
    place.rearm();
    if (done(*record)) co_return Awaited::kDone;
    if (deadline != kNever) {
      if (now() >= deadline) co_return Awaited::kTimeout;
      wake_at(deadline);
    }
    if (!serve_socket()) co_return Awaited::kGone;
    if (!wakeup().take()) co_await wakeup().wait();
  }
}

template <class Done>
Coroutine<bool> Session::await_rows(std::shared_ptr<BatchRecord> record, Done done) {
  WaiterPlace place(wakeup(), state_.stats().blocked, *record, BatchRecord::kReadRows);
  flush_or_drop();
  while (!is_dropped() && !done(*record)) {
    if (!wakeup().take()) co_await wakeup().wait();
    place.rearm();
  }
  co_return !is_dropped();
}

template <class Done>
Coroutine<bool> Session::await(Done done) {
  flush_or_drop();
  while (!is_dropped() && !done()) {
    if (!wakeup().take()) co_await wakeup().wait();
  }
  co_return !is_dropped();
}

}  // namespace locksley::daemon
