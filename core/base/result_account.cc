#include "core/base/result_account.h"

#include <algorithm>

namespace locksley {

void ResultAccount::charge(std::uint64_t bytes) {
  bool has_filled = false;
  for (ResultAccount* account = this; account != nullptr; account = account->parent_) {
    const std::uint64_t before = account->bytes_.fetch_add(bytes);
    const std::uint64_t most = account->limit();
    has_filled = has_filled || (before < most && before + bytes >= most);
  }
  if (!has_filled) return;
  if (const ResultAccount& top = root(); top.changed_) top.changed_();
}

void ResultAccount::refund(std::uint64_t bytes) {
  bool has_room = false;
  for (ResultAccount* account = this; account != nullptr; account = account->parent_) {
    account->bytes_.fetch_sub(bytes);
  }
  for (ResultAccount* account = this; account != nullptr; account = account->parent_) {
    // If several refunds make room at once, only one calls the function of on_change().
    if (account->is_awaited_.load() && !account->await_room() && account->is_awaited_.exchange(false)) {
      has_room = true;
    }
  }
  if (!has_room) return;
  if (const ResultAccount& top = root(); top.changed_) top.changed_();
}

bool ResultAccount::is_full_without(std::uint64_t bytes) const {
  const std::uint64_t all = bytes_.load();
  const std::uint64_t used = all - std::min(all, bytes);
  if (used >= limit()) return true;
  // [results-limit] relaxed: a number on its own.
  return parent_ != nullptr && used > spare_.load(std::memory_order_relaxed) &&
         parent_->is_full_without(bytes);
}

bool ResultAccount::await_room() {
  is_awaited_.store(true);
  const std::uint64_t used = bytes_.load();
  if (used >= limit()) return true;
  // [results-limit] relaxed: a number on its own.
  return parent_ != nullptr && used > spare_.load(std::memory_order_relaxed) && parent_->await_room();
}

}  // namespace locksley
