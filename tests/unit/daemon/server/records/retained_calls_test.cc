// How long the longest call of RetainedBatches takes. Not under the sanitizers, which make each call many times as long.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "daemon/base/processor_time.h"
#include "daemon/server/records/retained.h"

namespace locksley::daemon {
namespace {

// By the thread's own processor time. A table or a heap that is changed as a whole takes 20 to 200 ms.
TEST(RetainedCallsTest, NoneTakesLongHoweverManyThereAre) {
  constexpr std::uint64_t kMany = 1'000'000;
  constexpr auto kLong = std::chrono::milliseconds(10);
  RetainedBatches all(1);
  std::chrono::nanoseconds longest{0};
  const auto time = [&](auto call) {
    const auto began = processor_time();
    call();
    longest = std::max(longest, processor_time() - began);
  };
  std::uint64_t next = 1;
  const auto add = [&] {
    const std::uint64_t sequence = next++;
    const RetainedBatch each{.sequence = sequence,
                             .id_hash = sequence * 0x9E3779B97F4A7C15,
                             .forget_at = Instant(std::chrono::seconds(sequence)),
                             .stored_bytes = 1};
    time([&] { all.add(each); });
  };
  while (next <= kMany) add();
  EXPECT_LT(longest, kLong) << "more and more";
  longest = {};
  // As users that are at their limits: each new batch evicts one, here the one that would go last.
  for (std::uint64_t i = kMany; i > kMany / 4; --i) {
    time([&] { all.remove(i); });
    add();
  }
  EXPECT_LT(longest, kLong) << "others come in their places";
  longest = {};
  for (std::uint64_t i = kMany + 1; i < next; ++i) time([&] { all.remove(i); });
  EXPECT_LT(longest, kLong) << "most are forgotten";
  longest = {};
  for (std::uint64_t i = 2; i < kMany / 4; ++i) {
    time([&] { all.remove(i); });
    time([&] { ASSERT_LE(all.earliest_forget_bound(), Instant(std::chrono::seconds(1))); });
  }
  time([&] { all.remove(1); });
  const RetainedBatch* first = nullptr;
  while (first == nullptr) time([&] { first = all.due_at(Instant(std::chrono::seconds(2 * kMany))); });
  EXPECT_EQ(first->sequence, kMany / 4);
  EXPECT_LT(longest, kLong) << "the first one goes after those that come after it";
  EXPECT_EQ(all.size(), 1U);
}

}  // namespace
}  // namespace locksley::daemon
