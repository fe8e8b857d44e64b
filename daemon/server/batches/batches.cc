// Length: a third of it is the constructor, which connects the parts.
#include "daemon/server/batches/batches.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <system_error>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/base/loop/io_mailbox.h"
#include "daemon/store/engine/writer_thread.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

namespace {
// Until a batch is forgotten whose dependents had not been told that it is over. A guess.
constexpr auto kForgetAgain = std::chrono::seconds(1);
}  // namespace

Batches::Batches(Parts parts)
    : parts_(std::move(parts)),
      registry_(parts_.tenants, parts_.stats),
      events_(parts_.stats, parts_.slices),
      change_queue_(
          [this, &mailbox = IoMailbox::of(parts_.io)] {
            mailbox.post([this] {
              kIoThread.assert_held();
              news_.take_changes();
            });
          },
          parts_.log),
      retention_(registry_, parts_.stats, parts_.store, aside_),
      restored_times_({.io = parts_.io,
                       .slices = parts_.slices,
                       .registry = registry_,
                       .log = parts_.log,
                       .changed =
                           [this] {
                             kIoThread.assert_held();
                             timer_.arm();
                           }}),
      stored_({.store = parts_.store,
               .charges = write_charges_,
               .discards = pending_discards_,
               .registry = registry_,
               .retention = retention_,
               .events = events_,
               .stats = parts_.stats,
               .apply_news =
                   [this](BatchRecord& record) {
                     kIoThread.assert_held();
                     news_.apply(record);
                   }}),
      restored_({.config = parts_.config,
                 .store = parts_.store,
                 .discards = pending_discards_,
                 .registry = registry_,
                 .retention = retention_,
                 .observer = change_queue_,
                 .handlers = parts_.handlers,
                 .times = restored_times_,
                 .polls = parts_.stats.stretches.polls,
                 .log = parts_.log}),
      changes_(stored_, aside_, parts_.log),
      relief_({.io = parts_.io,
               .slices = parts_.slices,
               .registry = registry_,
               .retention = retention_,
               .changes = changes_,
               .store = parts_.store,
               .log = parts_.log}),
      streams_(registry_),
      dependencies_(registry_, stored_, changes_, parts_.slices),
      customers_(parts_.config, registry_, retention_, write_charges_, deletions_, parts_.store),
      handler_batches_(registry_, parts_.handlers, parts_.slices,
                       [this] {
                         kIoThread.assert_held();
                         call_if_idle();
                       }),
      timer_(parts_.io, parts_.slices, registry_,
             {.act =
                  [this](BatchRecord& record, Due due) {
                    kIoThread.assert_held();
                    act_on(record, due);
                  },
              .forget =
                  [this](std::uint64_t batch) {
                    kIoThread.assert_held();
                    retention_.forget_retired(batch, Urgency::kWithNext);
                  }}),
      news_({.io = parts_.io,
             .slices = parts_.slices,
             .changes = change_queue_,
             .events = events_,
             .registry = registry_,
             .retention = retention_,
             .streams = streams_,
             .dependencies = dependencies_,
             .timer = timer_,
             .store = parts_.store,
             .aside = aside_,
             .stats = parts_.stats,
             .log = parts_.log,
             .after_changes =
                 [this] {
                   kIoThread.assert_held();
                   after_changes();
                 }}),
      reads_({.io = parts_.io,
              .slices = parts_.slices,
              .registry = registry_,
              .store = parts_.store,
              .aside = aside_}),
      loads_({.io = parts_.io,
              .slices = parts_.slices,
              .registry = registry_,
              .restored = restored_,
              .store = parts_.store}),
      admission_(parts_.config, registry_, retention_, news_, stored_, relief_, parts_.log),
      intake_({.config = parts_.config,
               .handlers = parts_.handlers,
               .stats = parts_.stats,
               .store = parts_.store,
               .observer = change_queue_,
               .registry = registry_,
               .events = events_,
               .retention = retention_,
               .stored = stored_,
               .restored = restored_,
               .changes = changes_,
               .streams = streams_,
               .dependencies = dependencies_,
               .times = restored_times_,
               .handler_batches = handler_batches_,
               .news = news_,
               .timer = timer_,
               .admission = admission_,
               .io = parts_.io,
               .slices = parts_.slices,
               .aside = aside_,
               .log = parts_.log}),
      settling_(parts_.slices),
      evicting_(parts_.slices) {
  dependencies_.on_all_told([this](std::uint64_t sequence) {
    kIoThread.assert_held();
    retention_.unpinned(sequence);
    after_changes();
  });
  retention_.pin_while([this](std::uint64_t sequence) {
    kIoThread.assert_held();
    return dependencies_.is_notifying(sequence);
  });
  retention_.do_later([this] {
    kIoThread.assert_held();
    evicting_.start([this](Instant until) {
      kIoThread.assert_held();
      return retention_.go_on_until(until);
    });
  });
  registry_.load_with([this](std::uint64_t sequence) {
    kIoThread.assert_held();
    return restored_.load(sequence);
  });
}

