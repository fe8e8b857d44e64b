#include "daemon/store/write/step_compactor.h"

#include "daemon/store/rows/rows.h"

namespace locksley::daemon {

void StepCompactor::compact_if_due(std::uint64_t sequence, std::uint64_t number, Engine::Group& into) {
  if (number < steps_) return;
  Due& due = due_.try_emplace(sequence).first->second;
  if (due.is_asked || number < due.next || due.bytes < due.row_bytes) return;
  if (due.row_bytes <= bytes_at_once_) {
    const auto merged = merge_steps(engine_, sequence, number, bytes_at_once_, IfMore::kLeave);
    if (!merged) return;
    if (!merged->has_more) {
      due.next = number + steps_;
      due.row_bytes = bytes_of_step(merged->row.size());
      due.bytes = 0;
      return put(*merged, into);
    }
  }
  due.next = number + steps_;
  due.row_bytes = due.bytes = 0;
  due.is_asked = merger_.ask(sequence, number);
  if (due.is_asked) ++asked_;
}

void StepCompactor::count(std::uint64_t sequence, std::size_t bytes) {
  if (const auto found = due_.find(sequence); found != due_.end())
    found->second.bytes += bytes_of_step(bytes);
}

void StepCompactor::put_merged(Engine::Group& into) {
  if (asked_ == 0) return;
  const auto merged = merger_.take();
  if (!merged) return;
  Due& due = due_.at(merged->sequence);
  due.is_asked = false;
  --asked_;
  if (merged->row.empty()) return;
  put(*merged, into);
  due.row_bytes = merged->has_more ? 0 : bytes_of_step(merged->row.size());
  due.next = merged->number + (merged->has_more ? 1 : steps_);
}

void StepCompactor::forget(std::uint64_t sequence) {
  if (due_.empty()) return;
  const auto found = due_.find(sequence);
  if (found == due_.end()) return;
  if (found->second.is_asked) {
    merger_.withdraw(sequence);
    --asked_;
  }
  due_.erase(found);
}

void StepCompactor::put(const MergedSteps& merged, Engine::Group& into) {
  if (merged.row.empty()) return;
  into.put(Table::kIndex, step_key(merged.sequence, merged.number), merged.row);
  // A batch that is due has many steps: the engine need not look how many.
  into.erase_range(Table::kIndex, step_key(merged.sequence, merged.first),
                   step_key(merged.sequence, merged.number), Engine::Group::Rows::kSomeOfThisGroup);
}

}  // namespace locksley::daemon
