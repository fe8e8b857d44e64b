// The stealing range in every interleaving of a few operations: each index of each publication goes
// to exactly one taker, and a thief gets the payload of the range that it took from.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "core/steal/steal_range.h"
#include "tests/model/atomics.h"
#include "tests/model/expect.h"
#include "tests/model/explorer.h"

namespace locksley::model::steal_range_model {
namespace {

struct Tag {
  std::uint64_t publication;
  std::uint64_t check;
};
using ModelRange = StealRange<Tag, ModelAtomics>;

// A stealing range, its owner, and what each thread took.
struct Scene {
  Scene() : owner(range.owner()) {}

  void publish(IndexRange indexes) {
    ++publication;
    for (std::uint64_t i = indexes.low; i != indexes.high; ++i) {
      published.emplace_back(publication, i);
    }
    owner.publish(indexes, {publication, ~publication});
  }

  void take(std::uint64_t n) { record(publication, owner.take(n)); }
  void take_all() { record(publication, owner.take_all()); }

  void steal() {
    const auto got = range.thief().steal();
    if (got.stolen()) {
      payloads_right = payloads_right && got.value.payload.check == ~got.value.payload.publication;
      record(got.value.payload.publication, got.value.range);
    }
  }

  void record(std::uint64_t of, IndexRange indexes) {
    for (std::uint64_t i = indexes.low; i != indexes.high; ++i) {
      taken.emplace_back(of, i);
    }
  }

  bool each_once() {
    take_all();
    std::ranges::sort(taken);
    std::ranges::sort(published);
    return payloads_right && taken == published;
  }

  using Indexes = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // publication, index

  ModelRange range;
  ModelRange::Owner owner;
  std::uint64_t publication = 0;
  Indexes published;
  Indexes taken;
  bool payloads_right = true;
};

TEST(StealRangeModelTest, LastIndexGoesToExactlyOneTaker) {
  expect_right(
      [](Explorer& explorer) {
        Scene scene;
        scene.publish({0, 1});
        explorer.run({[&] { scene.take(1); }, [&] { scene.steal(); }, [&] { scene.steal(); }});
        return scene.each_once();
      },
      {.preemptions = 3});
}

TEST(StealRangeModelTest, OwnerAndThievesShareARange) {
  expect_right(
      [](Explorer& explorer) {
        Scene scene;
        scene.publish({10, 14});
        explorer.run({[&] {
                        scene.take(1);
                        scene.take(2);
                        scene.take_all();
                      },
                      [&] { scene.steal(); }, [&] { scene.steal(); }});
        return scene.each_once();
      },
      {.preemptions = 3});
}

// The thief reads low, high and payload at leisure while ranges of the same length and indexes come
// and go.
TEST(StealRangeModelTest, StalePairNeverMatchesALaterRange) {
  expect_right(
      [](Explorer& explorer) {
        Scene scene;
        scene.publish({0, 2});
        explorer.run({[&] {
                        scene.take_all();
                        scene.publish({0, 2});
                        scene.take_all();
                        scene.publish({0, 2});
                      },
                      [&] {
                        scene.steal();
                        scene.steal();
                      }});
        return scene.each_once();
      },
      {.preemptions = 4});
}

TEST(StealRangeModelTest, ThiefIsNotMisledByARangeThatItsFellowEmptied) {
  expect_right(
      [](Explorer& explorer) {
        Scene scene;
        scene.publish({0, 1});
        explorer.run({[&] {
                        scene.take(1);
                        scene.publish({5, 6});
                        scene.take(1);
                      },
                      [&] { scene.steal(); },
                      [&] {
                        scene.steal();
                        scene.steal();
                      }});
        return scene.each_once();
      },
      {.preemptions = 2});
}

// The explorer would notice: with positions that begin anew, as indexes do, a thief takes what it
// never saw.
TEST(StealRangeModelTest, ExplorerFindsThePairThatComesBack) {
  const Program program = [](Explorer& explorer) {
    Pair left;
    Atomic<std::uint64_t> payload{1};
    WordPair known;
    left.compare_exchange(known, {0, 2});
    bool right = true;
    explorer.run({[&] {
                    known = {0, 2};
                    if (left.compare_exchange(known, {2, 2})) {
                      payload.store(2);
                      known = {2, 2};
                      left.compare_exchange(known, {0, 2});
                    }
                  },
                  [&] {
                    // relaxed: as in the steal of a range; the model has no weaker loads anyway.
                    WordPair seen{left.load_low(std::memory_order_relaxed),
                                  left.load_high(std::memory_order_relaxed)};
                    const std::uint64_t publication = payload.load();
                    if (seen.low < seen.high && left.compare_exchange(seen, {seen.low, seen.high - 1})) {
                      right = publication == payload.load() || known != WordPair{2, 2};
                    }
                  }});
    return right;
  };
  EXPECT_EQ(failure_of(program, {.preemptions = 3}), Failure::kWrongOutcome);
}

}  // namespace
}  // namespace locksley::model::steal_range_model
