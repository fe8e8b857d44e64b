#include "daemon/store/write/write_group.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/index_ranges.h"
#include "daemon/store/write/step_compactor.h"

namespace locksley::daemon {
namespace {

constexpr std::size_t kChunkBytes = 128U << 10;  // guess: read in 50 us, a hundredth of the time of its jobs
constexpr std::uint64_t kChunkPayloads = 4096;
// Up to so many steps are deleted one by one, without reading which there are.
constexpr std::uint64_t kMostDeletes = 16;

// Encodes all payloads as one chunk.
std::string encode_all_payloads(const proto::ArgumentList& payloads) {
  std::vector<std::string_view> views(payloads.size());
  std::size_t fetched = 0;
  while (fetched < views.size()) fetched += payloads.fetch(fetched, std::span(views).subspan(fetched));
  return encode_payload_chunk(views);
}

}  // namespace

PayloadParts parts_of(const proto::ArgumentList& payloads) {
  if (payloads.empty()) return PayloadParts::kNone;
  if (payloads.payload_bytes() + (payloads.size() + 1) * sizeof(std::uint32_t) <= kMostInside) {
    return PayloadParts::kInRow;
  }
  const bool fits =
      payloads.size() == 1 || (payloads.size() <= kChunkPayloads && payloads.payload_bytes() <= kChunkBytes);
  return fits ? PayloadParts::kOne : PayloadParts::kUnknown;
}

void WriteGroup::add(std::span<const StoreWrite> writes) { add_by_batch(writes, Age::kKept); }
void WriteGroup::add_new(std::span<const StoreWrite> writes) { add_by_batch(writes, Age::kNew); }

void WriteGroup::add_by_batch(std::span<const StoreWrite> writes, Age age) {
  std::vector<Ordered> ordered;
  ordered.reserve(writes.size());
  for (const StoreWrite& each : writes) ordered.push_back({sequence_of(each), &each});
  std::ranges::sort(ordered);
  for (std::span<const Ordered> left(ordered); !left.empty();) {
    const auto behind = std::ranges::find_if(
        left, [sequence = left.front().sequence](const Ordered& each) { return each.sequence != sequence; });
    const std::span<const Ordered> of_batch(left.begin(), behind);
    left = left.subspan(of_batch.size());
    of_batch_ = {};
    age == Age::kNew ? add_all_new(of_batch) : add_all(of_batch);
  }
}

void WriteGroup::add_all(std::span<const Ordered> of_batch) {
  for (const Ordered& each : of_batch) add_one(*each.write);
}

void WriteGroup::add_all_new(std::span<const Ordered> of_batch) {
  const auto forgets =
      std::ranges::find_if(of_batch, [](const Ordered& each) { return is_deletion(*each.write); });
  if (forgets == of_batch.end()) return add_all(of_batch);
  for (auto left_out = of_batch.begin(); left_out != forgets; ++left_out) {
    if (const auto* record = std::get_if<RecordStep>(left_out->write)) {
      const BatchStep& step = record->step;
      of_batch_.has_no_end = step.finished_at != 0 && step.number == 0 && !step.is_base;
    }
  }
  add_all({forgets, of_batch.end()});
}

void WriteGroup::add_one(const StoreWrite& write) {
  std::visit(
      [this](const auto& each) {
        kStoreWriter.assert_held();
        put(each);
      },
      write);
}

void WriteGroup::put(const AcceptBatch& accept) {
  of_batch_.has_rows = true;
  const Key key = row_key(kAcceptedKey, accept.sequence);
  if (accept.payloads != nullptr && parts_of(*accept.payloads) == PayloadParts::kInRow) {
    last_->put(Table::kIndex, key, join_rows(encode(accept.row), encode_all_payloads(*accept.payloads)));
    return;
  }
  if (accept.ahead.were_begun) last_->erase(Table::kIndex, row_key(kChangesKey, accept.sequence));
  if (accept.payloads != nullptr) put_payloads(accept.sequence, 0, *accept.payloads, accept.ahead.count);
  if (accept.row.range && lies_apart(*accept.row.range)) {
    put_pattern(accept.sequence, *accept.row.range->payload);
  }
  last_->put(Table::kIndex, key, encode(accept.row));
}

void WriteGroup::put(const MovePattern& move) {
  of_batch_.has_rows = true;
  if (move.is_wanted) put_pattern(move.sequence, *move.row.range->payload);
  last_->put(Table::kIndex, row_key(kAcceptedKey, move.sequence), encode(move.row));
}

void WriteGroup::put(const AddJobs& add) {
  of_batch_.has_rows = true;
  put_payloads(add.sequence, add.first, *add.payloads, add.ahead.count);
  put_changes(add.sequence, add.changes);
}

void WriteGroup::put(const ChangeBatch& change) {
  if (!change.freed_rows.empty() && change.may_have_results_inside) free_results_inside(change.sequence);
  of_batch_.has_rows = true;
  if (change.trims_payloads) {
    // Comes before the payloads that the same group adds, whether they are written ahead or not.
    large_payloads().erase_range(Table::kPayloads, part_key(change.sequence, change.changes.jobs),
                                 part_key(change.sequence + 1, 0), Engine::Group::Rows::kSomeOfThisGroup);
  }
  if (!change.freed_rows.empty()) {
    delete_between(Table::kResults, part_key(change.sequence, change.freed_rows.low),
                   part_key(change.sequence, change.freed_rows.high));
    if (change.may_have_marks) {
      delete_between(Table::kResults, mark_key(change.sequence, change.freed_rows.low),
                     mark_key(change.sequence, change.freed_rows.high));
    }
  }
  put_changes(change.sequence, change.changes);
}

void WriteGroup::put(const RecordStep& record) {
  const BatchStep& step = record.step;
  const bool is_last = step.finished_at != 0;
  if (is_last || step.is_base) {
    compactor_.forget(record.sequence);
  } else if (!of_batch_.has_rows) {
    compactor_.compact_if_due(record.sequence, step.number, *last_);
  }
  const bool are_inside = has_results_inside(step);
  if (step.rows.rows != 0 && !are_inside) {
    last_->put(Table::kResults, part_key(record.sequence, step.rows.first_row), encode(step.rows));
    if (step.rows.has_others) {
      last_->put(Table::kResults, mark_key(record.sequence, step.rows.first_row), {});
    }
  }
  if (is_last) {
    put_end(record);
    delete_steps(record.sequence, step.number);
  } else {
    const std::string row = encode(step);
    last_->put(Table::kIndex, step_key(record.sequence, step.number), row);
    compactor_.wrote(record.sequence, row.size());
  }
  if (step.is_base) {
    last_->erase(Table::kIndex, row_key(kEndKey, record.sequence));
    // All jobs that had failed are queued again, or listed in this step.
    if (count_of(step.requeued) + count_of(step.failed) > failed_ranges_) delete_failed(record.sequence);
  }
  if (is_last && step.totals.failed() == 0) delete_payloads(record.sequence, record.parts);
  of_batch_.has_rows = true;
  of_batch_.end = are_inside ? &step : nullptr;
}

void WriteGroup::put_end(const RecordStep& end) {
  std::span<const IndexRange> failed = failed_ranges(end.step);
  const bool is_apart = failed.size() > failed_ranges_;
  const std::string row = encode(end.step, is_apart ? failed.size() : 0);
  last_->put(Table::kIndex, row_key(kEndKey, end.sequence),
             has_results_inside(end.step) ? join_rows(row, encode(end.step.rows)) : row);
  if (!is_apart) return;
  for (std::uint64_t number = 0; !failed.empty(); ++number) {
    const auto some = failed.first(std::min<std::size_t>(failed_ranges_, failed.size()));
    last_->put(Table::kIndex, failed_key(end.sequence, number), encode_failed(some));
    failed = failed.subspan(some.size());
  }
}

void WriteGroup::free_results_inside(std::uint64_t sequence) {
  const Key key = row_key(kEndKey, sequence);
  if (of_batch_.end != nullptr) return last_->put(Table::kIndex, key, encode(*of_batch_.end));
  const EngineReading reading(engine_, ReadingWait::kNot);
  std::string end;
  if (!reading.is_valid() || !reading.get(Table::kIndex, key, end).value_or(false)) return;
  const auto split = split_row(end);
  if (split && !split->inside.empty()) last_->put(Table::kIndex, key, split->row);
}

void WriteGroup::put(const ForgetBatch& forget) {
  const bool has_no_end = forget.rows.has_one_step && of_batch_.has_no_end;
  last_->erase(Table::kIndex, row_key(kAcceptedKey, forget.sequence));
  if (!has_no_end) last_->erase(Table::kIndex, row_key(kEndKey, forget.sequence));
  // The payloads of a large batch may have been written ahead, with a row of changes.
  if (forget.rows.may_have_changes || forget.rows.parts == PayloadParts::kUnknown) {
    last_->erase(Table::kIndex, row_key(kChangesKey, forget.sequence));
  }
  compactor_.forget(forget.sequence);
  delete_payloads(forget.sequence, forget.rows.parts);
  if (forget.rows.may_have_failed_rows) delete_failed(forget.sequence);
  if (has_no_end) {
    // The batch has no results either.
  } else if (forget.rows.has_one_step) {
    if (!forget.rows.has_results_inside) last_->erase(Table::kResults, part_key(forget.sequence, 0));
    if (forget.rows.may_have_marks) last_->erase(Table::kResults, mark_key(forget.sequence, 0));
  } else {
    delete_prefix(Table::kIndex, row_key(kStepKey, forget.sequence));
    delete_parts(Table::kResults, forget.sequence);
  }
  of_batch_.has_rows = true;
  of_batch_.end = nullptr;
}

void WriteGroup::put(const SetCustomer& set) {
  const std::string key = customer_key(set.row.user, set.row.customer);
  if (set.row.settings.is_empty()) {
    last_->erase(Table::kIndex, key);
  } else {
    last_->put(Table::kIndex, key, encode(set.row.settings));
  }
}

void WriteGroup::put(const TakeNumbers& take) {
  last_->put(Table::kIndex, Key(kNumbersKey), Key().append(take.below));
}

EngineDone WriteGroup::finish(Engine::Sync sync) {
  flush_payloads();
  if (!ahead_) return ahead_;
  compactor_.put_merged(*last_);
  return engine_.commit(*last_, sync);
}

EngineDone WriteGroup::finish_part(Engine::Sync sync) {
  if (!last_->empty()) return finish(sync);
  flush_payloads();
  return ahead_;
}

void WriteGroup::put_pattern(std::uint64_t sequence, std::string_view pattern) {
  last_->put(Table::kPayloads, part_key(sequence, 0), encode_payload_chunk({&pattern, 1}));
}

void WriteGroup::put_changes(std::uint64_t sequence, const ChangesRow& changes) {
  last_->put(Table::kIndex, row_key(kChangesKey, sequence), encode(changes));
}

void WriteGroup::put_payloads(std::uint64_t sequence, std::uint64_t first,
                              const proto::ArgumentList& payloads, std::uint64_t from) {
  // The payloads of a small batch go into the last commit: that saves a write.
  const bool is_small = parts_of(payloads) != PayloadParts::kUnknown;
  constexpr std::size_t kAll = ~std::size_t{0};
  put_chunks(is_small ? *last_ : large_payloads(), sequence, first, payloads, from, kAll);
}

StagedWrites::Written WriteGroup::put_chunks(Engine::Group& into, std::uint64_t sequence, std::uint64_t first,
                                             const proto::ArgumentList& payloads, std::uint64_t from,
                                             std::size_t most_bytes) {
  StagedWrites::Written written;
  std::vector<std::string_view> views(std::min<std::uint64_t>(kChunkPayloads, payloads.size()));
  std::size_t cost = 0;
  for (std::uint64_t done = from; done < payloads.size() && cost < most_bytes;) {
    const std::span<const std::string_view> fetched(views.data(), payloads.fetch(done, views));
    std::size_t bytes = 0;
    std::size_t take = 0;
    while (take < fetched.size() && (take == 0 || bytes + fetched[take].size() <= kChunkBytes)) {
      bytes += fetched[take++].size();
    }
    into.put(Table::kPayloads, part_key(sequence, first + done), encode_payload_chunk(fetched.first(take)));
    done += take;
    written.payloads += take;
    written.bytes += bytes;
    cost += bytes + take * sizeof(std::uint32_t);
    if (&into == payloads_.get() && into.size_bytes() >= engine_.write_ahead_bytes()) flush_payloads();
  }
  return written;
}

StagedWrites::Written WriteGroup::add_part(const StagedWrites::Part& part) {
  // On a server, a commit is not retried if rows of it were written ahead: there the part goes into
  // the last commit of the group, which other clients share.
  Engine::Group& into = engine_.is_on_network() ? *last_ : large_payloads();
  // A batch that has only this row was not accepted: the next start deletes its payloads.
  if (part.begins_batch) into.put(Table::kIndex, row_key(kChangesKey, part.sequence), encode(ChangesRow{}));
  return put_chunks(into, part.sequence, part.first, *part.payloads, part.from, part.most_bytes);
}

Engine::Group& WriteGroup::large_payloads() {
  if (payloads_ == nullptr) payloads_ = engine_.new_group();
  return *payloads_;
}

void WriteGroup::flush_payloads() {
  if (payloads_ == nullptr || payloads_->empty()) return;
  if (ahead_) {
    ahead_ = engine_.write_ahead(*payloads_);
  } else {
    payloads_->clear();
  }
}

void WriteGroup::delete_steps(std::uint64_t sequence, std::uint64_t count) {
  if (count <= kMostDeletes) {
    for (std::uint64_t i = 0; i < count; ++i) last_->erase(Table::kIndex, step_key(sequence, i));
  } else {
    last_->erase_range(Table::kIndex, step_key(sequence, 0), step_key(sequence, count),
                       Engine::Group::Rows::kSomeOfThisGroup);
  }
}

void WriteGroup::delete_failed(std::uint64_t sequence) {
  delete_prefix(Table::kIndex, row_key(kFailedKey, sequence));
}

void WriteGroup::delete_payloads(std::uint64_t sequence, PayloadParts parts) {
  if (parts == PayloadParts::kOne) last_->erase(Table::kPayloads, part_key(sequence, 0));
  if (parts == PayloadParts::kUnknown) delete_parts(Table::kPayloads, sequence);
}

void WriteGroup::delete_parts(Table table, std::uint64_t sequence) {
  delete_prefix(table, Key().append(sequence));
}

void WriteGroup::delete_prefix(Table table, std::string_view prefix) {
  std::string end(prefix);
  end.append(9, '\xFF');  // after all keys with the prefix, which are 8 bytes longer
  delete_between(table, prefix, end);
}

void WriteGroup::delete_between(Table table, std::string_view low, std::string_view high) {
  if (!ahead_) return;
  last_->erase_range(
      table, low, high,
      of_batch_.has_rows ? Engine::Group::Rows::kSomeOfThisGroup : Engine::Group::Rows::kAllCommitted);
}

}  // namespace locksley::daemon
