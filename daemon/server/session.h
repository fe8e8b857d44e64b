#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/auth/authenticator.h"
#include "daemon/server/batch_record.h"
#include "daemon/server/events.h"
#include "daemon/server/io.h"
#include "daemon/server/transport.h"
#include "daemon/server/users.h"
#include "daemon/server/wakeup.h"
#include "daemon/store/ticket.h"
#include "proto/command_reader.h"
#include "proto/command_table.h"
#include "proto/output_buffer.h"
#include "proto/reply_writer.h"

namespace locksley::daemon {

class Server;

// One connection: reads commands, has them executed in turn, writes their replies.
//
// It is one coroutine, serve(), that sleeps on one Wakeup, whatever may wake it: its socket, the batch that a
// command waits for, a timer, an order to close. It reads and writes without blocking, and asks Asio only
// when the socket is ready; so nothing is ever cancelled in the middle, and no byte is lost by a race.
//
// Owned by its coroutine and the callbacks of the socket and the timer, the last of which drops it; the
// Server knows it until the coroutine ends. The I/O thread only. What the peer does costs at most this
// connection.
//
// Bounds. Input: a turn reads up to a block (1 MiB); a command may grow to limits.max_command, all unfinished
// ones together to limits.max_queued_bytes; behind a blocking command up to kBlockedInput is read. Output: no
// command is executed while more than kPauseOutput waits for the peer (before authentication, while its
// reader has those limits: kPauseStranger); the connection is dropped when more than limits.output_buffer
// does, or when it holds most of all while all together hold more than limits.client_memory. Fairness: after
// kTurnCommands, kTurnTime or kTurnOutput the other connections have their turn. Time before authentication:
// limits.login_timeout.
class Session final : public Subscriber, public std::enable_shared_from_this<Session> {
 public:
  static constexpr std::size_t kPauseOutput = 1 << 20;     // guess: a few socket buffers
  static constexpr std::size_t kPauseStranger = 1 << 14;   // the same before authentication; guess
  static constexpr std::size_t kBlockedInput = 64 * 1024;  // guess: room for a pipeline of small commands
  static constexpr int kTurnCommands = 1024;               // 100 us of PINGs
  static constexpr auto kTurnTime = std::chrono::microseconds(500);  // half a quantum of the scheduler
  static constexpr std::size_t kTurnOutput = 256 * 1024;             // a socket buffer
  static constexpr auto kFarewell =
      std::chrono::seconds(1);  // that a peer has to read the last reply and to close

  Session(Server& server, Transport transport, std::uint64_t id, std::string peer, std::string local);
  ~Session() override;

  // The connection from its first byte to its end.
  static Coroutine<void> serve(std::shared_ptr<Session> self);

  // ---- Who it is: session_login.cc ----

  // False until the peer has shown who it is. While no users are configured, everybody has.
  bool is_logged_in() const { return user_ != nullptr; }
  // Needs: is_logged_in(). Another after each change of the configuration, so not to be kept.
  const User& user() const { return *user_; }
  // Whether it may send commands of this group: one test of a bit. False for all until it is logged in.
  bool may(proto::CommandGroup group) const { return (groups_ & bit_of(group)) != 0; }
  // False, and nothing is changed, if the user has all the connections that it may have.
  bool log_in(const UserRef& user);
  // As when it was new.
  void log_out();
  // For the end of a TLS handshake. False if nobody has that certificate, or log_in() says so.
  bool log_in_by_certificate(std::string_view common_name);
  // By then it is logged in, or closed.
  Instant login_deadline() const;
  // The configuration has changed: so has what its user may, or there is no such user any more.
  void users_changed();
  // Whose events it hears of: Events.
  std::string_view audience() const { return audience_; }
  // What the Authenticator says of the password that the argument is, which is wiped. Until then commands
  // behind it wait. None if the connection is to close.
  Coroutine<std::optional<Verdict>> check_password(std::string_view user, std::string_view hash,
                                                   proto::ArgumentList& arguments, std::size_t password);

  // ---- For commands ----

