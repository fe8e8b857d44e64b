// The memory of one connection, kept up to date with its parts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/base/loop/io_thread.h"
#include "daemon/connection/life.h"
#include "daemon/server/accounts/account.h"
#include "daemon/server/session/client_memory.h"
#include "daemon/server/session/output/session_output.h"
#include "daemon/server/session/subscriptions/subscriptions.h"
#include "daemon/server/session/transaction.h"

namespace locksley::daemon {

class Sessions;

// Adds up the memory of one connection: its output, the names of its subscriptions and the events
// that wait for them, its transaction, and what the command under way has read or made. Charges the
// sum to the account of its user. If the account is then over its limit, drops connections, perhaps
// this one.
//
// A member of a Session, as are the parts whose memory it adds up; clear() comes at the end. The
// I/O thread only. Nothing blocks or fails.
class SessionMemory {
 public:
  SessionMemory(Sessions& sessions, const ConnectionLife& life, const SessionOutput& output,
                const Subscriptions& subscriptions, const Transaction& transaction)
      LOCKSLEY_REQUIRES(kIoThread);
  SessionMemory(const SessionMemory&) = delete;
  SessionMemory& operator=(const SessionMemory&) = delete;

  // Call it when the memory that the connection holds may have changed. `more`: bytes that a
  // command under way holds.
  void update(std::size_t more = 0) LOCKSLEY_REQUIRES(kIoThread);
  // For ReadMemory: adds the rows that were read for the running command, until forget_read(),
  // which takes effect with the next update().
  void count_read(std::size_t bytes) LOCKSLEY_REQUIRES(kIoThread);
  void forget_read() { read_bytes_ = 0; }
  // The connection is dropped because of its memory, which no longer counts.
  void evict() { part_.set_output(0); }
  void clear() { part_.clear(); }

  // As those of ClientMemory::Part. What update() adds up is output().
  Account& account() const { return part_.account(); }
  void set_account(Account* account) { part_.set_account(account); }
  std::uint64_t input() const { return part_.input(); }
  bool set_input(std::uint64_t bytes) { return part_.set_input(bytes); }
  std::uint64_t output() const { return part_.output(); }
  // The account of all connections.
  const Account& all() const;

 private:
  Sessions& sessions_;
  const ConnectionLife& life_;
  const SessionOutput& output_;
  const Subscriptions& subscriptions_;
  const Transaction& transaction_;

  ClientMemory::Part part_;
  std::size_t read_bytes_ = 0;
};

}  // namespace locksley::daemon
