#include "daemon/server/batches/batches.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <system_error>
#include <utility>

#include "daemon/base/loop/io_mailbox.h"
#include "daemon/base/loop/sliced_work.h"
#include "daemon/server/batches/changes/drain.h"
#include "daemon/server/batches/changes/forget_commands.h"
#include "daemon/server/batches/changes/result_relief.h"
#include "daemon/server/batches/news/batch_news.h"
#include "daemon/server/batches/news/due_actions.h"
#include "daemon/server/batches/retention/free_aside.h"
#include "daemon/server/batches/stored/awaited_deletions.h"
#include "daemon/server/batches/stored/pending_discards.h"
#include "daemon/server/batches/stored/restored_times.h"
#include "daemon/server/batches/stored/write_charges.h"
#include "daemon/store/engine/writer_thread.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

// Each part may use earlier parts in its constructor, and later parts once all are constructed.
struct Batches::Wiring {
  explicit Wiring(Parts parts_in);
  Wiring(const Wiring&) = delete;
  Wiring& operator=(const Wiring&) = delete;

  // Called after the news of some batches was applied.
  void after_changes() LOCKSLEY_REQUIRES(kIoThread);

  const Parts parts;
  Registry registry;
  Events events;
  ChangeQueue change_queue;
  Retention retention;
  RestoredTimes restored_times;
  WriteCharges write_charges;
  AwaitedDeletions deletions;
  PendingDiscards pending_discards;
  StoredBatches stored;
  RestoredBatches restored;
  BatchChanges changes;
  ResultRelief relief;
  ResultDiscards discards;
  Streams streams;
  Drain drain;
  Dependencies dependencies;
  CustomerChanges customers;
  HandlerBatches handler_batches;
  DueTimer timer;
  BatchNews news;
  DueActions due_actions;
  ForgetCommands forgets;
  StoreOutcomes outcomes;
  StoreReads reads;
  BatchLoads loads;
  Admission admission;
  Intake intake;
  SlicedWork evicting LOCKSLEY_GUARDED_BY(kIoThread);  // Retention::go_on_until()
  // Destroys large objects on another thread. The last member, since these refer to the other
  // members.
  Reader aside;
};

