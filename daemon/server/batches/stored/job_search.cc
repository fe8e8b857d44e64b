#include "daemon/server/batches/stored/job_search.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "core/batch/batch_results.h"
#include "daemon/server/batches/retention/free_aside.h"
#include "daemon/server/records/results_page.h"

namespace locksley::daemon {
namespace {

constexpr std::uint64_t kRowsOfTask = 65'536;     // some ms from the disk
constexpr std::uint64_t kBytesOfTask = 4U << 20;  // the same
constexpr auto kTimeOfTask = std::chrono::milliseconds(2);
constexpr std::size_t kPatternAtOnce = 64U << 10;  // 0.5 ms, if it is full of places

}  // namespace

std::shared_ptr<const FoundJob> JobSearch::begin(asio::io_context& io, Post post,
                                                 std::shared_ptr<BatchRecord> record, const JobDemand& demand,
                                                 std::function<void(const FoundJob&)> on_found) {
  auto search =
      std::make_shared<JobSearch>(io, std::move(post), std::move(record), demand, std::move(on_found));
  std::shared_ptr<const FoundJob> found = search->found_;
  post_step(std::move(search));
  return found;
}

JobSearch::JobSearch(asio::io_context& io, Post post, std::shared_ptr<BatchRecord> record,
                     const JobDemand& demand, std::function<void(const FoundJob&)> on_found)
    : mailbox_(IoMailbox::of(io)),
      post_(std::move(post)),
      client_(demand.client),
      record_(std::move(record)),
      demand_(demand),
      on_found_(std::move(on_found)),
      order_(demand_.index, record_->status().rows) {}

void JobSearch::post_step(std::shared_ptr<JobSearch> self, Reader::Place place) {
  const Post& post = self->post_;
  post([self = std::move(self)]() mutable { step(std::move(self)); }, place);
}

void JobSearch::step(std::shared_ptr<JobSearch> self) {
  if (self->client_.expired()) return finish(std::move(self));
  try {
    if (!self->has_looked_ && !self->search_rows()) return post_step(std::move(self));
    self->has_looked_ = true;
  } catch (const std::exception& error) {
    self->found_->error = error.what();
  }
  if (self->found_->error.empty() && self->wants_payload() && !self->read_payload()) {
    return post_step(std::move(self), Reader::Place::kFirst);
  }
  finish(std::move(self));
}

bool JobSearch::search_rows() {
  for (std::uint64_t here = 0; looked_at_ < demand_.most_rows && !found_->row;) {
    if (pending_.empty()) {
      const BatchStatus status = record_->status();
      pending_ = order_.next(status.discarded, status.rows);
    }
    if (pending_.empty()) break;
    if (here >= kRowsOfTask) return false;
    const std::uint64_t passed = look_at(pending_);
    here += passed < pending_.size() ? kRowsOfTask : passed;  // a read that stopped early has read many bytes
    pending_.low += passed;
    looked_at_ += passed;
  }
  return true;
}

std::uint64_t JobSearch::look_at(IndexRange rows) {
  const BatchStatus status = record_->status();
  // A client may discard rows meanwhile.
  if (rows.low < status.discarded) return std::min(rows.high, status.discarded) - rows.low;
  std::uint64_t place = rows.low;
  std::uint64_t bytes = 0;
  const auto visit = [&](const ResultRow& row) {
    if (row.index == demand_.index && !is_superseded(place, row, status.superseded)) {
      found_->row = {.status = row.status,
                     .output = std::string(demand_.wants_output ? row.output : std::string_view()),
                     .facts = std::string(row.facts)};
      return false;
    }
    bytes += row.output.size() + row.facts.size();
    ++place;
    return bytes < kBytesOfTask;
  };
  try {
    record_->results().read(rows.low, rows.size(), visit);
  } catch (const std::runtime_error&) {
    if (record_->status().discarded <= rows.low) throw;
  }
  return std::max<std::uint64_t>(place - rows.low, 1);
}

bool JobSearch::wants_payload() const {
  if (!demand_.open_range && demand_.payloads == nullptr) return false;
  // The payload of a job that cannot run again may be gone.
  const bool has_failed = found_->row && is_failure(found_->row->status);
  if (found_->row && (!has_failed || record_->is_stopping())) return false;
  return !record_->is_over() || record_->status().failed != 0;
}

bool JobSearch::read_payload() {
  try {
    if (demand_.open_range) return compute_payload();
    std::string scratch;
    std::string_view payload;
    if (demand_.payloads->fetch(demand_.index, {&payload, 1}, scratch) == 0) return fail_for_now();
    if (payload.size() != scratch.size()) scratch = payload;
    found_->payload = std::move(scratch);
  } catch (const std::exception&) {
    // The batch may have ended meanwhile, and its payloads with it.
  }
  return true;
}

bool JobSearch::fail_for_now() {
  found_->error = "cannot read the payload from the store now; retry later";
  return true;
}

bool JobSearch::compute_payload() {
  if (range_ == nullptr) {
    range_ = demand_.open_range();
    if (range_ == nullptr) return fail_for_now();
    return false;  // reading the pattern may have taken long
  }
  const Instant until = now() + kTimeOfTask;
  while (!range_->append_part(demand_.index, pattern_at_, kPatternAtOnce, payload_)) {
    if (now() >= until) return false;
  }
  found_->payload = std::move(payload_);
  return true;
}

void JobSearch::finish(std::shared_ptr<JobSearch> self) {
  IoMailbox& mailbox = self->mailbox_;
  // Freeing a pattern of many megabytes takes long.
  self->range_.reset();
  self->demand_ = {};
  mailbox.post([self = std::move(self)] {
    kIoThread.assert_held();
    self->found_->is_done = true;
    if (!self->client_.expired()) self->on_found_(*self->found_);
    // The client has left.
    if (self->found_.use_count() == 1 && is_freed_aside(self->found_->memory_bytes())) {
      self->post_([found = std::move(self->found_)] {}, Reader::Place::kLast);
    }
  });
}

}  // namespace locksley::daemon
