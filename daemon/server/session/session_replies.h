// The replies of a connection: written by commands, held for the store, sent to the peer.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "daemon/base/loop/io_thread.h"
#include "daemon/connection/connection.h"
#include "daemon/server/session/client_info.h"
#include "daemon/server/session/output/session_output.h"
#include "daemon/server/session/subscriptions/subscriptions.h"
#include "daemon/server/state/audit.h"
#include "daemon/server/state/server_state.h"
#include "daemon/store/write/ticket.h"
#include "proto/output_buffer.h"
#include "proto/reply_writer.h"

namespace locksley::daemon {

class SessionLogin;

// The replies of one connection. Commands write them here, in the protocol of the connection, or as
// errors, which are counted; and say which replies wait for a write of the store. Sends replies as
// far as the socket takes them. It sends no reply that the store holds up (SessionOutput), and no
// reply that tells of batches while another daemon may have taken over the batches.
//
// A member of a Session, as are the other parts that it borrows; end() comes before the socket is
// closed. The I/O thread only. Nothing blocks. A peer that has gone is a result of flush().
class SessionReplies {
 public:
  // Freeing more takes milliseconds: another thread does it.
  static constexpr std::size_t kMuchToFree = 1 << 20;

  // `login` and `subscriptions` may be constructed later.
  SessionReplies(ServerState& state, Connection& connection, const ClientInfo& info,
                 const SessionLogin& login, const Subscriptions& subscriptions) LOCKSLEY_REQUIRES(kIoThread);
  SessionReplies(const SessionReplies&) = delete;
  SessionReplies& operator=(const SessionReplies&) = delete;

  // ---- For commands ----

  // Writes a reply, in the protocol of the connection.
  proto::ReplyWriter reply() { return {is_muted() ? output_.muted() : output_.end(), info_.protocol}; }
  // Writes an error reply, and counts it by its code.
  void fail(std::string_view text);
  // The reply that `write(ReplyWriter&)` writes goes out, and all replies after it, once everything
  // up to `ticket` is on the disk; if that write fails, an error goes out in its place. 0: at once.
  // `earlier`: the ticket of an earlier write that the reply reports, too, so that it fails with
  // either; 0: there is none.
  template <class Write>
  void reply_when_stored(Ticket ticket, Write write, Ticket earlier = 0) LOCKSLEY_REQUIRES(kIoThread);
  // Replies that are written from now on go out once the writes up to `ticket` have had their
  // outcome, whatever it is. 0: they wait for nothing new. `earlier`: as above.
  void hold(Ticket ticket, Ticket earlier = 0) LOCKSLEY_REQUIRES(kIoThread);
  // From now on, messages of channels are sent after all replies that were written so far;
  // otherwise they pass the replies that wait for the store. Called after the confirmation of a
  // subscription, and after the reply to HELLO, which changes the form of messages. With RESP2 a
  // subscribed connection can send no command that writes, so its messages never pass a reply.
  void messages_follow() { output_.messages_follow(); }
  // What is written from now on, until all output is sent, may tell of batches: it is sent only
  // while no other daemon can have taken them over. Each command that is executed while the daemon
  // is the active one calls it.
  void tell_of_batches() { tells_of_batches_ = true; }
  // The audit's line about the command that is executed; null: it has none.
  std::unique_ptr<Audit::Entry>& audit_entry() { return audit_entry_; }
  // Whether the client wants no reply to the command.
  bool is_muted() const {
    using enum ClientInfo::ReplyMode;
    return info_.reply_mode == kOff || info_.reply_mode == kSkipping;
  }

  // ---- For the connection ----

  SessionOutput& output() { return output_; }
  const SessionOutput& output() const { return output_; }
  // Writes as much as the socket takes, unless replies are withheld. False if the peer has gone.
  bool flush() LOCKSLEY_REQUIRES(kIoThread);
  // Whether the output tells of batches that another daemon may have taken over since it was
  // written. Soon this daemon learns that none has, and sends the output, or it ends.
  bool is_withheld() const LOCKSLEY_REQUIRES(kIoThread);
  // Whether more than limits.output_buffer waits for the peer: then the caller drops the
  // connection. Counted and logged.
  bool is_over_limit() LOCKSLEY_REQUIRES(kIoThread);
  // The connection comes to rest: the store's writer may send a small held reply.
  void offer_early() LOCKSLEY_REQUIRES(kIoThread);
  // A turn is over, and flush() has sent what it could: forgets what is no longer needed. Not while
  // a command waits, since it has yet to reply.
  void turn_is_over() LOCKSLEY_REQUIRES(kIoThread);
  // Forgets everything.
  void end() LOCKSLEY_REQUIRES(kIoThread);
  // Frees the bytes, on another thread if that takes long.
  void free_if_large(proto::OutputBuffer bytes) LOCKSLEY_REQUIRES(kIoThread);

 private:
  // The store has an outcome for the replies `held`. `error`: the store's error; empty: the disk
  // has the write.
  void release(SessionOutput::HeldNumber held, const std::string& error) LOCKSLEY_REQUIRES(kIoThread);
  // As that of SessionOutput.
  void take_back_early();

  ServerState& state_;
  Connection& connection_;
  const ClientInfo& info_;
  const SessionLogin& login_;
  const Subscriptions& subscriptions_;

  SessionOutput output_;
  std::unique_ptr<Audit::Entry> audit_entry_;
  bool tells_of_batches_ = false;
};

template <class Write>
void SessionReplies::reply_when_stored(Ticket ticket, Write write, Ticket earlier) {
  const bool waits = !state_.batches().is_settled(ticket);
  hold(ticket, earlier);
  const std::size_t begin = output_.end().size();
  proto::ReplyWriter writer = reply();
  write(writer);
  if (waits) output_.mark(begin, output_.end().size());
}

}  // namespace locksley::daemon
