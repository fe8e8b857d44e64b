// The façade of all batches, for connections, the HTTP side and main().
#pragma once

#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "config/config.h"
#include "daemon/base/loop/io.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/sliced_work.h"
#include "daemon/base/loop/slices.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/batches/changes/batch_changes.h"
#include "daemon/server/batches/changes/customer_changes.h"
#include "daemon/server/batches/changes/result_relief.h"
#include "daemon/server/batches/handlers/handler_batches.h"
#include "daemon/server/batches/intake/admission.h"
#include "daemon/server/batches/intake/intake.h"
#include "daemon/server/batches/news/batch_news.h"
#include "daemon/server/batches/retention/free_aside.h"
#include "daemon/server/batches/stored/awaited_deletions.h"
#include "daemon/server/batches/stored/batch_loads.h"
#include "daemon/server/batches/stored/pending_discards.h"
#include "daemon/server/batches/stored/restored_batches.h"
#include "daemon/server/batches/stored/restored_times.h"
#include "daemon/server/batches/stored/store_reads.h"
#include "daemon/server/batches/stored/stored_batches.h"
#include "daemon/server/batches/stored/write_charges.h"
#include "daemon/server/records/lookup.h"
#include "daemon/store/engine/engine.h"

namespace locksley::daemon {

// All batches of the daemon, as connections, the HTTP side and main() see them. It composes the
// parts of this folder's rooms, hands out those that callers use, and does itself what concerns
// several of them; README.md has a picture.
//
// With a store, an accepted batch is in the registry at once, and its jobs enter the ring once it
// is on the disk. A call that writes leaves its ticket in the record (BatchChanges::ticket()), or
// returns it: the reply waits for it (on_stored()). If the store refuses a write, what it has
// changed in the record and the lane is undone.
//
// Owned by ServerState. A record may outlive it: a posted function may hold one (Registry). The I/O
// thread only. Nothing blocks, but for finding a batch that is over and has left the memory: that
// reads the disk; first_to_load() says how a caller avoids waiting for a server. Refusals are the
// text of the error reply.
class Batches {
 public:
  using Found = Registry::Found;

  struct Parts {
    asio::io_context& io;
    Slices& slices;                // long work is done in them
    const config::Config& config;  // what is in force; it may change between calls
    HandlerDirectory& handlers;
    Tenants& tenants;  // as in Registry
    ServerStats& stats;
    // Null: all is in memory alone. Else restore_all() recovers and starts it before anything else
    // is done.
    Store* store;
    std::shared_ptr<spdlog::logger> log;
  };
  explicit Batches(Parts parts);
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  Registry& registry() { return registry_; }
  const Registry& registry() const { return registry_; }
  Events& events() { return events_; }
  std::size_t active() const LOCKSLEY_REQUIRES(kIoThread) {
    return registry_.active() + registry_.runs().size();
  }

  // As find_batch() in lookup.h.
  Found find(const User& by, std::string_view id) LOCKSLEY_REQUIRES(kIoThread) {
    return find_batch(registry_, by, id);
  }
  // As BatchLoads: whether a caller that can wait must ask first_to_load() before find(), and how
  // it has that batch loaded.
  bool loads_aside() const { return loads_.are_wanted(); }
  std::uint64_t first_to_load(const User& by, std::string_view id) const LOCKSLEY_REQUIRES(kIoThread) {
    return loads_aside() ? daemon::first_to_load(registry_, by, id) : 0;
  }
  void load(std::uint64_t sequence, BatchLoads::OnLoad on_load) LOCKSLEY_REQUIRES(kIoThread) {
    loads_.load(sequence, std::move(on_load));
  }
  // The status for a reply. Applies it to all accounts first, so that a client that has read it can
  // submit as many jobs as have ended: a worker publishes the end of a job a moment before it
  // reports the change.
  BatchStatus shown_status(const std::shared_ptr<BatchRecord>& record) LOCKSLEY_REQUIRES(kIoThread);

  // ---- Batches come in ----

