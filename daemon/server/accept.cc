// How batches come in: the checks that refuse one whole, and the way into the ring.
#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <utility>

#include "config/nearest.h"
#include "core/payload.h"
#include "daemon/log_line.h"
#include "daemon/server/batches.h"
#include "daemon/server/received_payloads.h"
#include "daemon/server/streamed_payloads.h"
#include "daemon/store/store.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

constexpr std::string_view kDraining = "DRAINING the daemon is shutting down: nothing was accepted";

Keep keep_of(proto::Keep keep) {
  switch (keep) {
    case proto::Keep::kAll:
      return Keep::all;
    case proto::Keep::kFailures:
      return Keep::failures;
    case proto::Keep::kNone:
      break;
  }
  return Keep::none;
}

BatchOptions options_of(const User& by, const proto::BatchOptions& options,
                        const HandlerDirectory::Entry& entry, std::string id) {
  return {.id = std::move(id),
          .name = options.name,
          .tenant = by.name(),
          .trace = options.trace,
          .weight = options.weight,
          .slots = options.slots.value_or(0),
          .max_fails = options.max_fails.value_or(0),
          .timeout = options.timeout.value_or(entry.timeout),
          .retries = options.retries.value_or(entry.retries),
          .keep = keep_of(options.keep)};
}

}  // namespace

std::expected<const HandlerDirectory::Entry*, Batches::Refusal> Batches::handler_for(
    const User& by, const std::string& name) {
  // Whether there is one of this name is nobody's business who may not use it.
  if (!by.may_use(name)) return std::unexpected(no_handler_permission_error(by, name));
  if (const HandlerDirectory::Entry* entry = handlers_.find(name)) return entry;
  std::vector<std::string> names = handlers_.names();
  std::erase_if(names, [&by](const std::string& other) { return !by.may_use(other); });
  std::string text = fmt::format("NOHANDLER no handler is named '{}'", proto::printable(name));
  if (const std::string near = config::nearest_name(name, names); !near.empty()) {
    text += fmt::format("; did you mean '{}'?", near);
  }
  constexpr std::size_t kMostNames = 20;  // guess: still one readable line
  text += " There are: ";
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > kMostNames) text += ", …";
  return std::unexpected(std::move(text));
}

Batches::Accepted Batches::refuse(const std::string& handler, Refusal why) {
  stats_.count_batch(handler, BatchEvent::kRejected);
  return std::unexpected(std::move(why));
}

std::string Batches::new_id(const Tenant& tenant) {
  std::string id;
  do {
    id = ids_.next(unix_milliseconds() / 1000);
  } while (registry_.may_be_taken(tenant, id));
  return id;
}

Batches::Accepted Batches::existing(BatchRecord& record, const std::string& handler, bool is_same) {
  if (is_same && record.handler().name() == handler) {
    return std::static_pointer_cast<BatchRecord>(record.shared_from_this());
  }
  return refuse(handler, fmt::format("EXISTS a batch with the id '{}' and other {} is there already",
                                     record.id(), is_same ? "handler" : "jobs"));
}

Batches::Accepted Batches::submit(const User& by, const proto::SubmitCommand& command,
                                  proto::ArgumentList arguments) {
  return accept(by, command, std::move(arguments), BatchRecord::Origin::kSubmit);
}

Batches::Accepted Batches::run(const User& by, const proto::SubmitCommand& command,
                               proto::ArgumentList arguments) {
  return accept(by, command, std::move(arguments), BatchRecord::Origin::kRun);
}

