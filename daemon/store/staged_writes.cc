#include "daemon/store/staged_writes.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

namespace locksley::daemon {
namespace {

// Where the write says how many of its payloads lie ahead of it.
PayloadsAhead& ahead_of(StoreWrite& write) {
  if (auto* accept = std::get_if<AcceptBatch>(&write)) return accept->ahead;
  return std::get<AddJobs>(write).ahead;
}

bool may_be_large(const StoreWrite& write) {
  const auto* accept = std::get_if<AcceptBatch>(&write);
  const auto* add = std::get_if<AddJobs>(&write);
  return (accept != nullptr && accept->payloads != nullptr && accept->payloads->size() > 1) ||
         (add != nullptr && add->payloads->size() > 1);
}

}  // namespace

std::deque<StagedWrites::Staged>::reverse_iterator StagedWrites::find(std::uint64_t sequence) {
  return std::find_if(staged_.rbegin(), staged_.rend(),
                      [sequence](const Staged& each) { return sequence_of(each.write) == sequence; });
}

bool StagedWrites::takes(const StoreWrite& write, std::size_t cost) {
  if (cost > most_bytes_ && may_be_large(write)) return true;
  return !staged_.empty() && find(sequence_of(write)) != staged_.rend();
}

Ticket StagedWrites::add(StoreWrite&& write, std::size_t cost, Urgency urgency, Ticket first) {
  const std::size_t awaited = urgency == Urgency::kAwaited ? 1 : 0;
  if (cost <= most_bytes_ || !may_be_large(write)) {
    Staged& leader = *find(sequence_of(write));
    leader.awaited += awaited;
    leader.has_steps = leader.has_steps || std::holds_alternative<RecordStep>(write);
    leader.followers.add(std::move(write));
    return leader.ticket;
  }
  const std::size_t parts = (cost - 1) / most_bytes_;  // the rest goes with the write
  first = std::max(first, without_parts_);
  without_parts_ = first + parts;
  last_ = std::max(last_, without_parts_);
  staged_.push_back(
      {.ticket = last_, .write = std::move(write), .awaited = awaited, .first = first, .parts = parts});
  return last_;
}

Ticket StagedWrites::add_marker() {
  const auto found =
      std::find_if(staged_.rbegin(), staged_.rend(), [](const Staged& each) { return each.has_steps; });
  if (found == staged_.rend()) return 0;
  ++found->awaited;
  return found->ticket;
}

std::deque<StagedWrites::Staged>::iterator StagedWrites::first_with_parts() {
  return std::ranges::find_if(staged_, [](const Staged& each) { return each.parts != 0; });
}

std::optional<StagedWrites::Part> StagedWrites::part_for(Ticket ticket) {
  const auto staged = first_with_parts();
  if (staged == staged_.end() || ticket < staged->first) return std::nullopt;
  Part part;
  part.sequence = sequence_of(staged->write);
  part.from = ahead_of(staged->write).count;
  part.most_bytes = most_bytes_;
  if (const auto* accept = std::get_if<AcceptBatch>(&staged->write)) {
    part.payloads = accept->payloads;
    part.begins_batch = part.from == 0;
  } else {
    const auto& add = std::get<AddJobs>(staged->write);
    part.payloads = add.payloads;
    part.first = add.first;
  }
  return part;
}

void StagedWrites::part_written(const Written& written) {
  Staged& staged = *first_with_parts();
  --staged.parts;
  PayloadsAhead& ahead = ahead_of(staged.write);
  ahead.count += written.payloads;
  ahead.bytes += written.bytes;
  ahead.were_begun = true;
}

void StagedWrites::write_whole() {
  for (Staged& each : staged_) {
    each.parts = 0;
    PayloadsAhead& ahead = ahead_of(each.write);
    ahead.count = ahead.bytes = 0;
  }
}

std::size_t StagedWrites::take(Ticket ticket, Writes& to) {
  std::size_t awaited = 0;
  while (!staged_.empty() && staged_.front().ticket == ticket) {
    Staged& first = staged_.front();
    awaited += first.awaited;
    to.push_back(std::move(first.write));
    std::ranges::move(first.followers.take(), std::back_inserter(to));
    staged_.pop_front();
  }
  return awaited;
}

}  // namespace locksley::daemon
