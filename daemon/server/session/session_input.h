// The input of a connection that is not executed yet.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/time.h"
#include "daemon/connection/connection.h"
#include "daemon/server/session/session_memory.h"
#include "daemon/server/session/session_replies.h"
#include "daemon/server/session/writes/write_gate.h"
#include "daemon/server/session/writes/write_waiters.h"
#include "daemon/server/state/server_state.h"
#include "proto/command_reader.h"
#include "proto/limits.h"

namespace locksley::daemon {

// The input of one connection that is not executed yet: the bytes of unfinished commands, and the
// last complete command, which may have to wait for room in the store. Reads from the socket,
// charges the bytes to the account of the connection's user, and refuses the connection if the
// account has no room.
//
// A member of a Session, as are the parts that it borrows; drop() comes at the end. The I/O thread
// only. Nothing blocks. A refusal is an error reply, after which the connection closes.
//
// Bounds: that of Session. One read takes at most kMostRead.
class SessionInput {
 public:
  static constexpr std::size_t kBlockedInput = 64 * 1024;  // guess: room for a pipeline of small commands
  // 1 MiB at once took 4 ms with 130,000 payloads in it, page faults included.
  static constexpr std::size_t kMostRead = 128 * 1024;

  SessionInput(ServerState& state, WriteWaiters& waiters, Connection& connection, SessionReplies& replies,
               SessionMemory& memory);
  SessionInput(const SessionInput&) = delete;
  SessionInput& operator=(const SessionInput&) = delete;

  // One read from the socket. Needs: the socket is readable.
  void receive() LOCKSLEY_REQUIRES(kIoThread);
  // The next command is in command(): the one that waits for room, or else one that was received.
  proto::ReadStatus next() {
    if (gate_.is_holding()) return proto::ReadStatus::kComplete;
    const proto::ReadStatus status = reader_.next(command_);
    if (status == proto::ReadStatus::kComplete) gate_.next_command();
    return status;
  }
  proto::Command& command() { return command_; }
  // Why next() has found an error.
  const proto::ProtocolError& error() const { return reader_.error(); }
  // Whether command() waits for room in the store, and its place among those that wait.
  WriteGate& gate() { return gate_; }
  const WriteGate& gate() const { return gate_; }

  // Bytes that were received and not returned by next().
  std::size_t buffered_bytes() const { return reader_.buffered_bytes(); }
  // Whether it holds as much as a connection may read while a command waits.
  bool is_full() const { return buffered_bytes() >= kBlockedInput; }
  // The limits of what the peer may send; its login changes them.
  const proto::Limits& limits() const { return reader_.limits(); }
  void set_limits(const proto::Limits& limits) { reader_.set_limits(limits); }

  // When the client sent or executed something for the last time.
  Instant active_at() const { return active_at_; }
  void set_active(Instant at) { active_at_ = at; }

  // Frees the buffer, unless a part of a command is in it.
  void release();
  // Frees the bytes of commands that will not be executed, so that a client takes no memory for
  // them while its connection stays open.
  void drop() LOCKSLEY_REQUIRES(kIoThread);

 private:
  void update_memory() LOCKSLEY_REQUIRES(kIoThread);
  // Memory of what was received and is not executed yet.
  std::uint64_t memory_bytes() const;
  // The error message for a peer that speaks TLS to a port without TLS.
  void refuse_tls() LOCKSLEY_REQUIRES(kIoThread);

  ServerState& state_;
  Connection& connection_;
  SessionReplies& replies_;
  SessionMemory& memory_;

  proto::CommandReader reader_;
  proto::Command command_;
  WriteGate gate_;
  Instant active_at_;
};

}  // namespace locksley::daemon
