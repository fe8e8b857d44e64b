#include "daemon/store/write/write_backlog.h"

#include <spdlog/logger.h>

#include <algorithm>
#include <chrono>
#include <span>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"
#include "daemon/store/write/step_compactor.h"
#include "daemon/store/write/write_group.h"

namespace locksley::daemon {
namespace {

constexpr Nanoseconds kFirstPause = std::chrono::seconds(1);
constexpr Nanoseconds kLongestPause = std::chrono::seconds(5);
// How soon the room of deleted batches is reclaimed on a full disk. There is a delay, so that a
// client that deletes many batches is not slowed down by each deletion.
constexpr Nanoseconds kReclaimDelay = std::chrono::milliseconds(200);

constexpr std::uint64_t kHighest = ~std::uint64_t{0} - 1;  // the highest number of a batch
// All files are compacted only if they have at most so many bytes, which takes seconds: the
// writer's clients wait meanwhile.
constexpr std::uint64_t kMostCompacted = 1U << 30;

// About how many bytes a write adds to the store.
std::uint64_t bytes_of(const StoreWrite& write) {
  if (const auto* accept = std::get_if<AcceptBatch>(&write)) {
    const auto& range = accept->row.range;
    return (range && range->payload ? range->payload->size() : 0) +
           (accept->payloads == nullptr ? 0 : accept->payloads->payload_bytes()) - accept->ahead.bytes;
  }
  if (const auto* move = std::get_if<MovePattern>(&write)) return move->row.range->payload->size();
  if (const auto* add = std::get_if<AddJobs>(&write)) {
    return add->payloads->payload_bytes() - add->ahead.bytes;
  }
  const auto* step = std::get_if<RecordStep>(&write);
  return step == nullptr ? 0 : step->step.rows.size_bytes;
}
std::uint64_t bytes_of(const WriteBacklog::Writes& writes) {
  std::uint64_t bytes = 0;
  for (const StoreWrite& each : writes) bytes += bytes_of(each);
  return bytes;
}

bool brings_jobs(const StoreWrite& write) {
  return std::holds_alternative<AcceptBatch>(write) || std::holds_alternative<AddJobs>(write);
}

// If these changes count the refused jobs from `first` on, with payloads of so many bytes: removes
// these jobs from the counts, and reopens the batch, so that its client can add them again.
void uncount(ChangesRow& row, std::uint64_t first, std::uint64_t bytes) {
  if (row.jobs <= first) return;
  row.jobs = first;
  row.payload_bytes -= std::min(row.payload_bytes, bytes);
  row.is_closed = row.is_cancelled;
}

// Takes out the writes that bring jobs, and uncounts these jobs in the changes that follow. Returns
// whether there were any.
bool erase_jobs(WriteBacklog::Writes& writes) {
  struct Erased {
    std::uint64_t first;  // job
    std::uint64_t bytes = 0;
  };
  std::unordered_map<std::uint64_t, Erased> erased;
  for (StoreWrite& each : writes) {
    if (const auto* add = std::get_if<AddJobs>(&each)) {
      erased.try_emplace(add->sequence, add->first).first->second.bytes += add->payloads->payload_bytes();
      continue;
    }
    auto* const change = std::get_if<ChangeBatch>(&each);
    if (change == nullptr) continue;
    const auto before = erased.find(change->sequence);
    if (before != erased.end()) uncount(change->changes, before->second.first, before->second.bytes);
  }
  return std::erase_if(writes, brings_jobs) != 0;
}

// Records that the parts of these changes that report the ends of other batches are in the store.
void note_told(WriteBacklog::Writes& writes) {
  for (StoreWrite& each : writes) {
    if (auto* const change = std::get_if<ChangeBatch>(&each))
      change->is_told = tells_of_ends(change->changes);
  }
}

}  // namespace

WriteBacklog::WriteBacklog(Engine& engine, StepCompactor& compactor, std::uint64_t failed_ranges,
                           std::shared_ptr<spdlog::logger> log)
    : engine_(engine),
      step_compactor_(compactor),
      failed_ranges_(failed_ranges),
      log_(std::move(log)),
      pause_(kFirstPause) {}

EngineDone WriteBacklog::check_room(const Writes& writes) {
  auto room = engine_.check_room(bytes_of(writes));
  is_full_ = !room;
  return room;
}

bool WriteBacklog::correct(Writes& writes) {
  if (refused_.empty()) return false;
  bool follow = false;
  for (StoreWrite& each : writes) {
    if (auto* const accept = std::get_if<AcceptBatch>(&each)) {
      for (AcceptedRow::After& after : accept->row.after) {
        const auto refused = refused_.find(after.sequence);
        if (refused == refused_.end() || !refused->second.is_acceptance) continue;
        if (refused->second.group > accept->settled) after.only_if_ok = true;
      }
      continue;
    }
    if (is_deletion(each)) refused_.erase(sequence_of(each));
    const auto refused = refused_.find(sequence_of(each));
    if (refused == refused_.end()) continue;
    if (const auto* const add = std::get_if<AddJobs>(&each)) {
      if (refused->second.group > add->settled) {
        follow = true;
      } else {
        refused_.erase(refused);
      }
    } else if (auto* const change = std::get_if<ChangeBatch>(&each)) {
      uncount(change->changes, refused->second.first, refused->second.bytes);
    }
  }
  return follow;
}

void WriteBacklog::note_refused(Writes& writes, Ticket ticket) {
  correct(writes);
  for (const StoreWrite& each : writes) {
    if (is_deletion(each)) refused_.erase(sequence_of(each));
    if (!brings_jobs(each)) continue;
    Refused& refused = refused_[sequence_of(each)];
    if (const auto* const add = std::get_if<AddJobs>(&each)) {
      if (refused.group <= add->settled) refused = {};
      refused.first = std::min(refused.first, add->first);
      refused.bytes += add->payloads->payload_bytes();
    } else {
      refused.is_acceptance = true;
    }
    refused.group = ticket;
  }
}

WriteBacklog::Refusal WriteBacklog::refuse_without_room(Writes& writes, Ticket ticket) {
  const bool follow = correct(writes);
  const auto room = check_room(writes);
  if (room && !follow) return {};
  note_refused(writes, ticket);
  std::vector<std::uint64_t> refused;
  for (const StoreWrite& each : writes) {
    const auto* const accept = std::get_if<AcceptBatch>(&each);
    if (accept != nullptr && !accept->ahead.were_begun) refused.push_back(accept->sequence);
  }
  Refusal refusal{.why = room ? "there was no room for jobs before these" : room.error().what,
                  .has_jobs = erase_jobs(writes)};
  // There may be room for the rest: a batch that is too large for the disk does not concern other
  // writes.
  if (const auto rest = check_room(writes); !rest) {
    refusal.why = rest.error().what;
    never_written_.insert(refused.begin(), refused.end());
    return refusal;
  }
  if (refusals_.open(now())) {
    LogLine("store: new jobs are refused: there is no room for them")
        .with("store", engine_.place())
        .with("error", refusal.why)
        .with("unlogged", refusals_.held_back())
        .write(*log_, spdlog::level::err);
  }
  return refusal;
}

std::unordered_set<std::uint64_t> WriteBacklog::batches_with_discards_only(const Writes& writes) const {
  std::unordered_set<std::uint64_t> batches;
  for (const StoreWrite& each : writes) {
    if (is_discard(each)) batches.insert(sequence_of(each));
  }
  if (batches.empty()) return batches;
  // Other writes of the batch would be written after the discard: a step would bring results back,
  // and an older change would replace the one that discards.
  for (const StoreWrite& each : writes) {
    if (!is_discard(each)) batches.erase(sequence_of(each));
  }
  for (const StoreWrite& each : kept_.all()) batches.erase(sequence_of(each));
  return batches;
}

void WriteBacklog::tell_of_ends(std::span<const StoreWrite> writes,
                                const std::unordered_set<std::uint64_t>& others, Writes& told) const {
  for (const StoreWrite& each : writes) {
    const auto* const change = std::get_if<ChangeBatch>(&each);
    if (change == nullptr || change->is_told || !tells_of_ends(change->changes)) continue;
    const std::uint64_t sequence = change->sequence;
    const auto refused = refused_.find(sequence);
    if (others.contains(sequence) || (refused != refused_.end() && refused->second.is_acceptance)) continue;
    ChangesRow row = change->changes;
    if (refused != refused_.end()) uncount(row, refused->second.first, refused->second.bytes);
    if (row.discarded_rows != 0) {
      // The discarded results may still be in the backlog: the row keeps the discards that the
      // store has.
      const EngineReading reading(engine_, ReadingWait::kNot);
      std::string bytes;
      const bool is_there = reading.is_valid() &&
                            reading.get(Table::kIndex, row_key(kChangesKey, sequence), bytes).value_or(false);
      const ChangesRow stored = is_there ? decode_changes(bytes).value_or(ChangesRow()) : ChangesRow();
      row.discarded_rows = stored.discarded_rows;
      row.discarded_bytes = stored.discarded_bytes;
    }
    told.emplace_back(ChangeBatch{.sequence = sequence, .changes = std::move(row)});
  }
}

std::size_t WriteBacklog::drop(const std::unordered_set<std::uint64_t>& batches, Writes& writes) {
  if (batches.empty()) return 0;
  std::size_t weight = 0;
  const auto is_dropped = [&](const StoreWrite& write) {
    if (!batches.contains(sequence_of(write))) return false;
    weight += weight_of(write);
    return true;
  };
  std::erase_if(writes, is_dropped);
  Writes kept = take_kept();
  std::erase_if(kept, is_dropped);
  keep(std::move(kept));
  return weight;
}

std::size_t WriteBacklog::drop_never_written(Writes& writes) {
  std::unordered_set<std::uint64_t> batches;
  for (const StoreWrite& each : writes) {
    if (is_deletion(each) && never_written_.erase(sequence_of(each)) != 0) batches.insert(sequence_of(each));
  }
  return drop(batches, writes);
}

std::size_t WriteBacklog::write_deletions(Writes& writes) {
  std::size_t weight = drop_never_written(writes);
  WriteGroup group(engine_, step_compactor_, failed_ranges_);
  const std::unordered_set<std::uint64_t> discarding = batches_with_discards_only(writes);
  std::unordered_set<std::uint64_t> deleted;
  Writes now;
  for (const StoreWrite& each : writes) {
    const std::uint64_t sequence = sequence_of(each);
    if (is_deletion(each)) deleted.insert(sequence);
    if (is_deletion(each) || discarding.contains(sequence)) now.push_back(each);
  }
  if (now.empty()) return weight;
  if (!deleted.empty()) {
    std::unordered_set<std::uint64_t> others = deleted;
    others.insert(discarding.begin(), discarding.end());
    tell_of_ends(kept_.all(), others, now);
    tell_of_ends(writes, others, now);
  }
  group.add(now);
  engine_.use_reserve();
  if (!group.finish(Engine::Sync::kSynced)) {
    is_full_ = false;  // there is another error: the next attempt reopens the database
    return weight;
  }
  weight += drop(deleted, writes);
  std::erase_if(writes, [&](const StoreWrite& write) { return discarding.contains(sequence_of(write)); });
  if (!deleted.empty()) {
    Writes kept = take_kept();
    for (Writes* const each : {&kept, &writes}) note_told(*each);
    keep(std::move(kept));
  }
  for (const auto* const batches : {&std::as_const(deleted), &discarding}) {
    for (const std::uint64_t sequence : *batches) {
      deleted_first_ = std::min(deleted_first_, sequence);
      deleted_last_ = std::max(deleted_last_, sequence);
    }
  }
  next_attempt_ = std::min(next_attempt_, steady_now() + kReclaimDelay);
  return weight;
}

void WriteBacklog::keep(Writes writes) {
  erase_jobs(writes);
  for (StoreWrite& each : writes) {
    if (std::holds_alternative<std::monostate>(each)) continue;
    kept_deletions_ += is_deletion(each) ? 1 : 0;
    kept_.add(std::move(each));
  }
}

WriteBacklog::Writes WriteBacklog::take_kept() {
  kept_deletions_ = 0;
  return kept_.take();
}

void WriteBacklog::begin_pause() { next_attempt_ = steady_now() + pause_; }

std::expected<WriteBacklog::Writes, EngineError> WriteBacklog::write_kept(std::size_t& dropped) {
  auto written = try_to_write_kept(dropped);
  has_begun_ = written && !empty();
  if (!written) {
    pause_ = std::min(2 * pause_, kLongestPause);
    begin_pause();
    return written;
  }
  never_written_.clear();
  pause_ = kFirstPause;
  next_attempt_ = steady_now();
  return written;
}

std::expected<WriteBacklog::Writes, EngineError> WriteBacklog::try_to_write_kept(std::size_t& dropped) {
  if (!has_begun_) {
    if (auto ready = is_full_ ? reclaim() : engine_.reopen(); !ready) {
      return std::unexpected(std::move(ready.error()));
    }
  }
  if (auto room = check_room(kept_.all()); !room) {
    Writes kept = take_kept();
    dropped = write_deletions(kept);
    keep(std::move(kept));
    return std::unexpected(std::move(room.error()));
  }
  // Synced whatever store.durability says: no later write may hide a second failure.
  const std::size_t count = first_part();
  const Writes told = ends_before_deletions(count);
  WriteGroup group(engine_, step_compactor_, failed_ranges_);
  group.add(std::span(kept_.all()).first(count));
  group.add(told);
  if (auto done = group.finish(Engine::Sync::kSynced); !done) return std::unexpected(std::move(done.error()));
  Writes written = kept_.take_first(count);
  kept_deletions_ -= static_cast<std::size_t>(std::ranges::count_if(written, is_deletion));
  if (!told.empty()) {
    Writes rest = take_kept();
    note_told(rest);
    keep(std::move(rest));
  }
  return written;
}

EngineDone WriteBacklog::reclaim() {
  if (engine_.has_last_room(0) && engine_.usage().bytes <= kMostCompacted && reclaim_all_.open(now())) {
    // At most once a minute, reclaims the room of all batches that were deleted before: it was too
    // little for the Compactor as long as there was room.
    deleted_first_ = 0;
    deleted_last_ = kHighest;
  }
  if (deleted_first_ > deleted_last_) return {};
  if (auto reclaimed = engine_.reclaim(deleted_first_, deleted_last_); !reclaimed) {
    is_full_ = false;  // there is another error: the next attempt reopens the database
    return reclaimed;
  }
  deleted_first_ = ~std::uint64_t{0};
  deleted_last_ = 0;
  return {};
}

void WriteBacklog::write_with_reserve() {
  engine_.use_reserve();
  if (!engine_.has_last_room(bytes_of(kept_.all()))) return;
  WriteGroup group(engine_, step_compactor_, failed_ranges_);
  group.add(kept_.all());
  if (group.finish(Engine::Sync::kSynced)) take_kept();
}

}  // namespace locksley::daemon
