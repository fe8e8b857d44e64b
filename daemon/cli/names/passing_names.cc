#include "daemon/cli/names/passing_names.h"

#include <algorithm>

namespace locksley::cli {

void PassingNames::add(std::string_view name) {
  const MutexLock lock(mutex_);
  // A block is freed only once all its names were taken, so a last block that is null was full.
  if (blocks_.empty() || blocks_.back() == nullptr || blocks_.back()->count == kBlockNames) {
    blocks_.push_back(std::make_unique<Block>());
  }
  Block& block = *blocks_.back();
  block.text += name;
  block.ends[block.count++] = static_cast<std::uint32_t>(block.text.size());
}

std::optional<std::string> PassingNames::take(std::uint64_t index) {
  const MutexLock lock(mutex_);
  const std::uint64_t number = index / kBlockNames;
  const std::size_t place = index % kBlockNames;
  if (number < freed_in_front_ || number - freed_in_front_ >= blocks_.size()) return std::nullopt;
  std::unique_ptr<Block>& block = blocks_[number - freed_in_front_];
  if (block == nullptr || place >= block->count) return std::nullopt;
  const std::size_t begin = place == 0 ? 0 : block->ends[place - 1];
  std::string name = block->text.substr(begin, block->ends[place] - begin);
  if (++block->taken == kBlockNames) block.reset();
  while (!blocks_.empty() && blocks_.front() == nullptr) {
    blocks_.pop_front();
    ++freed_in_front_;
  }
  return name;
}

std::size_t PassingNames::held_blocks() const {
  const MutexLock lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(blocks_, [](const auto& block) { return block != nullptr; }));
}

}  // namespace locksley::cli
