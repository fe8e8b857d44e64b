#include "daemon/auth/check_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace locksley::daemon {

namespace {

void append(CheckQueue::Askers& to, CheckQueue::Askers from) {
  std::ranges::move(from, std::back_inserter(to));
}

}  // namespace

bool CheckQueue::may_look_up(const std::string& source, Time now) {
  if (waiting_.contains(source) || (taken_ && taken_->source == source)) return false;
  return slowdown_.may_look_up(source, now);
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
  const std::size_t of_source = own == waiting_.end() ? 0 : own->second.size();
  if (of_source >= kMostOfSource) return std::move(check.askers);
  Askers displaced;
  if (size_ >= kMost) {
    const auto longest =
        std::ranges::max_element(waiting_, {}, [](const auto& source) { return source.second.size(); });
    if (longest->second.size() <= of_source + 1) return std::move(check.askers);
    displaced = remove(longest, longest->second.size() - 1);
  }
  if (of_source == 0) turns_.push_back(check.source);
  const std::string source = check.source;
  waiting_[source].push_back(std::move(check));
  ++size_;
  askers_ += askers;
  return displaced;
}

const CheckQueue::Check* CheckQueue::take(Time now) {
  if (taken_) return nullptr;
  const auto turn =
      std::ranges::find_if(turns_, [&](const std::string& source) { return slowdown_.due(source) <= now; });
  if (turn == turns_.end()) return nullptr;
  const auto source = waiting_.find(*turn);
  turns_.erase(turn);
  taken_ = std::move(source->second.front());
  source->second.pop_front();
  --size_;
  if (source->second.empty()) {
    waiting_.erase(source);
  } else {
    turns_.push_back(source->first);
  }
  return &*taken_;
}

std::optional<CheckQueue::Time> CheckQueue::next_due() const {
  if (taken_ || turns_.empty()) return std::nullopt;
  Time next = Time::max();
  for (const std::string& source : turns_) next = std::min(next, slowdown_.due(source));
  return next;
}

CheckQueue::Askers CheckQueue::finish(Verdict verdict, Time now) {
  const Check check = *std::exchange(taken_, std::nullopt);
  askers_ -= check.askers.size();
  Askers answered = check.askers;
  if (verdict == Verdict::kRefused) slowdown_.failed(check.source, now);
  if (verdict != Verdict::kAccepted) return answered;
  for (auto source = waiting_.begin(); source != waiting_.end();) {
    const auto next = std::next(source);
    const auto same = std::ranges::find(source->second, check.digest, &Check::digest);
    if (same != source->second.end()) {
      append(answered, remove(source, static_cast<std::size_t>(same - source->second.begin())));
    }
    source = next;
  }
  return answered;
}

CheckQueue::Check* CheckQueue::find_same(const Check& check) {
  if (taken_ && taken_->source == check.source && taken_->digest == check.digest) return &*taken_;
  const auto own = waiting_.find(check.source);
  if (own == waiting_.end()) return nullptr;
  const auto same = std::ranges::find(own->second, check.digest, &Check::digest);
  return same == own->second.end() ? nullptr : &*same;
}

CheckQueue::Askers CheckQueue::remove(Waiting::iterator source, std::size_t index) {
  const auto check = source->second.begin() + static_cast<std::ptrdiff_t>(index);
  Askers askers = std::move(check->askers);
  source->second.erase(check);
  --size_;
  askers_ -= askers.size();
  if (source->second.empty()) {
    std::erase(turns_, source->first);
    waiting_.erase(source);
  }
  return askers;
}

}  // namespace locksley::daemon