void Batches::limits_changed() {
  retention_.limits_changed();
  relief_.relieve();
}

std::expected<void, StoreRefusal> Batches::restore_all() {
  try {
    aside_.start();
  } catch (const std::system_error& error) {
    return std::unexpected(StoreRefusal{fmt::format("no thread for large batches starts: {}", error.what())});
  }
  if (parts_.store == nullptr) return {};
  if (auto customers = customers_.restore(); !customers) return customers;
  parts_.store->on_arrival([this, &mailbox = IoMailbox::of(parts_.io)](std::uint64_t sequence) {
    mailbox.post([this, sequence] {
      kIoThread.assert_held();
      payloads_arrived(sequence);
    });
  });
  auto restored = restored_.restore(
      [this](StoredBatch stored) {
        kIoThread.assert_held();
        intake_.restore(std::move(stored));
      },
      [this, &mailbox = IoMailbox::of(parts_.io)](Outcome outcome) {
        kStoreWriter.assert_held();
        stored_.expect(outcome);
        const bool settles = outcome.error.empty() && !outcome.is_of_kept_ones;
        if (settles && on_written_) on_written_(outcome.up_to);
        mailbox.post([this, outcome = std::move(outcome)]() mutable {
          kIoThread.assert_held();
          settle(std::move(outcome));
        });
      });
  // The limits may be lower than they were for an earlier process.
  if (restored) {
    retention_.limits_changed();
    retention_.go_on_until(Instant::max());
  }
  timer_.arm();
  return restored;
}

BatchStatus Batches::shown_status(const std::shared_ptr<BatchRecord>& record) {
  const BatchStatus status = record->status();
  if (record->is_active) {
    news_.apply(*record, status);
    timer_.arm();
  }
  return status;
}

void Batches::connection_ended(std::uint64_t connection, LineNumber line) {
  constexpr std::size_t kFewBatches = 64;  // guess: some tens of microseconds
  const Instant close_at = now() + parts_.config.limits.open_timeout;
  const bool is_done = streams_.connection_ended(connection, close_at, kFewBatches);
  timer_.arm();
  if (is_done) return;
  auto go_on = [this, connection, close_at](Instant until) {
    kIoThread.assert_held();
    bool is_last = false;
    do {
      is_last = streams_.connection_ended(connection, close_at, kFewBatches);
    } while (!is_last && now() < until);
    timer_.arm();
    return is_last;
  };
  parts_.slices.add(std::move(go_on), line);
}

std::optional<Ticket> Batches::forget(BatchRecord& record, const User& by) {
  if (!record.is_over() || dependencies_.is_notifying(record.sequence)) return std::nullopt;
  // This thread may not have learned yet that it is over.
  news_.apply(record);
  if (by.is_admin() && &registry_.tenant_of(record) == &by.tenant())
    registry_.admin_forgot(by.tenant(), record.id());
  const auto ticket = retention_.forget(record, Urgency::kAwaited);
  write_charges_.charge(by.tenant().account, ticket.value_or(0), kCostOfWrite);
  deletions_.put(ticket.value_or(0));
  timer_.arm();
  return ticket;
}

std::expected<Ticket, std::string> Batches::forget_nothing() const {
  if (parts_.store == nullptr || parts_.store->has_deletions(deletions_.failed())) return deletions_.last();
  return std::unexpected(
      fmt::format("STORE the disk cannot be written: an earlier FORGET is not on it yet, so the batch may be "
                  "there again after a crash; retry later ({})",
                  parts_.store->error()));
}

void Batches::discard_rows(BatchRecord& record, std::uint64_t row, const ResultLog::Place& place) {
  constexpr std::size_t kFewChunks = 8;  // a page of small rows has that many at most
  const std::uint64_t discarded = record.status().discarded;
  discarder_seen(record, Discarder::kIsReading);
  record.discard_rows_before(row, place);
  const BatchStatus status = record.status();
  if (status.discarded == discarded) return;
  if (!record.drop_rows_before(status.discarded, kFewChunks)) {
    drop_rows_aside(aside_, registry_.tenant_of(record).number, record.shared(), status.discarded);
  }
  if (!record.is_stored() || record.stored.is_rejected) return;
  // Rows before the place of a row that was discarded earlier are gone: the store passes over them.
  stored_.discard(record, {0, place.first_row});
  retention_.results_discarded(record, status.result_bytes);
}

void Batches::discarder_seen(BatchRecord& record, Discarder which) {
  record.discarder.seen = now();
  // It may have gone on while another thread read the page.
  record.discarder.has_all = which == Discarder::kHasAll && record.is_over();
  if (record.discarder.has_all && retention_.returns_earlier(record)) relief_.wait_for_readers();
}

