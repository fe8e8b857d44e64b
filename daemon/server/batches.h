#pragma once

#include <cstdint>
#include <deque>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "config/config.h"
#include "core/batch.h"
#include "daemon/rate_gate.h"
#include "daemon/server/batch_id.h"
#include "daemon/server/batch_record.h"
#include "daemon/server/batch_replies.h"
#include "daemon/server/change_queue.h"
#include "daemon/server/dependents.h"
#include "daemon/server/events.h"
#include "daemon/server/handler_directory.h"
#include "daemon/server/io.h"
#include "daemon/server/registry.h"
#include "daemon/server/server_stats.h"
#include "daemon/server/users.h"
#include "daemon/store/reader.h"
#include "daemon/store/ticket.h"
#include "daemon/store/writes.h"
#include "proto/argument_list.h"
#include "proto/submit_options.h"

namespace locksley::daemon {

class Store;
struct AcceptedRow;
struct ChangesRow;
struct StoredBatch;

// The life of batches as clients cause it: accepted whole or refused, streamed in, changed, cancelled when
// their deadline passes, forgotten when their time is up; and what the scheduler tells of them, handed on to
// counters, subscribers and whoever waits. The seam to the store, and later to other daemons: everything
// that accepts a batch or hears of its progress goes through here.
//
// With a store, a batch that is accepted is in the registry at once, and its jobs are in the ring when it is
// on the disk. Each call that is written leaves its ticket in the record (BatchRecord::ticket), or returns
// it: the reply waits for it (on_stored()). What the disk does not take is undone, as if it had never come.
//
// Owned by the Server; outlives all its batches. The I/O thread only, but for changes(), which workers call.
// Nothing blocks. Refusals are the text of the error reply.
class Batches {
 public:
  using Refusal = std::string;
  using Accepted = std::expected<std::shared_ptr<BatchRecord>, Refusal>;

  // `config` is what is in force; it may change between calls. `store` may be null: all is in memory alone.
  // Else it is recovered and started by restore_all() before anything else is done.
  Batches(asio::io_context& io, const config::Config& config, HandlerDirectory& handlers, ServerStats& stats,
          Store* store, std::shared_ptr<spdlog::logger> log);
  Batches(const Batches&) = delete;
  Batches& operator=(const Batches&) = delete;

  Registry& registry() { return registry_; }
  const Registry& registry() const { return registry_; }
  Events& events() { return events_; }

  // The user's batch of this id, wherever it is; null if there is none: those of others do not exist. An
  // admin finds its own first, then `user/id`, then the only one of this id. Lives as Registry::find() says.
  // Of a batch that is over and no longer in memory it may read the disk.
  using Found = std::expected<BatchRecord*, Refusal>;
  Found find(const User& by, std::string_view id);

  // Everything that is in the store: what is not over, and where to find the rest. The error is for the
  // operator.
  std::expected<void, std::string> restore_all();
  // What is called after each outcome of the store, when it has been acted upon.
  void on_stored(std::function<void(const Outcome&)> told) { stored_told_ = std::move(told); }
  // More waits for the store than should; connections that wait for it read no further.
  bool is_congested() const { return unsettled_bytes_ > kMostUnsettled; }
  static constexpr std::uint64_t kRowBytes =
      300;  // of a batch in the store beside payloads and results, about
  static constexpr std::uint64_t kMostUnsettled = 64U << 20;  // guess: half a second of a slow disk
  // Whether all writes up to this ticket are on the disk, or were refused, and that is known here.
  bool is_settled(Ticket ticket) const { return ticket <= settled_; }

  // The batch is the user's, `by`. `arguments` is the whole command; the payloads stay in it. The same id
  // with the same handler and jobs gives the batch that there is and starts nothing.
  Accepted submit(const User& by, const proto::SubmitCommand& command, proto::ArgumentList arguments);
  // A batch that nobody can ask for, forgotten as soon as its RUN lets go of it.
  Accepted run(const User& by, const proto::SubmitCommand& command, proto::ArgumentList arguments);
  // `connection` streams it in.
  Accepted open(const User& by, const proto::OpenCommand& command, std::uint64_t connection);
  // Jobs that the batch has now. `connection` takes over the streaming, so that the batch outlives the one
  // that opened it.
  std::expected<std::uint64_t, Refusal> add(BatchRecord& record, proto::ArgumentList payloads,
                                            std::uint64_t connection);
  // Jobs in all.
  std::expected<std::uint64_t, Refusal> close(BatchRecord& record);
  // What that connection streamed in closes itself after limits.open_timeout, unless another goes on with it.
  void connection_gone(std::uint64_t connection);

