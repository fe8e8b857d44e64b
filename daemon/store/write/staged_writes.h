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
// that the writes of other clients go with the same groups and do not wait for all of it. The write
// itself, which makes the payloads count, goes with the last part, into a group without writes of
// other clients (WriteQueue). Its ticket is known when it is put, because each group takes one
// part.
//
// Writes about the same batch that are put meanwhile follow it, into the same group; but for steps
// of a batch whose jobs are added, which are about other jobs. So do batches that are to start
// after a batch that is not accepted yet, and the writes about them. A staged write gets no more
// followers once later groups gather (begin_group()): writes that are put then come after it
// anyhow.
//
// A change may record the outcome of batches for which its batch waits. It must be in the store
// before these batches are deleted, and their deletion does not wait for staged writes. So such a
// change is written twice: ahead of the added jobs, without them (tell_ahead()), and after them.
//
// A member of WriteQueue, and guarded as it is. Nothing blocks. Only allocation fails. However many
// writes are staged, by however many users: the calls for a write are O(1) on average, and
// O(batches that the write waits for) for an acceptance. take() is O(writes that it takes).
// part_for(), part_written() and write_whole(), which the writer calls once for a group, are
// O(large writes that are staged), of which each user has few (WriteCharges).
class StagedWrites {
 public:
  using Writes = PendingWrites::Writes;

  // Some payloads of a write that comes later: those from `from` on, until they and their sizes
  // take `most_bytes`.
  struct Part {
    std::uint64_t sequence = 0;
    std::uint64_t first = 0;  // the index of the first job of the write
    std::shared_ptr<const proto::ArgumentList> payloads;
    std::uint64_t from = 0;
    std::size_t most_bytes = 0;
    std::uint64_t left = 0;     // bytes of all payloads from `from` on
    bool begins_batch = false;  // it is the first one of a batch that is not accepted yet
  };

  // `most_bytes`: the cost of a part; a write is large if it costs more. So much that parts_of() of
  // its payloads is kUnknown.
  explicit StagedWrites(std::size_t most_bytes) : most_bytes_(most_bytes) {}
  StagedWrites(const StagedWrites&) = delete;
  StagedWrites& operator=(const StagedWrites&) = delete;

  bool empty() const { return staged_.empty(); }
  // Whether staged writes go into the group of this ticket.
  bool has_group(Ticket ticket) const;
  // The group of this ticket gathers now, and all before it do not any more.
  void begin_group(Ticket ticket) { gathering_ = ticket; }
  // Whether the write is to be staged: because it is large, or because it follows a staged one.
  bool takes(const StoreWrite& write, std::size_t cost) const;
  // `first`: the ticket of the first group that may have parts: no write that was put before comes
  // after it. Returns the ticket of the write.
  Ticket add(StoreWrite&& write, std::size_t cost, Urgency urgency, Ticket first);
  // Before add() of a change that tells_of_ends(). Each staged write of the same batch would
  // replace it by an earlier row, so the change follows each of them, without the jobs that are
  // added later. Returns the change without any of these jobs, which goes into the group that
  // gathers; none: it does not follow jobs that are added to a batch which the store has.
  std::optional<ChangeBatch> tell_ahead(const ChangeBatch& change);
  // The highest ticket of a staged step; 0: there is none.
  Ticket last_step() const { return with_steps_ == nullptr ? 0 : with_steps_->ticket; }
  // A write of nothing for which a client waits, with that step. Needs: there is one. Returns its
  // ticket.
  Ticket add_marker();
  // The ticket of the last write; 0: there was none yet.
  Ticket last() const { return last_; }

  // ---- The writer ----

  // The part that goes into the group of this ticket.
  std::optional<Part> part_for(Ticket ticket);
  // It was written.
  struct Written {
    std::uint64_t payloads = 0;
    std::uint64_t bytes = 0;
  };
  void part_written(const Written& written);
  // A part could not be written. All staged writes go whole with their own groups, which are
  // refused while the disk fails.
  void write_whole();
  // Appends the writes that go into the group of this ticket. Returns for how many of them a client
  // waits.
  std::size_t take(Ticket ticket, Writes& to);

 private:
  struct Staged {
    Ticket ticket;
    StoreWrite write;
    std::size_t awaited;  // of it and of its followers
    // Batches whose acceptance is among the write and its followers.
    std::unordered_set<std::uint64_t> accepted;
    PendingWrites followers = {};
    Ticket first;       // the group that has its first part
    std::size_t parts;  // that are yet to be written ahead
  };
  // Those with writes of the batch, in the order of their tickets. The first may have its
  // acceptance; each other one is an AddJobs of it. Null: there is none.
  const std::vector<Staged*>* of_batch(std::uint64_t sequence) const;
  // Whether it may have more followers.
  bool is_open(const Staged& staged) const { return staged.ticket >= gathering_; }
  void note_batch(Staged& staged, std::uint64_t sequence);
  // `first`, which has writes of the batch, leaves.
  void forget_batch(const Staged& first, std::uint64_t sequence);
  // The one that the write must follow; null: it may go before.
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
