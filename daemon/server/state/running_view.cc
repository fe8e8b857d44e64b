#include "daemon/server/state/running_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/batch/batch_attempts.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {

RunningList::RunningList(ServerState& state, const User& by, const BatchRecord* batch, std::size_t count)
    : state_(state),
      batch_(batch),
      tenant_(batch != nullptr || by.is_admin() ? std::string() : by.tenant().name),
      count_(std::min(count, kMostBytes / kEach)) {}

bool RunningList::is_wanted(const Batch& batch) const {
  // A worker of the pool shows its last job for a moment after its end.
  if (batch.is_over()) return false;
  if (batch_ != nullptr) return &batch == batch_;
  // The batch of a lease of an upstream daemon is no record of this daemon: the upstream shows it.
  if (!batch.options().queue_tenant.empty()) return false;
  return tenant_.empty() || batch.options().tenant == tenant_;
}

bool RunningList::step() {
  constexpr std::size_t kExecutors = 512;  // some 100 us
  const auto is_wanted_one = [this](const Batch& batch) { return is_wanted(batch); };
  if (!std::exchange(has_pool_, true)) {
    for (Pool::RunningJob& each : state_.pool().running(is_wanted_one)) {
      add({.batch = std::move(each.job.batch),
           .index = each.job.index,
           .attempt = 0,
           .since = each.job.since,
           .worker = fmt::format("pool/{}", each.worker)});
    }
    return true;
  }
  const std::vector<Lane*>& lanes = state_.lanes();
  if (lane_ >= lanes.size()) return false;
  next_ = lanes[lane_]->running().visit(next_, kExecutors, kNoteBytes, is_wanted_one,
                                        [this](ShownJobs::View view) { add(std::move(view)); });
  if (next_ == 0) ++lane_;
  if (rows_.size() > 2 * count_) drop_shorter();
  return true;
}

void RunningList::add(ShownJobs::View view) {
  // The daemon has no other batches.
  auto record = std::static_pointer_cast<BatchRecord>(std::move(view.batch));
  const std::uint32_t attempt = view.attempt != 0 ? view.attempt : record->attempts().of(view.index);
  rows_.push_back({.record = std::move(record),
                   .index = view.index,
                   .attempt = attempt,
                   .since = view.since,
                   .worker = std::move(view.worker),
                   .progress = view.progress,
                   .note = std::move(view.note)});
}

namespace {
auto key_of(const RunningList::Row& row) { return std::tuple(row.since, row.record.get(), row.index); }
}  // namespace

void RunningList::drop_shorter() {
  if (rows_.size() <= count_) return;
  const auto end = rows_.begin() + static_cast<std::ptrdiff_t>(count_);
  std::ranges::nth_element(rows_, end, {}, key_of);
  rows_.erase(end, rows_.end());
}

std::size_t RunningList::memory_bytes() const {
  std::size_t sum = rows_.capacity() * sizeof(Row);
  for (const Row& row : rows_) sum += row.worker.size() + row.note.size();
  return sum;
}

std::vector<RunningList::Row> RunningList::take() {
  drop_shorter();
  std::ranges::sort(rows_, {}, key_of);
  // Executors that came and went meanwhile may have been seen twice.
  const auto twice = std::ranges::unique(rows_, {}, key_of);
  rows_.erase(twice.begin(), twice.end());
  std::size_t bytes = 0;
  const auto end = std::ranges::find_if(rows_, [&](const Row& row) {
    bytes += kEach + row.record->id().size() + row.worker.size() + row.note.size();
    return bytes > kMostBytes;
  });
  if (end != rows_.begin()) rows_.erase(end, rows_.end());
  return std::move(rows_);
}

}  // namespace locksley::daemon
