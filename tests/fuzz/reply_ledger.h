// What a connection is owed, by what it has sent: a reply for each command, in order.
#pragma once

#include <cstddef>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/command_reader.h"
#include "proto/reply_reader.h"

namespace locksley::fuzz {

// The account of one connection. Told what is sent and what comes back, it ends the process if a
// reply is malformed, is missing, or is one too many. It knows as little of the commands as it can:
// that each has one reply, but for those about subscriptions, which have a confirmation for each
// channel; which of them may wait, and are given up when the client half-closes; and that QUIT and
// errors of the protocol are the last. After a CLIENT REPLY that silences replies they are not
// counted, only read.
class ReplyLedger {
 public:
  explicit ReplyLedger(const proto::Limits& limits) : sent_(limits) {}

  void sent(std::string_view bytes);
  void half_closed() { is_half_closed_ = true; }
  void received(std::string_view bytes);
  // The daemon has closed the connection. `may_be_cut`: there was a reason to do so at any moment.
  void closed(bool may_be_cut);

  // It was told something by which the daemon may drop any connection.
  bool has_killed() const { return has_killed_; }
  // Commands without a reply yet.
  std::size_t owed() const { return owed_.size(); }
  // The oldest of them may wait for something.
  bool is_waiting() const { return !owed_.empty() && owed_.front().may_wait; }
  // Whole replies, messages left out, since the last call.
  std::vector<proto::Reply> take() { return std::exchange(replies_, {}); }

 private:
  struct Owed {
    std::string name;                 // in capitals; empty: an error of the protocol
    std::vector<std::string> topics;  // of those about subscriptions: what is to be confirmed
    bool is_about_topics = false;
    bool may_wait = false;
  };

  void owe(const proto::Command& command);
  void take_reply(proto::Reply reply);
  bool is_reply_of_exec(const proto::Reply& reply) const;
  void confirm(Owed& owed, const proto::Reply& reply);
  // Nothing more comes.
  void end() {
    is_over_ = true;
    owed_.clear();
  }

  proto::CommandReader sent_;
  proto::ReplyReader received_;
  std::deque<Owed> owed_;
  std::vector<proto::Reply> replies_;
  std::set<std::pair<char, std::string>> topics_;  // subscribed to, as was confirmed; 'p': a pattern
  bool is_half_closed_ = false;
  bool is_broken_ = false;    // by an error of the protocol that it sent: what is behind is not read
  bool is_silenced_ = false;  // by CLIENT REPLY
  bool is_over_ = false;
  bool has_killed_ = false;
};

}  // namespace locksley::fuzz
