#include "daemon/server/batches/stored/restored_batches.h"

#include <fmt/format.h>
#include <spdlog/logger.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <utility>
#include <vector>

#include "config/config.h"
#include "core/base/index_range.h"
#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"
#include "daemon/server/batches/handlers/handler_directory.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/batches/stored/restored_times.h"
#include "daemon/server/payloads/fixed_payloads.h"
#include "daemon/server/payloads/streamed_payloads.h"
#include "daemon/server/records/batch_record.h"
#include "daemon/store/rows/stored_rows.h"
#include "daemon/store/store.h"

namespace locksley::daemon {
namespace {

constexpr auto kReportPeriod = std::chrono::seconds(2);  // of reading a large store

}  // namespace

std::expected<void, StoreRefusal> RestoredBatches::restore(const std::function<void(StoredBatch)>& go_on,
                                                           std::function<void(Outcome)> on_outcome) {
  const Instant began = now();
  std::vector<StoredBatch> unfinished;
  std::uint64_t over = 0;
  Instant reported = began;
  if (auto read = parts_.store->recover([&](StoredBatch&& stored) {
        kIoThread.assert_held();
        parts_.times.see(stored);
        if (stored.history.finished_at == 0) {
          unfinished.push_back(std::move(stored));
        } else {
          ++over;
          index_finished(stored);
        }
        // Now and then: reading the clock costs as much as a batch.
        if (const std::uint64_t batches = over + unfinished.size();
            batches % 1024 == 0 && now() >= reported + kReportPeriod) {
          reported = now();
          LogLine("store: reading").with("batches_so_far", batches).write(*parts_.log, spdlog::level::info);
        }
      });
      !read) {
    return read;
  }
  parts_.registry.restored();
  parts_.times.judge();
  parts_.retention.publish_bytes();
  const auto numbers = parts_.store->begin_numbers();
  if (!numbers) return std::unexpected(numbers.error());
  parts_.registry.numbers().begin_at(numbers->first, numbers->renew_at, [this](std::uint64_t next) {
    return parts_.store->renew_numbers(next);
  });
  try {
    parts_.store->start(std::move(on_outcome));
  } catch (const std::system_error& error) {
    return std::unexpected(
        StoreRefusal{fmt::format("could not start the threads of the store: {}", error.what())});
  }
  std::uint64_t jobs = 0;
  for (StoredBatch& stored : unfinished) {
    for (const IndexRange& range : stored.left) jobs += range.size();
    go_on(std::move(stored));
  }
  LogLine("store: read")
      .with("took_ms", std::chrono::duration_cast<std::chrono::milliseconds>(now() - began).count())
      .with("batches_over", over)
      .with("batches_unfinished", unfinished.size())
      .with("jobs_left", jobs)
      .with("newest_time_age_ms", parts_.times.difference().count())
      .write(*parts_.log, spdlog::level::info);
  return {};
}

void RestoredBatches::index_finished(const StoredBatch& stored) {
  const Tenant& tenant = parts_.registry.tenants().of(stored.accepted.options.tenant);
  parts_.retention.add_restored(
      {.sequence = stored.sequence,
       .id_hash = parts_.registry.retained().hash_of(tenant.number, stored.accepted.options.id),
       .forget_at = parts_.times.forget_at(stored),
       .stored_bytes = Retention::kRowBytes + text_bytes(stored.accepted) + stored.payload_bytes +
                       stored.history.result_bytes -
                       std::min(stored.history.result_bytes, stored.history.discarded_bytes),
       .tenant = tenant.number,
       .rows = {.parts = stored.parts,
                .has_one_step = stored.has_results_inside,
                .may_have_failed_rows = stored.history.totals.failed() > kFailedRangesInRow,
                .may_have_marks = !stored.has_results_inside,
                .may_have_changes = stored.has_changes,
                .has_results_inside = stored.has_results_inside}});
}

const HandlerDirectory::Entry& RestoredBatches::entry_for(const std::string& handler) {
  if (const HandlerDirectory::Entry* entry = parts_.handlers.find_any(handler)) return *entry;
  LogLine("store: there are batches for a handler that is not configured: they are kept, and wait for it")
      .with("handler", handler)
      .write(*parts_.log, spdlog::level::warn);
  return parts_.handlers.for_batch(handler);
}

std::shared_ptr<BatchRecord> RestoredBatches::record_of(StoredBatch& stored) {
  AcceptedRow& row = stored.accepted;
  BatchHistory& history = stored.history;
  const std::uint64_t sequence = stored.sequence;
  const HandlerDirectory::Entry& entry = entry_for(row.handler);
  const std::uint64_t texts = text_bytes(row);  // before parts of it move
  std::optional<Digest> digest;
  if (row.digest) digest = Digest{row.digest->low, row.digest->high};
  const Reader::User user = parts_.registry.tenants().of(row.options.tenant).number;
  std::unique_ptr<BatchPayloads> payloads;
  if (row.range) {
    const auto high = static_cast<std::int64_t>(static_cast<std::uint64_t>(row.range->low) + history.jobs);
    const RangeJobs range{row.range->low, high, {.text = std::move(row.range->payload), .digest = digest}};
    OpenStoredRange open_stored;
    if (row.range->is_apart) open_stored = opens_range(parts_.store, sequence, range.low, user);
    if (row.range->is_apart && !range.pattern.text) {
      payloads =
          std::make_unique<RangedPayloads>(RangedPayloads::InStoreAlone(), range, std::move(open_stored));
    } else {
      payloads = std::make_unique<RangedPayloads>(range, std::move(open_stored));
    }
  } else if (row.is_streamed) {
    payloads = std::make_unique<StreamedPayloads>(parts_.store->payloads(sequence, user), history.jobs);
  } else {
    payloads = std::make_unique<FetchedPayloads>(
        parts_.store->payloads(sequence, user, std::move(stored.payloads_inside)), history.jobs, digest);
  }
  Account& account = parts_.registry.tenants().of(row.options.tenant).account;
  row.options.results = &account.results();
  row.options.failures = &account.failures();
  row.options.gate = entry.gate;
  row.options.max_output_bytes = entry.most_output(parts_.config.limits.output_buffer.count);
  // Not make_shared: the store's weak_ptr to the record would keep its memory after its end.
  std::shared_ptr<BatchRecord> record(
      new BatchRecord(std::move(row.options), entry.handler, std::move(payloads), &parts_.observer,
                      entry.lane, row.is_streamed ? BatchRecord::Origin::kOpen : BatchRecord::Origin::kSubmit,
                      sequence, parts_.store->journal(sequence, stored.parts, user)));
  record->restore(history);
  if (entry.is_held) record->set_hold(Hold::kHandler);
  record->terms.id_is_chosen = row.id_is_chosen;
  record->terms.retain = std::chrono::milliseconds(row.retain_ms);
  record->terms.jobs = history.jobs;
  record->terms.is_closed = history.closed;
  record->terms.has_no_deadline = stored.changes.has_no_deadline;
  record->terms.stop_reason = history.stop_reason;
  record->stored.text_bytes = texts;
  record->stored.payload_bytes = stored.payload_bytes;
  record->stored.parts = stored.parts;
  record->stored.has_changes = true;  // soon, if it goes on
  record->stored.rows = history.rows;
  record->waits.were_any = !row.after.empty();
  record->published.accepted = true;
  return record;
}

std::chrono::milliseconds RestoredBatches::left_to_wait() {
  if (!parts_.store->is_on_network()) return Store::kLoadPatience;
  const std::uint64_t polls = parts_.polls.get();
  if (std::exchange(polls_, polls) != polls) waited_ = {};
  return Store::kLoadPatience - std::chrono::duration_cast<std::chrono::milliseconds>(waited_);
}

Registry::Loaded RestoredBatches::load(std::uint64_t sequence) {
  const std::chrono::milliseconds left = left_to_wait();
  if (left < kLeastWait) return std::unexpected("the database replies slowly; retry later");
  const PendingDiscard discard = before_load(sequence);
  const Instant began = now();
  auto stored = parts_.store->load(sequence, left, ReadingConnection::kOpen);
  waited_ += now() - began;
  if (!stored) return std::unexpected(std::move(stored.error()));
  return after_load(*std::move(stored), discard);
}

RestoredBatches::PendingDiscard RestoredBatches::before_load(std::uint64_t sequence) {
  // A discard that is written after this call is in what the store reads, or still among the
  // pending discards.
  return parts_.discards.find(sequence, parts_.store->written());
}

std::shared_ptr<BatchRecord> RestoredBatches::after_load(StoredBatch stored, const PendingDiscard& discard) {
  if (discard) {
    stored.history.discarded = discard->rows;
    stored.history.discarded_bytes = discard->bytes;
  }
  auto record = record_of(stored);
  record->is_active = false;
  return record;
}

}  // namespace locksley::daemon