Batches::Accepted Batches::accept(const User& by, const proto::SubmitCommand& command,
                                  proto::ArgumentList arguments, BatchRecord::Origin origin) {
  const auto entry = handler_for(by, command.handler);
  if (!entry) return std::unexpected(entry.error());
  const auto* range = std::get_if<proto::RangeSource>(&command.source);
  if (range == nullptr) arguments.drop_front(std::get<proto::JobsSource>(command.source).first);
  const std::uint64_t jobs = range != nullptr ? range->size() : arguments.size();
  const std::uint64_t bytes = range != nullptr ? 0 : arguments.payload_bytes();

  if (!command.options.id.empty()) {
    // Before anything that may have changed since the first time: a repetition finds what it made.
    const auto found = find_own(by.tenant(), command.options.id);
    if (!found) return refuse(command.handler, found.error());
    if (BatchRecord* known = *found) {
      // A RUN is never a repetition: it runs its jobs each time.
      if (origin == BatchRecord::Origin::kRun) return existing(*known, command.handler, false);
      return existing(*known, command.handler,
                      range != nullptr ? known->content.is_same(*range) : known->content.is_same(arguments));
    }
  }
  if (draining_) return refuse(command.handler, Refusal(kDraining));
  const bool is_stored =
      store_ != nullptr && origin != BatchRecord::Origin::kRun && !command.options.ephemeral;
  if (auto ready = check_store(is_stored); !ready) return refuse(command.handler, std::move(ready.error()));
  if (auto fits = check_limits({.tenant = by.tenant(),
                                .handler = command.handler,
                                .new_batches = 1,
                                .batch_jobs = jobs,
                                .new_jobs = jobs,
                                .payloads = range == nullptr ? &arguments : nullptr,
                                .is_stored = is_stored});
      !fits) {
    return refuse(command.handler, std::move(fits.error()));
  }

  auto order = order_of(by, command.options);
  if (!order) return refuse(command.handler, std::move(order.error()));

  const bool is_due = command.options.delay || !order->waits.all.empty() ||
                      command.options.retries.value_or((*entry)->retries) != 0;
  const std::uint64_t sequence = origin == BatchRecord::Origin::kRun && !is_due && (*entry)->is_built_in()
                                     ? 0
                                     : registry_.take_sequence();
  std::unique_ptr<PayloadSource> payloads;
  ReceivedPayloads* received = nullptr;
  SharedPayloads to_write;
  if (range != nullptr) {
    payloads = std::make_unique<RangePayloads>(range->low, range->payload);
  } else if (is_stored && !has_memory_for(arguments)) {
    to_write = std::make_shared<const proto::ArgumentList>(std::move(arguments));
    payloads = store_->payloads(sequence);
  } else {
    auto owned = std::make_unique<ReceivedPayloads>(std::move(arguments));
    received = owned.get();
    if (is_stored) to_write = received->payloads();
    payloads = std::move(owned);
  }
  const PayloadParts parts = to_write != nullptr ? parts_of(*to_write) : PayloadParts::kNone;
  const bool chosen = !command.options.id.empty();
  BatchOptions core_options =
      options_of(by, command.options, **entry, chosen ? command.options.id : new_id(by.tenant()));
  // RUN answers with a row for each job, so all are kept until then; its reply leaves out what is not wanted.
  if (origin == BatchRecord::Origin::kRun) core_options.keep = Keep::all;
  // Not make_shared, here and below: the store's weak_ptr to it would hold its memory when it has gone.
  std::shared_ptr<BatchRecord> record(new BatchRecord(
      std::move(core_options), (*entry)->handler, std::move(payloads), &changes_, (*entry)->lane, origin,
      sequence, is_stored ? store_->journal(sequence, parts) : nullptr));
  record->only_end_is_news = origin == BatchRecord::Origin::kRun && !is_due;
  if ((*entry)->is_held) record->set_hold(Hold::handler);
  record->stored_parts = parts;
  record->id_is_chosen = chosen;
  record->content.received = received;
  if (range != nullptr) record->content.range = std::make_unique<proto::RangeSource>(*range);
  registry_.count_payloads(*record, bytes);
  enter(record, command.options, std::move(*order), jobs, false, std::move(to_write));
  return record;
}

