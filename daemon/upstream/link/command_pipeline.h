// The commands to the upstream on one connection, and the replies that they await.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/job.h"
#include "daemon/upstream/link/upstream_host.h"
#include "daemon/upstream/replies/reply_scanner.h"
#include "proto/command_writer.h"
#include "proto/output_buffer.h"

namespace locksley::daemon {

// A command whose reply has not come.
struct AwaitedReply {
  enum class Kind : std::uint8_t { kHello, kJoin, kClaim, kSettle, kYield, kBeat, kReclaim, kLeave, kNote };

  Kind kind = Kind::kHello;
  std::uint32_t slot = 0;     // kClaim, kReclaim
  bool blocks = false;        // kClaim
  LeaseKey lease = 0;         // kSettle, kYield, kReclaim
  bool names_lease = false;   // kReclaim
  std::uint64_t results = 0;  // kSettle: the key of the results
  Nanoseconds sent{};
};

// Encodes commands, finds their replies in the bytes that come, and tells which reply belongs to
// which command: the upstream answers in order. Detects overdue replies. Any part of the link may
// declare the connection broken, with a reason: fail().
//
// A member of the link, and used by its parts; one thread; nothing blocks. It serves one connection
// after the other: start(), …, clear(). Invalid bytes, and an upstream that is silent, end in
// trouble(). Memory: the largest reply, and the bytes that the connection has not taken.
class CommandPipeline {
 public:
  // `block`: how long a CLAIM waits at the upstream. `reply_timeout`: how long the upstream may
  // send nothing while a reply is due.
  CommandPipeline(std::chrono::milliseconds block, std::chrono::milliseconds reply_timeout, Nanoseconds now)
      : block_(block), reply_timeout_(reply_timeout), now_(now) {}
  CommandPipeline(const CommandPipeline&) = delete;
  CommandPipeline& operator=(const CommandPipeline&) = delete;

  // ---- Time ----

  // The `now` of the link's last call: the instant of the commands that are sent now.
  Nanoseconds now() const { return now_; }
  void advance(Nanoseconds now) { now_ = std::max(now_, now); }

  // ---- The connection ----

  // The connection is made: nothing is wrong with it, and the silence counts from now on.
  void start();
  // The connection is gone: drops bytes and awaited replies. trouble() stays.
  void clear();
  // The connection is broken from now on. The first reason is kept.
  void fail(std::string why) {
    if (trouble_.empty()) trouble_ = std::move(why);
  }
  void forget_trouble() {
    trouble_.clear();
    is_not_resp3_ = false;
  }
  // Empty: nothing is wrong.
  const std::string& trouble() const { return trouble_; }
  // Whether the trouble is that the received bytes are not RESP3.
  bool is_not_resp3() const { return is_not_resp3_; }

  // ---- Bytes ----

  // Where received bytes are put; received() tells their number.
  std::span<char> space() { return scanner_.prepare(); }
  void received(std::size_t bytes) {
    silent_since_ = now_;
    was_late_ = false;
    scanner_.commit(bytes);
  }
  // The bytes of the next reply. False: there is none, or it is invalid, which is a trouble.
  bool next(std::string_view& reply) {
    const ReplyScanner::Status status = scanner_.next(reply);
    if (status == ReplyScanner::Status::kInvalid && trouble_.empty()) {
      fail("what it sends is not RESP3");
      is_not_resp3_ = true;
    }
    return status == ReplyScanner::Status::kWhole;
  }
  proto::OutputBuffer& output() { return output_; }
  // The connection took the first `bytes` of output() at `now`.
  void sent(std::size_t bytes, Nanoseconds now);

  // ---- Commands ----

  // Begins each command to the upstream, and awaits its reply from now on. The caller writes
  // `words` words.
  proto::CommandWriter begin(const AwaitedReply& awaited, std::size_t words) {
    awaited_.push_back(awaited);
    awaited_.back().sent = now_;
    proto::CommandWriter writer(output_);
    writer.begin(words);
    return writer;
  }
  // The same, and writes these words.
  void send(const AwaitedReply& awaited, std::initializer_list<std::string_view> words);
  // LEAVE: the last command of a connection.
  void leave();
  bool has_sent_leave() const { return has_sent_leave_; }
  // Whether no reply is awaited.
  bool is_idle() const { return awaited_.empty(); }
  // The last command that was sent; null: no reply is awaited.
  const AwaitedReply* last() const { return awaited_.empty() ? nullptr : &awaited_.back(); }
  // A reply has come: removes and returns its command. None: no reply is awaited.
  std::optional<AwaitedReply> answered() {
    if (awaited_.empty()) return std::nullopt;
    const AwaitedReply awaited = awaited_.front();
    awaited_.pop_front();
    return awaited;
  }

  // ---- Silence ----

  // When the upstream has been silent for too long; none: it owes no reply.
  std::optional<Nanoseconds> silent_at() const;
  // Fails if that is now.
  void check_silence();

 private:
  // Constant.
  const std::chrono::milliseconds block_;
  const std::chrono::milliseconds reply_timeout_;

  Nanoseconds now_;
  std::string trouble_;
  bool is_not_resp3_ = false;
  ReplyScanner scanner_;
  proto::OutputBuffer output_;
  std::deque<AwaitedReply> awaited_;
  bool has_sent_leave_ = false;
  // The upstream's silence counts from then: it sent bytes, or took some of many waiting bytes, or
  // this process was paused.
  Nanoseconds silent_since_{};
  bool was_late_ = false;  // check_silence() was called late once since the last bytes came
};

}  // namespace locksley::daemon
