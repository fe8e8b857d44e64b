#include "daemon/process/lane/lane_slots.h"

#include <algorithm>
#include <map>
#include <utility>

namespace locksley::daemon {

void LaneSlots::configure(const config::Slots& slots) {
  std::map<std::string, LaneSlot*> known;
  for (const auto& slot : slots_) {
    known[slot->name] = slot.get();
    slot->is_wanted = false;
  }
  for (std::size_t i = 0; i < slots.count; ++i) {
    std::string name = slots.names.empty() ? std::to_string(i) : slots.names[i];
    if (const auto found = known.find(name); found != known.end()) {
      found->second->is_wanted = true;
      continue;
    }
    slots_.push_back(std::make_unique<LaneSlot>());
    slots_.back()->name = std::move(name);
    slots_.back()->number = slots_.size() - 1;
  }
  wanted_ = slots.count;
  most_processes_ = slots.names.empty() ? kMostProcesses : 1;
  place_.resize(slots_.size());
  for (NumberSet& set : free_by_processes_) set.resize(slots_.size());
  for (const auto& slot : slots_) update(*slot);
}

std::size_t LaneSlots::processes(const LaneSlot& slot) {
  std::size_t count = 0;
  for (const auto& runner : slot.runners) count += runner->has_process() ? 1 : 0;
  return count;
}

bool LaneSlots::is_busy(const LaneSlot& slot) {
  if (slot.waiting != nullptr) return true;
  for (const auto& runner : slot.runners) {
    if (runner->state() == ProcessRunner::State::kRunning) return true;
  }
  return false;
}

void LaneSlots::update(LaneSlot& slot) {
  const bool is_busy_now = is_busy(slot);
  if (is_busy_now != slot.counts_as_busy) {
    slot.counts_as_busy = is_busy_now;
    is_busy_now ? ++busy_ : --busy_;
  }
  std::uint8_t& place = place_[slot.number];
  const std::uint8_t before = place;
  place = is_free(slot) ? static_cast<std::uint8_t>(1 + std::min(processes(slot), kMostProcesses)) : 0;
  if (place == before) return;
  if (before != 0) {
    free_by_processes_[before - 1U].remove(slot.number);
    --free_;
  }
  if (place != 0) {
    free_by_processes_[place - 1U].add(slot.number);
    ++free_;
  }
}

std::vector<ProcessRunner*> LaneSlots::staying(Nanoseconds now) const {
  if (free_with_room() != nullptr) return {};
  std::vector<ProcessRunner*> result;
  for (const auto& slot : slots_) {
    if (!is_free(*slot)) continue;
    for (const auto& runner : slot->runners) {
      if (runner->state() == ProcessRunner::State::kEnding) return {};
      if (runner->state() != ProcessRunner::State::kIdle) continue;
      if (runner->stays_until() <= now) return {};
      result.push_back(runner.get());
    }
  }
  return result;
}

LaneSlot* LaneSlots::free_with_room() const {
  for (std::size_t processes = 0; processes < most_processes_; ++processes) {
    const std::size_t number = free_by_processes_[processes].first(slots_.size());
    if (number < slots_.size()) return slots_[number].get();
  }
  return nullptr;
}

LaneSlots::Choice LaneSlots::choose(const std::vector<ProcessRunner*>& idle, Nanoseconds now) const {
  for (auto runner = idle.rbegin(); runner != idle.rend(); ++runner) {
    LaneSlot& slot = (*runner)->slot();
    // A process may have been told to end meanwhile.
    if (is_free(slot) && (*runner)->state() == ProcessRunner::State::kIdle)
      return {.slot = &slot, .idle = *runner};
  }
  if (LaneSlot* const slot = free_with_room(); slot != nullptr) return {.slot = slot};
  return choose_to_replace(now);
}

// Searches all slots: the start of the new process, which follows, takes longer.
LaneSlots::Choice LaneSlots::choose_to_replace(Nanoseconds now) const {
  const auto order = [now](const ProcessRunner& runner) {
    kProcessThread.assert_held();
    return std::pair(runner.stays_until() > now, runner.idle_since());
  };
  Choice choice{.has_room = false};
  for (const auto& slot : slots_) {
    if (!is_free(*slot)) continue;
    for (const auto& runner : slot->runners) {
      if (runner->state() == ProcessRunner::State::kEnding) {
        return {.slot = slot.get(), .has_room = false};
      }
      if (runner->state() != ProcessRunner::State::kIdle) continue;
      if (choice.to_end != nullptr && order(*choice.to_end) <= order(*runner)) continue;
      choice.slot = slot.get();
      choice.to_end = runner.get();
    }
  }
  return choice;
}

}  // namespace locksley::daemon
