// A connection to the port for workers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/wakeup.h"
#include "daemon/base/time.h"
#include "daemon/connection/connection.h"
#include "daemon/connection/strangers.h"
#include "daemon/network/transport.h"
#include "daemon/worker_port/input_budget.h"
#include "daemon/worker_port/link_thread.h"
#include "daemon/worker_port/login_desk.h"
#include "daemon/workers/worker_link.h"
#include "proto/command_reader.h"

namespace locksley::daemon {

class LinkService;

// One connection of a worker: TLS, login, and the commands. It answers commands about the
// connection by itself (HELLO, AUTH, PING and the commands that stock clients send at first); all
// others go to the link.
//
// It is one coroutine, serve(), like that of the client port (daemon/server/session/session.h),
// with which it shares Connection. It sleeps on one Wakeup; when it wakes, it checks what has
// happened, and reads and writes without blocking. The link may answer later: the service then
// calls send(). Owned by the service until the coroutine ends, and by pending waits. The link
// thread only. Nothing blocks. An error ends this connection alone: the jobs that its worker holds
// go back.
//
// Members: the steps of one coroutine, which share its connection.
class WorkerSession final : public std::enable_shared_from_this<WorkerSession>, private InputBudget::Owner {
 public:
  WorkerSession(LinkService& service, Transport transport, std::string peer) LOCKSLEY_REQUIRES(kLinkThread);
  ~WorkerSession() override;
  static constexpr std::size_t kMostRead = 256 * 1024;  // by one read; a guess
  WorkerSession(const WorkerSession&) = delete;
  WorkerSession& operator=(const WorkerSession&) = delete;

  // Runs until the connection is closed, or after drop().
  static Coroutine<void> serve(std::shared_ptr<WorkerSession> self);

  // Its number among the link's connections.
  WorkerLink::Id id() const { return id_; }
  const std::string& peer() const { return connection_.peer(); }
  // Sends the link's output for it, as much as the socket takes; the rest when the socket takes
  // more.
  void send() LOCKSLEY_REQUIRES(kLinkThread);
  // The users in force have changed.
  void directory_changed() LOCKSLEY_REQUIRES(kLinkThread);
  // The authorities of workers' certificates have changed: as Session::authorities_changed().
  void authorities_changed() LOCKSLEY_REQUIRES(kLinkThread);
  // Closes the connection, and sends nothing more; the log's line says why.
  void drop(std::string_view reason) LOCKSLEY_REQUIRES(kLinkThread);
  // Drops it, because it has not logged in and a new connection needs its place.
  void give_way() LOCKSLEY_REQUIRES(kLinkThread);
  // Checks whether the connection must give way because its command comes too slowly (InputBudget).
  void look_at_input() LOCKSLEY_REQUIRES(kLinkThread);
  // The connection waits for room, and its worker has got nothing from this daemon for a while:
  // shows that the daemon lives.
  void show_life() LOCKSLEY_REQUIRES(kLinkThread);
  // Called by Transport.
  void socket_is_ready() { wakeup().wake_here(); }
  void wake() { wakeup().wake(); }

 private:
  enum class TurnEnd : std::uint8_t {
    kNeedMore,  // all commands that have arrived are executed
    kYield,     // the turn is over, and others have theirs
    kAsk,       // a command waits for the I/O thread: ask()
    kClose,     // once all output is sent
  };
  // Guesses, as those of the client port.
  static constexpr int kTurnCommands = 256;
  static constexpr auto kTurnTime = std::chrono::microseconds(250);
  static constexpr std::size_t kPauseOutput = 64 * 1024;    // while more is unsent, no command is executed
  static constexpr std::size_t kPauseStranger = 16 * 1024;  // the same before the login
  static constexpr std::size_t kMostEcho = 16 * 1024;       // that PING and ECHO give back
  static constexpr auto kRoundTripPeriod = std::chrono::milliseconds(100);

  Transport& transport() { return connection_.transport(); }
  Wakeup& wakeup() { return connection_.wakeup(); }
  ConnectionLife& life() { return connection_.life(); }
  bool is_dropped() const { return connection_.life().is_dropped(); }
  bool is_closing() const { return connection_.life().is_closing(); }

