// The results of a step.
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "core/base/index_ranges.h"
#include "daemon/store/rows/codec.h"
#include "daemon/store/rows/rows.h"

namespace locksley::daemon {
namespace {

// The encodings of results: of jobs that ran, of a run of jobs that did not run, and of several
// such runs. Those with "Later" in their names begin with ResultLog::Rows::bytes_before, which is 0
// in the first two.
enum class ResultForm : std::uint8_t { kRows, kRun, kLaterRows, kLaterRun, kLaterRuns };
constexpr std::uint64_t kResultForms = 5;
// Added to the status of a row with facts.
constexpr std::uint64_t kHasFacts = 256;

bool is_later(ResultForm form) { return form >= ResultForm::kLaterRows; }
bool is_run(ResultForm form) { return form != ResultForm::kRows && form != ResultForm::kLaterRows; }

void put_form(Encoder& to, const ResultLog::Rows& rows) {
  const bool are_runs = rows.chunk->runs.size() > 1;
  const bool later = rows.bytes_before != 0 || are_runs;
  const ResultForm form = are_runs ? ResultForm::kLaterRuns
                          : rows.chunk->bytes == nullptr
                              ? (later ? ResultForm::kLaterRun : ResultForm::kRun)
                              : (later ? ResultForm::kLaterRows : ResultForm::kRows);
  to.number(static_cast<std::uint64_t>(form));
  if (later) to.number(rows.bytes_before);
}

// The part of visit_rows() for the results of jobs that did not run.
std::optional<VisitedRows> visit_runs(Decoder& from, ResultForm form, VisitedRows visited, std::uint64_t skip,
                                      std::uint64_t most,
                                      const std::function<bool(const ResultRow&)>& visit) {
  std::vector<IndexRange> runs;
  if (form == ResultForm::kLaterRuns) {
    runs = take_ranges(from);
  } else {
    const std::uint64_t first = from.number();
    runs.push_back({first, first + visited.rows});
  }
  const auto status = static_cast<JobStatus>(from.number_below(kJobStatuses));
  const std::string_view reason = from.text();
  if (!from.is_at_end() || count_of(runs) != visited.rows) return std::nullopt;
  for (const IndexRange& run : runs) {
    const std::uint64_t passed = std::min(skip, run.size());
    skip -= passed;
    for (std::uint64_t index = run.low + passed; index < run.high; ++index) {
      if (visited.consumed == most || !visit({index, status, reason})) return visited;
      ++visited.consumed;
    }
  }
  return visited;
}

// The part of visit_rows() for the results of jobs that ran.
std::optional<VisitedRows> visit_outputs(Decoder& from, VisitedRows visited, std::uint64_t skip,
                                         std::uint64_t most,
                                         const std::function<bool(const ResultRow&)>& visit) {
  std::uint64_t expected = 0;
  for (std::uint64_t i = 0; i < visited.rows; ++i) {
    if (visited.consumed == most) return visited;
    const std::uint64_t index = expected + static_cast<std::uint64_t>(from.signed_number());
    const std::uint64_t how = from.number_below(kHasFacts + kJobStatuses);
    const auto status = static_cast<JobStatus>(how & (kHasFacts - 1));
    const std::string_view output = from.text();
    if (from.is_damaged() || (how & (kHasFacts - 1)) >= kJobStatuses) return std::nullopt;
    expected = index + 1;
    if (i < skip) continue;
    if (!visit(how >= kHasFacts ? ResultHead::with_facts(index, status, output)
                                : ResultRow{index, status, output}))
      return visited;
    ++visited.consumed;
  }
  if (!from.is_at_end()) return std::nullopt;
  return visited;
}

}  // namespace

std::string encode(const ResultLog::Rows& rows) {
  std::string bytes;
  Encoder to(bytes);
  const ResultLog::Chunk& chunk = *rows.chunk;
  if (chunk.bytes == nullptr) {
    put_form(to, rows);
    to.number(rows.rows);
    if (chunk.runs.size() > 1) {
      put_ranges(to, chunk.runs);
    } else {
      to.number(chunk.runs.front().low);
    }
    to.number(static_cast<std::uint64_t>(chunk.run_status));
    to.text(chunk.run_reason);
    return bytes;
  }
  bytes.reserve(rows.size_bytes);
  put_form(to, rows);
  to.number(rows.rows);
  std::uint64_t expected = 0;  // jobs mostly end in the order of their indexes
  const std::byte* at = chunk.bytes.get() + rows.offset;
  for (std::uint64_t i = 0; i < rows.rows; ++i) {
    ResultHead head;
    std::memcpy(&head, at, sizeof head);
    // The three numbers are appended together: to append them one by one costs more than the text.
    std::array<char, 3 * kLongestNumber> numbers;
    char* end = write_number(numbers.data(), zigzag(static_cast<std::int64_t>(head.index - expected)));
    end = write_number(end,
                       static_cast<std::uint64_t>(head.status) | std::uint64_t{head.has_facts} * kHasFacts);
    end = write_number(end, head.length);
    bytes.append(numbers.data(), end);
    bytes.append(reinterpret_cast<const char*>(at + sizeof head), head.length);
    expected = head.index + 1;
    at += ResultHead::bytes_of(head.length);
  }
  return bytes;
}

std::uint64_t bytes_before(std::string_view bytes) {
  Decoder from(bytes);
  return is_later(static_cast<ResultForm>(from.number_below(kResultForms))) ? from.number() : 0;
}

std::optional<VisitedRows> visit_rows(std::string_view bytes, std::uint64_t skip, std::uint64_t most,
                                      const std::function<bool(const ResultRow&)>& visit) {
  Decoder from(bytes);
  const auto form = static_cast<ResultForm>(from.number_below(kResultForms));
  if (is_later(form)) from.number();
  const VisitedRows visited{from.number(), 0};
  return is_run(form) ? visit_runs(from, form, visited, skip, most, visit)
                      : visit_outputs(from, visited, skip, most, visit);
}

}  // namespace locksley::daemon
