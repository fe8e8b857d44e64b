#include "daemon/store/write/pending_writes.h"

#include <algorithm>
#include <iterator>
#include <variant>

namespace locksley::daemon {
namespace {

// The new change also does what the change before it did besides writing its row.
void take_over(ChangeBatch& change, const ChangeBatch& before) {
  change.trims_payloads = change.trims_payloads || before.trims_payloads;
  if (before.freed_rows.empty()) return;
  change.may_have_marks = change.may_have_marks || before.may_have_marks;
  change.may_have_results_inside = change.may_have_results_inside || before.may_have_results_inside;
  if (change.freed_rows.empty()) {
    change.freed_rows = before.freed_rows;
  } else {
    change.freed_rows = {std::min(change.freed_rows.low, before.freed_rows.low),
                         std::max(change.freed_rows.high, before.freed_rows.high)};
  }
}

}  // namespace

void PendingWrites::add(StoreWrite&& write) {
  cost_ += cost_of(write);
  if (const auto* const customer = std::get_if<SetCustomer>(&write)) {
    const auto [known, is_first] =
        customers_.try_emplace(customer_key(customer->row.user, customer->row.customer), writes_.size());
    return append(std::move(write), known->second, is_first);
  }
  auto* const change = std::get_if<ChangeBatch>(&write);
  if (change == nullptr) {
    // A change before the jobs stays before them: it may delete payloads with the same indexes.
    const bool is_step = std::holds_alternative<RecordStep>(write);
    if (std::holds_alternative<AddJobs>(write) || (is_step && written_ == Written::kInParts)) {
      changes_.erase(sequence_of(write));
    }
    writes_.push_back(std::move(write));
    return;
  }
  const auto [known, is_first] = changes_.try_emplace(change->sequence, writes_.size());
  if (!is_first) take_over(*change, std::get<ChangeBatch>(writes_[known->second]));
  append(std::move(write), known->second, is_first);
}

void PendingWrites::append(StoreWrite&& write, std::size_t& known, bool is_first) {
  if (!is_first) {
    cost_ -= cost_of(writes_[known]);
    writes_[known] = std::monostate();
    known = writes_.size();
    ++replaced_;
  }
  writes_.push_back(std::move(write));
  if (replaced_ > writes_.size() / 2) compact();
}

PendingWrites::Writes PendingWrites::take(Writes spare) {
  replaced_ = 0;
  cost_ = 0;
  changes_.clear();
  customers_.clear();
  return std::exchange(writes_, std::move(spare));
}

PendingWrites::Writes PendingWrites::take_first(std::size_t count) {
  if (count == writes_.size()) return take();
  const auto end = writes_.begin() + static_cast<std::ptrdiff_t>(count);
  Writes first(std::make_move_iterator(writes_.begin()), std::make_move_iterator(end));
  writes_.erase(writes_.begin(), end);
  for (const StoreWrite& each : first) {
    cost_ -= cost_of(each);
    if (std::holds_alternative<std::monostate>(each)) --replaced_;
  }
  std::erase_if(changes_, [&](const auto& change) { return change.second < count; });
  std::erase_if(customers_, [&](const auto& customer) { return customer.second < count; });
  find_changes();
  return first;
}

void PendingWrites::compact() {
  std::erase_if(writes_, [](const StoreWrite& each) { return std::holds_alternative<std::monostate>(each); });
  replaced_ = 0;
  find_changes();
}

void PendingWrites::find_changes() {
  for (std::size_t i = 0; i < writes_.size(); ++i) {
    if (const auto* const customer = std::get_if<SetCustomer>(&writes_[i])) {
      customers_[customer_key(customer->row.user, customer->row.customer)] = i;
      continue;
    }
    const auto* const change = std::get_if<ChangeBatch>(&writes_[i]);
    if (change == nullptr) continue;
    // Changes before an AddJobs of the batch, or with kInParts before a step, are not in the index.
    if (const auto known = changes_.find(change->sequence); known != changes_.end()) known->second = i;
  }
}

}  // namespace locksley::daemon