Batches::Accepted Batches::open(const User& by, const proto::OpenCommand& command, std::uint64_t connection) {
  const auto entry = handler_for(by, command.handler);
  if (!entry) return std::unexpected(entry.error());
  if (!command.options.id.empty()) {
    const auto found = find_own(by.tenant(), command.options.id);
    if (!found) return refuse(command.handler, found.error());
    if (BatchRecord* known = *found) {
      // An OPEN whose reply was lost; once there are jobs, nobody can tell whose they are.
      const bool untouched =
          known->origin == BatchRecord::Origin::kOpen && known->is_active && known->content.jobs == 0;
      return existing(*known, command.handler, untouched);
    }
  }
  if (draining_) return refuse(command.handler, Refusal(kDraining));
  const bool is_stored = store_ != nullptr && !command.options.ephemeral;
  if (auto ready = check_store(is_stored); !ready) return refuse(command.handler, std::move(ready.error()));
  if (auto fits = check_limits({.tenant = by.tenant(),
                                .handler = command.handler,
                                .new_batches = 1,
                                .batch_jobs = 0,
                                .new_jobs = 0,
                                .payloads = nullptr,
                                .is_stored = is_stored});
      !fits) {
    return refuse(command.handler, std::move(fits.error()));
  }
  auto order = order_of(by, command.options);
  if (!order) return refuse(command.handler, std::move(order.error()));

  const std::uint64_t sequence = registry_.take_sequence();
  const bool chosen = !command.options.id.empty();
  std::shared_ptr<BatchRecord> record(new BatchRecord(
      options_of(by, command.options, **entry, chosen ? command.options.id : new_id(by.tenant())),
      (*entry)->handler, std::make_unique<StreamedPayloads>(is_stored ? store_->payloads(sequence) : nullptr),
      &changes_, (*entry)->lane, BatchRecord::Origin::kOpen, sequence,
      is_stored ? store_->journal(sequence) : nullptr));
  if ((*entry)->is_held) record->set_hold(Hold::handler);
  record->id_is_chosen = chosen;
  record->opener = connection;
  enter(record, command.options, std::move(*order), 0, true, nullptr);
  streams_[connection].insert(record->sequence);
  return record;
}

void Batches::enter(const std::shared_ptr<BatchRecord>& record, const proto::BatchOptions& options,
                    Order order, std::uint64_t jobs, bool open, SharedPayloads payloads) {
  record->content.jobs = jobs;
  stats_.count_batch(record->handler().name(), BatchEvent::kAccepted);
  if (record->origin == BatchRecord::Origin::kRun) {
    ++runs_;
    if (record->sequence != 0) registry_.add_run(record);
  } else {
    record->retain = options.retain
                         ? std::chrono::duration_cast<std::chrono::milliseconds>(*options.retain)
                         : std::chrono::duration_cast<std::chrono::milliseconds>(config_.store.retention);
    registry_.add(record);
    if (options.deadline) registry_.schedule(*record, Due::kDeadline, now() + *options.deadline);
    if (log_->should_log(spdlog::level::debug)) {
      LogLine("batch accepted").about(*record).with("jobs", jobs).write(*log_, spdlog::level::debug);
    }
  }
  const std::string broken = order.broken;
  hold(*record, std::move(order), now() + options.delay.value_or(std::chrono::milliseconds(0)));
  arm_timer();
  registry_.count(*record, jobs, record->payloads().memory_bytes());
  if (record->is_stored()) {
    accept_stored(record, options, jobs, open, std::move(payloads));
  } else {
    record->lane->submit(record, jobs, open);
    // Behind it, so that the counts are right; its start is told later in any case, when this thread hears of
    // it.
    if (record->origin != BatchRecord::Origin::kRun && events_.has_listener(*record)) {
      events_.publish(*record, EventKind::kAccepted, record->status());
    }
  }
  if (!broken.empty()) cancel(*record, broken);
}

