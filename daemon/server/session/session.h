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
#include "daemon/base/loop/slices.h"
#include "daemon/base/time.h"
#include "daemon/connection/connection.h"
#include "daemon/network/transport.h"
#include "daemon/server/accounts/users.h"
#include "daemon/server/session/client_info.h"
#include "daemon/server/session/command_executor.h"
#include "daemon/server/session/command_waits.h"
#include "daemon/server/session/session_input.h"
#include "daemon/server/session/session_login.h"
#include "daemon/server/session/session_memory.h"
#include "daemon/server/session/session_replies.h"
#include "daemon/server/session/subscriptions/subscription_messages.h"
#include "daemon/server/session/subscriptions/subscription_moves.h"
#include "daemon/server/session/subscriptions/subscriptions.h"
#include "daemon/server/session/transaction.h"
#include "daemon/server/state/server_state.h"
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
// is ever cancelled half-way, and no byte is lost by a race.
//
// This class itself keeps only the order of events: the turns of the connection from its first byte
// to its end, and the orders to close it. All else is in its parts, classes that commands use
// directly: Connection (the socket from the handshake to the farewell, and the states),
// SessionInput (what was received, and which commands wait for the store), SessionReplies (what is
// written, and which of it waits for the store), CommandWaits (how a command waits), SessionLogin
// (the user), SessionMemory (what all of it holds), SubscriptionMessages and SubscriptionMoves,
// Transaction.
//
// Owned by its coroutine, by the pending waits for the socket and the timer, and by Sessions until
// the coroutine ends; the last of them destroys it. The I/O thread only. Nothing blocks it. An
// error of the connection ends this connection alone.
//
// Bounds:
//   - Input of a turn: up to SessionInput::kMostRead, once all commands that have arrived are
//     executed.
//   - Input while a command waits: up to SessionInput::kBlockedInput. If that is full, a check
//     every CommandWaits::kLookAtPeer finds peers that have gone.
//   - Unfinished commands: each may grow to limits.max_command, those of all clients together to
//     limits.max_queued_bytes.
//   - Output. No command is executed while more than kPauseOutput waits for the peer (before
//     authentication: kPauseStranger). The connection is dropped when more than
//     limits.output_buffer waits for its peer. A user over its client_memory loses the connection
//     that holds most. If all users together are over limits.client_memory, the user that holds
//     most for its weight does (Sessions::enforce_memory_limit()).
//   - Turns go round users, and then round their connections (Turns). After kTurnCommands,
//     kTurnTime or kTurnOutput the connection goes to the end of its user's line of Slices. So does
//     a connection whose last two turns were longer than kCheapTurn while that line is busy.
//   - Time before authentication: limits.login_timeout.
class Session final : private RelayOwner, public std::enable_shared_from_this<Session> {
 public:
  static constexpr std::size_t kPauseOutput = 1 << 20;    // guess: a few socket buffers
  static constexpr std::size_t kPauseStranger = 1 << 14;  // the same before authentication; guess
  static constexpr int kTurnCommands = 1024;              // 100 us of PINGs
  static constexpr auto kTurnTime = Slices::kSlice;
  static constexpr auto kCheapTurn = std::chrono::microseconds(100);  // a page of 64 KiB; guess
  static constexpr std::size_t kTurnOutput = 256 * 1024;              // a socket buffer

  Session(Sessions& sessions, Transport transport, std::uint64_t id, std::string peer, std::string local)
      LOCKSLEY_REQUIRES(kIoThread);
  ~Session();

  // The connection from its first byte to its end.
  static Coroutine<void> serve(std::shared_ptr<Session> self);

  // ---- For commands ----

  ServerState& state() { return state_; }
  // All connections.
  Sessions& sessions() { return sessions_; }
  ClientInfo& info() { return info_; }
  SessionLogin& login() { return login_; }
  SessionReplies& replies() { return replies_; }
  CommandWaits& waits() { return waits_; }
  SessionMemory& memory() { return memory_; }
  SessionInput& input() { return input_; }
  SubscriptionMessages& messages() { return messages_; }
  Subscriptions& subscriptions() { return messages_.subscriptions(); }
  bool is_subscribed() const { return !messages_.subscriptions().empty(); }
  SubscriptionMoves& subscription_moves() { return subscription_moves_; }
  // The commands from MULTI to EXEC.
  Transaction& transaction() { return transaction_; }

