#include "daemon/server/batches/intake/admission.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>

#include "core/batch/batch_failures.h"
#include "core/batch/handler.h"
#include "daemon/base/log/log_line.h"
#include "daemon/server/batches/news/batch_news.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/batches/stored/stored_batches.h"
#include "daemon/store/rows/rows.h"
#include "proto/command_table.h"

namespace locksley::daemon {

namespace {

std::unexpected<Admission::Refusal> too_big(std::string_view what, std::uint64_t found,
                                            std::string_view limit, std::uint64_t most) {
  return std::unexpected(fmt::format("TOOBIG {} {}, and {} is {}", what, found, limit, most));
}

// The bytes of the payloads; for a range, the bytes of its pattern, since memory holds nothing
// else.
std::uint64_t bytes_of(const Admission::Demand& demand) {
  if (demand.range != nullptr && demand.range->pattern.text) return demand.range->pattern.text->size();
  return demand.payloads == nullptr ? 0 : demand.payloads->payload_bytes();
}

// The bytes of the longest payload of the range; 0 if it has no jobs.
std::uint64_t longest_payload(const RangeJobs& range) {
  if (!range.pattern.text || range.low == range.high) return 0;
  const std::size_t digits =
      std::max(fmt::formatted_size("{}", range.low), fmt::formatted_size("{}", range.high - 1));
  const std::uint64_t places = range.pattern.places;
  return range.pattern.text->size() - 2 * places + digits * places;
}

// The most that the record of a new batch can take: if it waits for all batches that its options
// name.
std::uint64_t record_bytes_of(const Admission::Demand& demand) LOCKSLEY_REQUIRES(kIoThread) {
  return demand.options == nullptr
             ? 0
             : BatchCharges::record_bytes(*demand.options, demand.options->after.size());
}

// How much a batch takes in the store, without payloads and results. `after`: the batches for which
// it waits.
std::uint64_t row_bytes(const auto& options, const auto& after) {
  return Retention::kRowBytes + text_bytes(options, after);
}

// The most that the demand's writes take in the store.
std::uint64_t stored_bytes_of(const Admission::Demand& demand) {
  if (!demand.is_stored) return 0;
  const std::uint64_t bytes = bytes_of(demand);
  return demand.options == nullptr ? bytes : bytes + row_bytes(*demand.options, demand.options->after);
}

// Whether finished batches, or their payloads, are evicted for new ones.
bool is_evictable(Resource resource) {
  return resource == Resource::kStoredBytes || resource == Resource::kRecordBytes ||
         resource == Resource::kQueuedBytes;
}

}  // namespace

Admission::Reservation::Reservation(Admission& admission, Customer& customer,
                                    const BatchCharges::Charge& charge, std::uint64_t stored_bytes,
                                    BatchPayloads::Place place, bool needs_memory)
    : admission_(&admission),
      customer_(&admission.registry_.customers().use_again(customer)),
      charge_(charge),
      stored_bytes_(stored_bytes),
      place_(place),
      needs_memory_(needs_memory) {
  admission_->registry_.charges().charge(*customer_, charge_);
  admission_->retention_.reserve(*customer_->tenant, stored_bytes_);
}

void Admission::Reservation::commit(BatchRecord& record) {
  Admission& admission = *std::exchange(admission_, nullptr);
  Tenant* const tenant = customer_->tenant;
  BatchCharges& charges = admission.registry_.charges();
  charges.assign(record, charge_);
  if (const bool is_new = charge_.record_bytes != 0; is_new) {
    charges.count_record(record, BatchCharges::record_bytes(record.options(), record.waits.all.size()));
    if (record.is_stored()) {
      const std::uint64_t most =
          std::exchange(stored_bytes_, charge_.payload_bytes + row_bytes(record.options(), record.waits.all));
      admission.retention_.reserve(*tenant, stored_bytes_);
      admission.retention_.release(*tenant, most);
    }
  }
  admission.retention_.assign(record, stored_bytes_);
  admission.registry_.customers().drop(*customer_);
  admission.retention_.evict(tenant);
  if (needs_memory_) admission.retention_.evict_payloads(*tenant);
}

void Admission::refund(Reservation& reservation) {
  registry_.charges().refund(*reservation.customer_, reservation.charge_);
  retention_.release(*reservation.customer_->tenant, reservation.stored_bytes_);
  registry_.customers().drop(*reservation.customer_);
}

Admission::Admission(const config::Config& config, Registry& registry, Retention& retention, BatchNews& news,
                     const StoredBatches& stored, std::shared_ptr<spdlog::logger> log)
    : config_(config),
      registry_(registry),
      retention_(retention),
      news_(news),
      stored_(stored),
      log_(std::move(log)) {}

std::unexpected<Admission::Refusal> Admission::queue_full(const Demand& demand, const Account& full,
                                                          Resource resource) {
  const bool is_customers = &full == demand.customer.account.get();
  const std::string limit = is_customers ? demand.customer.key_of_max_jobs() : full.key(resource);
  const std::uint64_t most =
      is_evictable(resource) ? retention_.most_now(full, resource) : full.most_now(resource);
  if (full_lines_.open(now())) {
    LogLine("queue full")
        .with("tenant", demand.tenant().name)
        .with("customer", demand.customer.name)
        .with("handler", demand.handler)
        .with("limit", limit)
        .with("most", most)
        .with("unlogged", full_lines_.held_back())
        .write(*log_, spdlog::level::warn);
  }
  return std::unexpected(
      fmt::format("{}: nothing was accepted, try again{}", queue_full_text(limit, most, full, resource),
                  is_customers ? " when jobs of the customer have ended, or raise the limit (CUSTOMER SET)"
                               : what_makes_room(resource)));
}

Admission::Admitted Admission::reserve(const Demand& demand) {
  if (is_draining_) return std::unexpected("DRAINING the daemon is shutting down: nothing was accepted");
  if (demand.is_stored) {
    if (std::string error = stored_.error(); !error.empty()) return std::unexpected(std::move(error));
  }
  if (auto fit = check_sizes(demand); !fit) return std::unexpected(std::move(fit.error()));
  if (auto fit = check_room(demand); !fit) return std::unexpected(std::move(fit.error()));
  const std::uint64_t bytes = bytes_of(demand);
  // A pattern is always in memory, and so are the payloads of a batch that is not stored: they must
  // fit into the account, but empty payloads fit even while it is above its limit. For payloads
  // that the store can keep, finished batches need not lose payloads that a RETRY may need.
  const bool may_be_elsewhere = demand.is_stored && demand.range == nullptr;
  const Account* const full =
      may_be_elsewhere ? demand.tenant().account.first_without_room(Resource::kQueuedBytes, bytes) : nullptr;
  const bool keeps_in_memory = full == nullptr;
  if (!keeps_in_memory) {
    if (auto fit = check_unsettled(demand, *full); !fit) return std::unexpected(std::move(fit.error()));
  }
  return Reservation(*this, demand.customer,
                     {.jobs = demand.new_jobs,
                      .batches = demand.new_batches,
                      .payload_bytes = bytes,
                      .memory_bytes = keeps_in_memory ? bytes : 0,
                      .record_bytes = record_bytes_of(demand)},
                     stored_bytes_of(demand),
                     keeps_in_memory ? BatchPayloads::Place::kMemory : BatchPayloads::Place::kStore,
                     !may_be_elsewhere && bytes != 0);
}

Admission::Admitted Admission::reserve_retry(BatchRecord& record, std::uint64_t jobs) {
  if (is_draining_) return std::unexpected("DRAINING the daemon is shutting down: no job was queued again");
  const CustomerUse customer(registry_.customers(), registry_.tenant_of(record), record.options().customer);
  const Demand demand{.customer = *customer,
                      .handler = record.handler().name(),
                      .new_batches = jobs == 0 || record.is_active ? 0U : 1U,
                      .batch_jobs = 0,
                      .new_jobs = jobs,
                      .payloads = nullptr,
                      .is_stored = record.is_stored(),
                      .record = &record};
  if (auto fit = check_failures(demand); !fit) return std::unexpected(std::move(fit.error()));
  if (auto fit = check(demand, Resource::kQueuedJobs, jobs, "jobs:"); !fit) {
    return std::unexpected(std::move(fit.error()));
  }
  if (auto fit = check(demand, Resource::kBatches, demand.new_batches, "batches:"); !fit) {
    return std::unexpected(std::move(fit.error()));
  }
  return Reservation(*this, demand.customer, {.jobs = jobs, .batches = demand.new_batches}, 0,
                     BatchPayloads::Place::kMemory, false);
}

Admission::Checked Admission::check_sizes(const Demand& demand) const {
  const config::Limits& limits = config_.limits;
  if (demand.batch_jobs > limits.max_batch_jobs) {
    return too_big("jobs of the batch:", demand.batch_jobs, "limits.max_batch_jobs", limits.max_batch_jobs);
  }
  const std::uint64_t most = limits.max_payload.count;
  if (demand.range != nullptr) {
    if (const std::uint64_t longest = longest_payload(*demand.range); longest > most) {
      return too_big("bytes of a payload:", longest, "limits.max_payload", most);
    }
    return {};
  }
  const std::size_t longest = demand.payloads == nullptr ? 0 : demand.payloads->longest_bound();
  // Other words of a command are not as long.
  if (longest > std::max<std::uint64_t>(most, proto::kMostWordBytes))
    return too_big("bytes of a payload:", longest, "limits.max_payload", most);
  if (longest > most && bytes_of(demand) > most) {
    // There may be ten million payloads: search only if one of them can be over the limit.
    for (const std::string_view payload : *demand.payloads) {
      if (payload.size() > most)
        return too_big("bytes of a payload:", payload.size(), "limits.max_payload", most);
    }
  }
  return {};
}

Admission::Checked Admission::check_room(const Demand& demand) {
  const std::uint64_t bytes = bytes_of(demand);
  const bool needs_memory = !demand.is_stored || demand.range != nullptr;
  struct Rule {
    Resource resource;
    std::uint64_t more;
    std::string_view what;
  };
  const Rule rules[] = {
      {Resource::kQueuedJobs, demand.new_jobs, "jobs of the batch:"},
      {Resource::kPayloadBytes, bytes, "bytes of the batch:"},
      {Resource::kQueuedBytes, needs_memory ? bytes : 0, "bytes of the batch:"},
      {Resource::kBatches, demand.new_batches, "batches:"},
      {Resource::kRecordBytes, record_bytes_of(demand), "bytes of the batch's record:"},
      {Resource::kStoredBytes, stored_bytes_of(demand), "bytes in the store:"},
  };
  for (const Rule& rule : rules) {
    if (auto fit = check(demand, rule.resource, rule.more, rule.what); !fit) return fit;
  }
  if (auto fit = check_failures(demand); !fit) return fit;
  if (!demand.awaits_results) return {};
  const Account& account = demand.tenant().account;
  if (account.results().is_full()) return std::unexpected(results_at_limit(account));
  return {};
}

Admission::Checked Admission::check_failures(const Demand& demand) {
  const Account& account = demand.tenant().account;
  const auto is_full = [&] {
    if (!account.failures().is_full()) return false;
    // One batch may always go on; otherwise it might never end.
    return demand.record == nullptr ||
           account.failures().is_full_without(demand.record->failures().charged_bytes());
  };
  if (!is_full()) return {};
  if (full_lines_.open(now())) {
    LogLine("queue full: no room for more data about failed jobs")
        .with("tenant", demand.tenant().name)
        .with("customer", demand.customer.name)
        .with("handler", demand.handler)
        .with("limit", account.key_of_results())
        .with("bytes", account.failures().bytes())
        .with("unlogged", full_lines_.held_back())
        .write(*log_, spdlog::level::warn);
  }
  return std::unexpected(failures_at_limit(account));
}

Admission::Checked Admission::check_unsettled(const Demand& demand, const Account& full) const {
  if (demand.payloads == nullptr) return {};
  const Account& account = demand.tenant().account;
  const std::uint64_t bytes = demand.payloads->memory_bytes();
  if (account.first_without_room(Resource::kUnsettledBytes, bytes) == nullptr) return {};
  // If nothing else waits, a command of any size is admitted; otherwise a large one never would be.
  const Account& all = *account.parent();
  if (account.used(Resource::kUnsettledBytes) == 0 && !all.exceeds_limit(Resource::kUnsettledBytes))
    return {};
  return std::unexpected(
      fmt::format("QUEUEFULL {} is {}, and {} bytes of payloads that exceed it already wait for the disk: "
                  "nothing was accepted, try again",
                  full.key(Resource::kQueuedBytes), full.most_now(Resource::kQueuedBytes),
                  all.used(Resource::kUnsettledBytes)));
}

Admission::Checked Admission::check(const Demand& demand, Resource resource, std::uint64_t more,
                                    std::string_view what) {
  if (more == 0) return {};
  const Account* full = first_without_room(demand, resource, more);
  if (full == nullptr) return {};
  if (more > full->limit(resource)) {
    const bool is_customers = full == demand.customer.account.get();
    return too_big(what, more, is_customers ? demand.customer.key_of_max_jobs() : full->key(resource),
                   full->limit(resource));
  }
  // The news of jobs that STATUS shows as ended may still be in the queue.
  news_.apply_pending();
  full = first_without_room(demand, resource, more);
  if (full == nullptr) return {};
  return queue_full(demand, *full, resource);
}

const Account* Admission::first_without_room(const Demand& demand, Resource resource,
                                             std::uint64_t more) const {
  if (is_evictable(resource)) {
    return retention_.first_without_room(demand.tenant(), resource, more);
  }
  return demand.customer.account->first_without_room(resource, more);
}

}  // namespace locksley::daemon
