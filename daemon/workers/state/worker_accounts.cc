#include "daemon/workers/state/worker_accounts.h"

#include <algorithm>
#include <utility>

namespace locksley::daemon {

WorkerAccount& WorkerAccounts::of(const std::string& user) {
  const auto [account, is_first] = accounts_.try_emplace(user, last_ + 1, of_all_);
  if (is_first) ++last_;
  return account->second;
}

WorkerUse WorkerAccounts::use_of(const std::string& user) const {
  const auto account = accounts_.find(user);
  return account == accounts_.end() ? WorkerUse{} : account->second.use();
}

void WorkerAccounts::forget_if_empty(const std::string& user) {
  if (const auto account = accounts_.find(user); account != accounts_.end()) forget_if_empty(account);
}

void WorkerAccounts::forget_if_empty(Accounts::iterator account) {
  // Without workers the user has no leases: only unsent bytes are charged.
  const WorkerUse& use = account->second.use();
  if (use.workers == 0 && use.leased_bytes == 0) accounts_.erase(account);
}

std::uint64_t WorkerAccounts::room_for_lease(const WorkerAccount& account) const {
  const std::uint64_t free = room(&WorkerUse::leased_bytes, account.use());
  return account.use().leased_bytes == 0 ? std::max<std::uint64_t>(free, 1) : free;
}

void WorkerAccounts::keep_unsent(Id connection, const std::string& user, std::uint64_t bytes,
                                 std::uint64_t end, std::uint64_t sent) {
  if (end <= sent) return;
  bytes = std::min(bytes, end - sent);
  if (bytes == 0) return;
  const auto account = accounts_.find(user);
  Unsent& unsent = unsent_.try_emplace(connection, Unsent{.account = account}).first->second;
  account->second.charge(&WorkerUse::leased_bytes, bytes);
  if (unsent.account != account) {
    // The connection had a worker of another user before.
    account->second.charge(&WorkerUse::leased_bytes, unsent.bytes);
    unsent.account->second.charge(&WorkerUse::leased_bytes, -unsent.bytes);
    forget_if_empty(std::exchange(unsent.account, account));
  }
  unsent.bytes += bytes;
  unsent.end = std::max(unsent.end, end);
}

bool WorkerAccounts::has_sent(Id connection, std::uint64_t sent) {
  const auto found = unsent_.find(connection);
  if (found == unsent_.end()) return false;
  Unsent& unsent = found->second;
  const std::uint64_t left = std::min(unsent.bytes, unsent.end - std::min(unsent.end, sent));
  const std::uint64_t less = unsent.bytes - left;
  unsent.bytes = left;
  const auto account = unsent.account;
  account->second.charge(&WorkerUse::leased_bytes, -less);
  if (left == 0) {
    unsent_.erase(found);
    forget_if_empty(account);
  }
  return less != 0;
}

std::uint64_t WorkerAccounts::unsent_bytes(Id connection) const {
  const auto found = unsent_.find(connection);
  return found == unsent_.end() ? 0 : found->second.bytes;
}

}  // namespace locksley::daemon
