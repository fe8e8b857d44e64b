// SETTLE and YIELD: how results and jobs go back.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/upstream/link/upstream_link.h"
#include "proto/bulk.h"

namespace locksley::daemon {

using State = HeldLease::State;

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

HeldLease* UpstreamLink::find(LeaseKey key) {
  const auto found = leases_.find(key);
  return found == leases_.end() ? nullptr : &found->second;
}

HeldLease* UpstreamLink::find(std::string_view name) {
  const auto found = by_name_.find(std::string(name));
  return found == by_name_.end() ? nullptr : find(found->second);
}

void UpstreamLink::set_name(HeldLease& lease, std::string name) {
  by_name_.emplace(name, lease.key);
  lease.name = std::move(name);
}

// ---- Results ----

void UpstreamLink::settle(LeaseKey key, JobStatus status, std::uint64_t first, std::uint64_t count,
                          std::string outputs, Nanoseconds now) {
  pipeline_.advance(now);
  HeldLease* const lease = find(key);
  if (lease == nullptr || lease->is_lost) return;
  keep(*lease, {.lease = key,
                .status = status,
                .first = first,
                .count = count,
                .outputs = std::move(outputs),
                .news = std::exchange(lease->last_news, {})});
}

void UpstreamLink::keep(HeldLease& lease, KeptResults run) {
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

void UpstreamLink::keep_held(HeldLease& lease, KeptResults run) {
  const std::uint64_t most = joined_.longest_output;
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

void UpstreamLink::keep_part(HeldLease& lease, KeptResults part) {
  const std::uint64_t id = ++last_results_;
  stats_.kept_bytes += part.outputs.size();
  lease.settled += part.count;
  lease.results.push_back(id);
  kept_.emplace(id, std::move(part));
  if (!lease.name.empty()) send_results(id);
}

void UpstreamLink::send_results(std::uint64_t id) {
  KeptResults& results = kept_.at(id);
  if (std::exchange(results.is_sent, true)) return;
  const HeldLease& lease = leases_.at(results.lease);
  if (!results.news.empty()) send_note(lease, results.news);
  proto::CommandWriter writer =
      pipeline_.begin({.kind = Kind::kSettle, .lease = results.lease, .results = id}, 4 + results.count);
  writer.argument("SETTLE");
  writer.argument(lease.name);
  writer.argument(to_string(results.status));
  writer.argument(results.first);
  pipeline_.output().append(results.outputs);
}

bool UpstreamLink::try_send_news(LeaseKey key, std::uint64_t index, const JobNews& news, Nanoseconds now) {
  pipeline_.advance(now);
  const HeldLease* const lease = find(key);
  if (lease == nullptr || lease->name.empty() || pipeline_.output().size() > kMostUnsent) return false;
  send_note(*lease, news.words(index));
  return true;
}

void UpstreamLink::keep_last_news(LeaseKey key, std::uint64_t index, const JobNews& news) {
  if (HeldLease* const lease = find(key)) lease->last_news = news.words(index);
}

void UpstreamLink::send_note(const HeldLease& lease, const std::vector<std::string>& words) {
  proto::CommandWriter writer = pipeline_.begin({.kind = Kind::kNote}, 2 + words.size());
  writer.argument("NOTE");
  writer.argument(lease.name);
  for (const std::string& word : words) writer.argument(word);
}

void UpstreamLink::on_settle(const AwaitedReply& awaited, ReplyCursor reply) {
  HeldLease* const lease = find(awaited.lease);
  if (!reply.is_error()) {
    if (reply.array() < 2) return pipeline_.fail("the reply of SETTLE is not one");
    stats_.settled_jobs += reply.count();
    if (reply.is_bad()) return pipeline_.fail("the reply of SETTLE is not one");
    if (kept_.contains(awaited.results)) drop(awaited.results);
    return;
  }
  const std::string_view error = reply.text();
  // For want of memory the upstream closes the connection. The results go on the next one.
  if (error.starts_with("QUEUEFULL")) return pipeline_.fail(std::string(error));
  if (lease == nullptr) return;
  if (error.starts_with("LOST")) return lose(*lease);
  // The results were refused, and would be refused again: their jobs go back.
  const auto results = kept_.find(awaited.results);
  if (results == kept_.end()) return;
  lease->settled -= results->second.count;
  if (lease->state == State::kEnded) lease->must_yield = true;
  drop(awaited.results);
  HeldLease* const left = find(awaited.lease);
  if (left != nullptr && left->must_yield) yield_rest(*left);
}

void UpstreamLink::drop(std::uint64_t id) {
  const auto results = kept_.find(id);
  HeldLease* const lease = find(results->second.lease);
  stats_.kept_bytes -= results->second.outputs.size();
  kept_.erase(results);
  if (lease == nullptr) return;
  std::erase(lease->results, id);
  forget_if_over(*lease);
}

// ---- Jobs that go back ----

void UpstreamLink::ended(LeaseKey key, Nanoseconds now) {
  // So much later at most does an idle slot get jobs that come while another slot runs some. A
  // guess: two wake-ups of a busy machine, and the shortest jobs.
  constexpr std::chrono::microseconds kShort{200};
  pipeline_.advance(now);
  HeldLease* const lease = find(key);
  if (lease == nullptr) return;
  last_was_short_ = pipeline_.now() - lease->began <= kShort;
  lease->state = State::kEnded;
  lease->must_yield = lease->settled < lease->range.size();
  const std::uint32_t slot = lease->slot;
  clear_slot(*lease);
  if (lease->is_lost) {
    forget(*lease);
  } else {
    const bool has_name = !lease->name.empty();
    // A lease without a name cannot be handed back: it went back with the connection.
    if (!has_name && lease->results.empty()) {
      forget(*lease);
    } else if (has_name) {
      yield_rest(*lease);
    }
  }
  drop_ended_looks();
  begin_ready(slot);
}

void UpstreamLink::drop_ended_looks() {
  const auto runs = [this](LeaseKey key) {
    const HeldLease* const lease = find(key);
    return lease != nullptr && lease->state == State::kRunning;
  };
  while (!new_leases_.empty() && !runs(new_leases_.front().first)) new_leases_.pop_front();
}

void UpstreamLink::yield_rest(HeldLease& lease) {
  if (std::exchange(lease.must_yield, false)) yield(lease, std::nullopt);
  forget_if_over(lease);
}

void UpstreamLink::yield(HeldLease& lease, std::optional<std::uint64_t> from) {
  proto::CommandWriter writer = pipeline_.begin({.kind = Kind::kYield, .lease = lease.key}, from ? 3 : 2);
  writer.argument("YIELD");
  writer.argument(lease.name);
  if (from) writer.argument(*from);
}

void UpstreamLink::on_yield(const AwaitedReply& awaited, ReplyCursor reply) {
  if (!reply.is_error()) {
    stats_.yielded_jobs += reply.count();
    if (reply.is_bad()) pipeline_.fail("the reply of YIELD is not one");
    return;
  }
  HeldLease* const lease = find(awaited.lease);
  if (lease != nullptr && reply.text().starts_with("LOST")) lose(*lease);
}

void UpstreamLink::cut(HeldLease& lease, std::uint64_t at) {
  at = std::clamp(at, lease.range.low, lease.range.high);
  switch (lease.state) {
    case State::kEnded:
      return;
    case State::kReady:
      if (at == lease.range.low) return give_back(lease);
      break;
    case State::kRunning:
      at = std::clamp(host_.withdraw(lease.key, at), at, lease.range.high);
  }
  lease.range.high = at;
  if (!lease.name.empty()) yield(lease, at);
}

void UpstreamLink::stop(HeldLease& lease) {
  if (lease.state == State::kReady) return give_back(lease);
  if (lease.state == State::kRunning && !std::exchange(lease.is_stopping, true)) host_.stop(lease.key);
}

void UpstreamLink::give_back(HeldLease& lease) {
  // With LEAVE everything goes back.
  if (!lease.name.empty() && !pipeline_.has_sent_leave()) yield(lease, std::nullopt);
  forget(lease);
}

void UpstreamLink::lose(HeldLease& lease) {
  if (lease.is_lost) return;
  lease.is_lost = true;
  ++stats_.lost_leases;
  const std::vector<std::uint64_t> results = std::exchange(lease.results, {});
  for (const std::uint64_t id : results) {
    const auto found = kept_.find(id);
    stats_.kept_bytes -= found->second.outputs.size();
    kept_.erase(found);
  }
  by_name_.erase(lease.name);
  lease.name.clear();
  if (lease.state == State::kRunning) return stop(lease);
  forget(lease);
}

void UpstreamLink::clear_slot(const HeldLease& lease) {
  UpstreamSlot& slot = slots_[lease.slot];
  if (slot.running == lease.key) {
    slot.running = 0;
  } else if (slot.ready == lease.key) {
    slot.ready = 0;
  } else {
    return;
  }
  --stats_.leases;
}

void UpstreamLink::forget(HeldLease& lease) {
  clear_slot(lease);
  if (!lease.name.empty()) by_name_.erase(lease.name);
  leases_.erase(lease.key);
}

void UpstreamLink::forget_if_over(HeldLease& lease) {
  if (lease.state == State::kEnded && lease.results.empty() && !lease.must_yield) forget(lease);
}

}  // namespace locksley::daemon