Batches::Wiring::Wiring(Parts parts_in)
    : parts(std::move(parts_in)),
      registry(parts.tenants, parts.stats),
      events(parts.stats, parts.slices),
      change_queue(
          [this, &mailbox = IoMailbox::of(parts.io)] {
            mailbox.post([this] {
              kIoThread.assert_held();
              news.take_changes();
            });
          },
          parts.log),
      retention(registry, parts.stats, parts.store, aside),
      restored_times({.io = parts.io,
                      .slices = parts.slices,
                      .registry = registry,
                      .log = parts.log,
                      .changed =
                          [this] {
                            kIoThread.assert_held();
                            timer.arm();
                          }}),
      stored({.store = parts.store,
              .charges = write_charges,
              .discards = pending_discards,
              .registry = registry,
              .retention = retention,
              .events = events,
              .stats = parts.stats,
              .apply_news =
                  [this](BatchRecord& record) {
                    kIoThread.assert_held();
                    news.apply(record);
                  }}),
      restored({.config = parts.config,
                .store = parts.store,
                .discards = pending_discards,
                .registry = registry,
                .retention = retention,
                .observer = change_queue,
                .handlers = parts.handlers,
                .times = restored_times,
                .polls = parts.stats.stretches.polls,
                .log = parts.log}),
      changes(stored, aside, parts.log),
      relief({.io = parts.io,
              .slices = parts.slices,
              .registry = registry,
              .retention = retention,
              .changes = changes,
              .store = parts.store,
              .log = parts.log}),
      discards(
          {.registry = registry, .retention = retention, .stored = stored, .relief = relief, .aside = aside}),
      streams(registry),
      drain(registry, stored, streams, parts.slices),
      dependencies(registry, stored, changes, parts.slices),
      customers(parts.config, registry, retention, write_charges, deletions, parts.store),
      handler_batches(registry, parts.handlers, parts.slices,
                      [this] {
                        kIoThread.assert_held();
                        drain.call_if_idle();
                      }),
      timer(parts.io, parts.slices, registry,
            {.act =
                 [this](BatchRecord& record, Due due) {
                   kIoThread.assert_held();
                   due_actions.act_on(record, due);
                 },
             .forget =
                 [this](std::uint64_t batch) {
                   kIoThread.assert_held();
                   retention.forget_retired(batch, Urgency::kWithNext);
                 }}),
      news({.io = parts.io,
            .slices = parts.slices,
            .changes = change_queue,
            .events = events,
            .registry = registry,
            .retention = retention,
            .streams = streams,
            .dependencies = dependencies,
            .timer = timer,
            .store = parts.store,
            .aside = aside,
            .stats = parts.stats,
            .log = parts.log,
            .after_changes =
                [this] {
                  kIoThread.assert_held();
                  after_changes();
                }}),
      due_actions({.registry = registry,
                   .retention = retention,
                   .changes = changes,
                   .dependencies = dependencies,
                   .news = news}),
      forgets({.registry = registry,
               .retention = retention,
               .dependencies = dependencies,
               .charges = write_charges,
               .deletions = deletions,
               .store = parts.store,
               .apply_news =
                   [this](BatchRecord& record) {
                     kIoThread.assert_held();
                     news.apply(record);
                   }}),
      outcomes({.io = parts.io,
                .slices = parts.slices,
                .stored = stored,
                .charges = write_charges,
                .deletions = deletions,
                .retention = retention,
                .after_outcome =
                    [this] {
                      kIoThread.assert_held();
                      timer.arm();
                      drain.call_if_idle();
                    }}),
      reads({.io = parts.io,
             .slices = parts.slices,
             .registry = registry,
             .store = parts.store,
             .aside = aside}),
      loads({.io = parts.io,
             .slices = parts.slices,
             .registry = registry,
             .restored = restored,
             .store = parts.store}),
      admission(parts.config, registry, retention, news, stored, parts.log),
      intake({.config = parts.config,
              .handlers = parts.handlers,
              .stats = parts.stats,
              .store = parts.store,
              .observer = change_queue,
              .registry = registry,
              .events = events,
              .retention = retention,
              .stored = stored,
              .restored = restored,
              .changes = changes,
              .streams = streams,
              .dependencies = dependencies,
              .times = restored_times,
              .handler_batches = handler_batches,
              .news = news,
              .timer = timer,
              .admission = admission,
              .io = parts.io,
              .slices = parts.slices,
              .aside = aside,
              .log = parts.log}),
      evicting(parts.slices) {
  dependencies.on_all_told([this](std::uint64_t sequence) {
    kIoThread.assert_held();
    retention.unpinned(sequence);
    after_changes();
  });
  retention.pin_while([this](std::uint64_t sequence) {
    kIoThread.assert_held();
    return dependencies.is_notifying(sequence);
  });
  retention.do_later([this] {
    kIoThread.assert_held();
    evicting.start([this](Instant until) {
      kIoThread.assert_held();
      return retention.go_on_until(until);
    });
  });
  registry.load_with([this](std::uint64_t sequence) {
    kIoThread.assert_held();
    return restored.load(sequence);
  });
}

void Batches::Wiring::after_changes() {
  retention.retire(stored.settled());
  retention.evict();
  // Batches that are over now may make room for the results of others.
  if (retention.take_may_relieve()) relief.relieve();
  if (retention.take_may_relieve_soon()) relief.relieve_soon();
  drain.call_if_idle();
}

Batches::Batches(Parts parts) : wiring_(std::make_unique<Wiring>(std::move(parts))) {}
Batches::~Batches() = default;

// ---- The parts that callers use ----

Registry& Batches::registry() { return wiring_->registry; }
const Registry& Batches::registry() const { return wiring_->registry; }
Events& Batches::events() { return wiring_->events; }
Intake& Batches::intake() { return wiring_->intake; }
BatchChanges& Batches::changes() { return wiring_->changes; }
CustomerChanges& Batches::customers() { return wiring_->customers; }
HandlerBatches& Batches::handlers() { return wiring_->handler_batches; }
StoreReads& Batches::reads() { return wiring_->reads; }

// ---- Batches are found ----

