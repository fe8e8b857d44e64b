#include "daemon/server/records/sequence_map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include "daemon/server/records/sequence_set.h"

namespace locksley::daemon {
namespace {

constexpr int kSteps = 20'000;
constexpr std::uint64_t kNumbers =
    600;  // so that there are many pages, full ones, and ones with a single number

TEST(SequenceMapTest, ShowsWhatAnOrderedMapShows) {
  std::mt19937_64 random(7);
  std::map<std::uint64_t, std::uint64_t> model;
  SequenceMap<std::uint64_t> map;
  for (int step = 0; step < kSteps; ++step) {
    const std::uint64_t sequence = random() % kNumbers;
    // Now more come than leave, and then more leave than come.
    const bool adds = random() % 8 < (step / 2000 % 2 == 0 ? 6U : 2U);
    if (adds && !model.contains(sequence)) {
      map.add(sequence, model.emplace(sequence, sequence).first->second);
    } else if (!adds) {
      map.erase(sequence);
      model.erase(sequence);
    }
    ASSERT_EQ(map.size(), model.size());
    const std::uint64_t asked = random() % kNumbers;
    const std::uint64_t* const found = map.find(asked);
    ASSERT_EQ(found != nullptr, model.contains(asked));
    const auto from = model.lower_bound(asked);
    const std::uint64_t* const next = map.from(asked);
    ASSERT_EQ(next == nullptr, from == model.end());
    if (next != nullptr) {
      ASSERT_EQ(next, &from->second);
    }
    const std::uint64_t* const last = map.before(asked);
    ASSERT_EQ(last == nullptr, from == model.begin());
    if (last != nullptr) {
      ASSERT_EQ(last, &std::prev(from)->second);
    }
  }
}

TEST(SequenceSetTest, ShowsWhatAnOrderedSetShows) {
  std::mt19937_64 random(11);
  std::set<std::uint64_t> model;
  SequenceSet set;
  for (int step = 0; step < kSteps; ++step) {
    const std::uint64_t sequence = random() % kNumbers;
    if (random() % 8 < (step / 2000 % 2 == 0 ? 6U : 2U)) {
      set.insert(sequence);
      model.insert(sequence);
    } else {
      ASSERT_EQ(set.erase(sequence), model.erase(sequence) != 0);
    }
    ASSERT_EQ(set.empty(), model.empty());
    const std::uint64_t asked = random() % kNumbers;
    ASSERT_EQ(set.contains(asked), model.contains(asked));
    const auto from = model.lower_bound(asked);
    const auto next = set.from(asked);
    ASSERT_EQ(next.has_value(), from != model.end());
    if (next) {
      ASSERT_EQ(*next, *from);
    }
  }
}

}  // namespace
}  // namespace locksley::daemon