  Server& server() { return server_; }
  // Where the reply goes, in the protocol of the connection.
  proto::ReplyWriter reply();
  // Bytes of replies that were written and not sent.
  std::size_t output_size() const;
  // An error reply, counted by its code.
  void fail(std::string_view text);
  // The reply that `write(ReplyWriter&)` writes goes out, and all behind it, once everything up to `ticket`
  // is on the disk; if the disk does not take it, an error goes out in its place. 0: at once.
  template <class Write>
  void reply_when_stored(Ticket ticket, Write write);
  // What became of writes: for those of this connection's replies that wait.
  void stored(const Outcome& outcome);
  // After this reply nothing more is executed, and the connection closes once the reply is out.
  void close_after_reply() { closing_ = true; }

  enum class Until : std::uint8_t { kDone, kTimeout, kGone };
  // Waits until `done(*record)`, looking when the batch is over or has the row `row` (kItsEnd: not before),
  // or until the deadline; kGone: the peer has gone or the connection is to close, and there is nobody to
  // reply to.
  template <class Done>
  Coroutine<Until> until(std::shared_ptr<BatchRecord> record, Done done, Instant deadline,
                         std::uint64_t row = BatchRecord::kItsEnd);
  // The same for rows that are being read, which come soon, whatever the peer does: one that has closed its
  // side waits for the reply all the same. False if the connection is to close.
  template <class Done>
  Coroutine<bool> until_soon(std::shared_ptr<BatchRecord> record, Done done);

  // The same for something else than a batch; whoever makes it come to pass calls wake().
  template <class Done>
  Coroutine<bool> until_soon(Done done);
  void wake() { wakeup_.wake(); }

  // What CLIENT REPLY set.
  enum class ReplyMode : std::uint8_t { kOn, kOff, kSkipNext, kSkipping };

  // Set by commands, shown by CLIENT LIST.
  proto::Protocol protocol = proto::Protocol::kResp2;
  ReplyMode reply_mode = ReplyMode::kOn;
  std::string name;
  std::string library_name;
  std::string library_version;
  bool no_evict = false;
  using Topics = std::set<std::string, std::less<>>;
  Topics channels;  // subscribed to; changed through subscribe() & co.
  Topics patterns;
  // `kind`: &Session::channels or &Session::patterns.
  void subscribe(Topics Session::* kind, const std::string& topic);
  void unsubscribe(Topics Session::* kind, const std::string& topic);

  bool is_subscribed() const { return !channels.empty() || !patterns.empty(); }
  std::size_t subscriptions() const { return channels.size() + patterns.size(); }
  void unsubscribe_all();

  // One line of CLIENT LIST.
  std::string describe() const;

  // ---- For the server and for other connections ----

  std::uint64_t id() const { return id_; }
  const std::string& peer() const { return peer_; }
  // Closes it soon, without another word: CLIENT KILL, too much output, end of the process.
  void drop(std::string_view reason);
  // The limits have changed: how long it may be silent is counted from now.
  void look_again();
  // Closes it once what is written is out and no command is being executed.
  void finish();

  // What it holds beside unfinished commands, as limits.client_memory counts it: replies, events that its
  // patterns have yet to be matched with, subscriptions; and `more`, what a command that goes on holds.
  void account(std::size_t more = 0);
  std::uint64_t accounted() const { return accounted_; }
  // It holds most of all while all hold too much: dropped, and what it holds counts no longer.
  void evict();
  bool is_dropped() const { return dropped_; }

  void deliver(std::string_view pattern, std::string_view channel, std::string_view message) override;
  void offer(const ChannelEvent& event) override;

 private:
  // Replies that wait for the store, and all that were written behind them.
  struct Held {
    struct Part {
      std::size_t begin;
      std::size_t end;
    };
    Ticket ticket;
    proto::OutputBuffer bytes;
    std::vector<Part> parts;  // of `bytes`: the replies that turn into errors if the store fails
  };
  enum class Turn : std::uint8_t { kNeedMore, kYield, kBlock, kClose };

  // A blocking command's stay among the waiters of a batch.
  class Waiting {
   public:
    Waiting(Session& session, BatchRecord& record, std::uint64_t row);
    ~Waiting();
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;
    // Whoever waits looks now: what comes after it wants to hear of.
    void look() { waiter_.is_told = false; }

   private:
    Session& session_;
    BatchRecord& record_;
    BatchWaiter waiter_;
  };