std::expected<std::uint64_t, Batches::Refusal> Batches::add(BatchRecord& record, proto::ArgumentList payloads,
                                                            std::uint64_t connection) {
  if (draining_) return std::unexpected(Refusal(kDraining));
  if (record.origin != BatchRecord::Origin::kOpen || record.status().state != BatchState::open) {
    return std::unexpected(
        fmt::format("CLOSED no jobs can be added to the batch '{}' any more", record.id()));
  }
  if (auto ready = check_store(record.is_stored()); !ready) return std::unexpected(std::move(ready.error()));
  const std::uint64_t added = payloads.size();
  const std::uint64_t bytes = payloads.payload_bytes();
  if (auto fits = check_limits({.tenant = registry_.tenant_of(record),
                                .handler = record.handler().name(),
                                .new_batches = 0,
                                .batch_jobs = record.content.jobs + added,
                                .new_jobs = added,
                                .payloads = &payloads,
                                .is_stored = record.is_stored()});
      !fits) {
    return std::unexpected(std::move(fits.error()));
  }
  if (record.opener != connection) {
    streams_[record.opener].erase(record.sequence);
    if (streams_[record.opener].empty()) streams_.erase(record.opener);
    record.opener = connection;
    streams_[connection].insert(record.sequence);
    registry_.schedule(record, Due::kClose, kNever);
    arm_timer();
  }
  auto& source = static_cast<StreamedPayloads&>(record.payloads());
  if (payloads.payload_bytes() > StreamedPayloads::kCopiedBytes) payloads.compact();
  const auto shared = std::make_shared<const proto::ArgumentList>(std::move(payloads));
  const bool is_in_memory = !record.is_stored() || has_memory_for(*shared);
  if (is_in_memory) {
    source.add(shared);
  } else {
    source.add_stored(added);
  }
  const auto first = record.jobs_added(added);
  if (!first) {
    // Its failures have cancelled it a moment ago.
    return std::unexpected(
        fmt::format("CLOSED no jobs can be added to the batch '{}' any more", record.id()));
  }
  record.content.jobs += added;
  registry_.count(record, added, source.memory_bytes());
  registry_.count_payloads(record, record.quota_bytes + bytes);
  const IndexRange range{*first, *first + added};
  if (record.is_stored()) {
    record.stored_payload_bytes += shared->payload_bytes();
    count_stored(record, record.status().result_bytes);
    const std::uint64_t unsettled = is_in_memory ? 0 : shared->memory_bytes();
    unsettled_bytes_ += unsettled;
    record.ticket =
        store_->put(AddJobs{record.sequence, *first, shared, changes_of(record)}, Urgency::kAwaited);
    unsettled_.push_back({.ticket = record.ticket,
                          .kind = Unsettled::Kind::kAdd,
                          .record = std::static_pointer_cast<BatchRecord>(record.shared_from_this()),
                          .jobs = range,
                          .bytes = unsettled});
  } else {
    record.lane->enqueue_jobs(record, range);
  }
  return record.content.jobs;
}

std::expected<std::uint64_t, Batches::Refusal> Batches::close(BatchRecord& record) {
  if (record.status().state != BatchState::open) return record.content.jobs;
  record.is_closed = true;
  if (record.is_stored()) {
    write_changes(record);
    record.Batch::close();
    unsettled_.push_back({.ticket = record.ticket,
                          .kind = Unsettled::Kind::kClose,
                          .record = std::static_pointer_cast<BatchRecord>(record.shared_from_this())});
  } else {
    record.lane->close(record);
  }
  return record.content.jobs;
}

std::expected<void, Batches::Refusal> Batches::check_store(bool is_stored) const {
  if (!is_stored) return {};
  const std::string error = store_->error();
  if (error.empty()) return {};
  return std::unexpected(
      fmt::format("STORE the disk does not take it: nothing was accepted, try again later ({})", error));
}

}  // namespace locksley::daemon