  // Jobs that will not run because of it.
  std::uint64_t cancel(BatchRecord& record, std::string reason);
  // All its failed jobs are queued again; how many. A batch that is over goes on by it. 0 if it was
  // cancelled.
  std::expected<std::uint64_t, Refusal> retry(BatchRecord& record);
  void set_weight(BatchRecord& record, std::uint32_t weight);
  void pause(BatchRecord& record);
  void resume(BatchRecord& record);

  // What is kept may have to be less.
  void limits_changed() { make_room(0); }

  // handlers.cc: what the configuration does to a handler, for those of its batches that are not over.
  // No more jobs of them begin, or they may again.
  void hold_handler(const std::string& name);
  void release_handler(const std::string& name);
  // Whether an executor has jobs of one. If not, and they are held, it stays so.
  bool has_running(const std::string& name);
  // They go on in that lane. Of none may an executor have jobs.
  void move_handler(const std::string& name, Lane& to);

  // A batch that is over leaves, with its results. None if it is not over; else the ticket of that, 0 if the
  // store has nothing of it. Whoever waits for the ticket says so.
  std::optional<Ticket> forget(BatchRecord& record, Urgency urgency);

  // Rows that are in the store, read by another thread. The last step is made on this one: then the batch's
  // waiters are woken. Shared by that thread and whoever waits.
  struct ReadRows {
    bool is_done = false;
    std::expected<ResultsPage, std::string> page;  // once it is done; the error says why they cannot be read
  };
  // `told` is called then, too, if it is not empty.
  std::shared_ptr<const ReadRows> read_rows(std::shared_ptr<BatchRecord> record, const ResultsDemand& demand,
                                            std::function<void(const ReadRows&)> told = {});

  // From now on nothing is accepted, and open batches that are not stored are closed. `on_idle` is called
  // once, when no batch has anything left to do.
  void drain(std::function<void()> on_idle);
  bool is_draining() const { return draining_; }
  std::size_t active() const { return registry_.active() + runs_; }

  // Takes note now of what became of a batch, if the workers' word of it has not been taken yet.
  void hear_of(BatchRecord& record) { changed(record, std::chrono::steady_clock::now()); }

  // Arms the timer for what is due next; after changes of what is due that did not come through a member of
  // this class.
  void arm_timer();

 private:
  // order.cc
  // What must come to pass before a batch starts.
  struct Order {
    std::optional<std::chrono::milliseconds> delay;
    Waits waits;
    std::string broken;  // not empty: it will never start, for this reason
  };
  std::expected<Order, Refusal> order_of(const User& by, const proto::BatchOptions& options);
  Order restored_order(const AcceptedRow& row, const BatchHistory& history, const ChangesRow& changes);
  // Before the ring knows the batch. `start_at`: when its delay ends.
  void hold(BatchRecord& record, Order order, Instant start_at);
  // The batch is over: its payloads leave the memory, unless its failed jobs may run again and there is no
  // store to read them from.
  void release_payloads(BatchRecord& record, const BatchStatus& status);
  // The batch is over: those that waited for it start, or never will.
  void release_dependents(BatchRecord& record, const BatchStatus& status);

  // accept.cc
  std::expected<const HandlerDirectory::Entry*, Refusal> handler_for(const User& by, const std::string& name);
  Found find_own(const Tenant& tenant, std::string_view id);
  Found find_any(std::string_view id);

  // limits.cc
  // What is asked to be accepted, as the limits see it.
  struct Demand {
    const Tenant& tenant;
    const std::string& handler;
    std::uint64_t new_batches;  // 0 for ADD and RETRY
    std::uint64_t batch_jobs;
    std::uint64_t new_jobs;
    const proto::ArgumentList* payloads;  // null: none
    bool is_stored;
  };
  std::expected<void, Refusal> check_limits(const Demand& demand);
  std::expected<void, Refusal> check_quotas(const Demand& demand);
  Refusal queue_full(const Demand& demand, std::string_view limit, std::uint64_t most, std::uint64_t queued);
  // Whether the memory has room for these payloads; those of batches in the store need none.
  bool has_memory_for(const proto::ArgumentList& payloads) const;
  Accepted refuse(const std::string& handler, Refusal why);
  Accepted accept(const User& by, const proto::SubmitCommand& command, proto::ArgumentList arguments,
                  BatchRecord::Origin origin);
  Accepted existing(BatchRecord& record, const std::string& handler, bool is_same);
  std::expected<void, Refusal> check_store(bool is_stored) const;
  // `payloads`: to be written to the store; null: there are none, or there is no store.
  using SharedPayloads = std::shared_ptr<const proto::ArgumentList>;
  void enter(const std::shared_ptr<BatchRecord>& record, const proto::BatchOptions& options, Order order,
             std::uint64_t jobs, bool open, SharedPayloads payloads);
  std::string new_id(const Tenant& tenant);

