#include "core/lane/lease.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <limits>
#include <utility>

#include "core/base/check.h"
#include "core/base/index_ranges.h"
#include "core/batch/batch_attempts.h"
#include "core/batch/handler.h"

namespace locksley {

Lease::~Lease() {
  if (is_out()) settle(charged_so_far_);
}

bool Lease::claim(const LeaseRequest& request) {
  check(!is_out(), "a lease claims jobs while it is out");
  while (turn_.try_claim(ClaimRequest{.most = request.most_jobs,
                                      .width = request.width,
                                      .quantum = request.quantum,
                                      .gates = request.gates,
                                      .site = Site::kRemote})) {
    lane_.external_wait.observe(turn_.waited());
    const IndexRange claimed = turn_.left();
    turn_.set_left({});
    const IndexRange alike =
        batch().attempts().leasable_together(batch().attempts().with_equal_attempts(claimed));
    attempt_ = batch().attempts().of(alike.low);
    hold({claimed});
    give_back(alike.high);
    if (!fetch(request.most_bytes)) continue;
    width_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(turn_.width(), held_.size()));
    return true;
  }
  return false;
}

bool Lease::reclaim(Batch& batch, IndexRange wanted, std::uint32_t attempt, std::uint32_t width,
                    LossCounts& losses, std::size_t most_parts) {
  check(!is_out(), "a lease reclaims jobs while it is out");
  std::vector<IndexRange> taken = turn_.reclaim(batch, wanted, width);
  if (taken.empty()) return false;
  std::vector<IndexRange> ours, others;
  const auto has_room = [&](const IndexRange& range) {
    const bool goes_on = !ours.empty() && ours.back().high == range.low;
    return goes_on || ours.size() < std::max<std::size_t>(most_parts, 1);
  };
  std::size_t parts = 0;
  for (IndexRange left : taken) {
    while (!left.empty()) {
      const IndexRange alike = ++parts <= kMostParts ? batch.attempts().with_equal_attempts(left) : left;
      const bool is_ours =
          parts <= kMostParts && batch.attempts().of(alike.low) == attempt && has_room(alike);
      append_range(is_ours ? ours : others, alike);
      left.low = alike.high;
    }
  }
  attempt_ = attempt;
  // A job that was lost while it ran has used its start, and does not start again.
  std::uint64_t unused_starts = count_of(others);
  for (const IndexRange& range : ours) unused_starts += losses.take_back(batch, range);
  hold(std::move(ours));
  if (unused_starts != 0) turn_.give_back(others, unused_starts);
  if (held_.empty()) {
    settle(Nanoseconds{0});
    return false;
  }
  width_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(turn_.width(), held_.size()));
  return true;
}

void Lease::hold(std::vector<IndexRange> ranges) {
  held_ = {};
  for (const IndexRange& range : ranges) held_.add(range);
  range_ = ranges.empty() ? IndexRange{} : IndexRange{ranges.front().low, ranges.back().high};
  has_begun_ = false;
  held_started_ = returned_started_ = 0;
  charged_so_far_ = Nanoseconds{0};
  payloads_ = {};
  payload_bytes_ = 0;
}

bool Lease::fetch(std::size_t most_bytes) {
  range_.high = range_.low + held_.size();
  if (const RangePayloads* const range = batch().payloads().range()) {
    if (range->pattern()) payload_bytes_ = range->pattern()->size();
    return true;
  }
  std::vector<std::string_view>& payloads = buffers_.payloads;
  std::size_t fetched = held_.size();
  for (bool is_alone = fetched == 1;; is_alone = true) {
    if (is_alone) fetched = 1;
    payloads.resize(fetched);
    try {
      fetched = batch().payloads().fetch(range_.low, payloads, buffers_.scratch);
      if (fetched != 0) break;
      turn_.set_backoff(Backoff::kNoPayloads);
      settle(Nanoseconds{0});
      return false;
    } catch (const std::exception& exception) {
      // Fetches only the first payload: perhaps only a later payload cannot be read.
      if (!is_alone) continue;
      const auto ended = held_.take({range_.low, range_.low + 1});
      begin();
      record(JobStatus::kError, ended.front(), std::string("cannot read the payload: ") + exception.what());
      settle(Nanoseconds{0});
      return false;
    }
  }
  std::size_t kept = 0;
  while (kept < fetched && (kept == 0 || payload_bytes_ < most_bytes))
    payload_bytes_ += payloads[kept++].size();
  payloads_ = std::span(payloads).first(kept);
  give_back(range_.low + kept);
  range_.high = range_.low + kept;
  return true;
}

