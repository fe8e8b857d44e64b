// What the store writes, and what it makes of bytes that it did not write.
// Length: one set of random values serves all of these tests.
#include "daemon/store/rows.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <random>

#include "daemon/store/codec.h"
#include "tests/support/seed.h"
#include "tests/support/store_model.h"

namespace locksley::daemon {
namespace {

using testing::append_rows;
using ::testing::ElementsAreArray;
using ::testing::Optional;
using testing::StoredRow;

constexpr auto kLargest = std::numeric_limits<std::uint64_t>::max();
constexpr auto kLeastSigned = std::numeric_limits<std::int64_t>::min();
constexpr auto kLargestSigned = std::numeric_limits<std::int64_t>::max();

// Random values, extremes among them more often than chance would have it.
class Values {
 public:
  explicit Values(std::uint64_t stream) : random_(testing::stress_random(stream)) {}

  std::uint64_t below(std::uint64_t end) {
    return std::uniform_int_distribution<std::uint64_t>(0, end - 1)(random_);
  }
  bool flag() { return below(2) != 0; }
  std::uint64_t number() {
    switch (below(4)) {
      case 0:
        return 0;
      case 1:
        return kLargest;
      default:
        return random_() >> below(64);
    }
  }
  std::int64_t signed_number() {
    switch (below(4)) {
      case 0:
        return kLeastSigned;
      case 1:
        return kLargestSigned;
      default:
        return static_cast<std::int64_t>(number());
    }
  }
  std::uint32_t number32() { return static_cast<std::uint32_t>(number()); }
  std::string text() {
    std::string text(below(8) == 0 ? below(70'000) : below(40), '\0');
    std::ranges::generate(text, [this] { return static_cast<char>(random_()); });
    return text;
  }
  JobStatus status() { return static_cast<JobStatus>(below(kJobStatuses)); }

  AcceptedRow accepted() {
    AcceptedRow row;
    row.handler = text();
    row.options.id = text();
    row.options.name = text();
    row.options.tenant = text();
    row.options.trace = text();
    row.options.weight = number32();
    row.options.slots = number32();
    row.options.max_fails = number();
    row.options.timeout = std::chrono::milliseconds(signed_number());
    row.options.keep = static_cast<Keep>(below(3));
    row.id_is_chosen = flag();
    row.is_streamed = flag();
    row.submitted_at = signed_number();
    row.deadline_at = signed_number();
    row.retain_ms = signed_number();
    row.jobs = number();
    row.payload_bytes = number();
    if (flag()) row.range = {signed_number(), flag() ? std::optional(text()) : std::nullopt};
    if (flag()) row.digest = {number(), number()};
    if (flag()) row.options.retries = number32();
    if (flag()) row.start_at = signed_number();
    for (std::uint64_t left = flag() ? below(20) : 0; left > 0; --left) {
      row.after.push_back({number(), text(), flag()});
    }
    return row;
  }
  ChangesRow changes() {
    ChangesRow row;
    row.jobs = number();
    row.payload_bytes = number();
    row.is_closed = flag();
    row.is_paused = flag();
    row.is_cancelled = flag();
    row.stop_reason = text();
    row.weight = number32();
    row.attempt = number32();
    row.has_no_deadline = flag();
    row.is_released = flag();
    if (flag()) row.satisfied = text();
    return row;
  }
  BatchStep step() {
    BatchStep step;
    step.ended = ranges(below(20));
    for (std::uint64_t& count : step.totals.by_status) count = number();
    step.row_count = number();
    step.result_bytes = number();
    step.started_at = signed_number();
    step.finished_at = signed_number();
    step.cancelled = flag();
    step.stop_reason = text();
    if (flag()) step.failed = ranges();
    if (flag()) step.requeued = ranges();
    for (std::uint64_t left = flag() ? below(20) : 0; left > 0; --left) {
      step.tried.push_back({ranges(1).front(), {number32(), number32()}});
    }
    if (flag()) step.retried = number();
    if (flag()) step.superseded = number();
    return step;
  }
  std::vector<IndexRange> ranges(std::uint64_t count = 3) {
    std::vector<IndexRange> ranges;
    for (; count > 0; --count) {
      const std::uint64_t low = number();
      ranges.push_back({low, low == kLargest ? low : low + number() % (kLargest - low)});
    }
    return ranges;
  }
  std::vector<StoredRow> rows() {
    std::vector<StoredRow> rows;
    std::uint64_t index = number();
    for (std::uint64_t left = 1 + below(30); left > 0; --left) {
      rows.push_back({index, status(), text()});
      index = below(4) == 0 ? number() : index + 1;
    }
    return rows;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> texts(below(50));
    std::ranges::generate(texts, [this] { return text(); });
    return texts;
  }

 private:
  std::mt19937_64 random_;
};

void expect_same(const AcceptedRow& given, const AcceptedRow& read) {
  EXPECT_EQ(read.handler, given.handler);
  EXPECT_EQ(read.options.id, given.options.id);
  EXPECT_EQ(read.options.name, given.options.name);
  EXPECT_EQ(read.options.tenant, given.options.tenant);
  EXPECT_EQ(read.options.trace, given.options.trace);
  EXPECT_EQ(read.options.weight, given.options.weight);
  EXPECT_EQ(read.options.slots, given.options.slots);
  EXPECT_EQ(read.options.max_fails, given.options.max_fails);
  EXPECT_EQ(read.options.timeout, given.options.timeout);
  EXPECT_EQ(read.options.keep, given.options.keep);
  EXPECT_EQ(read.id_is_chosen, given.id_is_chosen);
  EXPECT_EQ(read.is_streamed, given.is_streamed);
  EXPECT_EQ(read.submitted_at, given.submitted_at);
  EXPECT_EQ(read.deadline_at, given.deadline_at);
  EXPECT_EQ(read.retain_ms, given.retain_ms);
  EXPECT_EQ(read.jobs, given.jobs);
  EXPECT_EQ(read.payload_bytes, given.payload_bytes);
  ASSERT_EQ(read.range.has_value(), given.range.has_value());
  if (given.range) {
    EXPECT_EQ(read.range->low, given.range->low);
    EXPECT_EQ(read.range->payload, given.range->payload);
  }
  EXPECT_EQ(read.options.retries, given.options.retries);
  EXPECT_EQ(read.start_at, given.start_at);
  ASSERT_EQ(read.after.size(), given.after.size());
  for (std::size_t i = 0; i < given.after.size(); ++i) {
    EXPECT_EQ(read.after[i].sequence, given.after[i].sequence);
    EXPECT_EQ(read.after[i].id, given.after[i].id);
    EXPECT_EQ(read.after[i].only_if_ok, given.after[i].only_if_ok);
  }
  ASSERT_EQ(read.digest.has_value(), given.digest.has_value());
  if (given.digest) {
    EXPECT_EQ(read.digest->low, given.digest->low);
    EXPECT_EQ(read.digest->high, given.digest->high);
  }
}

void expect_same(const ChangesRow& given, const ChangesRow& read) {
  EXPECT_EQ(read.jobs, given.jobs);
  EXPECT_EQ(read.payload_bytes, given.payload_bytes);
  EXPECT_EQ(read.is_closed, given.is_closed);
  EXPECT_EQ(read.is_paused, given.is_paused);
  EXPECT_EQ(read.is_cancelled, given.is_cancelled);
  EXPECT_EQ(read.stop_reason, given.stop_reason);
  EXPECT_EQ(read.weight, given.weight);
  EXPECT_EQ(read.attempt, given.attempt);
  EXPECT_EQ(read.has_no_deadline, given.has_no_deadline);
  EXPECT_EQ(read.is_released, given.is_released);
  EXPECT_EQ(read.satisfied, given.satisfied);
}

void expect_same(const BatchStep& given, const StepRow& read) {
  EXPECT_EQ(read.ended, given.ended);
  EXPECT_THAT(read.totals.by_status, ElementsAreArray(given.totals.by_status));
  EXPECT_EQ(read.rows, given.row_count);
  EXPECT_EQ(read.result_bytes, given.result_bytes);
  EXPECT_EQ(read.started_at, given.started_at);
  EXPECT_EQ(read.finished_at, given.finished_at);
  EXPECT_EQ(read.cancelled, given.cancelled);
  EXPECT_EQ(read.stop_reason, given.stop_reason);
  EXPECT_EQ(read.failed, given.failed);
  EXPECT_EQ(read.requeued, given.requeued);
  EXPECT_EQ(read.tried, given.tried);
  EXPECT_EQ(read.retried, given.retried);
  EXPECT_EQ(read.superseded, given.superseded);
}

// Bytes that end where their memory ends, so that a sanitizer sees whoever reads on.
class Bounded {
 public:
  explicit Bounded(std::string_view bytes) : bytes_(new char[bytes.size()]), size_(bytes.size()) {
    std::ranges::copy(bytes, bytes_.get());
  }
  operator std::string_view() const { return {bytes_.get(), size_}; }  // as any text that is read

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t size_;
};

struct Visit {
  std::optional<VisitedRows> visited;
  std::vector<StoredRow> rows;
};
Visit visit(std::string_view bytes, std::uint64_t skip, std::uint64_t most,
            std::uint64_t refuse_from = kLargest) {
  Visit result;
  result.visited = visit_rows(bytes, skip, most, [&](const ResultRow& row) {
    if (result.rows.size() >= refuse_from) return false;
    result.rows.push_back({row.index, row.status, std::string(row.output)});
    return true;
  });
  return result;
}

std::vector<StoredRow> part(const std::vector<StoredRow>& rows, std::size_t skip, std::size_t most) {
  const std::size_t begin = std::min(skip, rows.size());
  const std::size_t count = std::min(most, rows.size() - begin);
  return {rows.begin() + static_cast<std::ptrdiff_t>(begin),
          rows.begin() + static_cast<std::ptrdiff_t>(begin + count)};
}

TEST(StoreCodecTest, ExtremesOfNumbersSurvive) {
  for (const std::uint64_t number :
       {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, kLargest - 1, kLargest}) {
    std::string bytes;
    Encoder(bytes).number(number);
    Decoder from(bytes);
    EXPECT_EQ(from.number(), number);
    EXPECT_TRUE(from.is_at_end()) << number;
  }
  for (const std::int64_t number : {kLeastSigned, kLeastSigned + 1, std::int64_t{-64}, std::int64_t{-1},
                                    std::int64_t{0}, std::int64_t{63}, std::int64_t{64}, kLargestSigned}) {
    std::string bytes;
    Encoder(bytes).signed_number(number);
    Decoder from(bytes);
    EXPECT_EQ(from.signed_number(), number);
    EXPECT_TRUE(from.is_at_end()) << number;
  }
}

TEST(StoreCodecTest, AfterDamageEverythingIsNothing) {
  Decoder from(
      std::string_view("\x05"
                       "ab\x01",
                       4));
  EXPECT_EQ(from.text(), "");
  EXPECT_TRUE(from.is_damaged());
  EXPECT_EQ(from.number(), 0U);
  EXPECT_FALSE(from.flag());
  EXPECT_FALSE(from.is_at_end());
}

TEST(StoreCodecTest, ANumberThatDoesNotEndIsDamage) {
  const std::string endless(11, '\x80');
  Decoder from(endless);
  EXPECT_EQ(from.number(), 0U);
  EXPECT_TRUE(from.is_damaged());
}

TEST(StoreKeysTest, SortAsTheirNumbersDo) {
  const std::uint64_t numbers[] = {0, 1, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 0x10000, kLargest - 1, kLargest};
  for (std::size_t i = 1; i < std::size(numbers); ++i) {
    EXPECT_LT(part_key(numbers[i - 1], kLargest), part_key(numbers[i], 0));
    EXPECT_LT(part_key(7, numbers[i - 1]), part_key(7, numbers[i]));
    EXPECT_LT(step_key(numbers[i - 1], kLargest), step_key(numbers[i], 0));
    EXPECT_LT(row_key(kAcceptedKey, numbers[i - 1]), row_key(kAcceptedKey, numbers[i]));
    EXPECT_EQ(key_number(std::string_view(part_key(3, numbers[i])).substr(8)), numbers[i]);
  }
}

TEST(StoreRowsTest, WhatWasAcceptedSurvives) {
  Values values(1);
  for (int i = 0; i < 300; ++i) {
    const AcceptedRow row = values.accepted();
    const auto read = decode_accepted(Bounded(encode(row)));
    ASSERT_TRUE(read.has_value());
    expect_same(row, *read);
  }
  const auto empty = decode_accepted(encode(AcceptedRow()));
  ASSERT_TRUE(empty.has_value());
  expect_same(AcceptedRow(), *empty);
}

TEST(StoreRowsTest, ChangesSurvive) {
  Values values(2);
  for (int i = 0; i < 300; ++i) {
    const ChangesRow row = values.changes();
    const auto read = decode_changes(Bounded(encode(row)));
    ASSERT_TRUE(read.has_value());
    expect_same(row, *read);
  }
}

TEST(StoreRowsTest, StepsSurvive) {
  Values values(3);
  for (int i = 0; i < 300; ++i) {
    const BatchStep step = values.step();
    const auto read = decode_step(Bounded(encode(step)));
    ASSERT_TRUE(read.has_value());
    expect_same(step, *read);
  }
}

TEST(StoreRowsTest, ResultsAreReadFromAnyRowOnAndAsManyAsAreWanted) {
  Values values(4);
  for (int i = 0; i < 30; ++i) {
    ResultLog log;
    append_rows(log, values.rows());  // so that the slice does not begin at the chunk's first byte
    const std::vector<StoredRow> rows = values.rows();
    const Bounded bytes(encode(append_rows(log, rows)));
    for (std::size_t skip = 0; skip <= rows.size() + 1; ++skip) {
      for (std::size_t most :
           {std::size_t{0}, std::size_t{1}, std::size_t{2}, rows.size(), std::size_t{100}}) {
        const Visit read = visit(bytes, skip, most);
        ASSERT_TRUE(read.visited.has_value());
        EXPECT_EQ(read.rows, part(rows, skip, most)) << "from " << skip << ", " << most;
        EXPECT_EQ(read.visited->consumed, read.rows.size());
        EXPECT_EQ(read.visited->rows, rows.size());
      }
    }
  }
}

TEST(StoreRowsTest, ARunIsReadFromAnyRowOnAndAsManyAsAreWanted) {
  ResultLog log;
  const std::string bytes = encode(log.append_run(kLargest - 5, 5, JobStatus::cancelled, "by the operator"));
  std::vector<StoredRow> rows;
  for (std::uint64_t i = 0; i < 5; ++i)
    rows.push_back({kLargest - 5 + i, JobStatus::cancelled, "by the operator"});
  for (std::size_t skip = 0; skip <= 6; ++skip) {
    for (std::size_t most = 0; most <= 6; ++most) {
      const Visit read = visit(bytes, skip, most);
      ASSERT_TRUE(read.visited.has_value());
      EXPECT_EQ(read.rows, part(rows, skip, most)) << "from " << skip << ", " << most;
      EXPECT_EQ(read.visited->consumed, read.rows.size());
      EXPECT_EQ(read.visited->rows, 5U);
    }
  }
}

TEST(StoreRowsTest, ARowThatTheVisitorRefusesIsNotConsumed) {
  ResultLog log;
  const std::string rows = encode(append_rows(log, {{0, JobStatus::ok, "a"}, {1, JobStatus::ok, "b"}}));
  const std::string run = encode(log.append_run(2, 2, JobStatus::cancelled, ""));
  for (const std::string& bytes : {rows, run}) {
    const Visit read = visit(bytes, 0, 10, 1);
    ASSERT_TRUE(read.visited.has_value());
    EXPECT_EQ(read.visited->consumed, 1U);
    EXPECT_EQ(read.visited->rows, 2U);
  }
}

TEST(StoreRowsTest, TruncatedRowsAreRefused) {
  Values values(5);
  // `plain`: the same without what rows have grown by, which an earlier version wrote.
  const auto expect_refused = [](const std::string& whole, const std::string& plain, const auto& decode) {
    EXPECT_TRUE(decode(Bounded(plain)).has_value());
    EXPECT_TRUE(whole.starts_with(plain));
    // At every byte in the short ones; in long ones, which are long for their texts, at some hundred.
    for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 500) {
      if (size == plain.size()) continue;
      EXPECT_FALSE(decode(Bounded(std::string_view(whole).substr(0, size))).has_value()) << size;
    }
  };
  for (int i = 0; i < 10; ++i) {
    const AcceptedRow accepted = values.accepted();
    AcceptedRow plain_accepted = accepted;
    plain_accepted.options.retries = 0;
    plain_accepted.start_at = 0;
    plain_accepted.after.clear();
    expect_refused(encode(accepted), encode(plain_accepted), decode_accepted);
    const ChangesRow changes = values.changes();
    ChangesRow plain_changes = changes;
    plain_changes.has_no_deadline = plain_changes.is_released = false;
    plain_changes.satisfied.clear();
    expect_refused(encode(changes), encode(plain_changes), decode_changes);
    const BatchStep step = values.step();
    BatchStep plain_step = step;
    plain_step.failed = plain_step.requeued = {};
    plain_step.tried.clear();
    plain_step.retried = plain_step.superseded = 0;
    expect_refused(encode(step), encode(plain_step), decode_step);
  }
}

TEST(StoreRowsTest, RowsWithMoreBehindThemAreRefused) {
  Values values(6);
  EXPECT_FALSE(decode_accepted(encode(values.accepted()) + '\0').has_value());
  EXPECT_FALSE(decode_changes(encode(values.changes()) + '\0').has_value());
  EXPECT_FALSE(decode_step(encode(values.step()) + '\0').has_value());
  ResultLog log;
  EXPECT_FALSE(visit(encode(append_rows(log, values.rows())) + '\0', 0, kLargest).visited.has_value());
  EXPECT_FALSE(
      visit(encode(log.append_run(0, 3, JobStatus::ok, "")) + '\0', 0, kLargest).visited.has_value());
  const std::vector<std::string_view> payloads{"a", "b"};
  EXPECT_FALSE(PayloadChunk::of(encode_payload_chunk(payloads) + '\0').has_value());
}

TEST(StoreRowsTest, TruncatedResultsAreRefused) {
  Values values(7);
  for (int i = 0; i < 10; ++i) {
    ResultLog log;
    const std::string rows = encode(append_rows(log, values.rows()));
    const std::string run = encode(log.append_run(values.number(), 3, values.status(), "reason"));
    for (const std::string& whole : {rows, run}) {
      for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 500) {
        EXPECT_FALSE(
            visit(Bounded(std::string_view(whole).substr(0, size)), 0, kLargest).visited.has_value());
      }
    }
  }
}

// Under AddressSanitizer this shows that nothing is read beyond the bytes, and under both that nothing hangs.
TEST(StoreRowsTest, WhateverTheBytesAreTheyAreReadToTheirEndAtMost) {
  Values values(8);
  ResultLog log;
  std::uint64_t refused = 0;
  std::uint64_t read = 0;
  const auto tell = [&](bool was_read) { ++(was_read ? read : refused); };
  for (int i = 0; i < 5000; ++i) {
    std::string bytes;
    const std::uint64_t kind = values.below(6);
    if (kind == 0) bytes = encode(values.accepted());
    if (kind == 1) bytes = encode(values.changes());
    if (kind == 2) bytes = encode(values.step());
    if (kind == 3) bytes = encode(append_rows(log, values.rows()));
    if (kind == 4)
      bytes = encode(log.append_run(values.number(), 1 + values.below(1000), values.status(), "x"));
    if (kind == 5) bytes = values.text();
    if (bytes.size() > 2000) bytes.resize(2000);
    for (std::uint64_t changes = values.below(4); changes > 0 && !bytes.empty(); --changes) {
      bytes[values.below(bytes.size())] = static_cast<char>(values.number());
    }
    if (values.below(4) == 0) bytes.resize(values.below(bytes.size() + 1));
    const Bounded bounded(bytes);
    tell(decode_accepted(bounded).has_value());
    tell(decode_changes(bounded).has_value());
    tell(decode_step(bounded).has_value());
    tell(visit(bounded, values.below(3), 100).visited.has_value());
    if (const auto chunk = PayloadChunk::of(bounded)) {
      std::size_t sum = 0;
      for (std::uint64_t at = 0; at < chunk->size(); ++at)
        sum += Bounded((*chunk)[at]).operator std::string_view().size();
      EXPECT_LE(sum, bytes.size());
    }
  }
  EXPECT_GT(refused, 100U);
  EXPECT_GT(read, 100U);
}

TEST(StorePayloadChunkTest, FindsEachPayload) {
  Values values(9);
  for (int i = 0; i < 50; ++i) {
    const std::vector<std::string> payloads = values.texts();
    const std::vector<std::string_view> views(payloads.begin(), payloads.end());
    const Bounded bytes(encode_payload_chunk(views));
    const auto chunk = PayloadChunk::of(bytes);
    ASSERT_TRUE(chunk.has_value());
    ASSERT_EQ(chunk->size(), payloads.size());
    for (std::size_t at = payloads.size(); at-- > 0;) EXPECT_EQ((*chunk)[at], payloads[at]);
  }
}

std::string chunk_bytes(const std::vector<std::uint32_t>& numbers, std::string_view payloads) {
  std::string bytes(numbers.size() * sizeof(std::uint32_t), '\0');
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes.append(payloads);
}

TEST(StorePayloadChunkTest, RefusesEndsThatCannotBe) {
  EXPECT_TRUE(PayloadChunk::of(Bounded(chunk_bytes({2, 1, 3}, "abc"))).has_value());
  EXPECT_TRUE(PayloadChunk::of(Bounded(chunk_bytes({0}, ""))).has_value());
  EXPECT_FALSE(PayloadChunk::of(Bounded("")).has_value()) << "no number";
  EXPECT_FALSE(PayloadChunk::of(Bounded("abc")).has_value()) << "half a number";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({2, 1}, ""))).has_value()) << "an end is missing";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({2, 3, 1}, "abc"))).has_value()) << "descending";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({2, 4, 3}, "abc"))).has_value())
      << "one beyond the others";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({2, 1, 4}, "abc"))).has_value()) << "beyond the bytes";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({2, 1, 2}, "abc"))).has_value())
      << "before the bytes' end";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({0}, "abc"))).has_value()) << "bytes of no payload";
  EXPECT_FALSE(PayloadChunk::of(Bounded(chunk_bytes({0xFFFFFFFF, 1}, "abc"))).has_value())
      << "more than there are";
}

TEST(StorePayloadChunkTest, IsRefusedWhenItIsTruncated) {
  const std::vector<std::string_view> payloads{"first", "", "third"};
  const std::string whole = encode_payload_chunk(payloads);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(PayloadChunk::of(Bounded(std::string_view(whole).substr(0, size))).has_value()) << size;
  }
}

}  // namespace
}  // namespace locksley::daemon
