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

// A slot: in one running job at a time. Owned by LaneSlots, for the lane's whole life. The process
// thread only.
struct LaneSlot {
  std::string name;       // LOCKSLEY_SLOT
  std::size_t number;     // in LaneSlots
  bool is_wanted = true;  // the configuration has it
  // Never shrinks: Asio may hold callbacks for a runner.
  std::vector<std::unique_ptr<ProcessRunner>> runners;
  // A turn that waits until a process of the slot has ended; null: none.
  std::unique_ptr<ExternalExecutor> waiting;
  bool counts_as_busy = false;  // LaneSlots
};

// Numbers below a bound. No allocation but by resize().
class NumberSet {
 public:
  void resize(std::size_t bound) { words_.resize((bound + 63) / 64); }
  void add(std::size_t number) { words_[number / 64] |= bit(number); }
  void remove(std::size_t number) { words_[number / 64] &= ~bit(number); }
  // The least one; `none` if there is none.
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

// The slots of a lane. Each has one job at a time, and keeps a few processes; those without a job
// wait for their handler's next turn. A slot keeps two processes, but only one if slots have names,
// because a process gets the name at its start and the name stands for something that one process
// uses.
//
// Owned by a ProcessLane. The process thread only. Nothing blocks or fails.
class LaneSlots {
 public:
  // Of a slot without a name of its own. With two, a lane of one slot keeps a worker for each of
  // two handlers.
  static constexpr std::size_t kMostProcesses = 2;

  // Slots that are not wanted any more get no turns. New slots have no runners.
  void configure(const config::Slots& slots) LOCKSLEY_REQUIRES(kProcessThread);
  // Whether one more turn can begin.
  bool has_free() const { return busy_ < wanted_ && free_ != 0; }
  std::size_t wanted() const { return wanted_; }

  // Needs: has_free(). Idle processes that stay (ProcessRunner::stays_until()) and of which one
  // would have to end if the next turn were of another handler. Empty: none would have to.
  std::vector<ProcessRunner*> staying(Nanoseconds now) const LOCKSLEY_REQUIRES(kProcessThread);

  // Where a turn goes. In this order: to a free slot in which an idle process of the handler is
  // (the one used last); to the free slot with the fewest processes; to a free slot where one has
  // to end first: unless one is ending already, the one that has been idle for longest, of those
  // that need not stay if there is one.
  struct Choice {
    LaneSlot* slot = nullptr;
    ProcessRunner* idle = nullptr;    // runs the turn; null: a runner without a process
    bool has_room = true;             // if not, the turn waits until a process has ended
    ProcessRunner* to_end = nullptr;  // has to be told to end; null: none
  };
  // Needs: has_free(). `idle`: the handler's idle runners; the one used last is the last.
  Choice choose(const std::vector<ProcessRunner*>& idle, Nanoseconds now) const
      LOCKSLEY_REQUIRES(kProcessThread);
  // Whether the slot may start a process.
  bool has_room(const LaneSlot& slot) const LOCKSLEY_REQUIRES(kProcessThread) {
    return processes(slot) < most_processes_;
  }

  // Whether it has more processes than it may have by now.
  bool is_over(const LaneSlot& slot) const LOCKSLEY_REQUIRES(kProcessThread) {
    return processes(slot) > most_processes_;
  }

  // After any change of the slot's runners, or of its waiting turn.
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
  // The free ones, by the number of their processes; those with the most or more are in the last.
  std::array<NumberSet, kMostProcesses + 1> free_by_processes_;
  std::vector<std::uint8_t> place_;  // of each slot: 1 + the index there; 0: not free
};

}  // namespace locksley::daemon
