// The commands that one connection has queued since MULTI.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/server/accounts/account.h"
#include "proto/command_reader.h"

namespace locksley::daemon {

// The transaction of one connection: the commands that were received since MULTI, until EXEC
// executes them or DISCARD drops them.
//
//   closed --open()--> open --run()--> running --close()--> closed
//                      open ----------close()-------------> closed
//
// While it is open, commands are queued. A refused command spoils the transaction: EXEC will
// execute none of its commands, so the queue is freed at once, and further commands are not kept.
// While it is running, EXEC takes the commands out one after another.
//
// Small commands are copied into pages, one after another: a million of them are few allocations,
// which are freed quickly. The arguments of a large command stay where they were received.
//
// A member of a Session, which adds memory_bytes() to the memory of its connection. The I/O thread
// only. Nothing blocks. A command without room in the account of the connection's user is refused
// with an error that names the limit.
class Transaction {
 public:
  // Frees the dropped commands, of this many bytes. Called by close() and spoil().
  using Free = std::function<void(std::shared_ptr<void> dropped, std::uint64_t bytes)>;

  explicit Transaction(Free free) : free_(std::move(free)) {}
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  bool is_open() const { return state_ == State::kOpen; }
  bool is_running() const { return state_ == State::kRunning; }
  // Needs: open. EXEC is to execute nothing.
  bool is_spoiled() const { return is_spoiled_; }
  // Commands in the queue.
  std::size_t size() const { return size_; }
  // Bytes of the queue.
  std::uint64_t memory_bytes() const { return bytes_; }

  // Needs: closed.
  void open();
  // Queues the command. If `account` has no room for it, returns the error reply, and the
  // transaction is spoiled; else returns an empty text. A command that is not kept stays with the
  // caller. Needs: open, and memory_bytes() is charged to `account`.
  std::string queue(proto::Command& command, const Account& account);
  // A command was refused. No effect unless open.
  void spoil();
  // From now on next() is allowed. Needs: open and not spoiled.
  void run();
  // Takes out the first command. Needs: running, and size() > 0.
  proto::Command next();
  // Drops the queued commands.
  void close();

 private:
  enum class State : std::uint8_t { kClosed, kOpen, kRunning };

  // A command that takes more than this in a page is large. Guess: to copy it takes a microsecond.
  static constexpr std::size_t kMostPacked = 16 * 1024;
  static constexpr std::size_t kPageBytes = 64 * 1024;
  static constexpr std::size_t kFirstPageBytes = 256;

  // A number of packed commands, and then perhaps a large one.
  struct Stretch {
    std::size_t packed = 0;
    std::optional<proto::Command> large = {};
  };
  struct Queue {
    std::deque<Stretch> stretches;
    // For each packed command: the number of its arguments, their lengths, and their bytes.
    std::deque<std::string> pages;
    std::size_t read = 0;  // of the first page
  };
  // The memory of an empty queue with libstdc++ and malloc: each deque takes an index and a node,
  // 608 bytes.
  static constexpr std::uint64_t kQueueBytes = sizeof(Queue) + 2 * std::uint64_t{608};

  static std::uint64_t bytes_of(const proto::Command& large) {
    return sizeof(Stretch) + large.arguments.memory_bytes();
  }
  // The capacity that the last page needs for this many bytes more; none: they go to another page.
  std::optional<std::size_t> capacity_for(std::size_t bytes) const;
  void pack(const proto::ArgumentList& arguments, std::size_t bytes);
  proto::Command take_first();
  proto::Command unpack();
  void drop();

  State state_ = State::kClosed;
  bool is_spoiled_ = false;
  std::size_t size_ = 0;
  std::uint64_t bytes_ = 0;  // of the queue, its pages (their capacity) and large commands
  // Null while nothing is queued: most connections never have a transaction.
  std::unique_ptr<Queue> queue_;
  const Free free_;
};

}  // namespace locksley::daemon
