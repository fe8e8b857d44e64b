// The states of a connection, and which may follow which.
#pragma once

#include <cstdint>

namespace locksley::daemon {

// The states of a connection, in the order in which it passes them; each may be skipped, and only
// kStranger <-> kServing goes back.
enum class Life : std::uint8_t {
  kHandshake,  // of TLS: no command is read
  kStranger,   // commands are read, but no user has logged in; it lasts for limits.login_timeout at most
  kServing,    // a user has logged in, or none are configured
  kFinishing,  // the daemon ends: closes as soon as nothing is left to execute and every reply is out
  kLastReply,  // nothing more is executed: closes as soon as every reply is out
  kDropped,    // closes at once, whatever waits
  kEnded,      // closed; its coroutine is over
};

// Whether a connection may go from one state to the other.
constexpr bool may_follow(Life from, Life to) {
  if (from == Life::kServing && to == Life::kStranger) return true;  // RESET, or another configuration
  return to > from;
}

// The state of one connection. A step that may not follow is ignored: so code that closes a
// connection need not know whether it closes already, and a dropped one stays dropped.
//
// A member of a Connection. One thread: that of the connection.
class ConnectionLife {
 public:
  explicit ConnectionLife(Life first) : now_(first) {}

  Life now() const { return now_; }
  // False if nothing changed.
  bool go_to(Life next) {
    if (!may_follow(now_, next)) return false;
    now_ = next;
    return true;
  }
  // Commands are read: no handshake, and not closing. A login changes the state only then.
  bool is_open() const { return now_ == Life::kStranger || now_ == Life::kServing; }
  // Nothing more is executed.
  bool is_closing() const { return now_ >= Life::kLastReply; }
  bool is_dropped() const { return now_ >= Life::kDropped; }

 private:
  Life now_;
};

}  // namespace locksley::daemon
