// How the subscriptions of a connection follow its user.
#pragma once

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/server/accounts/users.h"

namespace locksley::daemon {

class Session;

// Makes the subscriptions of a connection follow its user: moves them to the user's audience
// (Events), or ends them. It works in slices of the user's line, since ten thousand channels take
// some 20 ms.
//
// A command that logs in moves them before the user changes: move_to(). Each change of the user is
// followed by follow(), whose slices come while commands are executed. While such a command moves
// them, these slices move nothing: its login calls follow() again.
//
// A member of its Session. The I/O thread only. Nothing blocks or fails.
class SubscriptionMoves {
 public:
  explicit SubscriptionMoves(Session& session) : session_(session) {}
  SubscriptionMoves(const SubscriptionMoves&) = delete;
  SubscriptionMoves& operator=(const SubscriptionMoves&) = delete;

  // Ends all subscriptions: before SessionLogin::log_out(), and at the end.
  Coroutine<void> end() LOCKSLEY_REQUIRES(kIoThread);
  // The subscriptions get the events of this user's audience from now on; if the user may not read,
  // they end. Before SessionLogin::log_in(), or before follow() if the login fails after all.
  Coroutine<void> move_to(UserRef user) LOCKSLEY_REQUIRES(kIoThread);
  // The subscriptions get the events of the present user's audience: those that the user may not
  // receive end at once, and the channels move later if they are many. Needs: the session is logged
  // in.
  void follow() LOCKSLEY_REQUIRES(kIoThread);

 private:
  Session& session_;
  bool command_moves_ = false;  // move_to() is under way
  bool is_following_ = false;   // work in Slices moves them: follow()
};

}  // namespace locksley::daemon