void Lease::begin() {
  check(is_out(), "a lease begins that is not out");
  if (!std::exchange(has_begun_, true)) turn_.begin_measured();
}

std::uint64_t Lease::end_jobs(JobStatus status, std::uint64_t first,
                              std::span<const std::string_view> outputs, LossCounts& losses) {
  const std::vector<IndexRange> ended = held_.take({first, first + outputs.size()});
  held_started_ = 0;
  if (ended.empty()) return 0;
  begin();
  begin_results();
  ResultWriter& writer = buffers_.writer;
  const Nanoseconds now = steady_now();
  for (const IndexRange& jobs : ended) {
    losses.forget(batch(), jobs);
    writer.begin_burst(jobs.low);
    for (std::uint64_t index = jobs.low; index < jobs.high;) {
      const std::uint64_t plain = std::min(first_shown(index), jobs.high) - index;
      writer.end_jobs(status, index, outputs.subspan(index - first, plain));
      index += plain;
      if (index == jobs.high) break;
      end_job(status, index, outputs[index - first], now);
      ++index;
    }
  }
  const std::uint64_t count = count_of(ended);
  turn_.count_executed(count);
  if (status == JobStatus::kOk) turn_.note_ended_well();
  turn_.set_backoff(status == JobStatus::kCrashed ? Backoff::kBroken : Backoff::kNone);
  turn_.follow_up(writer.end_batch());
  return count;
}

void Lease::begin_results() {
  buffers_.writer.set_worker(std::string(worker_));
  buffers_.writer.begin_batch(batch(), turn_.began());
}

std::uint64_t Lease::first_shown(std::uint64_t from) const {
  constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();
  if (shown_ == nullptr) return kNone;
  const auto found = shown_->lower_bound(from);
  return found == shown_->end() ? kNone : found->first;
}

void Lease::end_job(JobStatus status, std::uint64_t index, std::string_view output, Nanoseconds now) {
  ResultWriter& writer = buffers_.writer;
  writer.begin_job(index);
  writer.replace_output(output);
  if (shown_ == nullptr) return writer.end_job(status);
  const auto found = shown_->find(index);
  if (found == shown_->end()) return writer.end_job(status);
  buffers_.facts.clear();
  found->second->append_facts(now, std::nullopt, buffers_.facts);
  writer.end_job(status, buffers_.facts);
}

void Lease::record(JobStatus status, IndexRange jobs, std::string_view output) {
  begin_results();
  ResultWriter& writer = buffers_.writer;
  const Nanoseconds now = steady_now();
  writer.begin_burst(jobs.low);
  for (std::uint64_t index = jobs.low; index < jobs.high; ++index) end_job(status, index, output, now);
  turn_.count_executed(jobs.size());
  turn_.follow_up(writer.end_batch());
}

std::uint64_t Lease::give_back(std::uint64_t from) {
  const std::uint64_t staying = held_started_ == 0 ? 0 : held_.count_below(from);
  const std::vector<IndexRange> tail = held_.take({from, std::numeric_limits<std::uint64_t>::max()});
  const std::uint64_t count = count_of(tail);
  const std::uint64_t started = std::min(count, held_started_ - std::min(held_started_, staying));
  held_started_ = 0;
  returned_started_ += started;
  if (count != 0) turn_.give_back(tail, count - started);
  return count;
}