  // Everything that is in the store; starts the threads. Once, also without a store. The error is
  // for the operator.
  std::expected<void, StoreRefusal> restore_all() LOCKSLEY_REQUIRES(kIoThread);
  // SUBMIT, RUN, OPEN, ADD, RETRY.
  Intake& intake() { return intake_; }
  // As Dependencies::look_up_next(), before Intake::submit() or open().
  bool look_up_next(const User& by, const proto::BatchOptions& options, FoundDependencies& found)
      LOCKSLEY_REQUIRES(kIoThread) {
    return dependencies_.look_up_next(by, options, found);
  }
  // Frees payloads that no batch took, on another thread if they are many.
  void free_words_aside(proto::ArgumentList payloads) {
    const std::uint64_t bytes = payloads.memory_bytes();
    free_dropped(std::make_shared<proto::ArgumentList>(std::move(payloads)), bytes);
  }
  // The same for any object, of about `bytes` bytes. All these wait in one line of the reader,
  // whichever user they belong to.
  void free_dropped(std::shared_ptr<void> dropped, std::uint64_t bytes) {
    free_aside(aside_, std::move(dropped), bytes, Reader::kNoUser);
  }
  // The batches that it streamed in close themselves after limits.open_timeout, unless another
  // connection goes on with them. `line`: its user's.
  void connection_ended(std::uint64_t connection, LineNumber line) LOCKSLEY_REQUIRES(kIoThread);

  // ---- Batches change, and leave ----

  // cancel(), close(), set_weight(), set_slots(), pause(), resume().
  BatchChanges& changes() { return changes_; }
  // CUSTOMER SET, CUSTOMER DEL.
  CustomerChanges& customers() { return customers_; }
  // A batch that is over leaves, with its results. None if it is not over; else the ticket of its
  // deletion, 0 if the store has nothing of it. The caller waits for the ticket.
  std::optional<Ticket> forget(BatchRecord& record, const User& by) LOCKSLEY_REQUIRES(kIoThread);
  // For a FORGET that finds no batch, and may be a repetition: the ticket for which its reply
  // waits. The error is the text of the reply: an earlier one is not on the disk.
  std::expected<Ticket, std::string> forget_nothing() const LOCKSLEY_REQUIRES(kIoThread);
  // The limits of the configuration may have changed.
  void limits_changed() LOCKSLEY_REQUIRES(kIoThread);
  // Called when results in memory have room again: lanes are to start jobs that waited for it.
  void on_result_room(std::function<void()> told) LOCKSLEY_REQUIRES(kIoThread) {
    relief_.on_room(std::move(told));
  }
  // When a handler changes.
  HandlerBatches& handlers() { return handler_batches_; }

  // ---- The store ----

  // Called with each outcome of the store, when the batches have it. The function works until about
  // the instant that it gets. False: it is not done; then it is called again with the same outcome,
  // before any later one.
  using OnStored = std::function<bool(const Outcome&, Instant until)>;
  void on_stored(OnStored on_outcome) LOCKSLEY_REQUIRES(kIoThread) { on_stored_ = std::move(on_outcome); }
  // [the store's thread] `written` is called with the ticket of each group that is on the disk,
  // before the I/O thread learns of it. Once, before restore_all().
  void on_written(std::function<void(Ticket)> written) { on_written_ = std::move(written); }
  bool is_settled(Ticket ticket) const LOCKSLEY_REQUIRES(kIoThread) { return stored_.is_settled(ticket); }
  Ticket ticket_of_rows(BatchRecord& record, std::uint64_t rows) LOCKSLEY_REQUIRES(kIoThread) {
    return stored_.ticket_of_rows(record, rows);
  }
  // Of what the store alone has.
  StoreReads& reads() { return reads_; }

  // ---- Results are discarded ----

