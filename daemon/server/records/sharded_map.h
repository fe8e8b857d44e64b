// A hash map in which no insertion takes long.
#pragma once

#include <array>
#include <cstddef>
#include <unordered_map>
#include <utility>

namespace locksley::daemon {

// A hash map in kShards parts, so that no insertion takes long: a growing hash table moves all its
// entries at once, which took 25 ms of the I/O thread with 100,000 batches. A part of a map of a
// million has a thousand.
//
// A plain container of one thread. Some 60 KiB when it is empty. Pointers to values hold until they
// are erased.
template <class Key, class Value, class Hash>
class ShardedMap {
 public:
  // Null if there is none.
  Value* find(const Key& key) {
    const Hashed hashed{key, Hash()(key)};
    auto& shard = shard_of(hashed);
    const auto found = shard.find(hashed);
    return found == shard.end() ? nullptr : &found->second;
  }
  const Value* find(const Key& key) const { return const_cast<ShardedMap*>(this)->find(key); }
  // False, without effect, if there is one of this key.
  bool emplace(const Key& key, Value value) {
    const Hashed hashed{key, Hash()(key)};
    const bool is_new = shard_of(hashed).emplace(hashed, std::move(value)).second;
    if (is_new) ++size_;
    return is_new;
  }
  void erase(const Key& key) {
    const Hashed hashed{key, Hash()(key)};
    size_ -= shard_of(hashed).erase(hashed);
  }
  std::size_t size() const { return size_; }

 private:
  static constexpr std::size_t kShards = 1024;
  // A key with its hash, so that each call hashes its key once.
  struct Hashed {
    Key key;
    std::size_t hash;
    bool operator==(const Hashed& other) const { return hash == other.hash && key == other.key; }
  };
  struct TakeHash {
    std::size_t operator()(const Hashed& hashed) const noexcept { return hashed.hash; }
  };
  using Shard = std::unordered_map<Hashed, Value, TakeHash>;

  // Chosen by the upper bits of the hash, since the table of each shard uses the whole hash again.
  Shard& shard_of(const Hashed& hashed) { return shards_[(hashed.hash >> 48) % kShards]; }

  std::array<Shard, kShards> shards_;
  std::size_t size_ = 0;
};

}  // namespace locksley::daemon
