#include "daemon/server/batches/intake/intake.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <utility>

#include "core/base/index_ranges.h"
#include "daemon/base/log/log_line.h"
#include "daemon/server/accounts/customer_name.h"
#include "daemon/server/batches/news/batch_news.h"
#include "daemon/server/batches/news/due_timer.h"
#include "daemon/server/batches/stored/restored_times.h"
#include "daemon/server/payloads/fixed_payloads.h"
#include "daemon/server/payloads/received_payloads.h"
#include "daemon/server/payloads/streamed_payloads.h"
#include "daemon/server/records/lookup.h"
#include "daemon/store/rows/batch_options.h"
#include "daemon/store/store.h"

namespace locksley::daemon {

namespace {

using Origin = BatchRecord::Origin;

// Uses the handler's values if the command gives none.
BatchOptions options_of(const Customer& customer, const proto::BatchOptions& options,
                        const HandlerDirectory::Entry& entry, std::string id) {
  BatchOptions result;
  result.tenant = customer.tenant->name;
  result.timeout = entry.timeout;
  result.retries = entry.retries;
  result.gate = entry.gate;
  assign_options(options, result);
  result.id = std::move(id);
  result.customer = customer.name;  // the option may name the user, too
  result.results = &customer.tenant->account.results();
  result.failures = &customer.tenant->account.failures();
  return result;
}

// Whether the batch has the jobs of this range, or if that is null, these payloads with this
// digest.
bool has_jobs_of(const BatchRecord& known, const RangeJobs* range, const proto::ArgumentList& payloads,
                 const std::optional<Digest>& digest) LOCKSLEY_REQUIRES(kIoThread) {
  const BatchPayloads& there = known.payloads();
  if (range != nullptr) return there.is_same_range(*range);
  if (digest && there.digest()) return digest == there.digest() && payloads.size() == known.terms.jobs;
  return there.is_same(payloads);
}

// The range of the command; none: it has payloads.
std::optional<RangeJobs> range_of(const proto::SubmitCommand& command, const proto::ArgumentList& arguments,
                                  const Intake::Prepared* prepared) {
  const auto* const source = std::get_if<proto::RangeSource>(&command.source);
  if (source == nullptr) return std::nullopt;
  RangeJobs range{source->low, source->high, {}};
  if (prepared != nullptr && prepared->pattern) {
    range.pattern = *prepared->pattern;
  } else if (source->payload_at) {
    range.pattern = pattern_of(arguments[*source->payload_at]);
  }
  return range;
}

bool has_row_of_its_own(const Pattern& pattern) { return lies_apart({.low = 0, .payload = pattern.text}); }

// Whether jobs may be added to the batch.
bool is_open(const BatchRecord& record) {
  return record.origin == Origin::kOpen && record.status().state == BatchState::kOpen;
}

std::unexpected<std::string> closed(const BatchRecord& record) {
  return std::unexpected(fmt::format("CLOSED no jobs can be added to the batch '{}' any more", record.id()));
}

}  // namespace

std::unexpected<Intake::Refusal> Intake::refuse(const std::string& handler, Refusal why) {
  parts_.stats.count_batch(handler, BatchEvent::kRejected);
  return std::unexpected(std::move(why));
}

std::expected<Intake::Admitted, Intake::Refusal> Intake::admit(const User& by, const std::string& handler,
                                                               const proto::BatchOptions& options,
                                                               const Admission::Demand& demand,
                                                               const FoundDependencies* found) {
  auto reservation = parts_.admission.reserve(demand);
  if (!reservation) return refuse(handler, std::move(reservation.error()));
  auto condition = parts_.dependencies.resolve(by, options, found);
  if (!condition) return refuse(handler, std::move(condition.error()));
  return Admitted{*std::move(reservation), *std::move(condition)};
}

std::string Intake::new_id(const Tenant& tenant) {
  std::string id;
  do {
    id = ids_.next(unix_milliseconds() / 1000);
  } while (parts_.registry.may_be_taken(tenant, id));
  return id;
}

std::shared_ptr<BatchRecord> Intake::make_record(const NewBatch& batch,
                                                 std::unique_ptr<BatchPayloads> payloads,
                                                 PayloadParts parts) {
  // No command finds the batch of a RUN by its id, which another batch may get.
  const bool id_is_chosen = !batch.options.id.empty() && batch.origin != Origin::kRun;
  BatchOptions options = options_of(batch.customer, batch.options, batch.entry,
                                    id_is_chosen ? batch.options.id : new_id(*batch.customer.tenant));
  // RUN replies with a row for each job, so all outputs are kept until then; the reply leaves some
  // out, and is TOOBIG if it is too large. For other batches, an output that fits into no reply is
  // an error.
  if (batch.origin == Origin::kRun) {
    options.keep = Keep::kAll;
    options.max_output_bytes = batch.entry.most_output(0);
  } else {
    options.max_output_bytes = batch.entry.most_output(parts_.config.limits.output_buffer.count);
  }
  // Not make_shared: the store's weak_ptr to the record would keep its memory after its end.
  const Reader::User user = batch.customer.tenant->number;
  std::shared_ptr<BatchRecord> record(
      new BatchRecord(std::move(options), batch.entry.handler, std::move(payloads), &parts_.observer,
                      batch.entry.lane, batch.origin, batch.sequence,
                      batch.is_stored ? parts_.store->journal(batch.sequence, parts, user) : nullptr));
  if (batch.entry.is_held) record->set_hold(Hold::kHandler);
  record->stored.parts = parts;
  record->terms.id_is_chosen = id_is_chosen;
  return record;
}

std::unique_ptr<BatchPayloads> Intake::payloads_of(AcceptedJobs& accepted, proto::ArgumentList&& arguments,
                                                   const NewBatch& batch, BatchPayloads::Place place) {
  if (const RangeJobs* const range = accepted.range) {
    OpenStoredRange open_range;
    if (batch.is_stored && has_row_of_its_own(range->pattern))
      open_range = opens_range(parts_.store, batch.sequence, range->low, batch.customer.tenant->number);
    return std::make_unique<RangedPayloads>(*range, std::move(open_range));
  }
  OpenStored open_stored;
  if (batch.is_stored) {
    if (!batch.options.id.empty() && !accepted.digest) accepted.digest = digest_of(arguments);
    const Reader::User user = batch.customer.tenant->number;
    open_stored = [store = parts_.store, at = batch.sequence, user] { return store->payloads(at, user); };
    if (place == BatchPayloads::Place::kStore) {
      accepted.payloads = std::make_shared<const proto::ArgumentList>(std::move(arguments));
      accepted.unsettled_bytes = accepted.payloads->memory_bytes();
      return std::make_unique<FetchedPayloads>(open_stored(), accepted.jobs, accepted.digest);
    }
  }
  auto received =
      std::make_unique<ReceivedPayloads>(std::move(arguments), std::move(open_stored), accepted.digest);
  if (batch.is_stored) accepted.payloads = received->list();
  return received;
}

Intake::Accepted Intake::submit(const User& by, const proto::SubmitCommand& command,
                                proto::ArgumentList&& arguments, Origin origin, const Prepared* prepared) {
  const auto found = find(by, command.handler, command.options);
  if (!found) return std::unexpected(found.error());
  const std::optional<Digest> digest = prepared == nullptr ? std::nullopt : prepared->digest;
  const std::optional<RangeJobs> its_range = range_of(command, arguments, prepared);
  const RangeJobs* const range = its_range ? &*its_range : nullptr;
  if (range == nullptr) arguments.drop_front(std::get<proto::JobsSource>(command.source).first);
  const std::uint64_t jobs = range != nullptr ? range->size() : arguments.size();

  // A repetition finds the batch of the first command. Checked before all checks whose result may
  // change.
  if (BatchRecord* const known = found->known) {
    return existing(*known, command.handler, origin, has_jobs_of(*known, range, arguments, digest));
  }
  const bool is_stored = parts_.store != nullptr && origin != Origin::kRun && !command.options.ephemeral;
  const CustomerUse customer(parts_.registry.customers(), *found->customer.tenant, found->customer.name);
  auto admitted = admit(by, command.handler, command.options,
                        {.customer = *customer,
                         .handler = command.handler,
                         .new_batches = 1,
                         .batch_jobs = jobs,
                         .new_jobs = jobs,
                         .payloads = range == nullptr ? &arguments : nullptr,
                         .is_stored = is_stored,
                         .range = range,
                         .options = &command.options,
                         .awaits_results = origin == Origin::kRun},
                        prepared == nullptr ? nullptr : &prepared->dependencies);
  if (!admitted) return std::unexpected(std::move(admitted.error()));

  const bool is_due =
      !admitted->condition.is_immediate() || command.options.retries.value_or(found->entry->retries) != 0;
  const bool has_no_sequence = origin == Origin::kRun && !is_due && found->entry->is_built_in();
  const NewBatch batch{.customer = *customer,
                       .options = command.options,
                       .entry = *found->entry,
                       .origin = origin,
                       .sequence = has_no_sequence ? 0 : parts_.registry.numbers().take(),
                       .is_stored = is_stored};
  AcceptedJobs accepted{.jobs = jobs, .open = false, .range = range, .digest = digest};
  const bool has_pattern_apart = range != nullptr && has_row_of_its_own(range->pattern);
  if (has_pattern_apart && !command.options.id.empty()) accepted.digest = range->pattern.digest;
  auto payloads =
      payloads_of(accepted, std::move(arguments), batch, admitted->reservation.place_of_payloads());
  const PayloadParts parts = accepted.payloads != nullptr ? parts_of(*accepted.payloads)
                             : has_pattern_apart          ? PayloadParts::kOne
                                                          : PayloadParts::kNone;
  const auto record = make_record(batch, std::move(payloads), parts);
  record->only_end_is_news = origin == Origin::kRun && !is_due;
  enter(record, by.tenant().account, command.options, *std::move(admitted), std::move(accepted));
  return record;
}

Intake::Accepted Intake::open(const User& by, const proto::OpenCommand& command, std::uint64_t connection,
                              const FoundDependencies* found_dependencies) {
  const auto found = find(by, command.handler, command.options);
  if (!found) return std::unexpected(found.error());
  if (BatchRecord* const known = found->known) {
    // An untouched batch may be that of the same OPEN, whose reply was lost. Once it has jobs, it
    // may be another client's.
    auto same = existing(*known, command.handler, Origin::kOpen, is_open(*known) && known->terms.jobs == 0);
    if (same && !parts_.admission.is_draining()) take_over(*known, connection);
    return same;
  }
  const bool is_stored = parts_.store != nullptr && !command.options.ephemeral;
  const CustomerUse customer(parts_.registry.customers(), *found->customer.tenant, found->customer.name);
  auto admitted = admit(by, command.handler, command.options,
                        {.customer = *customer,
                         .handler = command.handler,
                         .new_batches = 1,
                         .batch_jobs = 0,
                         .new_jobs = 0,
                         .payloads = nullptr,
                         .is_stored = is_stored,
                         .options = &command.options},
                        found_dependencies);
  if (!admitted) return std::unexpected(std::move(admitted.error()));

  const NewBatch batch{.customer = *customer,
                       .options = command.options,
                       .entry = *found->entry,
                       .origin = Origin::kOpen,
                       .sequence = parts_.registry.numbers().take(),
                       .is_stored = is_stored};
  auto in_store = is_stored ? parts_.store->payloads(batch.sequence, batch.customer.tenant->number) : nullptr;
  const auto record =
      make_record(batch, std::make_unique<StreamedPayloads>(std::move(in_store)), PayloadParts::kUnknown);
  enter(record, by.tenant().account, command.options, *std::move(admitted), {.jobs = 0, .open = true});
  parts_.streams.take_over(*record, connection);
  return record;
}

void Intake::enter(const std::shared_ptr<BatchRecord>& record, Account& payer,
                   const proto::BatchOptions& options, Admitted&& admitted, AcceptedJobs&& accepted) {
  Registry& registry = parts_.registry;
  record->terms.jobs = accepted.jobs;
  parts_.stats.count_batch(record->handler().name(), BatchEvent::kAccepted);
  if (record->origin == Origin::kRun) {
    registry.add_run(record);
  } else {
    record->terms.retain =
        options.retain ? std::chrono::duration_cast<std::chrono::milliseconds>(*options.retain)
                       : std::chrono::duration_cast<std::chrono::milliseconds>(parts_.config.store.retention);
    registry.add(record);
    if (options.deadline) registry.schedule(*record, Due::kDeadline, now() + *options.deadline);
    if (parts_.log->should_log(spdlog::level::debug)) {
      LogLine("batch accepted")
          .about(*record)
          .with("jobs", accepted.jobs)
          .write(*parts_.log, spdlog::level::debug);
    }
  }
  const std::string broken = admitted.condition.broken;
  if (!admitted.condition.is_immediate()) {
    parts_.dependencies.hold(*record, std::move(admitted.condition),
                             now() + options.delay.value_or(std::chrono::milliseconds(0)));
  }
  parts_.timer.arm();
  admitted.reservation.commit(*record);
  if (record->is_stored()) {
    parts_.stored.accept(record, payer, options, std::move(accepted));
  } else {
    record->lane->submit(record, accepted.jobs, accepted.open);
    // After submit(), so that the counts are right. The start is published later in any case, when
    // this thread gets the news of it.
    if (record->origin != Origin::kRun) parts_.events.publish_accepted(*record);
  }
  if (!broken.empty()) parts_.changes.cancel(*record, payer, broken);
}

void Intake::take_over(BatchRecord& record, std::uint64_t connection) {
  if (record.streamed.connection == connection) return;
  parts_.streams.take_over(record, connection);
  parts_.timer.arm();
}

Intake::Count Intake::add(BatchRecord& record, Account& payer, proto::ArgumentList payloads,
                          std::uint64_t connection, std::optional<std::uint64_t> at) {
  const bool takes_jobs = is_open(record);
  const std::uint64_t added = payloads.size();
  const std::uint64_t there = record.terms.jobs;
  if (at && record.origin == Origin::kOpen && added <= there && *at <= there - added) {
    if (takes_jobs && !parts_.admission.is_draining()) take_over(record, connection);
    return there;
  }
  if (!takes_jobs && !parts_.admission.is_draining()) return closed(record);
  if (at && *at != there) return std::unexpected(fmt::format("OFFSET the batch has {} jobs", there));
  if (auto error = parts_.stored.error_of(record); !error.empty()) return std::unexpected(error);
  const CustomerUse customer(parts_.registry.customers(), parts_.registry.tenant_of(record),
                             record.options().customer);
  auto reservation = parts_.admission.reserve({.customer = *customer,
                                               .handler = record.handler().name(),
                                               .new_batches = 0,
                                               .batch_jobs = there + added,
                                               .new_jobs = added,
                                               .payloads = &payloads,
                                               .is_stored = record.is_stored(),
                                               .record = &record});
  if (!reservation) return std::unexpected(std::move(reservation.error()));
  if (payloads.payload_bytes() > StreamedPayloads::kCopiedBytes) payloads.compact();
  auto shared = std::make_shared<const proto::ArgumentList>(std::move(payloads));
  const BatchPayloads::Place place = reservation->place_of_payloads();
  record.payloads().add(shared, place);
  const auto first = record.jobs_added(added);
  if (!first) {
    record.payloads().withdraw(added);  // its failures have just cancelled it
    return closed(record);
  }
  take_over(record, connection);
  record.terms.jobs += added;
  reservation->commit(record);
  const IndexRange jobs{*first, *first + added};
  if (record.is_stored()) {
    const std::uint64_t unsettled_bytes = place == BatchPayloads::Place::kMemory ? 0 : shared->memory_bytes();
    parts_.stored.add(record, payer, jobs, std::move(shared), unsettled_bytes);
  } else {
    record.lane->enqueue_jobs(record, jobs);
  }
  return record.terms.jobs;
}

void Intake::restore(StoredBatch stored) {
  Registry& registry = parts_.registry;
  const AcceptedRow& row = stored.accepted;
  BatchHistory& history = stored.history;
  // Jobs that were running left no trace, so each unfinished job may have been tried.
  ++history.attempt;
  const auto record = parts_.restored.record_of(stored);
  registry.add(record);
  parts_.retention.update(*record, record->status().result_bytes);
  const RestoredTimes::Due due = parts_.times.due_of(stored);
  StartCondition condition = parts_.dependencies.resolve_restored(row, history.cancelled, stored.changes);
  // A cancelled batch ends as soon as its jobs have ended, whatever it waited for.
  if (due.start > now() && !history.cancelled) condition.delay = std::chrono::milliseconds(0);
  const std::string broken = condition.broken;
  parts_.dependencies.hold(*record, std::move(condition), due.start);
  registry.charges().count_record(*record,
                                  BatchCharges::record_bytes(record->options(), record->waits.all.size()));
  using Payloads = StoredBatches::Payloads;
  parts_.stored.write_restored(*record, history.closed ? Payloads::kKeep : Payloads::kTrim);
  registry.schedule(*record, Due::kDeadline, due.deadline);
  // Before its jobs are in the ring.
  Account& owner = registry.tenant_of(*record).account;
  if (due.deadline <= now()) parts_.changes.end_by_deadline(*record, owner);
  if (!broken.empty() && !record->is_stopping()) parts_.changes.cancel(*record, owner, broken);
  if (!history.closed) parts_.streams.abandon(*record, now() + parts_.config.limits.open_timeout);
  registry.charges().add_jobs_set_memory(*record, count_of(stored.left), record->payloads().memory_bytes());
  registry.charges().count_payloads(*record, record->stored.payload_bytes);
  record->lane->enqueue(record, stored.left, !history.closed, Lane::Start::kLater);
  // If all its jobs had ended, this ends the batch.
  if (history.closed) record->Batch::close();
}

}  // namespace locksley::daemon
