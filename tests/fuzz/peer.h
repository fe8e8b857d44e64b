// A client of the daemon in the same thread: nothing that it does waits.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tests/fuzz/daemon_in_process.h"
#include "tests/fuzz/reply_ledger.h"

namespace locksley::fuzz {

// One connection with its account. The daemon outlives it, and works whenever this one cannot go
// on.
class Peer {
 public:
  explicit Peer(DaemonInProcess& daemon);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  // Until all is sent, or the daemon has closed the connection.
  void send(std::string_view bytes);
  void half_close();
  // Goes away with a reset; what it is owed does not matter any more.
  void reset();
  // Takes what there is. Never waits.
  void receive();

  bool is_open() const { return fd_ >= 0; }
  const ReplyLedger& ledger() const { return ledger_; }
  ReplyLedger& ledger() { return ledger_; }

  // For a client that behaves: one command, and its reply. Words are separated by spaces.
  proto::Reply ask(const std::string& command);

  // Whether the daemon has a reason to drop any connection at any moment: set by whoever knows.
  bool may_be_cut = false;

 private:
  void close();

  DaemonInProcess& daemon_;
  ReplyLedger ledger_;
  int fd_ = -1;
};

}  // namespace locksley::fuzz
