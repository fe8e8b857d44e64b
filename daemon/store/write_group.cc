#include "daemon/store/write_group.h"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/index_ranges.h"
#include "daemon/store/codec.h"
#include "daemon/store/database.h"
#include "daemon/store/step_compactor.h"

namespace locksley::daemon {
namespace {

constexpr std::size_t kChunkBytes = 128U << 10;  // guess: read in 50 us, a hundredth of the time of its jobs
constexpr std::uint64_t kChunkPayloads = 4096;
// Rows deleted one by one. More of them are deleted as a range, which slows down later reads.
constexpr int kMostDeletes = 16;

rocksdb::Slice slice(std::string_view bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace

PayloadParts parts_of(const proto::ArgumentList& payloads) {
  if (payloads.empty()) return PayloadParts::kNone;
  const bool fits =
      payloads.size() == 1 || (payloads.size() <= kChunkPayloads && payloads.payload_bytes() <= kChunkBytes);
  return fits ? PayloadParts::kOne : PayloadParts::kUnknown;
}

void WriteGroup::add(const StoreWrite& write) {
  std::visit(
      [this](const auto& each) {
        kStoreWriter.assert_held();
        put(each);
      },
      write);
}

void WriteGroup::put(const AcceptBatch& accept) {
  touched_.insert(accept.sequence);
  if (accept.payloads != nullptr) put_payloads(accept.sequence, 0, *accept.payloads);
  last_.Put(database_.index(), row_key(kAcceptedKey, accept.sequence), encode(accept.row));
}

void WriteGroup::put(const AddJobs& add) {
  touched_.insert(add.sequence);
  put_payloads(add.sequence, add.first, *add.payloads);
  put_changes(add.sequence, add.changes);
}

void WriteGroup::put(const ChangeBatch& change) {
  touched_.insert(change.sequence);
  if (change.trims_payloads) {
    // RocksDB applies this before the payloads that the same group adds, in whichever write these
    // are.
    payloads_.DeleteRange(database_.payloads(), part_key(change.sequence, change.changes.jobs),
                          part_key(change.sequence + 1, 0));
  }
  if (!change.freed_rows.empty()) {
    delete_between(*database_.results(), part_key(change.sequence, change.freed_rows.low),
                   part_key(change.sequence, change.freed_rows.high), change.sequence);
    if (change.may_have_marks) {
      delete_between(*database_.results(), mark_key(change.sequence, change.freed_rows.low),
                     mark_key(change.sequence, change.freed_rows.high), change.sequence);
    }
  }
  put_changes(change.sequence, change.changes);
}

void WriteGroup::put(const RecordStep& record) {
  const BatchStep& step = record.step;
  const bool is_last = step.finished_at != 0;
  if (is_last || step.is_base) {
    compactor_.forget(record.sequence);
  } else if (!touched_.contains(record.sequence)) {
    compactor_.compact_if_due(record.sequence, step.number, last_);
  }
  if (step.rows.rows != 0) {
    last_.Put(database_.results(), part_key(record.sequence, step.rows.first_row), encode(step.rows));
    if (step.rows.has_others) {
      last_.Put(database_.results(), mark_key(record.sequence, step.rows.first_row), {});
    }
  }
  if (is_last) {
    put_end(record);
    delete_steps(record.sequence, step.number);
  } else {
    last_.Put(database_.index(), step_key(record.sequence, step.number), encode(step));
  }
  if (step.is_base) {
    last_.Delete(database_.index(), row_key(kEndKey, record.sequence));
    // All that had failed is queued again, or listed in this step.
    if (count_of(step.requeued) + count_of(step.failed) > failed_ranges_) delete_failed(record.sequence);
  }
  if (is_last && step.totals.failed() == 0) delete_payloads(record.sequence, record.parts);
  touched_.insert(record.sequence);
}

void WriteGroup::put_end(const RecordStep& end) {
  std::span<const IndexRange> failed = failed_ranges(end.step);
  const bool is_apart = failed.size() > failed_ranges_;
  last_.Put(database_.index(), row_key(kEndKey, end.sequence),
            encode(end.step, is_apart ? failed.size() : 0));
  if (!is_apart) return;
  for (std::uint64_t number = 0; !failed.empty(); ++number) {
    const auto some = failed.first(std::min<std::size_t>(failed_ranges_, failed.size()));
    last_.Put(database_.index(), failed_key(end.sequence, number), encode_failed(some));
    failed = failed.subspan(some.size());
  }
}

void WriteGroup::put(const ForgetBatch& forget) {
  for (const char kind : {kAcceptedKey, kChangesKey, kEndKey}) {
    last_.Delete(database_.index(), row_key(kind, forget.sequence));
  }
  compactor_.forget(forget.sequence);
  delete_payloads(forget.sequence, forget.parts);
  if (forget.may_have_failed_rows) delete_failed(forget.sequence);
  if (forget.has_one_step) {
    last_.Delete(database_.results(), part_key(forget.sequence, 0));
    if (forget.may_have_marks) last_.Delete(database_.results(), mark_key(forget.sequence, 0));
  } else {
    delete_prefix(*database_.index(), row_key(kStepKey, forget.sequence), forget.sequence);
    delete_parts(*database_.results(), forget.sequence);
  }
  touched_.insert(forget.sequence);
}

std::expected<void, std::string> WriteGroup::finish(bool sync) {
  flush_payloads();
  if (!failure_.empty()) return std::unexpected(failure_);
  return database_.write(last_, sync);
}

void WriteGroup::put_changes(std::uint64_t sequence, const ChangesRow& changes) {
  last_.Put(database_.index(), row_key(kChangesKey, sequence), encode(changes));
}

void WriteGroup::put_payloads(std::uint64_t sequence, std::uint64_t first,
                              const proto::ArgumentList& payloads) {
  // The payloads of a small batch go into the last write: that saves a write.
  rocksdb::WriteBatch& into = parts_of(payloads) == PayloadParts::kOne ? last_ : payloads_;
  std::vector<std::string_view> views(std::min<std::uint64_t>(kChunkPayloads, payloads.size()));
  for (std::uint64_t done = 0; done < payloads.size();) {
    const std::span<const std::string_view> fetched(views.data(), payloads.fetch(done, views));
    std::size_t bytes = 0;
    std::size_t take = 0;
    while (take < fetched.size() && (take == 0 || bytes + fetched[take].size() <= kChunkBytes)) {
      bytes += fetched[take++].size();
    }
    into.Put(database_.payloads(), part_key(sequence, first + done),
             encode_payload_chunk(fetched.first(take)));
    done += take;
    if (payloads_.GetDataSize() >= database_.sizes().write_bytes) flush_payloads();
  }
}

void WriteGroup::flush_payloads() {
  if (failure_.empty() && payloads_.Count() != 0) {
    if (auto written = database_.write(payloads_, false); !written) failure_ = std::move(written.error());
  }
  payloads_.Clear();
}

void WriteGroup::delete_steps(std::uint64_t sequence, std::uint64_t count) {
  if (count <= kMostDeletes) {
    for (std::uint64_t i = 0; i < count; ++i) last_.Delete(database_.index(), step_key(sequence, i));
  } else {
    last_.DeleteRange(database_.index(), step_key(sequence, 0), step_key(sequence, count));
  }
}

void WriteGroup::delete_failed(std::uint64_t sequence) {
  delete_prefix(*database_.index(), row_key(kFailedKey, sequence), sequence);
}

void WriteGroup::delete_payloads(std::uint64_t sequence, PayloadParts parts) {
  if (parts == PayloadParts::kOne) last_.Delete(database_.payloads(), part_key(sequence, 0));
  if (parts == PayloadParts::kUnknown) delete_parts(*database_.payloads(), sequence);
}

void WriteGroup::delete_parts(rocksdb::ColumnFamilyHandle& family, std::uint64_t sequence) {
  std::string prefix;
  append_key_number(prefix, sequence);
  delete_prefix(family, prefix, sequence);
}

void WriteGroup::delete_prefix(rocksdb::ColumnFamilyHandle& family, const std::string& prefix,
                               std::uint64_t sequence) {
  std::string end = prefix;
  end.append(9, '\xFF');  // after all keys of the prefix, which have 8 bytes more
  delete_between(family, prefix, end, sequence);
}

void WriteGroup::delete_between(rocksdb::ColumnFamilyHandle& family, const std::string& low,
                                const std::string& high, std::uint64_t sequence) {
  if (!failure_.empty()) return;
  std::vector<std::string> keys;
  // The rows that this group has put are not in the database yet.
  bool is_known = !touched_.contains(sequence);
  if (is_known) {
    const Database::Reading reading(database_);
    if (!reading.is_valid()) return;
    const auto visited =
        visit_between(reading, family, low, high, [&](std::string_view key, std::string_view) {
          keys.emplace_back(key);
          return keys.size() <= kMostDeletes;
        });
    if (!visited) {
      failure_ = visited.error();
      return;
    }
    is_known = keys.size() <= kMostDeletes;
  }
  if (is_known) {
    for (const std::string& key : keys) last_.Delete(&family, key);
  } else {
    last_.DeleteRange(&family, slice(low), slice(high));
  }
}

}  // namespace locksley::daemon
