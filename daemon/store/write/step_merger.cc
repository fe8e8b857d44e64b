#include "daemon/store/write/step_merger.h"

#include <algorithm>
#include <system_error>
#include <utility>
#include <vector>

#include "daemon/store/rows/rows.h"
#include "daemon/store/rows/step_replay.h"

namespace locksley::daemon {
namespace {

// The thread merges so many bytes at once, or twice those of the first row if that is more. Guess:
// merged in some 50 ms.
constexpr std::uint64_t kBytesApart = 1U << 20;

struct StepRows {
  struct Row {
    std::uint64_t number;
    std::string value;
  };
  std::vector<Row> rows;
  bool has_more = false;
};

// Only reads the rows, without merging them: the engine cannot be reopened before the reading has
// ended.
std::optional<StepRows> read_rows(Engine& engine, std::uint64_t sequence, std::uint64_t below,
                                  std::uint64_t most, IfMore if_more) {
  const EngineReading reading(engine, ReadingWait::kNot);
  if (!reading.is_valid()) return std::nullopt;
  StepRows found;
  std::uint64_t bytes = 0;
  const auto take = [&](std::string_view key, std::string_view value) {
    const std::uint64_t number = last_number(key);
    // After a failed write the database may have later steps, which are written again.
    if (number >= below) return false;
    bytes += bytes_of_step(value.size());
    if (found.rows.empty() && if_more == IfMore::kMergeFirst) most = std::max(most, 2 * bytes);
    found.has_more = bytes > most;
    if (!found.has_more) found.rows.push_back({number, std::string(value)});
    return !found.has_more;
  };
  const auto visited = reading.visit_prefix(Table::kIndex, row_key(kStepKey, sequence), take);
  if (!visited) found.rows.clear();
  return found;
}

}  // namespace

std::optional<MergedSteps> merge_steps(Engine& engine, std::uint64_t sequence, std::uint64_t below,
                                       std::uint64_t most, IfMore if_more) {
  auto found = read_rows(engine, sequence, below, most, if_more);
  if (!found) return std::nullopt;
  MergedSteps result;
  result.sequence = sequence;
  result.has_more = found->has_more;
  if (found->rows.size() < 2 || (found->has_more && if_more == IfMore::kLeave)) return result;
  StepReplay replay;
  for (auto& [number, value] : found->rows) {
    auto step = decode_step(std::exchange(value, {}));
    if (!step || !replay.apply(number, std::move(*step))) return result;
  }
  const auto merged = replay.merged();
  if (!merged) return result;
  result.first = found->rows.front().number;
  result.number = merged->number;
  result.row = encode(*merged);
  return result;
}

StepMerger::~StepMerger() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

bool StepMerger::ask(std::uint64_t sequence, std::uint64_t below) {
  if (!thread_.joinable()) {
    try {
      thread_ = std::thread([this] { run(); });
    } catch (const std::system_error&) {
      return false;
    }
  }
  {
    const MutexLock lock(mutex_);
    wanted_.push_back({sequence, below});
  }
  changed_.notify_one();
  return true;
}

void StepMerger::withdraw(std::uint64_t sequence) {
  {
    const MutexLock lock(mutex_);
    std::erase_if(wanted_, [sequence](const Wanted& each) { return each.sequence == sequence; });
    if (at_work_ == sequence) at_work_.reset();
    if (!done_ || done_->sequence != sequence) return;
    done_.reset();
  }
  changed_.notify_one();
}

std::optional<MergedSteps> StepMerger::take() {
  std::optional<MergedSteps> taken;
  {
    const MutexLock lock(mutex_);
    if (!done_) return taken;
    taken.swap(done_);
  }
  changed_.notify_one();
  return taken;
}

void StepMerger::run() {
  MutexLock lock(mutex_);
  for (;;) {
    while (!stopping_ && (wanted_.empty() || done_)) changed_.wait(mutex_);
    if (stopping_) return;
    const Wanted next = wanted_.front();
    wanted_.pop_front();
    at_work_ = next.sequence;
    lock.unlock();
    auto merged = merge_steps(engine_, next.sequence, next.below, kBytesApart, IfMore::kMergeFirst);
    if (!merged) merged.emplace().sequence = next.sequence;
    lock.lock();
    if (at_work_ == next.sequence) done_ = std::move(merged);
    at_work_.reset();
  }
}

}  // namespace locksley::daemon
