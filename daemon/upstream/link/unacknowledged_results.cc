#include "daemon/upstream/link/unacknowledged_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "daemon/upstream/replies/reply_cursor.h"
#include "proto/bulk.h"

namespace locksley::daemon {
namespace {

std::string too_long(std::size_t bytes, std::uint64_t most) {
  return fmt::format(
      "its output is {} bytes long, and the upstream daemon takes at most {}: half of its "
      "workers.max_leased_bytes, or limits.max_command",
      bytes, most);
}

void append_bulk(std::string& outputs, std::string_view text) {
  const std::size_t size = outputs.size();
  outputs.resize(size + proto::max_bulk_bytes(text.size()));
  outputs.resize(static_cast<std::size_t>(proto::write_bulk(outputs.data() + size, text) - outputs.data()));
}

}  // namespace

void UnacknowledgedResults::keep(HeldLease& lease, KeptResults&& run) {
  if (lease.held.empty()) return keep_held(lease, std::move(run));
  // The upstream refuses a whole SETTLE if one of its jobs is beyond the ends of the lease.
  const std::uint64_t end = run.first + run.count;
  ReplyCursor outputs(run.outputs);
  std::uint64_t index = run.first;
  // Where the output of job `to` begins.
  const auto pass = [&](std::uint64_t to) {
    for (; index < to; ++index) (void)outputs.text();
    return run.outputs.size() - outputs.rest().size();
  };
  auto held = std::ranges::upper_bound(lease.held, run.first, {}, &IndexRange::high);
  for (; held != lease.held.end() && held->low < end; ++held) {
    const IndexRange jobs{std::max(run.first, held->low), std::min(end, held->high)};
    if (jobs.size() == run.count) return keep_held(lease, std::move(run));
    const std::size_t begin = pass(jobs.low);
    const std::size_t size = pass(jobs.high) - begin;
    keep_held(lease, {.lease = run.lease,
                      .status = run.status,
                      .first = jobs.low,
                      .count = jobs.size(),
                      .outputs = run.outputs.substr(begin, size),
                      .news = jobs.low == run.first ? std::move(run.news) : std::vector<std::string>()});
  }
}

void UnacknowledgedResults::keep_held(HeldLease& lease, KeptResults&& run) {
  const std::uint64_t most = longest_output_;
  if (most == 0 || run.outputs.size() <= most) return keep_part(lease, std::move(run));
  ReplyCursor outputs(run.outputs);
  const auto part_from = [&run](std::uint64_t first) {
    KeptResults next;
    next.lease = run.lease;
    next.status = run.status;
    next.first = first;
    return next;
  };
  KeptResults part = part_from(run.first);
  part.news = std::move(run.news);
  const auto keep_what_came = [&] {
    if (part.count == 0) return;
    const std::uint64_t following = part.first + part.count;
    keep_part(lease, std::exchange(part, part_from(following)));
  };
  for (std::uint64_t left = run.count; left != 0; --left) {
    const std::size_t begin = run.outputs.size() - outputs.rest().size();
    const std::size_t bytes = outputs.text().size();
    const std::size_t end = run.outputs.size() - outputs.rest().size();
    const bool is_too_long = bytes > most;
    if (is_too_long || part.outputs.size() + (end - begin) > most) keep_what_came();
    ++part.count;
    if (!is_too_long) {
      part.outputs.append(run.outputs, begin, end - begin);
      continue;
    }
    if (part.status == JobStatus::kOk) part.status = JobStatus::kError;
    append_bulk(part.outputs, too_long(bytes, most));
    keep_what_came();
  }
  keep_what_came();
}

void UnacknowledgedResults::keep_part(HeldLease& lease, KeptResults&& part) {
  const std::uint64_t id = ++last_id_;
  bytes_ += part.outputs.size();
  lease.settled += part.count;
  lease.results.push_back(id);
  kept_.emplace(id, std::move(part));
  if (!lease.name.empty()) send(lease, id);
}

void UnacknowledgedResults::send(const HeldLease& lease, std::uint64_t id) {
  KeptResults& results = kept_.at(id);
  if (std::exchange(results.is_sent, true)) return;
  if (!results.news.empty()) send_note(lease, results.news);
  proto::CommandWriter writer = pipeline_.begin(
      {.kind = AwaitedReply::Kind::kSettle, .lease = results.lease, .results = id}, 4 + results.count);
  writer.argument("SETTLE");
  writer.argument(lease.name);
  writer.argument(to_string(results.status));
  writer.argument(results.first);
  pipeline_.output().append(results.outputs);
}

void UnacknowledgedResults::send_note(const HeldLease& lease, const std::vector<std::string>& words) {
  proto::CommandWriter writer = pipeline_.begin({.kind = AwaitedReply::Kind::kNote}, 2 + words.size());
  writer.argument("NOTE");
  writer.argument(lease.name);
  for (const std::string& word : words) writer.argument(word);
}

std::uint64_t UnacknowledgedResults::hand_in(HeldLease& lease) {
  std::uint64_t jobs = 0;
  for (const std::uint64_t id : std::exchange(lease.results, {})) {
    KeptResults run = std::move(kept_.extract(id).mapped());
    bytes_ -= run.outputs.size();
    lease.settled -= run.count;
    const std::uint64_t before = lease.settled;
    keep(lease, std::move(run));
    jobs += lease.settled - before;
  }
  return jobs;
}

std::optional<std::uint64_t> UnacknowledgedResults::drop(HeldLease* lease, std::uint64_t id) {
  const auto results = kept_.find(id);
  if (results == kept_.end()) return std::nullopt;
  const std::uint64_t jobs = results->second.count;
  bytes_ -= results->second.outputs.size();
  kept_.erase(results);
  if (lease != nullptr) std::erase(lease->results, id);
  return jobs;
}

void UnacknowledgedResults::drop_all_of(HeldLease& lease) {
  const std::vector<std::uint64_t> results = std::exchange(lease.results, {});
  for (const std::uint64_t id : results) drop(nullptr, id);
}

void UnacknowledgedResults::connection_lost() {
  for (auto& [id, results] : kept_) results.is_sent = false;
}

std::uint64_t UnacknowledgedResults::jobs() const {
  std::uint64_t jobs = 0;
  for (const auto& [id, results] : kept_) jobs += results.count;
  return jobs;
}

}  // namespace locksley::daemon
