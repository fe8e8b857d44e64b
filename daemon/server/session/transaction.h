#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "daemon/server/batches/account.h"
#include "proto/command_reader.h"

namespace locksley::daemon {

// The transaction of one connection: the commands that were received since MULTI, until EXEC executes them or
// DISCARD drops them.
//
//   closed --open()--> open --run()--> running --close()--> closed
//                      open ----------close()-------------> closed
//
// While it is open, commands are queued. A command that is refused spoils the transaction: EXEC will execute
// nothing of it, so the queue is freed at once, and further commands are not kept. While it is running, EXEC takes
// the commands out one after another.
//
// A member of a Session, which counts memory_bytes() among what the connection holds. The I/O thread only.
// Nothing blocks. A command without room in the account of the connection's user is refused with an error that
// names the limit.
class Transaction {
 public:
  Transaction() = default;
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  bool is_open() const { return state_ == State::kOpen; }
  bool is_running() const { return state_ == State::kRunning; }
  // Needs: open. EXEC is to execute nothing.
  bool is_spoiled() const { return is_spoiled_; }
  // Commands in the queue.
  std::size_t size() const { return queue_.size(); }
  // Of the queue.
  std::uint64_t memory_bytes() const { return bytes_; }

  // Needs: closed.
  void open();
  // Queues the command. If `account` has no room for it, returns the error reply, and the transaction is
  // spoiled; else returns an empty text. Needs: open, and memory_bytes() is charged to `account`.
  std::string queue(proto::Command command, const Account& account);
  // A command was refused. No effect unless open.
  void spoil();
  // From now on next() is allowed. Needs: open and not spoiled.
  void run();
  // Takes out the first command. Needs: running, and size() > 0.
  proto::Command next();
  // Drops what is left.
  void close();

 private:
  enum class State : std::uint8_t { kClosed, kOpen, kRunning };

  static std::uint64_t bytes_of(const proto::Command& command) {
    return sizeof(proto::Command) + command.arguments.memory_bytes();
  }

  State state_ = State::kClosed;
  bool is_spoiled_ = false;
  std::uint64_t bytes_ = 0;
  std::deque<proto::Command> queue_;
};

}  // namespace locksley::daemon
