// The writes that wait for the writer of the store, in groups.
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "daemon/store/write/pending_writes.h"
#include "daemon/store/write/staged_writes.h"
#include "daemon/store/write/ticket.h"
#include "daemon/store/write/writes.h"

namespace locksley::daemon {

// Writes gather in a group until the writer takes it, or until it is full: then the next group
// gathers. The groups are taken in the order of their tickets. Large writes, and those that follow
// them, go into later groups (StagedWrites). A write that brings jobs, and alone costs as much as a
// full group, shares its group only with writes that follow it, because all jobs of a group are
// refused if the disk has no room for them.
//
// A member of GroupCommit, guarded by it. Nothing blocks. Only allocation fails. While nothing is
// staged, put() is O(1) on average, and the others are O(1); otherwise StagedWrites says what its
// calls add.
class WriteQueue {
 public:
  using Writes = PendingWrites::Writes;

  struct Group {
    Ticket ticket = 0;
    Writes writes;                           // may be empty, while something is staged
    std::size_t awaited = 0;                 // writes for which a client waits
    std::optional<StagedWrites::Part> part;  // of a later group's write, to be written with this group
  };

  // `most_in_group`: the cost (cost_of()) with which a group is full.
  explicit WriteQueue(std::size_t most_in_group) : most_in_group_(most_in_group), staged_(most_in_group) {}

  // Adds a write. Returns the ticket of its group.
  Ticket put(StoreWrite&& write, Urgency urgency);
  // The ticket of the last group that has a write, or of the group that gathers if that is later.
  Ticket last() const { return std::max(gathering_ticket_, staged_.last()); }

  // The ticket of the last group that has had a write; 0: none has.
  Ticket last_put() const {
    return std::max(gathering_.empty() ? gathering_ticket_ - 1 : gathering_ticket_, staged_.last());
  }

  // The ticket of the group that gathers: only staged writes have a later ticket.
  Ticket gathering() const { return gathering_ticket_; }

  bool empty() const { return gathering_.empty() && !has_full_or_staged(); }
  // Whether the group that gathers has no writes.
  bool is_gathering_empty() const { return gathering_.empty(); }
  // Whether there is more than the group that gathers: then the writer need not wait for more
  // writes.
  bool has_full_or_staged() const { return !full_.empty() || !staged_.empty(); }
  // How many writes of the group that gathers have a client that waits.
  std::size_t awaited() const { return awaited_; }

  // Takes the first group out; none: there is none. A group that begins to gather later gets the
  // memory of `spare`, which is empty.
  std::optional<Group> take_first(Writes spare);
  // The ticket of the last group that was taken.
  Ticket last_taken() const { return gathering_ticket_ - 1 - full_.size(); }
  // For the part of a group that was taken.
  void part_written(const StagedWrites::Written& written) { staged_.part_written(written); }
  // As in StagedWrites.
  void write_whole() { staged_.write_whole(); }

 private:
  // For a write that StagedWrites takes: puts the parts that must not wait for staged jobs into the
  // group that gathers (StagedWrites::tell_ahead()).
  void tell_ahead(const StoreWrite& write);
  // Puts the write into the group that gathers. Returns its ticket.
  Ticket gather(StoreWrite&& write, std::size_t cost, Urgency urgency);
  // Closes the group that gathers, and begins another one.
  void close_group();
  // The next group begins to gather. Groups that have staged writes are passed over: they get no
  // other writes.
  void begin_next();

  const std::size_t most_in_group_;
  std::deque<Group> full_;  // before gathering_
  PendingWrites gathering_;
  Ticket gathering_ticket_ = 1;
  std::size_t awaited_ = 0;
  Writes spare_;  // memory for the group that gathers after this one; empty
  StagedWrites staged_;
};

}  // namespace locksley::daemon
