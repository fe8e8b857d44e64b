// The slots of a lane, and which of them a turn gets.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config/config.h"
#include "core/lane/external_executor.h"
#include "daemon/process/lane/process_runner.h"

namespace locksley::daemon {

// A slot, in which one job runs at a time. Owned by LaneSlots, for the lane's whole life. The
// process thread only.
struct LaneSlot {
  std::string name;       // LOCKSLEY_SLOT
  std::size_t number;     // in LaneSlots
  bool is_wanted = true;  // the configuration has the slot
  // Never shrinks: Asio may hold callbacks for a runner.
  std::vector<std::unique_ptr<ProcessRunner>> runners;
  // A turn that waits until a process of the slot has ended; null: none.
  std::unique_ptr<ExternalExecutor> waiting;
  bool counts_as_busy = false;  // in LaneSlots::busy_
};

// A set of numbers below a bound. Only resize() allocates.
class NumberSet {
 public:
  void resize(std::size_t bound) { words_.resize((bound + 63) / 64); }
  void add(std::size_t number) { words_[number / 64] |= bit(number); }
  void remove(std::size_t number) { words_[number / 64] &= ~bit(number); }
  // The least number of the set; `none` if the set is empty.
  std::size_t first(std::size_t none) const {
    for (std::size_t i = 0; i < words_.size(); ++i) {
      if (words_[i] != 0) return i * 64 + static_cast<std::size_t>(std::countr_zero(words_[i]));
    }
    return none;
  }

 private:
  static std::uint64_t bit(std::size_t number) { return std::uint64_t{1} << number % 64; }
  std::vector<std::uint64_t> words_;
};

// The slots of a lane. One job runs in each at a time. A slot keeps up to two processes; a process
// without a job waits for its handler's next turn. If the configuration names the slots, each keeps
// only one process: a process gets the name at its start, and the name identifies a device that two
// processes cannot share.
//
// Owned by a ProcessLane. The process thread only. Nothing blocks or fails.
class LaneSlots {
 public:
  // The most processes of a slot without a name of its own. With two, a lane of one slot keeps a
  // worker for each of two handlers.
  static constexpr std::size_t kMostProcesses = 2;

  // Slots that are not wanted any more get no turns. New slots have no runners.
  void configure(const config::Slots& slots) LOCKSLEY_REQUIRES(kProcessThread);
  // Whether one more turn can begin.
  bool has_free() const { return busy_ < wanted_ && free_ != 0; }
  std::size_t wanted() const { return wanted_; }

  // Needs: has_free(). If a turn of another handler could begin only after the end of a process
  // that stays (ProcessRunner::stays_until()): all idle processes in free slots. Else empty.
  std::vector<ProcessRunner*> staying(Nanoseconds now) const LOCKSLEY_REQUIRES(kProcessThread);

  // Where a turn goes. In this order: to the free slot with the handler's idle process that was
  // used last; to the free slot with the fewest processes, if it has room for one more; to a free
  // slot where a process is ending already; to a free slot where a process has to end first. That
  // is the process that has been idle for longest, if possible one that need not stay.
  struct Choice {
    LaneSlot* slot = nullptr;
    ProcessRunner* idle = nullptr;    // runs the turn; null: a runner without a process
    bool has_room = true;             // if not, the turn waits until a process has ended
    ProcessRunner* to_end = nullptr;  // the caller has to tell it to end; null: none
  };
  // Needs: has_free(). `idle`: the handler's idle runners; the one used last is the last.
  Choice choose(const std::vector<ProcessRunner*>& idle, Nanoseconds now) const
      LOCKSLEY_REQUIRES(kProcessThread);
  // Whether the slot may start a process.
  bool has_room(const LaneSlot& slot) const LOCKSLEY_REQUIRES(kProcessThread) {
    return processes(slot) < most_processes_;
  }

  // Whether the slot has more processes than the current configuration allows.
  bool is_over(const LaneSlot& slot) const LOCKSLEY_REQUIRES(kProcessThread) {
    return processes(slot) > most_processes_;
  }

  // Call it after any change of the slot's runners, or of its waiting turn.
  void update(LaneSlot& slot) LOCKSLEY_REQUIRES(kProcessThread);

  const std::vector<std::unique_ptr<LaneSlot>>& all() const { return slots_; }

 private:
  static std::size_t processes(const LaneSlot& slot) LOCKSLEY_REQUIRES(kProcessThread);
  static bool is_busy(const LaneSlot& slot) LOCKSLEY_REQUIRES(kProcessThread);
  static bool is_free(const LaneSlot& slot) LOCKSLEY_REQUIRES(kProcessThread) {
    return slot.is_wanted && !is_busy(slot);
  }
  // The free slot with the fewest processes, if it has room for one more; null: none has.
  LaneSlot* free_with_room() const;
  Choice choose_to_replace(Nanoseconds now) const LOCKSLEY_REQUIRES(kProcessThread);

  std::vector<std::unique_ptr<LaneSlot>> slots_;  // never shrinks
  std::size_t most_processes_ = kMostProcesses;
  std::size_t wanted_ = 0;
  std::size_t busy_ = 0;  // of all slots
  std::size_t free_ = 0;
  // The free slots, by the number of their processes; the last set has those with kMostProcesses or
  // more.
  std::array<NumberSet, kMostProcesses + 1> free_by_processes_;
  std::vector<std::uint8_t> place_;  // of each slot: 1 + its index in free_by_processes_; 0: not free
};

}  // namespace locksley::daemon
