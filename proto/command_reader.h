// The parser of a server: received bytes to commands. Each connection has one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "proto/argument_list.h"
#include "proto/block.h"
#include "proto/limits.h"

namespace locksley::proto {

// One command as received. arguments[0] is its name, as Redis counts: `PING` has one argument.
struct Command {
  ArgumentList arguments;

  std::string_view name() const { return arguments.empty() ? std::string_view() : arguments[0]; }
};

// The result of a call of next().
enum class ReadStatus : std::uint8_t {
  kComplete,  // the output holds a whole command or reply
  kNeedMore,  // the received bytes do not contain another whole one
  kError,     // the stream is invalid; error() says why, and no more can be read from it
};

// Why a stream of commands is invalid. The connection sends `message` and closes. For
// kCrossProtocol (a browser or an HTTP client was made to send to this port) it closes without a
// reply.
struct ProtocolError {
  enum class Kind : std::uint8_t { kProtocol, kCrossProtocol };
  Kind kind = Kind::kProtocol;
  std::string message;  // the error reply without its '-': "ERR Protocol error: …"
};

// Turns received bytes into commands: RESP arrays of bulk strings, and inline commands. Incremental
// and without copies: the caller receives into prepare()'s memory, and the commands' arguments stay
// there.
//
//   auto space = reader.prepare();  n = read(fd, space);  reader.commit(n);
//   while ((status = reader.next(command)) == ReadStatus::kComplete) execute(command);
//
// Owned by one connection and used by one thread at a time; the ArgumentLists that it hands out may
// live longer and be read by other threads. Nothing blocks; no I/O. Invalid input ends in kError; a
// failed allocation is std::bad_alloc.
//
// Memory: blocks of 16 KiB at first, which grow to 1 MiB while reads fill them. A bulk string that
// does not fit into the rest of its block is copied once to another block, a large one to a block
// of its own. An announced length allocates nothing: the reader allocates at most a block, or four
// times the bytes of the bulk string that have arrived. Before authentication blocks stay small, so
// that ten thousand connections of strangers use little memory.
class CommandReader {
 public:
  static constexpr std::size_t kFirstBlockBytes = 16 * Limits::kKiB;
  static constexpr std::size_t kBlockBytes = Limits::kMiB;
  // The size of a block for one short command: with its header, the largest allocation that glibc
  // keeps in its per-thread cache.
  static constexpr std::size_t kSmallBlockBytes = 1024 - sizeof(Block);
  // The size of a block of kBlockBytes with its header: the largest that a pool for readers should
  // keep.
  static constexpr std::size_t kPooledBytes = BlockRef::bytes_of(kBlockBytes);
  static constexpr std::size_t kMinimumRead = 4 * Limits::kKiB;

  // `pool`: the pool of large blocks, which outlives all arguments; null: they come from the heap.
  explicit CommandReader(const Limits& limits = {}, BlockPool* pool = nullptr);
  CommandReader(const CommandReader&) = delete;
  CommandReader& operator=(const CommandReader&) = delete;

  // Applies from the next length on: a pipelined AUTH lifts the limits for the commands after it,
  // and a RESET restores them.
  void set_limits(const Limits& limits) { limits_ = limits; }
  const Limits& limits() const { return limits_; }

  // Space to receive into, never empty: usually the rest of a block, and at least `min` bytes,
  // except in the middle of a bulk string for which the block has room. Valid until the next call
  // of prepare() or release(). Bytes that were received and not yet parsed are kept.
  std::span<std::byte> prepare(std::size_t min = kMinimumRead);

  // The same if exactly `bytes` bytes have arrived: a new block is small if they fit into it. So a
  // client that sends one short command at a time costs little memory, and needs no large
  // allocation for each command.
  std::span<std::byte> prepare_for(std::size_t bytes);

  // The caller has filled the first n bytes of prepare()'s space.
  void commit(std::size_t n);

  // The next command. Re-uses the memory of `command`, so a loop over small commands does not
  // allocate. After kNeedMore and kError `command` is empty and refers to no block.
  ReadStatus next(Command& command);

  // Why the stream is invalid. Call it after kError.
  const ProtocolError& error() const { return error_; }

  // True if all received bytes were handed out and no command has begun.
  bool is_idle() const { return read_ == written_ && state_ == State::kStart; }

  // Frees the block if is_idle(), so that an idle connection uses no memory for input. Call it
  // before waiting for the socket. The next prepare() starts with a small block again.
  void release();

  // Gives up the received part of an unfinished command, and its memory, for the caller to free.
  // Must be the last call.
  ArgumentList abandon();

  // Bytes that were received and not yet handed out in a command.
  std::size_t buffered_bytes() const { return command_bytes_ + (written_ - read_); }

  // How many bytes of the current bulk string have yet to arrive, by its announced length.
  std::size_t awaited_bytes() const {
    const std::size_t has_come = written_ - read_;
    return state_ == State::kBulkBody ? bulk_bytes_ - std::min(bulk_bytes_, has_come) : 0;
  }

  // Memory used for input, including the blocks and slices of the unfinished command. The server
  // limits the sum over all connections.
  std::size_t memory_bytes() const;

 private:
  enum class State : std::uint8_t {
    kStart,       // between commands
    kMultibulk,   // in "*<count>\r\n"
    kInline,      // in a line that does not start with '*'
    kWhole,       // all arguments are in pending_
    kBulkHeader,  // in "$<length>\r\n"
    kBulkBody,    // in the bytes of a bulk whose length is known
    kFailed,
  };

  // Each consumes as many bytes as it can. kComplete: its part is parsed, and state_ is the next
  // part.
  ReadStatus parse_inline();
  ReadStatus parse_multibulk_header();
  ReadStatus parse_bulks();  // whole short ones, and the header of the next one
  ReadStatus parse_bulk_header();
  ReadStatus parse_bulk_body();
  // Parses the whole bulk strings of at most 99 bytes that start at read_.
  void parse_short_bulks();
  ReadStatus split_line(char* line, char* end);
  void finish(Command& command);
  ReadStatus fail(std::string_view what);
  void move_to_new_block(std::size_t capacity);
  void leave_block();
  // The size to which blocks grow.
  std::size_t largest_block() const { return limits_.authenticated ? kBlockBytes : kFirstBlockBytes; }
  // Moves read_ by n bytes within the unfinished command.
  void advance(std::size_t n) {
    read_ += n;
    command_bytes_ += n;
  }

  Limits limits_;
  State state_ = State::kStart;
  ProtocolError error_;

  BlockPool* const pool_;
  BlockRef block_;           // the block to receive into
  std::size_t read_ = 0;     // parsed up to here
  std::size_t written_ = 0;  // received up to here
  std::size_t next_block_bytes_ = kFirstBlockBytes;

  ArgumentList pending_;           // arguments of the unfinished command
  std::size_t announced_ = 0;      // how many arguments it announced
  std::size_t bulk_bytes_ = 0;     // kBulkBody: length of the bulk at read_
  std::size_t line_scanned_ = 0;   // kInline: bytes from read_ on that hold no newline
  std::size_t command_bytes_ = 0;  // bytes of the unfinished command before read_
};

}  // namespace locksley::proto
