#include "daemon/server/commands/batch_replies.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "core/base/check.h"
#include "core/batch/batch_results.h"
#include "daemon/server/commands/members.h"
#include "daemon/server/state/inspection.h"
#include "proto/bulk.h"

namespace locksley::daemon {

namespace {

// A row of RUN: [status, output].
constexpr std::string_view kRunRow = "*2\r\n";

}  // namespace

void write_status(proto::ReplyWriter& reply, const BatchRecord& record, const BatchStatus& status) {
  reply.map(kStatusMembers);
  visit_members(record, status, Members(reply));
}

// Rows are in the order of completion. The first pass measures each element, which gives its place
// in the order of the indexes; the second writes each element there. Nothing is sorted, and each
// output is copied once, into the reply.
RunOutputs::RunOutputs(const BatchRecord& record, std::uint64_t jobs, proto::Keep keep,
                       std::uint64_t max_bytes, proto::ReplyWriter reply)
    : record_(record),
      keep_(keep),
      max_bytes_(max_bytes),
      reply_(reply),
      jobs_(jobs),
      places_(static_cast<std::uint64_t*>(
          std::calloc(std::max<std::uint64_t>(jobs_, 1), sizeof(std::uint64_t)))) {
  if (places_ == nullptr) throw std::bad_alloc();
}

bool RunOutputs::go_on(Instant until) {
  while (step_ != Step::kDone) {
    if (step_ == Step::kMeasure) {
      measure();
    } else if (step_ == Step::kPlace) {
      place();
    } else if (step_ == Step::kWrite) {
      write();
    } else {
      copy();
    }
    if (until != Instant::max() && now() >= until) return step_ == Step::kDone;
  }
  return true;
}

std::string_view RunOutputs::output_of(const ResultRow& row) const {
  const bool is_kept =
      keep_ == proto::Keep::kAll || (keep_ == proto::Keep::kFailures && row.status != JobStatus::kOk);
  return is_kept ? row.output : std::string_view();
}

void RunOutputs::measure() {
  constexpr std::uint64_t kRowsAtOnce = 1024;  // some 20 us
  const std::uint64_t rows = record_.results().read(next_, kRowsAtOnce, [this](const ResultRow& row) {
    check(row.index < jobs_, "a result of a job that the batch does not have");
    places_[row.index] = kRunRow.size() + proto::bulk_bytes(to_string(row.status).size()) +
                         proto::bulk_bytes(output_of(row).size());
    return true;
  });
  next_ += rows;
  if (rows != 0 && next_ < jobs_) return;
  check(next_ == jobs_, "a batch that is over lacks results");
  next_ = 0;
  step_ = Step::kPlace;
}

void RunOutputs::place() {
  constexpr std::uint64_t kPlacesAtOnce = 16 * 1024;  // some 20 us
  for (const std::uint64_t end = std::min(jobs_, next_ + kPlacesAtOnce); next_ < end; ++next_) {
    total_ += std::exchange(places_[next_], total_);
  }
  if (next_ < jobs_) return;
  if (total_ > max_bytes_) {
    error_ = fmt::format(
        "TOOBIG the outputs take {} bytes, and limits.output_buffer is {}: use SUBMIT and RESULTS", total_,
        max_bytes_);
    step_ = Step::kDone;
    return;
  }
  reply_.array(jobs_);
  begin_ = reply_.buffer().reserve(total_);
  next_ = 0;
  step_ = Step::kWrite;
}

void RunOutputs::write() {
  constexpr std::uint64_t kBytesAtOnce = 64 * 1024;  // some 30 us, with the faults of fresh pages
  constexpr std::uint64_t kRowsAtOnce = 1024;
  std::uint64_t bytes = 0;
  record_.results().read(next_, kRowsAtOnce, [&](const ResultRow& row) {
    if (bytes >= kBytesAtOnce) return false;
    const std::string_view output = output_of(row);
    char* to = begin_ + places_[row.index];
    std::memcpy(to, kRunRow.data(), kRunRow.size());
    to = proto::write_bulk(to + kRunRow.size(), to_string(row.status));
    if (output.size() < kBytesAtOnce) {
      proto::write_bulk(to, output);
    } else {
      to = proto::write_header(to, '$', output.size());
      large_.push_back({to, output});
      proto::write_line_end(to + output.size());
    }
    bytes += output.size() < kBytesAtOnce ? output.size() : 0;
    ++next_;
    return true;
  });
  if (next_ == jobs_) step_ = Step::kCopy;
}

void RunOutputs::copy() {
  constexpr std::size_t kBytesAtOnce = 64 * 1024;
  if (!large_.empty()) {
    auto& [to, left] = large_.back();
    const std::size_t some = std::min(kBytesAtOnce, left.size());
    std::memcpy(to, left.data(), some);
    to += some;
    left.remove_prefix(some);
    if (left.empty()) large_.pop_back();
  }
  if (!large_.empty()) return;
  reply_.buffer().commit(total_);
  step_ = Step::kDone;
}

void write_results(proto::ReplyWriter& reply, const ResultsPage& page) {
  reply.array(2);
  reply.bulk_integer(page.is_end ? 0 : static_cast<std::int64_t>(page.first + page.rows + 1));
  reply.array(page.shown);
  visit_results(page, [&](std::uint64_t, const ResultRow& row) {
    reply.result_row(row.index, to_string(row.status), row.output);
    return true;
  });
}

}  // namespace locksley::daemon
