// The replies of the connections of remote workers: in order, and only once results are written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/base/job.h"
#include "proto/output_buffer.h"
#include "proto/reply_writer.h"

namespace locksley::daemon {

// The bytes to be sent on each connection. A reply may have to wait until the results that it
// reports are written; later replies wait with it. Pushes do not wait. A *patient* reply is one for
// which its worker does not wait. It may be delayed until there is more to send: so it needs no
// packet of its own, and does not wake a worker that waits for its next jobs.
//
// Owned by the link; one thread; nothing blocks. Memory: the replies. Once accepts_commands() is
// false, the owner of the connection reads no more from it.
class WorkerConnections {
 public:
  using Id = std::uint64_t;                                   // never used again; 0 is none
  static constexpr std::size_t kMostHeld = 1'024;             // replies that wait; guess
  static constexpr std::size_t kMostBytes = 8 * 1024 * 1024;  // unsent, also of replies that wait; guess

  struct Connection {
    std::string user;
    proto::Protocol protocol = proto::Protocol::kResp2;
    proto::OutputBuffer output;
    struct Held {
      std::uint64_t ticket;
      Nanoseconds since;  // when the first of these replies was written
      proto::OutputBuffer bytes;
    };
    std::deque<Held> held;              // ascending by ticket
    std::size_t held_bytes_before = 0;  // bytes of `held` without the last entry, which grows
    bool is_urgent = false;             // `output` has more than patient replies, unless it is empty
    bool is_ready = false;              // it is in ready_
    bool is_put_off = false;            // it has replies that were put off
    std::uint64_t sent = 0;             // bytes of `output` that the peer has taken
    bool waits_long = false;  // note_long_waits() has found that its first replies wait, and they still do

    // Bytes of all replies in memory, whether they may be sent or wait.
    std::size_t unsent_bytes() const {
      return output.size() + held_bytes_before + (held.empty() ? 0 : held.back().bytes.size());
    }
    // Where its last reply ends, among all bytes of the connection. Once `sent` is as large, the
    // peer has taken that reply, except that pushes overtake waiting replies: then the peer may
    // still lack as many bytes as the pushes have.
    std::uint64_t end_of_replies() const { return sent + unsent_bytes(); }
  };

  // `user`: empty before the login.
  Id add(std::string user, proto::Protocol protocol);
  void remove(Id id);
  // Null: the connection is gone.
  Connection* find(Id id);
  bool accepts_commands(Id id);

  // Writes the next reply of the connection.
  proto::ReplyWriter reply(Id id) { return reply(id, 0, Nanoseconds{}, Urgency::kUrgent); }
  // The same for a patient reply, which is sent once results up to `ticket` are written. `now`:
  // needed with a ticket.
  proto::ReplyWriter patient_reply(Id id, std::uint64_t ticket = 0, Nanoseconds now = {}) {
    return reply(id, ticket, now, Urgency::kMayBePutOff);
  }
  proto::ReplyWriter push(Id id);
  // All results up to this number are written.
  void written(std::uint64_t ticket);
  bool is_holding() const { return !holding_.empty(); }
  bool is_holding(Id id) const { return holding_.contains(id); }
  // The highest ticket that a reply had to wait for.
  std::uint64_t last_ticket() const { return last_ticket_; }
  // Called every few seconds while is_holding(). Returns the connections whose first waiting
  // replies have waited since this instant or longer.
  std::vector<Id> note_long_waits(Nanoseconds since);
  bool waits_long(Id id) { return find(id)->waits_long; }
  // The connection is not read while its replies wait for the store: there are many, or they are
  // large.
  bool is_full(Id id) {
    const Connection* const connection = find(id);
    return connection != nullptr && !connection->held.empty() && !accepts_commands(id);
  }
  // The connections that got bytes to send since the last call. A connection is left out if it got
  // only patient replies and `may_put_off` returns true for it: it is returned once it has more
  // bytes to send, or after hurry().
  template <class MayPutOff>
  std::vector<Id> take_ready(MayPutOff may_put_off);
  bool is_put_off(Id id) const {
    const auto found = connections_.find(id);
    return found != connections_.end() && found->second.is_put_off;
  }
  bool puts_off() const { return puts_off_ != 0; }
  // Ends all delays: the connections with replies that were put off are ready.
  void hurry();

 private:
  enum class Urgency : std::uint8_t { kUrgent, kMayBePutOff };

  proto::ReplyWriter reply(Id id, std::uint64_t ticket, Nanoseconds now, Urgency urgency);
  proto::ReplyWriter write_now(Id id, Connection& connection, Urgency urgency);
  void make_ready(Id id, Connection& connection) {
    if (!std::exchange(connection.is_ready, true)) ready_.push_back(id);
  }
  void set_put_off(Id id, Connection& connection, bool is_put_off) {
    if (std::exchange(connection.is_put_off, is_put_off) == is_put_off) return;
    if (is_put_off) {
      ++puts_off_;
      put_off_.push_back(id);
    } else if (--puts_off_ == 0) {
      put_off_.clear();
    }
  }

  std::unordered_map<Id, Connection> connections_;
  std::unordered_set<Id> holding_;  // connections with replies that wait
  // The connections that got bytes, and those with delayed replies; some may be gone, or have none
  // any longer.
  std::vector<Id> ready_;
  std::vector<Id> put_off_;
  std::size_t puts_off_ = 0;  // how many connections have delayed replies
  Id last_id_ = 0;
  std::uint64_t written_ = 0;
  std::uint64_t last_ticket_ = 0;
};

template <class MayPutOff>
std::vector<WorkerConnections::Id> WorkerConnections::take_ready(MayPutOff may_put_off) {
  std::vector<Id> ready;
  for (const Id id : ready_) {
    Connection* const connection = find(id);
    if (connection == nullptr) continue;
    connection->is_ready = false;
    set_put_off(id, *connection, !connection->is_urgent && may_put_off(id));
    if (!connection->is_put_off) ready.push_back(id);
  }
  ready_.clear();
  std::ranges::sort(ready);
  return ready;
}

}  // namespace locksley::daemon
