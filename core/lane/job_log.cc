#include "core/lane/job_log.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace locksley {

bool LogBudget::take(ResultAccount* account, std::size_t own) {
  LogUse& user = use_of(account);
  if (own >= part(user) && are_short(user)) return false;
  std::uint64_t used = used_.load();
  do {
    // Threads that take blocks for one user at the same time may each get the last block of the
    // user's share. So the user may exceed its share by one block for each thread, but never the
    // limit of all.
    if (user.blocks.load() >= free_beside(used)) return false;
  } while (!used_.compare_exchange_weak(used, used + 1));
  user.blocks.fetch_add(1);
  if (own == 0) user.logs.fetch_add(1);
  return true;
}

void LogBudget::give(ResultAccount* account, std::size_t own) {
  LogUse& user = use_of(account);
  if (own == 1) user.logs.fetch_sub(1);
  user.blocks.fetch_sub(1);
  used_.fetch_sub(1);
}

bool LogBudget::has_too_many(ResultAccount* account, std::size_t own) {
  const LogUse& user = use_of(account);
  return own > part(user) && are_short(user);
}

void JobLog::add(std::string_view bytes, LogBudget* budget, ResultAccount* account) {
  budget_ = budget;
  account_ = account;
  // More than a log keeps: the first bytes are not stored at all.
  if (bytes.size() > kMost) {
    const std::size_t passed = bytes.size() - kMost;
    bytes.remove_prefix(passed);
    while (!blocks_.empty()) drop_oldest();
    end_ += passed;
  }
  while (!bytes.empty()) {
    const std::size_t used = first_ + size_;
    if (used == blocks_.size() * LogBudget::kBlockBytes && !grow()) {
      end_ += bytes.size();  // there is no memory for any of the bytes
      return;
    }
    const std::size_t at = (first_ + size_) % LogBudget::kBlockBytes;
    const std::size_t some = std::min(bytes.size(), LogBudget::kBlockBytes - at);
    std::memcpy(blocks_.back()->bytes + at, bytes.data(), some);
    size_ += some;
    end_ += some;
    bytes.remove_prefix(some);
  }
  while (size_ > kMost) {
    const std::size_t over = size_ - kMost;
    if (over < LogBudget::kBlockBytes - first_) {
      size_ -= over;
      first_ += over;
      break;
    }
    drop_oldest();
  }
}

bool JobLog::grow() {
  const std::size_t own = blocks_.size();
  const bool is_full = account_ != nullptr && account_->is_full();
  if (!is_full && (budget_ == nullptr || budget_->take(account_, own))) {
    if (account_ != nullptr) account_->charge(LogBudget::kBlockBytes);
    blocks_.push_back(std::make_unique<Block>());
    return true;
  }
  if (own == 0) return false;
  // Above its part: it frees a block for others.
  if (own > 1 && budget_ != nullptr && budget_->has_too_many(account_, own)) drop_oldest();
  // Its oldest block becomes the newest one.
  const std::size_t gone = std::min(size_, LogBudget::kBlockBytes - first_);
  size_ -= gone;
  first_ = 0;
  std::ranges::rotate(blocks_, blocks_.begin() + 1);
  return true;
}

void JobLog::drop_oldest() {
  const std::size_t gone = std::min(size_, LogBudget::kBlockBytes - first_);
  size_ -= gone;
  first_ = 0;
  if (budget_ != nullptr) budget_->give(account_, blocks_.size());
  if (account_ != nullptr) account_->refund(LogBudget::kBlockBytes);
  blocks_.erase(blocks_.begin());
}

std::string JobLog::read(std::uint64_t from) const {
  from = std::clamp(from, begin(), end_);
  std::string bytes;
  bytes.reserve(end_ - from);
  for (std::size_t at = first_ + (from - begin()); at < first_ + size_;) {
    const std::size_t in_block = at % LogBudget::kBlockBytes;
    const std::size_t some = std::min(LogBudget::kBlockBytes - in_block, first_ + size_ - at);
    bytes.append(blocks_[at / LogBudget::kBlockBytes]->bytes + in_block, some);
    at += some;
  }
  return bytes;
}

std::string JobLog::last_line(std::size_t most) const {
  if (size_ == 0) return {};
  // A longer line than this is cut at its beginning.
  std::string text = read(end_ - std::min<std::uint64_t>(size_, 2 * most));
  const auto is_space = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  while (!text.empty() && is_space(text.back())) text.pop_back();
  if (const std::size_t begin = text.find_last_of('\n'); begin != std::string::npos) text.erase(0, begin + 1);
  text.erase(0, static_cast<std::size_t>(std::ranges::find_if_not(text, is_space) - text.begin()));
  if (text.size() > most) text.erase(0, text.size() - most);
  return text;
}

void JobLog::clear() {
  while (!blocks_.empty()) drop_oldest();
  first_ = size_ = 0;
  end_ = 0;
}

}  // namespace locksley