void Lease::charge_so_far(Nanoseconds service) {
  if (service <= charged_so_far_) return;
  charged_so_far_ = service;
  turn_.charge_so_far(service);
}

std::uint64_t Lease::settle(Nanoseconds service) {
  check(is_out(), "a lease is settled that is not out");
  const std::uint64_t returned = give_back(0);
  // If no job has begun, step 2 (turn.h) is still missing. It is taken here without job_begins(),
  // so that it does not start the batch.
  if (!std::exchange(has_begun_, true)) turn_.begin_at_claim();
  const std::uint64_t executed = turn_.executed();
  turn_.set_started(executed + returned_started_);
  if (executed != 0) batch().handler().stats.job_duration.observe(service / executed, executed);
  turn_.leave();
  turn_.settle_for(service);
  // As in ExternalExecutor::end_turn().
  if (buffers_.scratch.capacity() > 2 * PayloadSource::kScratchBytes) std::string().swap(buffers_.scratch);
  payloads_ = {};
  // Another machine may have waited for the jobs that went back, or for a slot of the batch.
  if (lane_.hints().has_work()) lane_.wake();
  return returned;
}

std::vector<std::uint64_t> Lease::first_held(std::uint64_t most) const {
  std::vector<std::uint64_t> jobs;
  for (const IndexRange& range : held_.ranges(most)) {
    for (std::uint64_t index = range.low; index < range.high; ++index) jobs.push_back(index);
  }
  return jobs;
}

Lease::Lost Lease::lose(Nanoseconds service, std::uint64_t running, LossCounts& losses) {
  Lost lost;
  std::vector<std::uint64_t> crashed;
  for (const std::uint64_t index : first_held(running)) {
    ++lost.counted;
    if (losses.count(batch(), index)) crashed.push_back(index);
  }
  if (!crashed.empty()) {
    for (const std::uint64_t index : crashed) (void)held_.take({index, index + 1});
    held_started_ -= std::min<std::uint64_t>(held_started_, crashed.size());
    begin();
    const std::string text = "lost with its worker " + std::to_string(losses.most_losses()) + " times";
    end_crashed(crashed, text);
  }
  lost.crashed = crashed.size();
  lost.returned = settle(service);
  return lost;
}

void Lease::end_crashed(std::span<const std::uint64_t> jobs, std::string_view text) {
  std::vector<std::byte> rows;
  std::vector<IndexRange> indexes;
  EndedJobs counts;
  counts.by_status[static_cast<std::size_t>(JobStatus::kCrashed)] = jobs.size();
  for (const std::uint64_t index : jobs) {
    const std::string_view output = batch().options().keep == Keep::kNone ? std::string_view() : text;
    append_row(rows, index, JobStatus::kCrashed, output);
    append_range(indexes, {index, index + 1});
  }
  const bool too_many = batch().publish({.ended = counts,
                                         .rows = {rows, jobs.size()},
                                         .indexes = std::move(indexes),
                                         .on_failure = Batch::OnFailure::kNoRetries,
                                         .ran = {worker_, turn_.began()}});
  turn_.count_executed(jobs.size());
  turn_.follow_up(too_many ? ResultWriter::Outcome::kTooManyFailures : ResultWriter::Outcome::kPublished);
}

std::uint64_t Lease::expire(Nanoseconds service, std::uint64_t running, LossCounts& losses) {
  for (const std::uint64_t index : first_held(running)) {
    const std::vector<IndexRange> ended = held_.take({index, index + 1});
    losses.forget(batch(), ended.front());
    held_started_ -= std::min<std::uint64_t>(held_started_, 1);
    begin();
    record(JobStatus::kTimeout, ended.front(), "the worker did not end the job at its time-out");
  }
  return settle(service);
}

}  // namespace locksley
