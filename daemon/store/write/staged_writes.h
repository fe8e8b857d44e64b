// Writes with more payloads than one group should have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "daemon/store/write/pending_writes.h"
#include "daemon/store/write/ticket.h"
#include "daemon/store/write/writes.h"
#include "proto/argument_list.h"

namespace locksley::daemon {

// The payloads of a large write go into the groups that the writer takes next, a part into each, so
// that the writes of other clients go with the same groups and do not wait for the whole large
// write. The write itself, which makes the payloads count, goes with the last part, into a group
// without writes of other clients (WriteQueue). Its ticket is known when it is put, because each
// group takes one part.
//
// Writes about the same batch that are put meanwhile follow the large write, into the same group.
// Steps are an exception if the large write adds jobs to the batch, because they are about other
// jobs. Acceptances of batches that are to start after a batch that is not accepted yet also follow
// it, and so do the writes about these batches. A staged write gets no more followers once a group
// after its own gathers (begin_group()): writes that are put then come after it anyway.
//
// A change may record the outcome of batches for which its batch waits. This record must be in the
// store before these batches are deleted, and their deletion does not wait for staged writes. So
// such a change is written twice: ahead of the added jobs, without them (tell_ahead()), and after
// them.
//
// A member of WriteQueue, and guarded like it. Nothing blocks. Only allocation fails. However many
// writes are staged, and by however many users, takes() and add() are O(1) on average, and
// O(batches that the write waits for) for an acceptance. tell_ahead() is O(staged writes of the
// batch), take() is O(writes that it takes). part_for(), part_written() and write_whole(), which
// the writer calls once for a group, are O(large writes that are staged), of which each user has
// few (WriteCharges).
class StagedWrites {
 public:
  using Writes = PendingWrites::Writes;

  // Some payloads of a later write: those from number `from` on, until they and their sizes take
  // `most_bytes`.
  struct Part {
    std::uint64_t sequence = 0;
    std::uint64_t first = 0;  // the index of the first job of the write
    std::shared_ptr<const proto::ArgumentList> payloads;
    std::uint64_t from = 0;
    std::size_t most_bytes = 0;
    std::uint64_t left = 0;     // bytes of all payloads from `from` on
    bool begins_batch = false;  // the first part of a batch that is not accepted yet
  };

  // `most_bytes`: the cost of a part; a write is large if it costs more. It must be so high that
  // parts_of() of the payloads of a large write is kUnknown.
  explicit StagedWrites(std::size_t most_bytes) : most_bytes_(most_bytes) {}
  StagedWrites(const StagedWrites&) = delete;
  StagedWrites& operator=(const StagedWrites&) = delete;

  bool empty() const { return staged_.empty(); }
  // Whether staged writes go into the group of this ticket.
  bool has_group(Ticket ticket) const;
  // From now on the group of this ticket gathers writes, and no group before it does.
  void begin_group(Ticket ticket) { gathering_ = ticket; }
  // Whether the write is to be staged: because it is large, or because it follows a staged write.
  bool takes(const StoreWrite& write, std::size_t cost) const;
  // `first`: the ticket of the first group that may have parts of the write; it comes after all
  // groups with unstaged writes that were put before. Returns the ticket of the write.
  Ticket add(StoreWrite&& write, std::size_t cost, Urgency urgency, Ticket first);
  // Called before add() of a change that tells_of_ends(). Each staged AddJobs of the same batch
  // would replace the change by an earlier row, so a copy of the change follows each of them,
  // without the jobs that are added later. Returns the copy without any of these jobs, which goes
  // into the group that gathers; none: the change does not follow jobs that are added to a batch in
  // the store.
  std::optional<ChangeBatch> tell_ahead(const ChangeBatch& change);
  // The highest ticket of a staged step; 0: there is none.
  Ticket last_step() const { return with_steps_ == nullptr ? 0 : with_steps_->ticket; }
  // Adds a marker, an empty write for which a client waits, to the group of last_step(), which must
  // not be 0. Returns the ticket of that group.
  Ticket add_marker();
  // The ticket of the last staged write; 0: there was none yet.
  Ticket last() const { return last_; }

  // ---- The writer ----

  // The part that goes into the group of this ticket.
  std::optional<Part> part_for(Ticket ticket);
  // How much of a part was written.
  struct Written {
    std::uint64_t payloads = 0;
    std::uint64_t bytes = 0;
  };
  void part_written(const Written& written);
  // Called when a part was not written, or the disk fails: all staged writes go whole with their
  // own groups, which are refused while the disk fails.
  void write_whole();
  // Appends the writes that go into the group of this ticket. Returns for how many of them a client
  // waits.
  std::size_t take(Ticket ticket, Writes& to);

 private:
  struct Staged {
    Ticket ticket;
    StoreWrite write;
    std::size_t awaited;  // clients that wait for it or for a follower
    // Batches whose acceptance is among the write and its followers.
    std::unordered_set<std::uint64_t> accepted;
    PendingWrites followers = {};
    Ticket first;       // the group that has its first part
    std::size_t parts;  // how many are yet to be written ahead
  };
  // The staged writes that have writes of the batch, in the order of their tickets. The first may
  // have the batch's acceptance; each other one is an AddJobs of the batch. Null: there are none.
  const std::vector<Staged*>* of_batch(std::uint64_t sequence) const;
  // Whether the staged write may get more followers.
  bool is_open(const Staged& staged) const { return staged.ticket >= gathering_; }
  void note_batch(Staged& staged, std::uint64_t sequence);
  // Removes `first`, which has writes of the batch, from of_batch().
  void forget_batch(const Staged& first, std::uint64_t sequence);
  // The staged write that this write must follow; null: there is none.
  Staged* leader_of(const StoreWrite& write) const;
  std::deque<Staged>::iterator first_with_parts();

  const std::size_t most_bytes_;
  std::deque<Staged> staged_;  // in the order of their tickets; each stays at its address
  std::unordered_map<std::uint64_t, std::vector<Staged*>> by_batch_;  // of_batch()
  Staged* with_steps_ = nullptr;  // the last one that has steps among its followers; null: there is none
  Ticket last_ = 0;
  Ticket gathering_ = 0;      // begin_group()
  Ticket without_parts_ = 0;  // the first group that has no part yet
};

}  // namespace locksley::daemon
