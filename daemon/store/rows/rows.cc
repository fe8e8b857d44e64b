// Length: each row's encoder stands beside its decoder, since the two must agree.
#include "daemon/store/rows/rows.h"

#include <bit>
#include <chrono>
#include <cstring>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "daemon/store/rows/batch_options.h"
#include "daemon/store/rows/codec.h"

namespace locksley::daemon {
namespace {

void put(Encoder& to, const EndedJobs& totals) {
  for (const std::uint64_t count : totals.by_status) to.number(count);
}

// The members of a batch's options, by type.
void put(Encoder& to, const std::string& text) { to.text(text); }
void put(Encoder& to, std::uint64_t number) { to.number(number); }
void put(Encoder& to, std::chrono::milliseconds time) { to.signed_number(time.count()); }
void put(Encoder& to, Keep keep) { to.number(static_cast<std::uint64_t>(keep)); }
template <class Fields>
void put(Encoder& to, const BatchOptions& options, const Fields& fields) {
  std::apply([&](const auto&... field) { (put(to, options.*field.core), ...); }, fields);
}

void take(Decoder& from, std::string& text) { text = from.text(); }
void take(Decoder& from, std::uint32_t& number) { number = static_cast<std::uint32_t>(from.number()); }
void take(Decoder& from, std::uint64_t& number) { number = from.number(); }
void take(Decoder& from, std::chrono::milliseconds& time) {
  time = std::chrono::milliseconds(from.signed_number());
}
void take(Decoder& from, Keep& keep) {
  keep = static_cast<Keep>(from.number_below(static_cast<std::uint64_t>(Keep::kNone) + 1));
}
template <class Fields>
void take(Decoder& from, BatchOptions& options, const Fields& fields) {
  std::apply([&](const auto&... field) { (take(from, options.*field.core), ...); }, fields);
}

// Where the pattern of a range is.
enum class RangePattern : std::uint8_t { kNone, kInside, kApart };

template <class Row>
std::optional<Row> complete(const Decoder& from, Row row) {
  if (!from.is_at_end()) return std::nullopt;
  return row;
}

template <class Row>
std::optional<Row> decoded(std::string_view bytes) {
  std::optional<Row> row(std::in_place);
  if (!decode(bytes, *row)) row.reset();
  return row;
}

}  // namespace

bool lies_apart(const AcceptedRow::Range& range) {
  return range.is_apart || (range.payload && range.payload->size() > kMostPatternInside);
}

std::uint64_t text_bytes(const AcceptedRow& row) {
  const bool has_pattern = row.range && row.range->payload && !lies_apart(*row.range);
  return text_bytes(row.options, row.after) + (has_pattern ? row.range->payload->size() : 0);
}

std::string encode(const AcceptedRow& row) {
  constexpr std::size_t kUsual = 160;
  std::string bytes;
  bytes.reserve(kUsual + row.handler.size());
  Encoder to(bytes);
  to.text(row.handler);
  put(to, row.options, kOptionFields);
  to.flag(row.id_is_chosen);
  to.flag(row.is_streamed);
  to.signed_number(row.submitted_at);
  to.signed_number(row.deadline_at);
  to.signed_number(row.retain_ms);
  to.number(row.jobs);
  to.number(row.payload_bytes);
  to.flag(row.range.has_value());
  if (row.range) {
    const RangePattern pattern = lies_apart(*row.range) ? RangePattern::kApart
                                 : row.range->payload   ? RangePattern::kInside
                                                        : RangePattern::kNone;
    to.signed_number(row.range->low);
    to.number(static_cast<std::uint64_t>(pattern));
    if (pattern == RangePattern::kInside) to.text(*row.range->payload);
  }
  to.flag(row.digest.has_value());
  if (row.digest) {
    to.number(row.digest->low);
    to.number(row.digest->high);
  }
  const bool has_customer = !row.options.customer.empty();
  if (row.options.retries != 0 || row.start_at != 0 || !row.after.empty() || has_customer) {
    put(to, row.options, kLaterOptionFields);
    to.signed_number(row.start_at);
    to.number(row.after.size());
    for (const AcceptedRow::After& after : row.after) {
      to.number(after.sequence);
      to.text(after.id);
      to.flag(after.only_if_ok);
    }
  }
  if (has_customer) put(to, row.options, kCustomerOptionFields);
  return bytes;
}

bool decode(std::string_view bytes, AcceptedRow& row) {
  Decoder from(bytes);
  row.handler = from.text();
  take(from, row.options, kOptionFields);
  row.id_is_chosen = from.flag();
  row.is_streamed = from.flag();
  row.submitted_at = from.signed_number();
  row.deadline_at = from.signed_number();
  row.retain_ms = from.signed_number();
  row.jobs = from.number();
  row.payload_bytes = from.number();
  if (from.flag()) {
    AcceptedRow::Range range{.low = from.signed_number(), .payload = std::nullopt};
    const auto pattern =
        static_cast<RangePattern>(from.number_below(static_cast<std::uint64_t>(RangePattern::kApart) + 1));
    if (pattern == RangePattern::kInside) range.payload = std::string(from.text());
    range.is_apart = pattern == RangePattern::kApart;
    row.range = std::move(range);
  }
  if (from.flag()) {
    const std::uint64_t low = from.number();
    row.digest = {low, from.number()};
  }
  if (from.left() != 0) {
    take(from, row.options, kLaterOptionFields);
    row.start_at = from.signed_number();
    for (std::uint64_t left = from.number(); left > 0 && !from.is_damaged(); --left) {
      const std::uint64_t sequence = from.number();
      std::string id(from.text());
      row.after.push_back({sequence, std::move(id), from.flag()});
    }
    const bool has_any = row.options.retries != 0 || row.start_at != 0 || !row.after.empty();
    if (from.left() != 0) {
      take(from, row.options, kCustomerOptionFields);
      if (row.options.customer.empty()) return false;
    } else if (!has_any) {
      return false;
    }
  }
  return from.is_at_end();
}

std::optional<AcceptedRow> decode_accepted(std::string_view bytes) { return decoded<AcceptedRow>(bytes); }

std::string encode(const ChangesRow& row) {
  std::string bytes;
  Encoder to(bytes);
  to.number(row.jobs);
  to.number(row.payload_bytes);
  to.flag(row.is_closed);
  to.flag(row.is_paused);
  to.flag(row.is_cancelled);
  to.text(row.stop_reason);
  to.number(row.weight);
  to.number(row.attempt);
  const bool has_discarded = row.discarded_rows != 0 || row.slots;
  if (row.has_no_deadline || row.is_released || !row.satisfied.empty() || has_discarded) {
    to.flag(row.has_no_deadline);
    to.flag(row.is_released);
    to.text(row.satisfied);
  }
  if (has_discarded) {
    to.number(row.discarded_rows);
    to.number(row.discarded_bytes);
  }
  // Two bytes at least: otherwise a row that has lost its last byte could be taken for one of an
  // earlier version.
  if (row.slots) {
    to.flag(true);
    to.number(*row.slots);
  }
  return bytes;
}

std::optional<ChangesRow> decode_changes(std::string_view bytes) {
  Decoder from(bytes);
  ChangesRow row;
  row.jobs = from.number();
  row.payload_bytes = from.number();
  row.is_closed = from.flag();
  row.is_paused = from.flag();
  row.is_cancelled = from.flag();
  row.stop_reason = from.text();
  row.weight = static_cast<std::uint32_t>(from.number());
  row.attempt = static_cast<std::uint32_t>(from.number());
  if (from.left() != 0) {
    row.has_no_deadline = from.flag();
    row.is_released = from.flag();
    row.satisfied = from.text();
  }
  if (from.left() != 0) {
    row.discarded_rows = from.number();
    row.discarded_bytes = from.number();
    if (from.left() != 0) {
      const bool has_slots = from.flag();
      const std::uint64_t slots = from.number();
      if (!has_slots || slots > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
      row.slots = static_cast<std::uint32_t>(slots);
    } else if (row.discarded_rows == 0) {
      return std::nullopt;
    }
  }
  return complete(from, std::move(row));
}

std::string encode(const proto::CustomerSettings& settings) {
  std::string bytes;
  Encoder to(bytes);
  const auto put_if_there = [&to](const auto& value) {
    to.flag(value.has_value());
    if (value) to.number(*value);
  };
  put_if_there(settings.weight);
  put_if_there(settings.slots);
  put_if_there(settings.max_jobs);
  to.flag(settings.rate.has_value());
  if (settings.rate) {
    to.number(settings.rate->count);
    to.number(static_cast<std::uint64_t>(settings.rate->period.count()));
  }
  return bytes;
}

std::optional<proto::CustomerSettings> decode_settings(std::string_view bytes) {
  Decoder from(bytes);
  proto::CustomerSettings settings;
  if (from.flag()) settings.weight = static_cast<std::uint32_t>(from.number());
  if (from.flag()) settings.slots = static_cast<std::uint32_t>(from.number());
  if (from.flag()) settings.max_jobs = from.number();
  if (from.flag()) {
    const auto count = static_cast<std::uint32_t>(from.number());
    settings.rate = proto::CustomerRate{count, std::chrono::seconds(from.number())};
    // Other code divides by the period.
    if (settings.rate->period < std::chrono::seconds(1) || settings.rate->period > std::chrono::hours(1))
      return std::nullopt;
  }
  return complete(from, settings);
}

namespace {

void put_superseded(Encoder& to, const SupersededList& list) {
  to.number(list.size());
  for (const SupersededJobs& each : list) {
    to.number(each.jobs.low);
    to.number(each.jobs.size());
    to.number(each.below);
  }
}

SupersededList take_superseded(Decoder& from) {
  SupersededList list;
  for (std::uint64_t left = from.number(); left > 0 && !from.is_damaged(); --left) {
    const std::uint64_t low = from.number();
    const IndexRange jobs{low, low + from.number()};
    list.push_back({jobs, from.number()});
  }
  return list;
}

void put_notes(Encoder& to, std::span<const NotedJob> notes) {
  to.number(notes.size());
  for (const NotedJob& each : notes) {
    to.number(each.index);
    to.text(each.text);
  }
}

std::vector<NotedJob> take_notes(Decoder& from) {
  std::vector<NotedJob> notes;
  for (std::uint64_t left = from.number(); left > 0 && !from.is_damaged(); --left) {
    const std::uint64_t index = from.number();
    notes.push_back({index, std::string(from.text())});
  }
  return notes;
}

}  // namespace

std::span<const IndexRange> failed_ranges(const BatchStep& step) {
  const bool has_list = step.all_failed != nullptr && !step.all_failed->empty();
  return has_list ? std::span(*step.all_failed) : std::span(step.failed);
}

std::string encode(const BatchStep& step, std::uint64_t failed_apart) {
  constexpr std::size_t kUsual = 64;
  std::string bytes;
  bytes.reserve(kUsual);
  Encoder to(bytes);
  put_ranges(to, step.ended);
  put(to, step.totals);
  to.number(step.row_count);
  to.number(step.result_bytes);
  to.signed_number(step.started_at);
  to.signed_number(step.finished_at);
  to.flag(step.cancelled);
  to.text(step.stop_reason);
  const std::span<const IndexRange> failed =
      failed_apart != 0 ? std::span<const IndexRange>() : failed_ranges(step);
  if (!failed.empty() || !step.requeued.empty() || !step.job_attempts.empty() || step.retried != 0 ||
      step.superseded != 0 || step.retry_rounds != 0 || failed_apart != 0 || !step.superseded_jobs.empty() ||
      !step.notes.empty()) {
    put_ranges(to, failed);
    put_ranges(to, step.requeued);
    to.number(step.job_attempts.size());
    for (const JobAttempts& each : step.job_attempts) {
      to.number(each.jobs.low);
      to.number(each.jobs.size());
      to.number(each.attempts.failed);
      to.number(each.attempts.forgiven);
    }
    to.number(step.retried);
    to.number(step.superseded);
    const bool has_notes = !step.notes.empty();
    const bool has_list = !step.superseded_jobs.empty() || has_notes;
    if (step.retry_rounds != 0 || failed_apart != 0 || has_list) to.number(step.retry_rounds);
    if (failed_apart != 0 || has_list) to.number(failed_apart);
    if (has_list) put_superseded(to, step.superseded_jobs);
    if (has_notes) put_notes(to, step.notes);
  }
  return bytes;
}

bool decode(std::string_view bytes, StepRow& row) {
  Decoder from(bytes);
  row.ended = take_ranges(from);
  for (std::uint64_t& count : row.totals.by_status) count = from.number();
  row.rows = from.number();
  row.result_bytes = from.number();
  row.started_at = from.signed_number();
  row.finished_at = from.signed_number();
  row.cancelled = from.flag();
  row.stop_reason = from.text();
  if (from.left() != 0) {
    row.failed = take_ranges(from);
    row.requeued = take_ranges(from);
    for (std::uint64_t left = from.number(); left > 0 && !from.is_damaged(); --left) {
      const std::uint64_t low = from.number();
      const IndexRange jobs{low, low + from.number()};
      const auto failed = static_cast<std::uint32_t>(from.number());
      row.job_attempts.push_back({jobs, {failed, static_cast<std::uint32_t>(from.number())}});
    }
    row.retried = from.number();
    row.superseded = from.number();
    if (from.left() != 0) {
      row.retry_rounds = from.number();
      const bool has_apart = from.left() != 0;
      if (has_apart) row.failed_apart = from.number();
      const bool has_list = from.left() != 0;
      if (has_list) row.superseded_jobs = take_superseded(from);
      const bool has_notes = from.left() != 0;
      if (has_notes) row.notes = take_notes(from);
      const bool is_last_set = has_notes   ? !row.notes.empty()
                               : has_list  ? !row.superseded_jobs.empty()
                               : has_apart ? row.failed_apart != 0
                                           : row.retry_rounds != 0;
      if (!is_last_set) return false;
      if (row.failed_apart != 0 && !row.failed.empty()) return false;
    } else if (row.failed.empty() && row.requeued.empty() && row.job_attempts.empty() && row.retried == 0 &&
               row.superseded == 0) {
      return false;
    }
  }
  return from.is_at_end();
}

std::optional<StepRow> decode_step(std::string_view bytes) { return decoded<StepRow>(bytes); }

namespace {

// The number 0, not in its shortest form. All other rows begin with a number in its shortest form.
constexpr std::string_view kJoined{"\x80\0", 2};

}  // namespace

std::optional<SplitRow> split_row(std::string_view bytes) {
  if (!bytes.starts_with(kJoined)) return SplitRow{bytes, {}};
  Decoder from(bytes.substr(kJoined.size()));
  const std::string_view inside = from.text();
  if (from.is_damaged() || inside.empty()) return std::nullopt;
  return SplitRow{bytes.substr(bytes.size() - from.left()), inside};
}

std::string join_rows(std::string_view row, std::string_view inside) {
  std::string bytes;
  bytes.reserve(kJoined.size() + 2 + inside.size() + row.size());
  bytes.append(kJoined);
  Encoder(bytes).text(inside);
  bytes.append(row);
  return bytes;
}

bool has_results_inside(const BatchStep& step) {
  const ResultLog::Rows& rows = step.rows;
  return step.finished_at != 0 && step.number == 0 && !step.is_base && rows.rows != 0 &&
         rows.first_row == 0 && !rows.has_others &&
         step.totals.failed() + step.totals.count(JobStatus::kCancelled) + step.retried == 0 &&
         step.result_bytes <= kMostInside;
}

bool has_results_inside(const BatchStatus& status) {
  return status.steps == 1 && status.rows != 0 && status.failed + status.cancelled + status.retried == 0 &&
         status.result_bytes + status.discarded_bytes <= kMostInside;
}

std::string encode_failed(std::span<const IndexRange> ranges) {
  std::string bytes;
  Encoder to(bytes);
  put_ranges(to, ranges);
  return bytes;
}

std::optional<std::vector<IndexRange>> decode_failed(std::string_view bytes) {
  Decoder from(bytes);
  std::vector<IndexRange> ranges = take_ranges(from);
  return complete(from, std::move(ranges));
}

std::string encode_payload_chunk(std::span<const std::string_view> payloads) {
  static_assert(std::endian::native == std::endian::little, "numbers are written as they lie in memory");
  std::string bytes;
  std::size_t size = 0;
  for (const std::string_view payload : payloads) size += payload.size();
  bytes.reserve((payloads.size() + 1) * sizeof(std::uint32_t) + size);
  const auto put = [&bytes](std::size_t number) {
    const auto narrow = static_cast<std::uint32_t>(number);
    bytes.append(reinterpret_cast<const char*>(&narrow), sizeof narrow);
  };
  put(payloads.size());
  std::size_t end = 0;
  for (const std::string_view payload : payloads) put(end += payload.size());
  for (const std::string_view payload : payloads) bytes.append(payload);
  return bytes;
}

std::optional<PayloadChunk> PayloadChunk::of(std::string_view bytes) {
  std::uint32_t count = 0;
  if (bytes.size() < sizeof count) return std::nullopt;
  std::memcpy(&count, bytes.data(), sizeof count);
  bytes.remove_prefix(sizeof count);
  if (bytes.size() / sizeof count < count) return std::nullopt;
  const std::size_t ends = std::size_t{count} * sizeof count;
  const PayloadChunk chunk(bytes.substr(0, ends), bytes.substr(ends));
  std::size_t before = 0;
  for (std::uint64_t i = 0; i < chunk.size(); ++i) {
    const std::size_t end = chunk.end_of(i);
    if (end < before) return std::nullopt;
    before = end;
  }
  if (before != chunk.payloads_.size()) return std::nullopt;
  return chunk;
}

std::size_t PayloadChunk::end_of(std::uint64_t i) const {
  std::uint32_t end = 0;
  std::memcpy(&end, ends_.data() + i * sizeof end, sizeof end);
  return end;
}

std::string customer_key(std::string_view user, std::string_view customer) {
  std::string key(1, kCustomerKey);
  return key.append(user).append("/").append(customer);
}

std::optional<CustomerNames> names_in(std::string_view customer_key) {
  const std::size_t slash = customer_key.find('/');
  if (!customer_key.starts_with(kCustomerKey) || slash == std::string_view::npos) return std::nullopt;
  return CustomerNames{customer_key.substr(1, slash - 1), customer_key.substr(slash + 1)};
}

}  // namespace locksley::daemon