void Batches::after_changes() {
  retention_.retire(stored_.settled());
  retention_.evict();
  // Batches that are over now may make room for the results of others.
  if (retention_.take_may_relieve()) relief_.relieve();
  call_if_idle();
}

void Batches::payloads_arrived(std::uint64_t sequence) {
  BatchRecord* const record = registry_.by_sequence(sequence);
  if (record == nullptr || !record->is_active) return;
  registry_.charges().add_jobs_set_memory(*record, 0, record->payloads().memory_bytes());
  record->lane->payloads_arrived(*record);
}

void Batches::settle(Outcome outcome) {
  PendingOutcome pending{.outcome = std::move(outcome)};
  if (pending_outcomes_.empty() && settle_some(pending, now() + Slices::kSlice)) return;
  pending_outcomes_.push_back(std::move(pending));
  settling_.start([this](Instant until) {
    kIoThread.assert_held();
    return settle_until(until);
  });
}

bool Batches::settle_until(Instant until) {
  while (!pending_outcomes_.empty()) {
    if (settle_some(pending_outcomes_.front(), until)) pending_outcomes_.pop_front();
    if (now() >= until) return pending_outcomes_.empty();
  }
  return true;
}

bool Batches::settle_some(PendingOutcome& pending, Instant until) {
  if (!pending.is_known_to_batches) {
    pending.is_known_to_batches = stored_.settle_some(pending.outcome, until);
    if (!pending.is_known_to_batches) return false;
    write_charges_.refund(pending.outcome.up_to);
    deletions_.settled(pending.outcome);
    // What could not leave memory before this outcome may leave now.
    retention_.retire(stored_.settled());
  }
  if (on_stored_ && !on_stored_(pending.outcome, until)) return false;
  timer_.arm();
  call_if_idle();
  return true;
}

void Batches::act_on(BatchRecord& record, Due due) {
  switch (due) {
    case Due::kDeadline:
      changes_.end_by_deadline(record, registry_.tenant_of(record).account);
      break;
    case Due::kClose:
      close_abandoned(record);
      break;
    case Due::kForget:
      if (dependencies_.is_notifying(record.sequence)) {
        registry_.schedule(record, Due::kForget, now() + kForgetAgain);
      } else {
        retention_.forget(record, Urgency::kWithNext);
      }
      break;
    case Due::kRetry:
      record.lane->retry_due(record.shared());
      news_.schedule_retry(record, record.status());
      break;
    case Due::kStart:
      record.lane->release(record, Hold::kDelay);
      break;
    case Due::kProgress:
      news_.publish_progress(record);
      break;
  }
}

void Batches::close_abandoned(BatchRecord& record) {
  if (record.status().state != BatchState::kOpen) return;
  if (closed_lines_.open(now())) {
    LogLine("open batch closed: its connection has gone, and limits.open_timeout passed")
        .about(record)
        .with("unlogged", closed_lines_.held_back())
        .write(*parts_.log, spdlog::level::info);
  }
  changes_.close(record, registry_.tenant_of(record).account);
}

void Batches::drain(std::function<void()> on_idle) {
  admission_.drain();
  on_idle_ = std::move(on_idle);
  streams_.detach_all();
  streams_.for_each([](BatchRecord& record) {
    kIoThread.assert_held();
    if (!record.is_stored()) record.lane->close(record);
  });
  call_if_idle();
}

void Batches::call_if_idle() {
  if (!on_idle_) return;
  // A batch that was looked at may be busy now.
  busy_search_.restart();
  if (is_searching_busy_ || !look_for_busy()) return;
  is_searching_busy_ = true;
  parts_.slices.add([this](Instant until) {
    kIoThread.assert_held();
    while (look_for_busy()) {
      if (now() >= until) return false;
    }
    is_searching_busy_ = false;
    return true;
  });
}

bool Batches::look_for_busy() {
  constexpr std::size_t kAtOnce = 64;  // some 10 us
  if (!on_idle_ || stored_.has_unsettled() || registry_.runs().size() != 0) return false;
  // A stored batch that is open, or held, or has only jobs that wait for their retry, stays so
  // after a restart.
  const auto is_busy = [](const BatchRecord& record) {
    if (!record.is_stored()) return true;
    const BatchStatus status = record.status();
    if (status.running != 0) return true;
    if (status.holds != 0) return false;
    return status.queued != status.waiting || (status.waiting == 0 && status.state != BatchState::kOpen);
  };
  const auto found = registry_.find_active(busy_search_, kAtOnce, is_busy);
  if (found == Registry::Searched::kNone) std::exchange(on_idle_, nullptr)();
  return found == Registry::Searched::kNotYet;
}

}  // namespace locksley::daemon