  // Results below this row, which lies at `place` (StoreReads::find_row(), if it is in the store
  // alone), cannot be read any more, and their space is freed: in memory and in the store. Needs:
  // the record is what find() returns.
  void discard_rows(BatchRecord& record, std::uint64_t row, const ResultLog::Place& place)
      LOCKSLEY_REQUIRES(kIoThread);
  // A reader that discards asks for rows, or is given some. kHasAll: it is given the last page,
  // with all rows that were left.
  enum class Discarder : std::uint8_t { kIsReading, kHasAll };
  void discarder_seen(BatchRecord& record, Discarder which) LOCKSLEY_REQUIRES(kIoThread);

  // ---- The end ----

  // From now on nothing is accepted, and open batches that are not stored are closed. `on_idle` is
  // called once, when no batch has anything left to do that the store would not keep for the next
  // start.
  void drain(std::function<void()> on_idle) LOCKSLEY_REQUIRES(kIoThread);
  bool is_draining() const LOCKSLEY_REQUIRES(kIoThread) { return admission_.is_draining(); }

 private:
  void act_on(BatchRecord& record, Due due) LOCKSLEY_REQUIRES(kIoThread);
  void close_abandoned(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread);
  // The store has an outcome. settle() acts on it at once; if it is about very many batches or
  // replies, settle_until() acts on the rest in slices, until about `until` each time, and then on
  // the outcomes that have come meanwhile. True: none is left.
  void settle(Outcome outcome) LOCKSLEY_REQUIRES(kIoThread);
  bool settle_until(Instant until) LOCKSLEY_REQUIRES(kIoThread);
  struct PendingOutcome {
    Outcome outcome;
    bool is_known_to_batches = false;  // else on_stored_ waits
  };
  // True: all is done.
  bool settle_some(PendingOutcome& pending, Instant until) LOCKSLEY_REQUIRES(kIoThread);
  // Payloads that the batch waits for have come from the store.
  void payloads_arrived(std::uint64_t sequence) LOCKSLEY_REQUIRES(kIoThread);
  void after_changes() LOCKSLEY_REQUIRES(kIoThread);
  // Something has changed: looks for a batch for which on_idle_ has to wait, in slices if there are
  // very many, and calls on_idle_ if there is none.
  void call_if_idle() LOCKSLEY_REQUIRES(kIoThread);
  // Looks at a few batches. True: there are more to look at.
  bool look_for_busy() LOCKSLEY_REQUIRES(kIoThread);

  const Parts parts_;
  Registry registry_;
  Events events_;
  ChangeQueue change_queue_;
  Retention retention_;
  RestoredTimes restored_times_;
  WriteCharges write_charges_;
  AwaitedDeletions deletions_;
  PendingDiscards pending_discards_;
  StoredBatches stored_;
  RestoredBatches restored_;
  BatchChanges changes_;
  ResultRelief relief_;
  Streams streams_;
  Dependencies dependencies_;
  CustomerChanges customers_;
  HandlerBatches handler_batches_;
  DueTimer timer_;
  BatchNews news_;
  StoreReads reads_;
  BatchLoads loads_;
  Admission admission_;
  Intake intake_;
  OnStored on_stored_ LOCKSLEY_GUARDED_BY(kIoThread);
  std::deque<PendingOutcome> pending_outcomes_ LOCKSLEY_GUARDED_BY(kIoThread);  // those that are not settled
  SlicedWork settling_ LOCKSLEY_GUARDED_BY(kIoThread);                          // settle_until()
  SlicedWork evicting_ LOCKSLEY_GUARDED_BY(kIoThread);                          // Retention::go_on_until()
  std::function<void(Ticket)> on_written_;  // constant after restore_all()
  std::function<void()> on_idle_ LOCKSLEY_GUARDED_BY(kIoThread);
  // It stands at the batch for which on_idle_ waited the last time.
  Registry::ActiveSearch busy_search_ LOCKSLEY_GUARDED_BY(kIoThread);
  bool is_searching_busy_ LOCKSLEY_GUARDED_BY(kIoThread) = false;  // in slices
  RateGate closed_lines_ LOCKSLEY_GUARDED_BY(kIoThread){std::chrono::milliseconds(100)};
  // Destroys what is large. The last member: what it holds refers to the others.
  Reader aside_;
};

}  // namespace locksley::daemon