  // InputBudget::Owner
  void input_has_room() override { wakeup().wake(); }
  void free_input() override;

  // worker_session.cc
  Coroutine<void> converse();
  Coroutine<bool> shake_hands();
  Coroutine<void> say_goodbye();
  // After the farewell of a connection that was closed for lack of memory: its worker has time to
  // reclaim its leases on another one.
  Coroutine<void> await_return();
  // False: the peer has gone. Reads nothing, and begins to wait, if there is no room for more
  // input.
  bool receive() LOCKSLEY_REQUIRES(kLinkThread);
  // The charge for commands that have not arrived whole: their bytes, or their memory beyond one
  // block, whichever is more. Many short arguments take more memory than bytes.
  std::uint64_t input_bytes() const;
  // Frees the bytes of a command that will not be executed: a peer may keep its end of the
  // connection open.
  void drop_input() LOCKSLEY_REQUIRES(kLinkThread);
  TurnEnd execute() LOCKSLEY_REQUIRES(kLinkThread);
  // False while many replies wait for the store, while the store has no room, or while much output
  // is unsent.
  bool may_execute() const LOCKSLEY_REQUIRES(kLinkThread);
  // False: the peer has gone.
  bool flush() LOCKSLEY_REQUIRES(kLinkThread);
  void measure_round_trip() LOCKSLEY_REQUIRES(kLinkThread);
  void wake_at(Instant at) { connection_.wake_at(*this, at); }
  void fail(std::string_view text) LOCKSLEY_REQUIRES(kLinkThread);
  // The same, and closes the connection; a CLAIM that waits ends before.
  void fail_and_close(std::string_view text) LOCKSLEY_REQUIRES(kLinkThread);
  // Closes the connection for lack of memory for its input.
  void close_for_memory(std::string_view text) LOCKSLEY_REQUIRES(kLinkThread);
  void end() LOCKSLEY_REQUIRES(kLinkThread);

  // worker_session_login.cc
  // Executes a command that needs no worker. None: the command is the link's.
  std::optional<TurnEnd> execute_own() LOCKSLEY_REQUIRES(kLinkThread);
  void client_command() LOCKSLEY_REQUIRES(kLinkThread);
  // HELLO, AUTH and RECLAIM.
  Coroutine<void> ask();
  Coroutine<void> hello();
  Coroutine<void> auth();
  Coroutine<void> reclaim();
  // A login; `password` is the place of the password among the arguments, where it is wiped.
  LoginQuestion by_password(std::string_view user, std::size_t password);
  // True, after the error reply: the connection's worker has joined, with its leases, for another
  // user.
  bool refuses_change_to(std::string_view user) LOCKSLEY_REQUIRES(kLinkThread);
  Coroutine<bool> log_in(LoginQuestion question);
  // The login failed, and the refusal is written.
  void login_failed() LOCKSLEY_REQUIRES(kLinkThread);
  // Asks the I/O thread by ask(done), which calls done(answer) on this thread, and waits for the
  // answer. None: the connection closes.
  template <class Answer, class Ask>
  Coroutine<std::optional<Answer>> answer_to(Ask ask);
  void set_user(UserRef user, ConnectionPlace place, Credential by) LOCKSLEY_REQUIRES(kLinkThread);
  bool is_logged_in() const { return user_ != nullptr; }

  LinkService& service_;
  Connection connection_;
  const WorkerLink::Id id_;
  proto::CommandReader reader_;
  proto::Command command_;
  InputBudget::Share input_;
  proto::Protocol protocol_ = proto::Protocol::kResp2;
  std::string name_;  // of CLIENT SETNAME

  Strangers::Entry stranger_ LOCKSLEY_GUARDED_BY(kLinkThread);
  UserRef user_;  // null: a stranger
  ConnectionPlace place_;
  Credential logged_in_by_ = Credential::kNone;
  Instant measured_at_{};
  bool has_unsent_ = false;    // the socket did not take all bytes of the last flush()
  bool is_stopped_ = false;    // it waits for room for its input, and has read nothing since
  bool is_sent_away_ = false;  // closed for lack of memory
  bool is_paused_ = false;     // may_execute() said no; send() wakes the coroutine when it says yes
};

}  // namespace locksley::daemon