  // The TLS handshake.
  Coroutine<bool> shake_hands();
  // A peer that speaks plainly where TLS is spoken, or the other way round, is told so.
  void refuse_plain();
  void refuse_tls();
  Coroutine<void> converse();
  Coroutine<void> farewell();
  // Where the next reply goes.
  proto::OutputBuffer& output_end() { return held_.empty() ? output_ : held_.back().bytes; }
  // Nothing more is to be executed, or read, until some of them are sent, or the store has caught up.
  bool is_held_up() const;
  // Makes the user what it is; null: nobody.
  void become(UserRef user);
  void set_audience(std::string_view audience);
  bool has_output() const { return !output_.empty() || !held_.empty(); }
  void hold(Ticket ticket);
  bool waits_for_store(Ticket ticket) const;
  // Executes complete commands until the turn is over.
  Turn execute();
  Turn refuse_stream();
  // One read of what is there.
  void receive();
  void account_input();
  // Matches events that were offered with the patterns, for a turn's time at most.
  void match_offered();
  // Writes what the socket takes. False if the peer has gone.
  bool flush();
  bool is_over_limit();
  // Between looks at a batch: reads on, writes on. False if there is nobody to reply to.
  bool tend();
  void wait_readable();
  void wait_writable();
  void wait_until(Instant at);
  // The connection is at rest: gives memory back, and arms the idle timeout, or that of the login. False if
  // that has run out.
  bool rest();
  void end();

  Server& server_;
  Transport transport_;
  const std::uint64_t id_;
  const std::string peer_;
  const std::string local_;
  const Instant connected_at_;

  UserRef user_;
  CommandGroups groups_ = 0;  // of user_
  std::string audience_;
  Instant stranger_since_;  // while there is no user_

  Wakeup wakeup_;
  Timer timer_;
  Instant timer_at_ = kNever;

  proto::CommandReader reader_;
  proto::OutputBuffer output_;
  std::deque<Held> held_;                       // behind output_; tickets ascend
  std::unique_ptr<proto::OutputBuffer> muted_;  // takes the replies that CLIENT REPLY suppresses
  proto::Command command_;
  const proto::CommandSpec* spec_ = nullptr;  // of the last command
  std::uint64_t input_memory_ = 0;            // as the server's sum counts it
  std::uint64_t accounted_ = 0;               // likewise
  std::uint64_t topic_bytes_ = 0;             // of channels and patterns
  std::deque<ChannelEvent> offered_;          // to be matched with the patterns
  std::uint64_t offered_bytes_ = 0;
  std::string matched_up_to_;  // patterns up to this one have been, with the first of them; empty: none
  std::uint64_t commands_ = 0;
  Instant active_at_;

  bool readable_ = true;  // there may be something to read
  bool begun_ = false;    // something was read
  bool read_armed_ = false;
  bool write_armed_ = false;
  bool eof_ = false;
  bool closing_ = false;
  bool dropped_ = false;
  bool finishing_ = false;
};

template <class Write>
void Session::reply_when_stored(Ticket ticket, Write write) {
  const bool waits = waits_for_store(ticket);
  if (waits) hold(ticket);
  const std::size_t begin = output_end().size();
  proto::ReplyWriter writer = reply();
  write(writer);
  const std::size_t end = output_end().size();
  if (waits && end != begin) held_.back().parts.push_back({begin, end});
}

template <class Done>
Coroutine<Session::Until> Session::until(std::shared_ptr<BatchRecord> record, Done done, Instant deadline,
                                         std::uint64_t row) {
  Waiting waiting(*this, *record, row);
  for (;;) {
    waiting.look();
    if (done(*record)) co_return Until::kDone;
    if (deadline != kNever) {
      if (std::chrono::steady_clock::now() >= deadline) co_return Until::kTimeout;
      wait_until(deadline);
    }
    if (!tend()) co_return Until::kGone;
    if (!wakeup_.take()) co_await wakeup_.wait();
  }
}

template <class Done>
Coroutine<bool> Session::until_soon(std::shared_ptr<BatchRecord> record, Done done) {
  const Waiting waiting(*this, *record, BatchRecord::kReadRows);
  dropped_ = dropped_ || !flush();
  while (!dropped_ && !done(*record)) {
    if (!wakeup_.take()) co_await wakeup_.wait();
  }
  co_return !dropped_;
}

template <class Done>
Coroutine<bool> Session::until_soon(Done done) {
  dropped_ = dropped_ || !flush();
  while (!dropped_ && !done()) {
    if (!wakeup_.take()) co_await wakeup_.wait();
  }
  co_return !dropped_;
}

}  // namespace locksley::daemon
