#pragma once

#include <array>
#include <cstddef>
#include <unordered_map>
#include <utility>

namespace locksley::daemon {

// A hash map in kShards parts, so that no insertion takes long: a growing hash table moves all its entries at
// once, which took 25 ms of the I/O thread with 100,000 batches. A part of a map of a million has a thousand.
//
// A plain container of one thread. Some 60 KiB when it is empty. Pointers to values hold until they are erased.
template <class Key, class Value, class Hash>
class ShardedMap {
 public:
  // Null if there is none.
  Value* find(const Key& key) {
    auto& shard = shard_of(key);
    const auto found = shard.find(key);
    return found == shard.end() ? nullptr : &found->second;
  }
  const Value* find(const Key& key) const { return const_cast<ShardedMap*>(this)->find(key); }
  // False, without effect, if there is one of this key.
  bool emplace(const Key& key, Value value) {
    const bool is_new = shard_of(key).emplace(key, std::move(value)).second;
    if (is_new) ++size_;
    return is_new;
  }
  void erase(const Key& key) { size_ -= shard_of(key).erase(key); }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kShards = 1024;
  using Shard = std::unordered_map<Key, Value, Hash>;

  // Chosen by the upper bits of the hash, since the table of each shard uses the whole hash again.
  Shard& shard_of(const Key& key) { return shards_[(Hash()(key) >> 48) % kShards]; }

  std::array<Shard, kShards> shards_;
  std::size_t size_ = 0;
};

}  // namespace locksley::daemon
