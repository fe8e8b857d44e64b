// The rows of the store, and how it reads bytes that it did not write.
#include "daemon/store/rows/rows.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch/result_log.h"
#include "daemon/store/rows/codec.h"
#include "tests/support/store_model.h"
#include "tests/support/store_rows.h"

namespace locksley::daemon {
namespace {

using testing::append_rows;
using testing::Bounded;
using ::testing::ElementsAreArray;
using testing::kLargest;
using testing::RandomRows;
using testing::visit;

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
    EXPECT_EQ(read.range->is_apart, lies_apart(*given.range));
    EXPECT_EQ(read.range->payload, read.range->is_apart ? SharedText() : given.range->payload);
  }
  EXPECT_EQ(read.options.retries, given.options.retries);
  EXPECT_EQ(read.options.customer, given.options.customer);
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
  EXPECT_EQ(read.discarded_rows, given.discarded_rows);
  EXPECT_EQ(read.discarded_bytes, given.discarded_bytes);
  EXPECT_EQ(read.slots, given.slots);
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
  EXPECT_EQ(read.job_attempts, given.job_attempts);
  EXPECT_EQ(read.retried, given.retried);
  EXPECT_EQ(read.superseded, given.superseded);
  EXPECT_EQ(read.superseded_jobs, given.superseded_jobs);
  EXPECT_EQ(read.notes, given.notes);
  EXPECT_EQ(read.retry_rounds, given.retry_rounds);
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
  RandomRows values(1);
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

// The format of stores on users' disks: later versions must still read these bytes.
TEST(StoreRowsTest, WhatWasAcceptedIsWrittenAsItAlwaysWas) {
  AcceptedRow row;
  row.handler = "h";
  row.options.id = "i";
  row.options.name = "n";
  row.options.tenant = "t";
  row.options.weight = 3;
  row.options.max_fails = 300;
  row.options.timeout = std::chrono::milliseconds(5);
  row.options.keep = Keep::kNone;
  row.id_is_chosen = true;
  row.submitted_at = 1;
  row.retain_ms = 1000;
  row.jobs = 4;
  row.payload_bytes = 9;
  const std::string first("\1h\1i\1n\1t\0\3\0\xAC\2\xA\2\1\0\2\0\xD0\xF\4\x9\0\0", 25);
  EXPECT_EQ(encode(row), first);
  row.options.retries = 2;
  row.after.push_back({7, "a", true});
  EXPECT_EQ(encode(row), first + std::string("\2\0\1\7\1a\1", 7));
  row.options.customer = "c";
  EXPECT_EQ(encode(row), first + std::string("\2\0\1\7\1a\1\1c", 9));
}

TEST(StoreRowsTest, TheTextsOfARowAreAboutWhatTheyMakeItLonger) {
  AcceptedRow row;
  row.handler = "echo";
  row.range = {.low = 0, .payload = std::string()};
  const std::size_t plain = encode(row).size();
  EXPECT_EQ(text_bytes(row), 0U);
  row.options.id = std::string(128, 'i');
  row.options.name = std::string(256, 'n');
  row.options.customer = std::string(128, 'c');
  row.options.trace = std::string(55, 't');
  row.range->payload = std::string(4000, 'p');
  for (std::uint64_t i = 0; i < 1000; ++i)
    row.after.push_back({(std::uint64_t{1} << 40) + i, std::string(128, 'a'), i % 2 == 0});
  const std::size_t longer = encode(row).size() - plain;
  constexpr std::size_t kLengths = 16;  // some numbers become longer, too
  EXPECT_LE(longer, text_bytes(row) + kLengths);
  EXPECT_GE(longer, text_bytes(row) * 9 / 10);
  const std::optional<AcceptedRow> read = decode_accepted(encode(row));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(text_bytes(*read), text_bytes(row)) << "a start counts the same";
  // A longer pattern is a row of payloads, and counts with these.
  row.range->payload = std::string(kMostPatternInside + 1, 'p');
  EXPECT_LT(text_bytes(row), longer);
}

TEST(StoreRowsTest, SettingsOfACustomerSurvive) {
  const proto::CustomerRate rate{7, std::chrono::hours(1)};
  for (int which = 0; which < 16; ++which) {
    proto::CustomerSettings settings;
    if (which & 1) settings.weight = 1000;
    if (which & 2) settings.slots = 0;
    if (which & 4) settings.max_jobs = 1'000'000'000'000;
    if (which & 8) settings.rate = rate;
    const std::string bytes = encode(settings);
    EXPECT_EQ(decode_settings(Bounded(bytes)), settings);
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(decode_settings(Bounded(std::string_view(bytes).substr(0, size)))) << which << " " << size;
    EXPECT_FALSE(decode_settings(bytes + '\0'));
  }
  // A period by which a rate could not be computed.
  EXPECT_FALSE(decode_settings(std::string("\0\0\0\1\7\0", 6)));
}

TEST(StoreRowsTest, AKeyHasTheNamesOfUserAndCustomer) {
  for (const std::string_view customer : {"acme", "", "a/b", "/", "//x"}) {
    const std::string key = customer_key("shop-1", customer);
    const auto names = names_in(key);
    ASSERT_TRUE(names);
    EXPECT_EQ(names->user, "shop-1");
    EXPECT_EQ(names->customer, customer);
  }
  EXPECT_FALSE(names_in("ushop"));
  EXPECT_FALSE(names_in("bshop/acme"));
}

TEST(StoreRowsTest, ChangesSurvive) {
  RandomRows values(2);
  for (int i = 0; i < 300; ++i) {
    const ChangesRow row = values.changes();
    const auto read = decode_changes(Bounded(encode(row)));
    ASSERT_TRUE(read.has_value());
    expect_same(row, *read);
  }
}

TEST(StoreRowsTest, StepsSurvive) {
  RandomRows values(3);
  for (int i = 0; i < 300; ++i) {
    const BatchStep step = values.step();
    const auto read = decode_step(Bounded(encode(step)));
    ASSERT_TRUE(read.has_value());
    expect_same(step, *read);
  }
}

TEST(StoreRowsTest, AnEndMaySayThatItsFailedJobsAreInRowsOfTheirOwn) {
  RandomRows values(7);
  for (int i = 0; i < 300; ++i) {
    BatchStep step = values.step();
    step.failed = values.ranges(1 + values.below(5));
    const auto list = decode_failed(Bounded(encode_failed(failed_ranges(step))));
    ASSERT_TRUE(list.has_value());
    EXPECT_EQ(*list, step.failed);
    const auto read = decode_step(Bounded(encode(step, step.failed.size())));
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(read->failed_apart, step.failed.size());
    step.failed.clear();
    expect_same(step, *read);
  }
}

TEST(StoreRowsTest, TruncatedRowsAreRefused) {
  RandomRows values(5);
  // `earlier`: the same row without later fields, as earlier versions wrote it.
  const auto expect_refused = [](const char* kind, const std::string& whole,
                                 const std::vector<std::string>& earlier, const auto& decode) {
    SCOPED_TRACE(kind);
    for (const std::string& plain : earlier) {
      EXPECT_TRUE(decode(Bounded(plain)).has_value());
      EXPECT_TRUE(whole.starts_with(plain));
    }
    // Short rows are cut at every byte; long ones, which are long because of their texts, at some
    // hundred.
    for (std::size_t size = 0; size < whole.size(); size += 1 + whole.size() / 500) {
      if (std::ranges::any_of(earlier, [&](const std::string& plain) { return plain.size() == size; }))
        continue;
      EXPECT_FALSE(decode(Bounded(std::string_view(whole).substr(0, size))).has_value()) << size;
    }
  };
  for (int i = 0; i < 10; ++i) {
    const AcceptedRow accepted = values.accepted();
    AcceptedRow plain_accepted = accepted;
    plain_accepted.options.retries = 0;
    plain_accepted.start_at = 0;
    plain_accepted.after.clear();
    plain_accepted.options.customer.clear();
    AcceptedRow without_customer = accepted;
    without_customer.options.customer.clear();
    expect_refused("accepted", encode(accepted), {encode(plain_accepted), encode(without_customer)},
                   decode_accepted);
    ChangesRow changes = values.changes();
    changes.is_released =
        true;  // else a row that ends before the discards has fields of no meaning, and is read
    changes.slots = std::nullopt;
    changes.discarded_rows = 1 + static_cast<std::uint64_t>(i);
    const std::string discarding = encode(changes);
    EXPECT_FALSE(decode_changes(Bounded(std::string_view(discarding).substr(0, discarding.size() - 1))));
    changes.slots = i;
    ChangesRow without_slots = changes;
    without_slots.slots = std::nullopt;
    ChangesRow without_discards = without_slots;
    without_discards.discarded_rows = 0;
    ChangesRow bare = without_discards;
    bare.has_no_deadline = bare.is_released = false;
    bare.satisfied.clear();
    expect_refused("changes with discards", encode(changes),
                   {encode(bare), encode(without_discards), encode(without_slots)}, decode_changes);
    changes.slots = std::nullopt;
    changes.discarded_rows = 0;
    ChangesRow plain_changes = changes;
    plain_changes.has_no_deadline = plain_changes.is_released = false;
    plain_changes.satisfied.clear();
    expect_refused("changes", encode(changes), {encode(plain_changes)}, decode_changes);
    BatchStep step = values.step();
    if (step.retry_rounds != 0) step.retried = 7;  // each round counts its jobs
    BatchStep without_notes = step;
    without_notes.notes.clear();
    BatchStep without_list = without_notes;
    without_list.superseded_jobs.clear();
    BatchStep without_rounds = without_list;
    without_rounds.retry_rounds = 0;
    BatchStep plain_step = without_rounds;
    plain_step.failed = plain_step.requeued = {};
    plain_step.job_attempts.clear();
    plain_step.retried = plain_step.superseded = 0;
    expect_refused("step", encode(step),
                   {encode(plain_step), encode(without_rounds), encode(without_list), encode(without_notes)},
                   decode_step);
  }
}

TEST(StoreRowsTest, RowsWithMoreBehindThemAreRefused) {
  RandomRows values(6);
  EXPECT_FALSE(decode_accepted(encode(values.accepted()) + '\0').has_value());
  EXPECT_FALSE(decode_changes(encode(values.changes()) + '\0').has_value());
  EXPECT_FALSE(decode_step(encode(values.step()) + '\0').has_value());
  ResultLog log;
  EXPECT_FALSE(visit(encode(append_rows(log, values.rows())) + '\0', 0, kLargest).visited.has_value());
  EXPECT_FALSE(
      visit(encode(log.append_runs(std::array{IndexRange{0, 3}}, JobStatus::kOk, "")) + '\0', 0, kLargest)
          .visited.has_value());
  const std::vector<std::string_view> payloads{"a", "b"};
  EXPECT_FALSE(PayloadChunk::of(encode_payload_chunk(payloads) + '\0').has_value());
}

// Under AddressSanitizer this shows that nothing is read beyond the bytes, and under both that
// nothing hangs.
TEST(StoreRowsTest, WhateverTheBytesAreTheyAreReadToTheirEndAtMost) {
  RandomRows values(8);
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
    if (kind == 4) {
      const std::uint64_t first = values.number();
      const IndexRange run{first, first + 1 + values.below(1000)};
      bytes = encode(log.append_runs({&run, 1}, values.status(), "x"));
    }
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
    tell(decode_failed(bounded).has_value());
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

}  // namespace
}  // namespace locksley::daemon
