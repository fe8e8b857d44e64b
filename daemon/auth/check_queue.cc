#include "daemon/auth/check_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace locksley::daemon {

namespace {

void append(CheckQueue::Askers& to, CheckQueue::Askers from) {
  std::ranges::move(from, std::back_inserter(to));
}

// A source is an address, which has no space.
std::string key_of(const std::string& source, const std::string& user) { return source + ' ' + user; }

}  // namespace

bool CheckQueue::may_look_up(const std::string& source, Time now) {
  if (waiting_.contains(source) || (taken_ && taken_->source == source)) return false;
  return by_source_.may_look_up(source, now);
}

CheckQueue::Askers CheckQueue::put(Check check) {
  if (askers_ + check.askers.size() > kMostAskers) return std::move(check.askers);
  const std::size_t askers = check.askers.size();
  if (Check* same = find_same(check)) {
    append(same->askers, std::move(check.askers));
    askers_ += askers;
    return {};
  }
  const auto own = waiting_.find(check.source);
  std::size_t of_source = 0;
  std::size_t of_user = 0;
  if (own != waiting_.end()) {
    of_source = own->second.size;
    const auto user = own->second.users.find(check.user);
    if (user != own->second.users.end()) of_user = user->second.size();
  }
  if (of_user >= kMostOfUser) return std::move(check.askers);
  Askers displaced;
  if (of_source >= kMostOfSource || size_ >= kMost) {
    const auto victim = find_victim(own, of_source, of_user);
    if (victim == waiting_.end()) return std::move(check.askers);
    const auto user = longest_of(victim->second);
    displaced = remove(victim, user, user->second.size() - 1);
  }
  if (of_source == 0) round_.push_back(check.source);
  Source& source = waiting_[check.source];
  if (of_user == 0) source.round.push_back(check.user);
  const std::string user = check.user;
  source.users[user].push_back(std::move(check));
  ++source.size;
  ++size_;
  askers_ += askers;
  return displaced;
}

CheckQueue::Sources::iterator CheckQueue::find_victim(Sources::iterator own, std::size_t of_source,
                                                      std::size_t of_user) {
  if (of_source < kMostOfSource) {
    const auto longest =
        std::ranges::max_element(waiting_, {}, [](const auto& source) { return source.second.size; });
    if (longest->second.size > of_source + 1) return longest;
  }
  if (own == waiting_.end()) return own;
  return longest_of(own->second)->second.size() > of_user + 1 ? own : waiting_.end();
}

CheckQueue::Users::iterator CheckQueue::longest_of(Source& source) {
  return std::ranges::max_element(source.users, {}, [](const auto& user) { return user.second.size(); });
}

std::deque<std::string>::iterator CheckQueue::find_due(const std::string& name, Source& source,
                                                       Time now) const {
  if (by_source_.due(name) > now) return source.round.end();
  return std::ranges::find_if(
      source.round, [&](const std::string& user) { return by_user_.due(key_of(name, user)) <= now; });
}

const CheckQueue::Check* CheckQueue::take(Time now) {
  if (taken_) return nullptr;
  for (auto name = round_.begin(); name != round_.end(); ++name) {
    const auto source = waiting_.find(*name);
    auto& round = source->second.round;
    const auto due = find_due(*name, source->second, now);
    if (due == round.end()) continue;
    const auto user = source->second.users.find(*due);
    taken_ = std::move(user->second.front());
    // The user and the source go to the end of their rounds; remove() takes them out if they have
    // no check left.
    std::rotate(due, std::next(due), round.end());
    std::rotate(name, std::next(name), round_.end());
    (void)remove(source, user, 0);  // its askers are in taken_
    return &*taken_;
  }
  return nullptr;
}

std::optional<CheckQueue::Time> CheckQueue::next_due() const {
  if (taken_ || round_.empty()) return std::nullopt;
  Time next = Time::max();
  for (const auto& [name, source] : waiting_) {
    Time next_of_source = Time::max();
    for (const auto& [user, checks] : source.users) {
      next_of_source = std::min(next_of_source, by_user_.due(key_of(name, user)));
    }
    next = std::min(next, std::max(next_of_source, by_source_.due(name)));
  }
  return next;
}

CheckQueue::Askers CheckQueue::finish(Verdict verdict, Time now) {
  const Check check = *std::exchange(taken_, std::nullopt);
  askers_ -= check.askers.size();
  Askers answered = check.askers;
  if (verdict == Verdict::kRefused) {
    by_user_.failed(key_of(check.source, check.user), now);
    by_source_.failed(check.source, now);
  }
  if (verdict != Verdict::kAccepted) return answered;
  for (auto source = waiting_.begin(); source != waiting_.end();) {
    const auto next = std::next(source);
    const auto user = source->second.users.find(check.user);
    if (user != source->second.users.end()) {
      const auto same = std::ranges::find(user->second, check.digest, &Check::digest);
      if (same != user->second.end()) {
        append(answered, remove(source, user, static_cast<std::size_t>(same - user->second.begin())));
      }
    }
    source = next;
  }
  return answered;
}

CheckQueue::Check* CheckQueue::find_same(const Check& check) {
  if (taken_ && taken_->source == check.source && taken_->digest == check.digest) return &*taken_;
  const auto own = waiting_.find(check.source);
  if (own == waiting_.end()) return nullptr;
  const auto user = own->second.users.find(check.user);
  if (user == own->second.users.end()) return nullptr;
  const auto same = std::ranges::find(user->second, check.digest, &Check::digest);
  return same == user->second.end() ? nullptr : &*same;
}

CheckQueue::Askers CheckQueue::remove(Sources::iterator source, Users::iterator user, std::size_t index) {
  const auto check = user->second.begin() + static_cast<std::ptrdiff_t>(index);
  Askers askers = std::move(check->askers);
  user->second.erase(check);
  --source->second.size;
  --size_;
  askers_ -= askers.size();
  if (user->second.empty()) {
    std::erase(source->second.round, user->first);
    source->second.users.erase(user);
  }
  if (source->second.users.empty()) {
    std::erase(round_, source->first);
    waiting_.erase(source);
  }
  return askers;
}

}  // namespace locksley::daemon
