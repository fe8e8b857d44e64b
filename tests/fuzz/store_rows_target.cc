// The store's records: any bytes are refused, or are a record; and a record that is written reads
// as the same.
#include <cstring>
#include <optional>

#include "daemon/store/rows/codec.h"
#include "daemon/store/rows/rows.h"
#include "tests/fuzz/target.h"

namespace locksley::daemon {
namespace {

using fuzz::require;

// A record that came from any bytes, and has been written: it reads, and would be written the same
// again. Bytes may be longer than what is written for them: what says nothing is left out, and
// numbers have one form.
// `has_optional_end`: a record without its last fields is one, too, as an earlier version wrote it.
template <class Decode, class Encode>
void check_record(std::string_view bytes, Decode decode, Encode encode_row, bool has_optional_end = false) {
  const auto row = decode(bytes);
  if (!row) return;
  const std::string written = encode_row(*row);
  require(written.size() <= bytes.size(), "what is written is the short form");
  const auto again = decode(written);
  require(again.has_value(), "what is written can be read");
  require(encode_row(*again) == written, "what was read again is the same");
  if (!written.empty() && !has_optional_end)
    require(!decode(written.substr(0, written.size() - 1)), "a record that is cut is refused");
}

// Of a step, as it is written, the row has all but what its key says.
std::string encode_step(const StepRow& row) {
  BatchStep step;
  step.ended = row.ended;
  step.failed = row.failed;
  step.requeued = row.requeued;
  step.job_attempts = row.job_attempts;
  step.totals = row.totals;
  step.row_count = row.rows;
  step.result_bytes = row.result_bytes;
  step.started_at = row.started_at;
  step.finished_at = row.finished_at;
  step.cancelled = row.cancelled;
  step.stop_reason = row.stop_reason;
  step.retried = row.retried;
  step.superseded = row.superseded;
  step.retry_rounds = row.retry_rounds;
  step.superseded_jobs = row.superseded_jobs;
  step.notes = row.notes;
  return encode(step, row.failed_apart);
}

struct OwnRow {
  std::uint64_t index;
  JobStatus status;
  std::string output;
  friend bool operator==(const OwnRow&, const OwnRow&) = default;
};

// A record of results may say that it is a run of any number of jobs: a reader takes no more of
// them at once than a reply has.
constexpr std::uint64_t kMostRows = 1000;

std::optional<std::vector<OwnRow>> read_rows(std::string_view bytes, std::uint64_t skip,
                                             std::uint64_t& in_all) {
  std::vector<OwnRow> rows;
  const auto visited = visit_rows(bytes, skip, kMostRows, [&](const ResultRow& row) {
    require(static_cast<std::size_t>(row.status) < kJobStatuses, "a row has a status");
    rows.push_back({row.index, row.status, std::string(row.output)});
    return true;
  });
  if (!visited) return std::nullopt;
  require(visited->consumed == rows.size(), "rows that were visited are counted");
  require(skip > visited->rows || rows.size() <= visited->rows - skip, "no more rows than there are");
  in_all = visited->rows;
  return rows;
}

std::string encode_rows(const std::vector<OwnRow>& rows) {
  std::vector<std::byte> bytes;
  for (const OwnRow& row : rows) {
    const ResultHead head{row.index, static_cast<std::uint32_t>(row.output.size()), row.status, {}};
    const std::size_t at = bytes.size();
    bytes.resize(at + ResultHead::bytes_of(row.output.size()));
    std::memcpy(bytes.data() + at, &head, sizeof head);
    std::memcpy(bytes.data() + at + sizeof head, row.output.data(), row.output.size());
  }
  ResultLog log;
  return encode(log.append(ResultLog::prepare({bytes, rows.size()})));
}

void check_rows(std::string_view bytes) {
  std::uint64_t in_all = 0;
  const auto rows = read_rows(bytes, 0, in_all);
  if (!rows || rows->empty()) return;
  const auto again = read_rows(encode_rows(*rows), 0, in_all);
  require(again == rows, "rows that are written read as the same");
  if (in_all < 2) return;
  const auto behind = read_rows(encode_rows(*rows), 1, in_all);
  require(behind && std::ranges::equal(*behind, std::vector<OwnRow>(rows->begin() + 1, rows->end())),
          "behind the first come the others");
}

void check_payloads(std::string_view bytes) {
  const auto chunk = PayloadChunk::of(bytes);
  if (!chunk) return;
  std::vector<std::string_view> payloads;
  for (std::uint64_t i = 0; i < chunk->size(); ++i) payloads.push_back((*chunk)[i]);
  require(encode_payload_chunk(payloads) == bytes, "payloads have one form");
}

// Any bytes are a row with another inside, or a plain one, or are refused.
void check_split(std::string_view bytes) {
  const auto split = split_row(bytes);
  if (!split) return;
  if (split->inside.empty()) return require(split->row == bytes, "a plain row is all there is");
  const std::string written = join_rows(split->row, split->inside);
  require(written.size() <= bytes.size(), "what is written is the short form");
  const auto again = split_row(written);
  require(again && again->row == split->row && again->inside == split->inside,
          "what is written is split into the same");
}

}  // namespace
}  // namespace locksley::daemon

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace locksley;
  using namespace locksley::daemon;
  fuzz::Input input(data, size);
  const std::uint8_t kind = input.byte();
  const std::string_view bytes = input.rest();
  switch (kind % 5) {
    case 0:
      check_record(bytes, decode_accepted, [](const AcceptedRow& row) { return encode(row); });
      break;
    case 1:
      check_record(bytes, decode_changes, [](const ChangesRow& row) { return encode(row); });
      break;
    case 2:
      check_record(bytes, decode_step, encode_step, true);
      check_record(bytes, decode_failed, encode_failed);
      break;
    case 3:
      check_rows(bytes);
      break;
    default:
      check_payloads(bytes);
      check_split(bytes);
      break;
  }
  return 0;
}