  // Short forms of what nearly every command calls in SessionLogin and SessionReplies.
  bool is_logged_in() const { return login_.is_logged_in(); }
  const User& user() const { return login_.user(); }
  bool may(proto::CommandGroup group) const { return login_.may(group); }
  proto::ReplyWriter reply() { return replies_.reply(); }
  void fail(std::string_view text) { replies_.fail(text); }

  // After this reply nothing more is executed, and the connection closes once the reply is out.
  void close_after_reply() { life().go_to(Life::kLastReply); }
  // WriteGate::wait_unless_room() for the command. Returns whether it waits.
  bool wait_unless_room_to_write(const proto::Command& command) LOCKSLEY_REQUIRES(kIoThread);
  // Wakes the coroutine, which then checks again whether its wait is over.
  void wake() { connection_.wakeup().wake(); }

  // ---- For Sessions, for its parts and for other connections ----

  std::uint64_t id() const { return id_; }
  // The line of its user in Slices.
  LineNumber line() { return connection_.wakeup().line(); }
  const std::string& peer() const { return connection_.peer(); }
  // Its line in CLIENT LIST.
  std::string describe() const;
  // Closes it soon, and sends nothing more: CLIENT KILL, too much output, end of the process.
  void drop(std::string_view reason);
  bool is_dropped() const { return connection_.life().is_dropped(); }
  // Drops it, because it holds more than the other connections of its user while `limit` (the key
  // of a limit) is exceeded. From now on its memory does not count.
  void evict(const std::string& limit) LOCKSLEY_REQUIRES(kIoThread);
  // Drops it, because it has not logged in and a new connection needs its place.
  void give_way() LOCKSLEY_REQUIRES(kIoThread);
  // Closes it as soon as its input is executed and what is written is out.
  void finish();
  // The users in force have changed: takes over its user, or drops it (SessionLogin).
  void users_changed() LOCKSLEY_REQUIRES(kIoThread);
  // The authorities of client certificates have changed; null: TLS is off. Drops the connection if
  // it needs a certificate (it logged in by one, or every client needs one) and has none of a
  // current authority, and if its handshake is not over. Takes some 0.1 ms if it has a certificate.
  void authorities_changed(const TlsContext* context);
  // The limits in force have changed. limits.idle_timeout counts from now.
  void limits_changed() LOCKSLEY_REQUIRES(kIoThread);

  // ---- For Transport ----

  void socket_is_ready() override { connection_.wakeup().wake_here(); }

 private:
  enum class TurnEnd : std::uint8_t { kNeedMore, kYield, kBlock, kClose };

  Transport& transport() { return connection_.transport(); }
  ConnectionLife& life() { return connection_.life(); }

  Coroutine<void> converse() LOCKSLEY_REQUIRES(kIoThread);
  // The TLS handshake. False if the connection ended. A peer that failed gets an error message,
  // after which it closes.
  Coroutine<bool> shake_hands() LOCKSLEY_REQUIRES(kIoThread);
  // The error message for a peer that does not speak TLS to a TLS port.
  void refuse_plain() LOCKSLEY_REQUIRES(kIoThread);
  // Executes complete commands until the turn is over. `began`: when the turn began.
  TurnEnd execute(Instant began) LOCKSLEY_REQUIRES(kIoThread);
  TurnEnd refuse_stream() LOCKSLEY_REQUIRES(kIoThread);
  // Nothing more is to be executed or read until some output is sent, or until the command that
  // waits may write.
  bool is_held_up() LOCKSLEY_REQUIRES(kIoThread);
  // The connection is at rest: gives memory back, and arms the idle timeout, or the login timeout.
  // False if the timeout has passed.
  bool rest() LOCKSLEY_REQUIRES(kIoThread);
  // Sends the last replies, and waits for the peer to close.
  Coroutine<void> say_goodbye() LOCKSLEY_REQUIRES(kIoThread);
  void end() LOCKSLEY_REQUIRES(kIoThread);

  Sessions& sessions_;
  ServerState& state_;
  Connection connection_;
  const std::uint64_t id_;
  const std::string local_;

  ClientInfo info_;
  SubscriptionMessages messages_;
  SubscriptionMoves subscription_moves_{*this};
  Transaction transaction_;
  SessionReplies replies_;
  SessionMemory memory_;
  SessionInput input_;
  SessionLogin login_;
  CommandWaits waits_;

  const proto::CommandSpec* spec_ = nullptr;  // of the last command
  std::uint64_t commands_ = 0;
  bool was_long_ = false;  // the last turn took longer than kCheapTurn
};

}  // namespace locksley::daemon
