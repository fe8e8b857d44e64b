// All connections of the client port.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/sliced_work.h"
#include "daemon/connection/strangers.h"
#include "daemon/server/accounts/heaviest_first.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/session/client_memory.h"
#include "daemon/server/session/command_executor.h"
#include "daemon/server/session/writes/write_waiters.h"
#include "daemon/server/state/server_state.h"
#include "daemon/tls/context.h"

namespace locksley::daemon {

class Session;

// The connections of the client port: admits new ones or refuses them, finds them by id, and
// informs all of them of changes.
//
// Owned by the Server; `state` and `executor` outlive it. When it is destroyed all connections have
// gone. The I/O thread only. Nothing blocks. A connection that fails ends alone.
class Sessions {
 public:
  using ById = std::map<std::uint64_t, std::shared_ptr<Session>>;

  Sessions(ServerState& state, const CommandExecutor& executor);
  ~Sessions();
  Sessions(const Sessions&) = delete;
  Sessions& operator=(const Sessions&) = delete;

  // New connections speak TLS from now on, with this certificate; null: plain. Existing connections
  // stay as they are, except those that a certificate opened whose authority is no longer in
  // client_ca: they are dropped, in slices.
  void use_tls(std::shared_ptr<const TlsContext> context) LOCKSLEY_REQUIRES(kIoThread);
  const TlsContext* tls() const LOCKSLEY_REQUIRES(kIoThread) { return tls_.get(); }

  // Begins a session on a new connection, or refuses it. At limits.max_clients it takes the place
  // of a connection that has not logged in for long, if there is one.
  void accept(Socket socket) LOCKSLEY_REQUIRES(kIoThread);
  // Null if there is none.
  Session* find(std::uint64_t id) const LOCKSLEY_REQUIRES(kIoThread);
  const ById& by_id() const LOCKSLEY_REQUIRES(kIoThread) { return by_id_; }

  // The users in force have changed.
  void users_changed() LOCKSLEY_REQUIRES(kIoThread);
  // The limits in force have changed. Very many connections are informed in slices.
  void limits_changed() LOCKSLEY_REQUIRES(kIoThread);
  // An outcome of the store has been acted upon.
  void store_advanced() LOCKSLEY_REQUIRES(kIoThread) { write_waiters_.store_advanced(); }

  // Each connection closes once its received input is executed and its replies are out; `on_closed`
  // is called when none is left, within this call or later.
  void finish(std::function<void()> on_closed) LOCKSLEY_REQUIRES(kIoThread);
  void drop_all(std::string_view reason) LOCKSLEY_REQUIRES(kIoThread);

  // ---- For sessions ----

  ServerState& state() { return state_; }
  const CommandExecutor& executor() const { return executor_; }
  ClientMemory& memory() { return memory_; }
  Strangers& strangers() LOCKSLEY_REQUIRES(kIoThread) { return strangers_; }
  // Drops connections until the account `own` and that of all are within their limits: first
  // connections of that user, then of the user that holds most for its weight, in both cases the
  // largest first. The caller's may be among them. Very many are dropped in slices.
  void enforce_memory_limit(const Account& own) LOCKSLEY_REQUIRES(kIoThread);
  WriteWaiters& write_waiters() LOCKSLEY_REQUIRES(kIoThread) { return write_waiters_; }
  // The session's coroutine is over.
  void ended(Session& session) LOCKSLEY_REQUIRES(kIoThread);

 private:
  class Holders;

  // Whether there is room for one connection more.
  bool make_room() LOCKSLEY_REQUIRES(kIoThread);
  // Calls tell_one() for each session; for very many in slices, as the work `telling`. A call
  // replaces an unfinished one with the same `telling`: for a session that the earlier one had not
  // reached, tell_one() is called once.
  void tell_all(SlicedWork& telling, void (*tell_one)(Session&)) LOCKSLEY_REQUIRES(kIoThread);
  // Drops some connections of this account, and then of all, as enforce_memory_limit() does. True:
  // no more is to be dropped.
  bool shed(const Account& own) LOCKSLEY_REQUIRES(kIoThread);
  // The users whose connections hold something. All connections that have not logged in count as
  // one user.
  HeaviestFirst<const Tenant> tenants_by_burden() const LOCKSLEY_REQUIRES(kIoThread);

  ServerState& state_;
  const CommandExecutor& executor_;
  ClientMemory memory_;
  Strangers strangers_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::shared_ptr<const TlsContext> tls_ LOCKSLEY_GUARDED_BY(kIoThread);  // null: plain
  // Each informs all connections of the last change: of the authorities, the users, the limits.
  SlicedWork telling_authorities_ LOCKSLEY_GUARDED_BY(kIoThread);
  SlicedWork telling_users_ LOCKSLEY_GUARDED_BY(kIoThread);
  SlicedWork telling_limits_ LOCKSLEY_GUARDED_BY(kIoThread);
  ById by_id_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::uint64_t next_id_ LOCKSLEY_GUARDED_BY(kIoThread) = 1;
  WriteWaiters write_waiters_ LOCKSLEY_GUARDED_BY(kIoThread);
  // The accounts whose connections are being dropped, in slices.
  std::set<const Account*> shedding_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::function<void()> on_closed_ LOCKSLEY_GUARDED_BY(kIoThread);
};

}  // namespace locksley::daemon
