// The façade of all batches, for connections, the HTTP side and main().
#pragma once

#include <asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/batches/changes/batch_changes.h"
#include "daemon/server/batches/changes/customer_changes.h"
#include "daemon/server/batches/changes/result_discards.h"
#include "daemon/server/batches/handlers/handler_batches.h"
#include "daemon/server/batches/intake/intake.h"
#include "daemon/server/batches/stored/batch_loads.h"
#include "daemon/server/batches/stored/store_outcomes.h"
#include "daemon/server/batches/stored/store_reads.h"
#include "daemon/server/records/lookup.h"
#include "daemon/store/engine/engine.h"

namespace locksley::daemon {

// All batches of the daemon, as connections, the HTTP side and main() see them. It composes the
// parts of this folder's rooms (Wiring), and gives callers the parts that they use. The folder's
// README has a picture.
//
// With a store, an accepted batch is in the registry at once, and its jobs enter the ring once it
// is on the disk. A call that writes leaves its ticket in the record (BatchChanges::ticket()), or
// returns it: the reply waits for it (on_stored()). If the store refuses a write, its changes of
// the record and the lane are undone.
//
// Owned by ServerState. A record may outlive it: a posted function may hold one (Registry). The I/O
// thread only. Nothing blocks, except that finding a batch that is over and no longer in memory
// reads the disk; a caller that must not wait for a store on another machine calls first_to_load()
// before. Refusals are the text of the error reply.
class Batches {
 public:
  struct Parts {
    asio::io_context& io;
    Slices& slices;                // for long work
    const config::Config& config;  // what is in force; it may change between calls
    HandlerDirectory& handlers;
    Tenants& tenants;  // as in Registry
    ServerStats& stats;
    // Null: all is in memory alone. Otherwise restore_all() recovers and starts the store before
    // anything else is done.
    Store* store;
    std::shared_ptr<spdlog::logger> log;
  };
  explicit Batches(Parts parts);
  ~Batches();
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  // ---- The parts that callers use ----

  Registry& registry();
  const Registry& registry() const;
  Events& events();
  Intake& intake();              // SUBMIT, RUN, OPEN, ADD, RETRY
  BatchChanges& changes();       // CANCEL, CLOSE, WEIGHT, SLOTS, PAUSE, RESUME
  CustomerChanges& customers();  // CUSTOMER SET, CUSTOMER DEL
  HandlerBatches& handlers();    // for a changed handler
  StoreReads& reads();           // of data that only the store has

  // ---- Batches are found ----

  // As find_batch() in lookup.h.
  using Found = Registry::Found;
  Found find(const User& by, std::string_view id) LOCKSLEY_REQUIRES(kIoThread);
  // As BatchLoads: whether a caller that can wait must ask first_to_load() before find(), and how
  // it has that batch loaded.
  bool loads_aside() const;
  std::uint64_t first_to_load(const User& by, std::string_view id) const LOCKSLEY_REQUIRES(kIoThread);
  void load(std::uint64_t sequence, BatchLoads::OnLoad on_load) LOCKSLEY_REQUIRES(kIoThread);
  // As BatchNews::shown_status().
  BatchStatus shown_status(const std::shared_ptr<BatchRecord>& record) LOCKSLEY_REQUIRES(kIoThread);
  // The number of batches that are not over, including those of RUN.
  std::size_t active() const LOCKSLEY_REQUIRES(kIoThread);

  // ---- Batches come in, change and leave ----

  // Restores everything that is in the store, and starts the threads. Call it once, also without a
  // store. The error is for the operator.
  std::expected<void, StoreRefusal> restore_all() LOCKSLEY_REQUIRES(kIoThread);
  // As Dependencies::look_up_next(), before Intake::submit() or open().
  bool look_up_next(const User& by, const proto::BatchOptions& options, FoundDependencies& found)
      LOCKSLEY_REQUIRES(kIoThread);
  // The batches that the connection streamed in close themselves after limits.open_timeout, unless
  // another connection takes them over. `line`: of its user.
  void connection_ended(std::uint64_t connection, LineNumber line) LOCKSLEY_REQUIRES(kIoThread);
  // As ForgetCommands.
  std::optional<Ticket> forget(BatchRecord& record, const User& by) LOCKSLEY_REQUIRES(kIoThread);
  std::expected<Ticket, std::string> forget_nothing() const LOCKSLEY_REQUIRES(kIoThread);
  // As ResultDiscards.
  using Discarder = ResultDiscards::Discarder;
  void discard_rows(BatchRecord& record, std::uint64_t row, const ResultLog::Place& place)
      LOCKSLEY_REQUIRES(kIoThread);
  void discarder_seen(BatchRecord& record, Discarder which) LOCKSLEY_REQUIRES(kIoThread);
  // Frees payloads that no batch took, on another thread if they are many.
  void free_words_aside(proto::ArgumentList payloads);
  // The same for any object, of about `bytes` bytes. All these wait in one line of the reader,
  // whichever user they belong to.
  void free_dropped(std::shared_ptr<void> dropped, std::uint64_t bytes);
  // The limits of the configuration may have changed.
  void limits_changed() LOCKSLEY_REQUIRES(kIoThread);
  // `told` is called when memory has room for results again: lanes are to start the jobs that
  // waited for it.
  void on_result_room(std::function<void()> told) LOCKSLEY_REQUIRES(kIoThread);

  // ---- The store ----

  // As StoreOutcomes; on_written() before restore_all().
  using OnStored = StoreOutcomes::OnStored;
  void on_stored(OnStored on_outcome) LOCKSLEY_REQUIRES(kIoThread);
  void on_written(std::function<void(Ticket)> written);
  // As StoredBatches.
  bool is_settled(Ticket ticket) const LOCKSLEY_REQUIRES(kIoThread);
  Ticket ticket_of_rows(BatchRecord& record, std::uint64_t rows) LOCKSLEY_REQUIRES(kIoThread);

  // ---- The end ----

  // From now on nothing is accepted, and open batches that are not stored are closed. `on_idle` is
  // called once, when no batch has anything left to do that the store would not keep for the next
  // start (Drain).
  void drain(std::function<void()> on_idle) LOCKSLEY_REQUIRES(kIoThread);
  bool is_draining() const LOCKSLEY_REQUIRES(kIoThread);

 private:
  // All parts, and the functions by which they report to each other.
  struct Wiring;
  const std::unique_ptr<Wiring> wiring_;
};

}  // namespace locksley::daemon
