#pragma once

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

enum class ReadStatus : std::uint8_t {
  kComplete,  // the output holds a whole command or reply
  kNeedMore,  // everything received is consumed as far as it goes
  kError,     // the stream is broken; error() says why, and nothing more can be read from it
};

// Why a stream of commands cannot be read on. The connection answers with `message` and closes, except to
// kCrossProtocol (a browser or an HTTP client was made to send to this port), where it closes without an
// answer.
struct ProtocolError {
  enum class Kind : std::uint8_t { kProtocol, kCrossProtocol };
  Kind kind = Kind::kProtocol;
  std::string message;  // the error reply without its '-': "ERR Protocol error: …"
};

// Turns received bytes into commands: RESP arrays of bulk strings, and inline commands. Incremental and
// zero-copy: the caller reads straight into prepare()'s memory, and the commands' arguments stay there.
//
//   auto space = reader.prepare();  n = read(fd, space);  reader.commit(n);
//   while ((status = reader.next(command)) == ReadStatus::kComplete) execute(command);
//
// Owned by one connection and used by one thread at a time; the ArgumentLists that it hands out may live
// longer and be read by other threads. Nothing blocks; no I/O. What the peer sends can only end in kError;
// allocation failure is std::bad_alloc.
//
// Memory: blocks of 16 KiB at first, then growing to 1 MiB while reads fill them. A bulk that does not fit
// the rest of its block is moved once to another, a large one to a block of its own. A length that is
// announced allocates nothing: what is allocated is at most a block, or four times the bytes of that bulk
// that have really arrived. Before authentication blocks stay small, so that ten thousand strangers hold as
// little as they may send.
class CommandReader {
 public:
  static constexpr std::size_t kFirstBlockBytes = 16 * Limits::kKiB;
  static constexpr std::size_t kBlockBytes = Limits::kMiB;
  static constexpr std::size_t kMinimumRead = 4 * Limits::kKiB;

  explicit CommandReader(const Limits& limits = {});
  CommandReader(const CommandReader&) = delete;
  CommandReader& operator=(const CommandReader&) = delete;

  // Holds from the next length that is read on: so a pipelined AUTH lifts the limits of the commands behind
  // it, and a RESET brings them back.
  void set_limits(const Limits& limits) { limits_ = limits; }
  const Limits& limits() const { return limits_; }

  // Space to receive into, at least `min` bytes (and usually the rest of a block). Valid until the next call
  // of prepare() or release(). Keeps bytes that were received and not yet parsed.
  std::span<std::byte> prepare(std::size_t min = kMinimumRead);

  // The first n bytes of prepare()'s space are filled.
  void commit(std::size_t n);

  // The next command. Re-uses what `command` holds, so a loop over small commands does not allocate. On
  // kNeedMore and kError `command` is empty and keeps no block.
  ReadStatus next(Command& command);

  // After kError.
  const ProtocolError& error() const { return error_; }

  // Nothing received that was not handed out, no command begun.
  bool is_idle() const { return read_ == written_ && state_ == State::kStart; }

  // Frees the block if is_idle(), so that a connection at rest holds no memory for input. Call it before
  // waiting for the socket; the next prepare() starts small again.
  void release();

  // Received and not yet handed out as a command, with the parts of an unfinished one.
  std::size_t buffered_bytes() const { return command_bytes_ + (written_ - read_); }

  // Memory held for input now, the unfinished command's blocks and slices included. To be bounded over all
  // connections by the server.
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

  // Each consumes what it can. kComplete: its part is parsed, state_ says what comes next.
  ReadStatus parse_inline();
  ReadStatus parse_multibulk_header();
  ReadStatus parse_bulk_header();
  ReadStatus parse_bulk_body();
  // As many whole bulks of at most 99 bytes as there are at read_.
  void parse_short_bulks();
  ReadStatus split_line(char* line, char* end);
  void finish(Command& command);
  ReadStatus fail(std::string_view what);
  void move_to_new_block(std::size_t capacity);
  // What blocks grow to.
  std::size_t largest_block() const { return limits_.authenticated ? kBlockBytes : kFirstBlockBytes; }
  // read_ goes on by n within the unfinished command.
  void advance(std::size_t n) {
    read_ += n;
    command_bytes_ += n;
  }

  Limits limits_;
  State state_ = State::kStart;
  ProtocolError error_;

  BlockRef block_;           // what is being received into
  std::size_t read_ = 0;     // parsed up to here
  std::size_t written_ = 0;  // received up to here
  std::size_t next_block_bytes_ = kFirstBlockBytes;

  ArgumentList pending_;           // arguments of the unfinished command
  std::size_t announced_ = 0;      // how many it is to have
  std::size_t bulk_bytes_ = 0;     // kBulkBody: length of the bulk at read_
  std::size_t line_scanned_ = 0;   // kInline: bytes from read_ on that hold no newline
  std::size_t command_bytes_ = 0;  // bytes of the unfinished command before read_
};

}  // namespace locksley::proto