  // stored.cc
  void accept_stored(const std::shared_ptr<BatchRecord>& record, const proto::BatchOptions& options,
                     std::uint64_t jobs, bool open, SharedPayloads payloads);
  void count_stored(BatchRecord& record, std::uint64_t result_bytes);
  void tell_stored_bytes();
  void write_changes(BatchRecord& record);
  void drop_rejected(BatchRecord& record);
  ChangesRow changes_of(const BatchRecord& record) const;
  void restore(StoredBatch stored);
  void restore_finished(const StoredBatch& stored);
  // As the store has it; not in the registry yet.
  std::shared_ptr<BatchRecord> record_of(StoredBatch& stored);
  const HandlerDirectory::Entry& entry_for(const std::string& handler);
  void settle(const Outcome& outcome);

  // retention.cc
  Registry::Loaded load(std::uint64_t sequence);
  // Of the batches that are over and in the store, the last kMostFinished stay in memory: some MiB, for
  // clients that ask what became of them.
  void retire_finished();
  static constexpr std::size_t kMostFinished = 4096;  // guess
  // Forgets batches that are over, those accepted first first, until `bytes` more fit into store.max_bytes.
  // False if they do not.
  bool make_room(std::uint64_t bytes);
  std::optional<Ticket> forget_retained(std::uint64_t sequence, Urgency urgency);

  // Brings registry, subscribers and waiters up to what the workers have done.
  void apply_changes();
  void take_changes();
  void changed(BatchRecord& record, Instant now);
  // Those for whom something has come: a row that they wait for, or the end.
  void wake_waiters(BatchRecord& record, std::uint64_t rows);
  void tell_subscribers(BatchRecord& record, const BatchStatus& status, Instant now);
  void ended(BatchRecord& record, const BatchStatus& status);
  void log_end(const BatchRecord& record, const BatchStatus& status);
  Instant next_due();
  void take_due();
  void free_payloads(BatchRecord& record, const BatchStatus& status);
  void schedule_retry(BatchRecord& record, const BatchStatus& status);
  void look_whether_idle();
  // handlers.cc
  void for_each_of(const std::string& handler, const std::function<void(BatchRecord&)>& visit);
  // One that was over is about to go on: with its handler as that is now.
  void follow_handler(BatchRecord& record);

  const config::Config& config_;
  HandlerDirectory& handlers_;
  ServerStats& stats_;
  Store* const store_;  // null: there is none
  asio::io_context& io_;
  const std::shared_ptr<spdlog::logger> log_;
  Registry registry_;
  Events events_;
  Dependents dependents_;
  ChangeQueue changes_;
  BatchIds ids_;
  std::unordered_map<std::uint64_t, std::unordered_set<std::uint64_t>>
      streams_;             // open batches by connection
  std::uint64_t runs_ = 0;  // active batches of RUN
  // What waits for the store, in the order of the tickets: jobs that are to enter the ring, and queues there
  // to be closed.
  struct Unsettled {
    enum class Kind : std::uint8_t { kAccept, kAdd, kClose };
    Ticket ticket;
    Kind kind;
    std::shared_ptr<BatchRecord> record;
    IndexRange jobs{};
    bool open = false;
    std::uint64_t bytes = 0;  // of payloads that are in memory only until they are written
  };
  std::deque<Unsettled> unsettled_;
  std::uint64_t unsettled_bytes_ = 0;
  std::uint64_t stored_bytes_ = 0;      // of all batches, BatchRecord::stored_bytes
  std::set<std::uint64_t> retained_;    // batches in memory and in the store that are over, by sequence
  std::deque<std::uint64_t> finished_;  // the same in the order of their ends; some may be forgotten
  Ticket settled_ = 0;
  std::function<void(const Outcome&)> stored_told_;
  Timer due_timer_;
  Timer changes_timer_;
  bool changes_timer_armed_ = false;
  Instant armed_for_ = kNever;
  bool draining_ = false;
  std::function<void()> on_idle_;
  RateGate done_lines_{std::chrono::milliseconds(100)};
  RateGate failed_lines_{std::chrono::seconds(1), 10};
  RateGate closed_lines_{std::chrono::milliseconds(100)};
  RateGate full_lines_{std::chrono::minutes(1)};
  // Frees what is large, so that nobody waits for it: ten million rows take 12 ms and more. The last member:
  // what it holds goes first.
  static constexpr std::uint64_t kLargeBytes = 4U << 20;  // guess: some 100 us
  Reader aside_;
};

}  // namespace locksley::daemon
