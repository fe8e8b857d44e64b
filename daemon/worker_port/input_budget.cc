#include "daemon/worker_port/input_budget.h"

#include <algorithm>

namespace locksley::daemon {

InputBudget::Share::~Share() {
  set(0);
  budget_.leave(user_);
}

void InputBudget::Share::set_user(const std::string& user) {
  const std::uint64_t bytes = bytes_;
  set(0);
  const Users::iterator before = std::exchange(user_, budget_.users_.try_emplace(user).first);
  ++user_->second.shares;
  budget_.leave(before);
  set(bytes);
}

void InputBudget::Share::set(std::uint64_t bytes) {
  const bool is_next = std::exchange(is_next_command_, false);
  if (bytes == bytes_ && !is_next) return;
  // Modulo 2^64.
  user_->second.bytes += bytes - bytes_;
  budget_.used_ += bytes - bytes_;
  bytes_ = bytes;
  if (is_next) progress_ = kLeastProgress;
  if (is_next || bytes == 0) leave_order();
  if (place_ == 0 && bytes >= kLittle) enter_order();
  budget_.wake_waiting();
}

std::optional<std::uint64_t> InputBudget::Share::room(std::uint64_t awaited) {
  constexpr std::uint64_t kAny = std::numeric_limits<std::uint64_t>::max();
  stop_waiting();
  awaited_ = awaited;
  if (place_ == 0 && bytes_ + awaited >= kLittle) enter_order();
  if (budget_.may_grow(*this)) return kAny;
  if (place_ == 0) return kLittle - bytes_;
  if (!budget_.is_first(*this)) return 0;
  while (Share* const last = budget_.last_beside(*this)) {
    last->owner_.free_input();
    if (budget_.may_grow(*this)) return kAny;
  }
  if (bytes_ > budget_.most_of_user_alone()) return std::nullopt;
  return 0;
}

void InputBudget::Share::wait() {
  if (place_ == 0 || std::exchange(is_waiting_, true)) return;
  OfUser& user = user_->second;
  user.waiting.emplace(place_, this);
  budget_.waiting_users_.insert(&user);
}

void InputBudget::Share::stop_waiting() {
  if (!std::exchange(is_waiting_, false)) return;
  OfUser& user = user_->second;
  user.waiting.erase(place_);
  if (user.waiting.empty()) budget_.waiting_users_.erase(&user);
  progress_ = 0;
  looks_ = 0;
}

void InputBudget::Share::enter_order() {
  place_ = ++budget_.last_place_;
  user_->second.large.emplace(place_, this);
  if (!is_stranger()) budget_.large_.emplace(place_, this);
}

void InputBudget::Share::leave_order() {
  if (place_ == 0) return;
  stop_waiting();
  user_->second.large.erase(place_);
  if (!is_stranger()) budget_.large_.erase(place_);
  place_ = 0;
}

bool InputBudget::Share::is_stuck() {
  const bool is_awaited = !user_->second.waiting.empty() || budget_.first_waits_;
  if (bytes_ == 0 || is_waiting_ || !is_awaited || progress_ >= kLeastProgress) {
    progress_ = 0;
    looks_ = 0;
    return false;
  }
  return ++looks_ >= kPatience;
}

void InputBudget::begin_look() {
  // Before the first of all is woken: it waits again if others have not made room meanwhile.
  first_waits_ = std::ranges::any_of(waiting_users_, [this](const OfUser* user) {
    const auto& [place, share] = *user->waiting.begin();
    return !share->is_stranger() && place == user->large.begin()->first && !may_grow(*share);
  });
  wake_waiting();
}

bool InputBudget::may_grow(const Share& share) const {
  const OfUser& user = share.user_->second;
  const std::uint64_t then = user.bytes + share.awaited_;
  if (then <= free() / 3) return true;
  if (share.place_ == 0 || share.is_stranger()) return false;
  if (is_first(share)) return user.bytes <= most_of_user_alone() && used_ <= most_;
  return user.large.begin()->second == &share && then <= free();
}

InputBudget::Share* InputBudget::last_beside(const Share& first) const {
  const auto last_of = [&first](const OfUser& user) {
    Share* const last = user.large.empty() ? nullptr : user.large.rbegin()->second;
    return last == &first ? nullptr : last;
  };
  const OfUser& own = first.user_->second;
  if (own.bytes > most_of_user_alone()) return last_of(own);
  // Chooses a connection of the user that holds most.
  Share* last = nullptr;
  std::uint64_t most = 0;
  for (const auto& [name, user] : users_) {
    Share* const of_user = last_of(user);
    if (of_user == nullptr || user.bytes < most) continue;
    last = of_user;
    most = user.bytes;
  }
  return last;
}

void InputBudget::wake_waiting() {
  // Wakes one connection of each user; the next one follows when that one reads.
  for (auto next = waiting_users_.begin(); next != waiting_users_.end();) {
    Share& share = *(*next++)->waiting.begin()->second;
    if (!may_grow(share) && !is_first(share)) continue;
    share.stop_waiting();
    share.owner_.input_has_room();
  }
}

void InputBudget::leave(Users::iterator user) {
  if (--user->second.shares == 0) users_.erase(user);
}

}  // namespace locksley::daemon
