#include "daemon/store/staged_writes.h"

#include <algorithm>
#include <functional>
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

StagedWrites::Position StagedWrites::find(std::uint64_t sequence) {
  return std::find_if(staged_.rbegin(), staged_.rend(), [sequence](const Staged& each) {
    return sequence_of(each.write) == sequence || each.accepted.contains(sequence);
  });
}

StagedWrites::Position StagedWrites::leader_of(const StoreWrite& write) {
  if (staged_.empty()) return staged_.rend();
  if (const auto* accept = std::get_if<AcceptBatch>(&write)) {
    // Else a crash could leave a batch without the one for which it waits, and it would start.
    return std::find_if(staged_.rbegin(), staged_.rend(), [accept](const Staged& each) {
      return std::ranges::any_of(accept->row.after, [&each](const AcceptedRow::After& after) {
        return each.accepted.contains(after.sequence);
      });
    });
  }
  const auto leader = find(sequence_of(write));
  const auto* record = std::get_if<RecordStep>(&write);
  const bool is_ordinary_step = record != nullptr && record->step.finished_at == 0 && !record->step.is_base;
  const bool passes =
      leader != staged_.rend() && is_ordinary_step && std::holds_alternative<AddJobs>(leader->write);
  return passes ? staged_.rend() : leader;
}

bool StagedWrites::takes(const StoreWrite& write, std::size_t cost) {
  return (cost > most_bytes_ && may_be_large(write)) || leader_of(write) != staged_.rend();
}

Ticket StagedWrites::add(StoreWrite&& write, std::size_t cost, Urgency urgency, Ticket first) {
  const std::size_t awaited = urgency == Urgency::kAwaited ? 1 : 0;
  if (cost <= most_bytes_ || !may_be_large(write)) {
    Staged& leader = *leader_of(write);
    leader.awaited += awaited;
    if (std::holds_alternative<AcceptBatch>(write)) leader.accepted.insert(sequence_of(write));
    leader.has_steps = leader.has_steps || std::holds_alternative<RecordStep>(write);
    leader.followers.add(std::move(write));
    return leader.ticket;
  }
  const std::size_t parts = (cost - 1) / most_bytes_;  // the rest goes with the write
  first = std::max(first, without_parts_);
  without_parts_ = first + parts;
  last_ = std::max(last_, without_parts_);
  Staged staged{.ticket = last_,
                .write = std::move(write),
                .awaited = awaited,
                .accepted = {},
                .followers = {},
                .first = first,
                .parts = parts};
  if (std::holds_alternative<AcceptBatch>(staged.write)) staged.accepted = {sequence_of(staged.write)};
  staged_.push_back(std::move(staged));
  return last_;
}

Ticket StagedWrites::last_step() const {
  const auto found = std::find_if(staged_.rbegin(), staged_.rend(), std::mem_fn(&Staged::has_steps));
  return found == staged_.rend() ? 0 : found->ticket;
}

Ticket StagedWrites::add_marker() {
  const auto found = std::find_if(staged_.rbegin(), staged_.rend(), std::mem_fn(&Staged::has_steps));
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
    part.begins_batch = !accept->ahead.were_begun;
  } else {
    const auto& add = std::get<AddJobs>(staged->write);
    part.payloads = add.payloads;
    part.first = add.first;
  }
  part.left = part.payloads->payload_bytes() - ahead_of(staged->write).bytes;
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
