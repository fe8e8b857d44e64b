#include "daemon/store/write/staged_writes.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

namespace locksley::daemon {
namespace {

// The part of the write that says how many of its payloads were written ahead.
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

// The change as it would be without these jobs, and without those that were added after them.
ChangeBatch without_jobs(const ChangeBatch& change, const AddJobs& added) {
  ChangeBatch without{.sequence = change.sequence, .changes = change.changes};
  ChangesRow& row = without.changes;
  row.jobs = added.first;
  row.payload_bytes =
      added.changes.payload_bytes - std::min(added.changes.payload_bytes, added.payloads->payload_bytes());
  row.is_closed = row.is_cancelled;
  return without;
}

}  // namespace

const std::vector<StagedWrites::Staged*>* StagedWrites::of_batch(std::uint64_t sequence) const {
  const auto found = by_batch_.find(sequence);
  return found == by_batch_.end() ? nullptr : &found->second;
}

void StagedWrites::note_batch(Staged& staged, std::uint64_t sequence) {
  by_batch_[sequence].push_back(&staged);
}

StagedWrites::Staged* StagedWrites::leader_of(const StoreWrite& write) const {
  if (staged_.empty()) return nullptr;
  if (const auto* accept = std::get_if<AcceptBatch>(&write)) {
    // Otherwise a crash could leave a batch without the batch for which it waits, and it would
    // start.
    Staged* last = nullptr;
    for (const AcceptedRow::After& after : accept->row.after) {
      const auto* const staged = of_batch(after.sequence);
      if (staged == nullptr || !staged->front()->accepted.contains(after.sequence)) continue;
      if (!is_open(*staged->front())) continue;
      if (last == nullptr || last->ticket < staged->front()->ticket) last = staged->front();
    }
    return last;
  }
  const auto* const staged = of_batch(sequence_of(write));
  if (staged == nullptr) return nullptr;
  Staged* const leader = staged->back();
  if (!is_open(*leader)) return nullptr;
  const auto* record = std::get_if<RecordStep>(&write);
  const bool is_ordinary_step = record != nullptr && record->step.finished_at == 0 && !record->step.is_base;
  return is_ordinary_step && std::holds_alternative<AddJobs>(leader->write) ? nullptr : leader;
}

bool StagedWrites::has_group(Ticket ticket) const {
  return std::ranges::binary_search(staged_, ticket, {}, &Staged::ticket);
}

bool StagedWrites::takes(const StoreWrite& write, std::size_t cost) const {
  return (cost > most_bytes_ && may_be_large(write)) || leader_of(write) != nullptr;
}

Ticket StagedWrites::add(StoreWrite&& write, std::size_t cost, Urgency urgency, Ticket first) {
  const std::size_t awaited = urgency == Urgency::kAwaited ? 1 : 0;
  const std::uint64_t sequence = sequence_of(write);
  const bool is_acceptance = std::holds_alternative<AcceptBatch>(write);
  if (cost <= most_bytes_ || !may_be_large(write)) {
    Staged& leader = *leader_of(write);
    leader.awaited += awaited;
    if (is_acceptance) {
      leader.accepted.insert(sequence);
      note_batch(leader, sequence);
    }
    const bool is_step = std::holds_alternative<RecordStep>(write);
    if (is_step && last_step() < leader.ticket) with_steps_ = &leader;
    leader.followers.add(std::move(write));
    return leader.ticket;
  }
  const std::size_t parts = (cost - 1) / most_bytes_;  // the rest goes with the write
  first = std::max(first, without_parts_);
  without_parts_ = first + parts;
  last_ = std::max(last_, without_parts_);
  Staged& staged = staged_.emplace_back(Staged{.ticket = last_,
                                               .write = std::move(write),
                                               .awaited = awaited,
                                               .accepted = {},
                                               .followers = {},
                                               .first = first,
                                               .parts = parts});
  if (is_acceptance) staged.accepted = {sequence};
  note_batch(staged, sequence);
  return last_;
}

std::optional<ChangeBatch> StagedWrites::tell_ahead(const ChangeBatch& change) {
  const auto* const staged = of_batch(change.sequence);
  if (staged == nullptr) return std::nullopt;
  std::optional<ChangeBatch> first;
  Staged* before = nullptr;
  for (Staged* const each : *staged) {
    if (!is_open(*each)) continue;
    if (!each->accepted.contains(change.sequence)) {
      ChangeBatch told = without_jobs(change, std::get<AddJobs>(each->write));
      if (before == nullptr) {
        first = std::move(told);
      } else {
        before->followers.add(std::move(told));
      }
    }
    before = each;
  }
  return first;
}

Ticket StagedWrites::add_marker() {
  ++with_steps_->awaited;
  return with_steps_->ticket;
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

void StagedWrites::forget_batch(const Staged& first, std::uint64_t sequence) {
  const auto found = by_batch_.find(sequence);
  if (found == by_batch_.end() || found->second.front() != &first) return;
  found->second.erase(found->second.begin());
  if (found->second.empty()) by_batch_.erase(found);
}

std::size_t StagedWrites::take(Ticket ticket, Writes& to) {
  std::size_t awaited = 0;
  while (!staged_.empty() && staged_.front().ticket == ticket) {
    Staged& first = staged_.front();
    awaited += first.awaited;
    if (with_steps_ == &first) with_steps_ = nullptr;
    forget_batch(first, sequence_of(first.write));
    for (const std::uint64_t sequence : first.accepted) forget_batch(first, sequence);
    to.push_back(std::move(first.write));
    std::ranges::move(first.followers.take(), std::back_inserter(to));
    staged_.pop_front();
  }
  return awaited;
}

}  // namespace locksley::daemon
