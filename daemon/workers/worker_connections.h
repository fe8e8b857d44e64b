// The replies of the connections of remote workers: in order, and only once results are written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "proto/output_buffer.h"
#include "proto/reply_writer.h"

namespace locksley::daemon {

// The bytes to be sent on each connection. A reply may have to wait until the results that it reports are
// written; the replies after it wait with it. Pushes do not wait.
//
// Owned by the link; one thread; nothing blocks. Memory: the replies. Once accepts_commands() is
// false, the owner of the connection reads no more from it.
class WorkerConnections {
 public:
  using Id = std::uint64_t;                                   // never used again; 0 is none
  static constexpr std::size_t kMostHeld = 1'024;             // replies that wait; guess
  static constexpr std::size_t kMostBytes = 8 * 1024 * 1024;  // unsent; guess

  struct Connection {
    std::string user;
    proto::Protocol protocol = proto::Protocol::kResp2;
    proto::OutputBuffer output;
    struct Held {
      std::uint64_t ticket;
      proto::OutputBuffer bytes;
    };
    std::deque<Held> held;  // ascending by ticket
  };

  // `user`: empty before the login.
  Id add(std::string user, proto::Protocol protocol);
  void remove(Id id);
  // Null: the connection is gone.
  Connection* find(Id id);
  bool accepts_commands(Id id);

  // The next reply is written there; it is sent once results up to `ticket` are written.
  proto::ReplyWriter reply(Id id, std::uint64_t ticket = 0);
  proto::ReplyWriter push(Id id);
  // All results up to this number are written.
  void written(std::uint64_t ticket);
  bool is_holding() const { return !holding_.empty(); }
  // The highest ticket that a reply had to wait for.
  std::uint64_t last_ticket() const { return last_ticket_; }
  // Connections that got bytes to send since the last call.
  std::vector<Id> take_ready();

 private:
  proto::ReplyWriter write_now(Id id, Connection& connection);

  std::unordered_map<Id, Connection> connections_;
  std::unordered_set<Id> holding_;  // those with replies that wait
  std::unordered_set<Id> ready_;
  Id last_id_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t last_ticket_ = 0;
};

}  // namespace locksley::daemon
