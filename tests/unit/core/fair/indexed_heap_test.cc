#include "core/fair/indexed_heap.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <utility>
#include <vector>

namespace locksley {
namespace {

struct Item {
  std::uint32_t place = 0;
};
std::uint32_t& place_of(Item& item) { return item.place; }
using Heap = IndexedHeap<Item, int, &place_of>;

// Each element knows its place, and no key is less than its parent's, which is at (place - 1) / 4.
void expect_heap(const Heap& heap) {
  const auto& entries = heap.entries();
  ASSERT_EQ(heap.size(), entries.size());
  ASSERT_EQ(heap.empty(), entries.empty());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    ASSERT_EQ(entries[i].element->place, i);
    if (i > 0) {
      ASSERT_LE(entries[(i - 1) / 4].key, entries[i].key) << "at " << i << " of " << entries.size();
    }
  }
}

TEST(IndexedHeapTest, NoChildIsLessThanItsParentAfterAnyOperation) {
  constexpr std::size_t kItems = 200;
  std::mt19937 random(1);
  std::vector<Item> items(kItems);
  std::vector<int> keys(kItems, -1);  // -1: not in the heap
  Heap heap;
  for (int step = 0; step < 20'000; ++step) {
    const std::size_t i = random() % kItems;
    const int key = static_cast<int>(random() % 1000);
    if (keys[i] < 0) {
      heap.push(items[i], key);
      keys[i] = key;
    } else if (const std::size_t j = random() % kItems; random() % 4 == 0 && keys[j] < 0) {
      heap.replace(items[i], items[j]);
      ASSERT_EQ(items[i].place, kNotInHeap);
      keys[j] = std::exchange(keys[i], -1);
    } else if (random() % 3 == 0) {
      heap.remove(items[i]);
      ASSERT_EQ(items[i].place, kNotInHeap);
      keys[i] = -1;
    } else {
      heap.update(items[i], key);
      keys[i] = key;
    }
    expect_heap(heap);
    if (HasFatalFailure()) return;
    ASSERT_EQ(heap.size(),
              static_cast<std::size_t>(std::ranges::count_if(keys, [](int k) { return k >= 0; })));
    for (const Heap::Entry& entry : heap.entries()) {
      ASSERT_EQ(entry.key, keys[static_cast<std::size_t>(entry.element - items.data())]);
    }
  }
}

// The heap of the seven elements 0, 10, 20, 30, 40, 11, 12: the last two are children of 10.
class SevenElementsTest : public ::testing::Test {
 protected:
  SevenElementsTest() {
    constexpr std::array kKeys{0, 10, 20, 30, 40, 11, 12};
    for (std::size_t i = 0; i < kKeys.size(); ++i) heap.push(items[i], kKeys[i]);
  }
  std::array<Item, 7> items;
  Heap heap;
};

TEST_F(SevenElementsTest, AKeyThatBecomesTheLeastMovesToTheTop) {
  heap.update(items[6], -1);
  EXPECT_EQ(&heap.top(), &items[6]);
  EXPECT_EQ(heap.top_key(), -1);
  expect_heap(heap);
}

TEST_F(SevenElementsTest, AKeyThatBecomesLessThanItsParentsTakesTheParentsPlace) {
  heap.update(items[5], 9);
  EXPECT_EQ(items[5].place, 1u);
  EXPECT_EQ(items[1].place, 5u);
  expect_heap(heap);
}

TEST_F(SevenElementsTest, AKeyThatBecomesGreaterThanItsChildrenGivesItsPlaceToTheLeast) {
  heap.update(items[1], 15);
  EXPECT_EQ(items[5].place, 1u);
  EXPECT_EQ(items[1].place, 5u);
  expect_heap(heap);
}

TEST_F(SevenElementsTest, AKeyEqualToItsParentsStaysWhereItIs) {
  heap.update(items[5], 10);
  EXPECT_EQ(items[5].place, 5u);
  EXPECT_EQ(items[1].place, 1u);
}

TEST_F(SevenElementsTest, TheLastElementFillsTheHoleOfTheOneThatIsRemoved) {
  heap.remove(items[1]);
  EXPECT_EQ(heap.size(), 6u);
  EXPECT_EQ(items[1].place, kNotInHeap);
  expect_heap(heap);
  heap.remove(items[6]);
  expect_heap(heap);
  EXPECT_EQ(heap.size(), 5u);
}

TEST(IndexedHeapTest, ChangedKeysKeepTheirOrderAndPlaces) {
  std::array<Item, 3> items;
  Heap heap;
  for (std::size_t i = 0; i < items.size(); ++i) heap.push(items[i], static_cast<int>(10 * i));
  heap.change_keys([](int key) { return key - 100; });
  EXPECT_EQ(heap.top_key(), -100);
  EXPECT_EQ(heap.entries()[2].key, -80);
  expect_heap(heap);
}

}  // namespace
}  // namespace locksley