Batches::Found Batches::find(const User& by, std::string_view id) {
  return find_batch(wiring_->registry, by, id);
}
bool Batches::loads_aside() const { return wiring_->loads.are_wanted(); }
std::uint64_t Batches::first_to_load(const User& by, std::string_view id) const {
  return loads_aside() ? daemon::first_to_load(wiring_->registry, by, id) : 0;
}
void Batches::load(std::uint64_t sequence, BatchLoads::OnLoad on_load) {
  wiring_->loads.load(sequence, std::move(on_load));
}
BatchStatus Batches::shown_status(const std::shared_ptr<BatchRecord>& record) {
  return wiring_->news.shown_status(*record);
}
std::size_t Batches::active() const { return wiring_->registry.active() + wiring_->registry.runs().size(); }

// ---- Batches come in, change and leave ----

std::expected<void, StoreRefusal> Batches::restore_all() {
  Wiring& all = *wiring_;
  try {
    all.aside.start();
  } catch (const std::system_error& error) {
    return std::unexpected(StoreRefusal{fmt::format("no thread for large batches starts: {}", error.what())});
  }
  if (all.parts.store == nullptr) return {};
  if (auto customers = all.customers.restore(); !customers) return customers;
  all.parts.store->on_arrival([&all, &mailbox = IoMailbox::of(all.parts.io)](std::uint64_t sequence) {
    mailbox.post([&all, sequence] {
      kIoThread.assert_held();
      all.stored.payloads_arrived(sequence);
    });
  });
  auto restored = all.restored.restore(
      [&all](StoredBatch batch) {
        kIoThread.assert_held();
        all.intake.restore(std::move(batch));
      },
      [&all](Outcome outcome) {
        kStoreWriter.assert_held();
        all.outcomes.add(std::move(outcome));
      });
  // The limits may be lower than they were for an earlier process.
  if (restored) {
    all.retention.limits_changed();
    all.retention.go_on_until(Instant::max());
  }
  all.timer.arm();
  return restored;
}

bool Batches::look_up_next(const User& by, const proto::BatchOptions& options, FoundDependencies& found) {
  return wiring_->dependencies.look_up_next(by, options, found);
}

void Batches::connection_ended(std::uint64_t connection, LineNumber line) {
  const Instant close_at = now() + wiring_->parts.config.limits.open_timeout;
  wiring_->streams.abandon_all(connection, close_at, wiring_->parts.slices, line, [&timer = wiring_->timer] {
    kIoThread.assert_held();
    timer.arm();
  });
}

std::optional<Ticket> Batches::forget(BatchRecord& record, const User& by) {
  const std::optional<Ticket> ticket = wiring_->forgets.forget(record, by);
  wiring_->timer.arm();
  return ticket;
}
std::expected<Ticket, std::string> Batches::forget_nothing() const {
  return wiring_->forgets.forget_nothing();
}

void Batches::discard_rows(BatchRecord& record, std::uint64_t row, const ResultLog::Place& place) {
  wiring_->discards.discard_rows(record, row, place);
}
void Batches::discarder_seen(BatchRecord& record, Discarder which) {
  wiring_->discards.discarder_seen(record, which);
}

void Batches::free_words_aside(proto::ArgumentList payloads) {
  const std::uint64_t bytes = payloads.memory_bytes();
  free_dropped(std::make_shared<proto::ArgumentList>(std::move(payloads)), bytes);
}
void Batches::free_dropped(std::shared_ptr<void> dropped, std::uint64_t bytes) {
  free_aside(wiring_->aside, std::move(dropped), bytes, Reader::kNoUser);
}

void Batches::limits_changed() {
  wiring_->retention.limits_changed();
  wiring_->relief.relieve();
}
void Batches::on_result_room(std::function<void()> told) { wiring_->relief.on_room(std::move(told)); }

// ---- The store ----

void Batches::on_stored(OnStored on_outcome) { wiring_->outcomes.on_stored(std::move(on_outcome)); }
void Batches::on_written(std::function<void(Ticket)> written) {
  wiring_->outcomes.on_written(std::move(written));
}
bool Batches::is_settled(Ticket ticket) const { return wiring_->stored.is_settled(ticket); }
Ticket Batches::ticket_of_rows(BatchRecord& record, std::uint64_t rows) {
  return wiring_->stored.ticket_of_rows(record, rows);
}

// ---- The end ----

void Batches::drain(std::function<void()> on_idle) {
  wiring_->admission.drain();
  wiring_->drain.begin(std::move(on_idle));
}
bool Batches::is_draining() const { return wiring_->admission.is_draining(); }

}  // namespace locksley::daemon
