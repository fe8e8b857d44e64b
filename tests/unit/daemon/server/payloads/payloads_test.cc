#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/server/payloads/fixed_payloads.h"
#include "daemon/server/payloads/received_payloads.h"
#include "daemon/server/payloads/streamed_payloads.h"

namespace locksley::daemon {
namespace {

proto::ArgumentList arguments(const std::vector<std::string>& payloads) {
  const std::vector<std::string_view> views(payloads.begin(), payloads.end());
  return proto::ArgumentList::copy_of(views);
}

std::vector<std::string> fetch(PayloadSource& source, std::uint64_t first, std::size_t count) {
  std::vector<std::string_view> views(count);
  std::string scratch;
  source.fetch(first, views, scratch);
  return {views.begin(), views.end()};
}

using Texts = std::vector<std::string>;
using FailedJobs = BatchPayloads::FailedJobs;
using Repetition = BatchPayloads::Repetition;

TEST(ReceivedPayloadsTest, GivesBackWhatCame) {
  ReceivedPayloads payloads(arguments({"a", "", "ccc", "dd"}));
  EXPECT_EQ(fetch(payloads, 0, 4), (Texts{"a", "", "ccc", "dd"}));
  EXPECT_EQ(fetch(payloads, 2, 1), (Texts{"ccc"}));
  EXPECT_GT(payloads.memory_bytes(), 0u);
}

TEST(ReceivedPayloadsTest, HoldsNoMemoryAfterRelease) {
  ReceivedPayloads payloads(arguments({std::string(100'000, 'x')}));
  EXPECT_GE(payloads.memory_bytes(), 100'000u);
  const auto released = payloads.release(FailedJobs::kNeverRunAgain, Repetition::kImpossible);
  EXPECT_EQ(payloads.memory_bytes(), 0u);
  EXPECT_EQ(released.kept_bytes, 0u);
  ASSERT_NE(released.freed, nullptr);
  EXPECT_GE(released.freed_bytes, 100'000u);
}

TEST(ReceivedPayloadsTest, StayInMemoryForARetryIfThereIsNoStore) {
  ReceivedPayloads payloads(arguments({"a", "b"}));
  const auto released = payloads.release(FailedJobs::kMayRunAgain, Repetition::kImpossible);
  EXPECT_EQ(released.freed, nullptr);
  EXPECT_EQ(released.kept_bytes, payloads.memory_bytes());
  EXPECT_EQ(fetch(payloads, 0, 2), (Texts{"a", "b"}));
  EXPECT_NE(payloads.release(FailedJobs::kNeverRunAgain, Repetition::kImpossible).freed, nullptr)
      << "over for the second time";
}

void add(BatchPayloads& payloads, proto::ArgumentList list) {
  payloads.add(std::make_shared<const proto::ArgumentList>(std::move(list)), BatchPayloads::Place::kMemory);
}
// So many that the store will have.
void add_stored(BatchPayloads& payloads, std::size_t count) {
  payloads.add(std::make_shared<const proto::ArgumentList>(arguments(std::vector<std::string>(count))),
               BatchPayloads::Place::kStore);
}

// Stands for a store: payload i is "stored i".
class NumberedPayloads final : public PayloadSource {
 public:
  std::size_t fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override {
    scratch.clear();
    std::vector<std::size_t> ends;
    for (std::size_t i = 0; i < out.size(); ++i) {
      scratch += "stored " + std::to_string(first + i);
      ends.push_back(scratch.size());
    }
    std::size_t begin = 0;
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = std::string_view(scratch).substr(begin, ends[i] - begin);
      begin = ends[i];
    }
    return out.size();
  }
  std::uint64_t memory_bytes() const override { return 0; }
};

// What touches a stored segment comes from the store whole, as all jobs that are claimed are there.
TEST(StreamedPayloadsTest, WhatTheMemoryHasNoRoomForComesFromTheStore) {
  StreamedPayloads payloads(std::make_unique<NumberedPayloads>());
  add(payloads, arguments({"a", "b"}));
  add_stored(payloads, 2);
  add_stored(payloads, 1);
  add(payloads, arguments({"c"}));
  EXPECT_EQ(fetch(payloads, 0, 2), (Texts{"a", "b"}));
  EXPECT_EQ(fetch(payloads, 1, 3), (Texts{"stored 1", "stored 2", "stored 3"}));
  EXPECT_EQ(fetch(payloads, 4, 1), (Texts{"stored 4"}));
  EXPECT_EQ(fetch(payloads, 5, 1), (Texts{"c"}));
}

TEST(StreamedPayloadsTest, WhatIsWithdrawnIsGoneAndWhatComesNextTakesItsPlace) {
  StreamedPayloads payloads(std::make_unique<NumberedPayloads>());
  add(payloads, arguments({"a", "b"}));
  add(payloads, arguments({"c"}));
  add_stored(payloads, 3);
  payloads.withdraw(3);
  payloads.withdraw(1);
  add(payloads, arguments({"d", "e"}));
  EXPECT_EQ(fetch(payloads, 0, 4), (Texts{"a", "b", "d", "e"}));
}

TEST(StreamedPayloadsTest, WhatIsWithdrawnTakesNoMemory) {
  StreamedPayloads payloads;
  add(payloads, arguments({"a", "b"}));
  const std::uint64_t before = payloads.memory_bytes();
  add(payloads, arguments({"c"}));
  payloads.withdraw(1);
  EXPECT_EQ(payloads.memory_bytes(), before) << "copied beside others";
  const std::string large(StreamedPayloads::kCopiedBytes, 'x');
  add(payloads, arguments({large, "d"}));
  EXPECT_GT(payloads.memory_bytes(), before + large.size());
  payloads.withdraw(2);
  EXPECT_EQ(payloads.memory_bytes(), before) << "in a segment of its own";
  payloads.withdraw(2);
  EXPECT_EQ(payloads.memory_bytes(), 0u);
}

TEST(StreamedPayloadsTest, KeepsOnlyWhatIsWantedAndTakesMore) {
  StreamedPayloads payloads(std::make_unique<NumberedPayloads>());
  const std::string large(StreamedPayloads::kCopiedBytes, 'x');
  add(payloads, arguments({"a", "b"}));         // 0, 1
  add(payloads, arguments({large, "c"}));       // 2, 3
  add(payloads, arguments({"d"}));              // 4
  add(payloads, arguments({large, "e", "f"}));  // 5 to 7
  const std::uint64_t before = payloads.memory_bytes();
  payloads.keep_only(std::vector<IndexRange>{{3, 4}});
  EXPECT_EQ(fetch(payloads, 2, 2), (Texts{large, "c"}));
  EXPECT_EQ(fetch(payloads, 0, 2), (Texts{"stored 0", "stored 1"}));
  EXPECT_EQ(fetch(payloads, 4, 4), (Texts{"stored 4", "stored 5", "stored 6", "stored 7"}));
  EXPECT_LT(payloads.memory_bytes(), before / 2);
  add(payloads, arguments({"g"}));
  EXPECT_EQ(fetch(payloads, 8, 1), (Texts{"g"}));
  payloads.keep_only({});
  EXPECT_EQ(payloads.memory_bytes(), 0U);
  add(payloads, arguments({"h"}));
  EXPECT_EQ(fetch(payloads, 9, 1), (Texts{"h"}));
}

// Small ones are copied together, large ones kept: a fetch must go from one kind to the other and
// back.
TEST(StreamedPayloadsTest, WhatIsFreedOfALongStreamIsOnePart) {
  StreamedPayloads payloads(std::make_unique<NumberedPayloads>());
  const std::string large(StreamedPayloads::kCopiedBytes + 1, 'x');
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 100; ++i) add(payloads, arguments({large}));
    const IndexRange failed{50, 51};
    payloads.keep_only({&failed, 1});
    EXPECT_EQ(payloads.parts(), 3U) << "before it, itself, and after it";
  }
  EXPECT_EQ(fetch(payloads, 50, 1), (Texts{large}));
  EXPECT_EQ(fetch(payloads, 299, 1), (Texts{"stored 299"})) << "from the store";
}

TEST(StreamedPayloadsTest, VeryManyShortPayloadsAreNotCopied) {
  for (const bool are_many : {false, true}) {
    StreamedPayloads payloads;
    const std::vector<std::string> empty(StreamedPayloads::kMostCopied + (are_many ? 1 : 0));
    const auto list = std::make_shared<const proto::ArgumentList>(arguments(empty));
    payloads.add(list, BatchPayloads::Place::kMemory);
    EXPECT_EQ(list.use_count(), are_many ? 2 : 1);
    EXPECT_EQ(fetch(payloads, empty.size() - 1, 1), (Texts{""}));
  }
}

TEST(StreamedPayloadsTest, FetchGoesAcrossSegmentsOfBothKinds) {
  StreamedPayloads payloads;
  Texts expected;
  const auto add_both = [&](const Texts& texts) {
    add(payloads, arguments(texts));
    expected.insert(expected.end(), texts.begin(), texts.end());
  };
  add_both({"a", "bb"});
  add_both({std::string(StreamedPayloads::kCopiedBytes, 'c'), "d"});
  add_both({"", "e"});
  add_both({"f"});
  for (std::size_t first = 0; first < expected.size(); ++first) {
    const std::size_t count = expected.size() - first;
    EXPECT_EQ(fetch(payloads, first, count),
              Texts(expected.begin() + static_cast<std::ptrdiff_t>(first), expected.end()));
  }
}

TEST(StreamedPayloadsTest, ManySmallAddsSpillIntoNewSegments) {
  StreamedPayloads payloads;
  Texts expected;
  const std::string text(1000, 'x');
  for (std::size_t i = 0; i < 3 * StreamedPayloads::kSegmentBytes / text.size(); ++i) {
    expected.push_back(text + std::to_string(i));
    add(payloads, arguments({expected.back()}));
  }
  EXPECT_EQ(fetch(payloads, 0, expected.size()), expected);
  EXPECT_EQ(fetch(payloads, 100, 3), Texts(expected.begin() + 100, expected.begin() + 103));
}

TEST(StreamedPayloadsTest, EmptyPayloadsAreCountedToo) {
  StreamedPayloads payloads;
  for (int i = 0; i < 20'000; ++i) add(payloads, arguments({"", ""}));
  EXPECT_EQ(fetch(payloads, 39'998, 2), (Texts{"", ""}));
}

TEST(StreamedPayloadsTest, ViewsStayGoodWhileMoreIsAdded) {
  StreamedPayloads payloads;
  add(payloads, arguments({"first"}));
  std::vector<std::string_view> views(1);
  std::string scratch;
  payloads.fetch(0, views, scratch);
  for (int i = 0; i < 10'000; ++i) add(payloads, arguments({std::string(50, 'y')}));
  EXPECT_EQ(views[0], "first");
}

// Freeing millions takes milliseconds: the caller has another thread do it.
TEST(StreamedPayloadsTest, WhatIsFreedIsLeftToTheCaller) {
  const std::string large(StreamedPayloads::kCopiedBytes, 'x');
  for (const bool is_over : {true, false}) {
    StreamedPayloads payloads(std::make_unique<NumberedPayloads>());
    auto list = std::make_shared<const proto::ArgumentList>(arguments({large, "a"}));
    const std::weak_ptr<const proto::ArgumentList> held = list;
    payloads.add(list, BatchPayloads::Place::kMemory);
    list = nullptr;
    add(payloads, arguments({"b"}));
    const std::uint64_t bytes = payloads.memory_bytes();
    BatchPayloads::Released released =
        is_over ? payloads.release(FailedJobs::kNeverRunAgain, Repetition::kImpossible)
                : payloads.keep_only({});
    EXPECT_EQ(payloads.memory_bytes(), 0u);
    EXPECT_EQ(released.freed_bytes, bytes);
    EXPECT_FALSE(held.expired());
    released.freed = nullptr;
    EXPECT_TRUE(held.expired());
  }
}

TEST(StreamedPayloadsTest, AreReadFromTheStoreForARetry) {
  StreamedPayloads payloads(std::make_unique<NumberedPayloads>());
  add(payloads, arguments({"a", "b"}));
  EXPECT_EQ(payloads.release(FailedJobs::kMayRunAgain, Repetition::kPossible).kept_bytes, 0u);
  EXPECT_EQ(payloads.memory_bytes(), 0u);
  EXPECT_EQ(fetch(payloads, 0, 2), (Texts{"stored 0", "stored 1"}));
}

TEST(BatchPayloadsTest, TellTheSameJobsFromOthersBeforeAndAfterTheRelease) {
  ReceivedPayloads payloads(arguments({"ab", "c"}));
  const BatchPayloads& same = payloads;
  for (const bool released : {false, true}) {
    if (released) payloads.release(FailedJobs::kNeverRunAgain, Repetition::kPossible);
    EXPECT_TRUE(same.is_same(arguments({"ab", "c"}))) << released;
    EXPECT_FALSE(same.is_same(arguments({"a", "bc"}))) << released;
    EXPECT_FALSE(same.is_same(arguments({"ab"}))) << released;
    EXPECT_FALSE(same.is_same_range(RangeJobs{.low = 0, .high = 2})) << released;
  }
  EXPECT_EQ(payloads.memory_bytes(), 0u);
}

TEST(BatchPayloadsTest, FetchedPayloadsAreComparedByTheirDigest) {
  const FetchedPayloads payloads(std::make_unique<NumberedPayloads>(), 2, digest_of(arguments({"ab", "c"})));
  EXPECT_TRUE(payloads.is_same(arguments({"ab", "c"})));
  EXPECT_FALSE(payloads.is_same(arguments({"a", "bc"})));
  const FetchedPayloads unknown(std::make_unique<NumberedPayloads>(), 2, std::nullopt);
  EXPECT_FALSE(unknown.is_same(arguments({"ab", "c"})));
}

TEST(BatchPayloadsTest, CompareRanges) {
  const RangedPayloads payloads(RangeJobs{1, 3, pattern_of("x{}")});
  EXPECT_TRUE(payloads.is_same_range(RangeJobs{1, 3, pattern_of("x{}")}));
  EXPECT_FALSE(payloads.is_same_range(RangeJobs{1, 3, pattern_of("y{}")}));
  EXPECT_FALSE(payloads.is_same_range(RangeJobs{1, 3, {}}));
  EXPECT_FALSE(payloads.is_same_range(RangeJobs{1, 4, pattern_of("x{}")}));
  const RangedPayloads restored(RangeJobs{1, 3, {.text = "x{}"}});
  EXPECT_TRUE(restored.is_same_range(RangeJobs{1, 3, pattern_of("x{}")}));
  EXPECT_FALSE(restored.is_same_range(RangeJobs{1, 3, pattern_of("y{}")}));
  EXPECT_FALSE(payloads.is_same(arguments({"x1", "x2"})));
}

TEST(RangedPayloadsTest, HoldNoPatternAfterReleaseThoughTheyTellARepetition) {
  RangedPayloads payloads(RangeJobs{1, 3, pattern_of("x{}")});
  const std::uint64_t bytes = payloads.memory_bytes();
  EXPECT_EQ(payloads.release(FailedJobs::kMayRunAgain, Repetition::kPossible).kept_bytes, bytes)
      << "it is in memory alone";
  EXPECT_EQ(fetch(payloads, 0, 2), (Texts{"x1", "x2"}));
  const auto released = payloads.release(FailedJobs::kNeverRunAgain, Repetition::kPossible);
  EXPECT_NE(released.freed, nullptr) << "over for the second time";
  EXPECT_EQ(released.freed_bytes, bytes);
  EXPECT_EQ(released.kept_bytes, 0u);
  EXPECT_EQ(payloads.memory_bytes(), 0u);
  EXPECT_EQ(payloads.in_memory(0), std::nullopt);
  EXPECT_FALSE(payloads.open_range());
  EXPECT_TRUE(payloads.is_same_range(RangeJobs{1, 3, pattern_of("x{}")}));
  EXPECT_FALSE(payloads.is_same_range(RangeJobs{1, 3, pattern_of("y{}")}));
  EXPECT_FALSE(payloads.is_same_range(RangeJobs{1, 3, {}}));
}

TEST(RangedPayloadsTest, ReadTheirPatternFromTheStoreForARetry) {
  RangedPayloads payloads(RangeJobs{1, 3, pattern_of("x{}")}, [](Store::Fetched) {
    return std::make_unique<StoredRange>(std::make_unique<NumberedPayloads>(), 1);
  });
  const auto released = payloads.release(FailedJobs::kMayRunAgain, Repetition::kPossible);
  EXPECT_NE(released.freed, nullptr);
  EXPECT_EQ(released.kept_bytes, 0u);
  EXPECT_EQ(payloads.memory_bytes(), 0u);
  EXPECT_TRUE(payloads.is_same_range(RangeJobs{1, 3, pattern_of("x{}")}));
  EXPECT_EQ(fetch(payloads, 0, 1), (Texts{"stored 0"}));
  EXPECT_GT(payloads.memory_bytes(), 0u);
  EXPECT_NE(payloads.release(FailedJobs::kMayRunAgain, Repetition::kPossible).freed, nullptr);
  EXPECT_EQ(payloads.memory_bytes(), 0u);
  EXPECT_EQ(*payloads.open_range()()->pattern(), "stored 0");
}

TEST(RangedPayloadsTest, KeepAPatternThatAloneTellsARepetition) {
  RangedPayloads restored(RangeJobs{1, 3, {.text = "x{}"}});
  EXPECT_GT(restored.release(FailedJobs::kNeverRunAgain, Repetition::kPossible).kept_bytes, 0u);
  EXPECT_TRUE(restored.is_same_range(RangeJobs{1, 3, pattern_of("x{}")}));
  EXPECT_NE(restored.release(FailedJobs::kNeverRunAgain, Repetition::kImpossible).freed, nullptr);
  RangedPayloads numbers(RangeJobs{1, 3, {}});
  EXPECT_EQ(numbers.release(FailedJobs::kMayRunAgain, Repetition::kPossible).kept_bytes, 0u);
  EXPECT_EQ(fetch(numbers, 0, 2), (Texts{"1", "2"}));
}

TEST(PatternTest, APartAtATimeItIsTheSame) {
  std::string text = "{}{{}}{";
  while (text.size() < 64 * 1024 - 1) text += 'x';
  text += "{";  // the last byte of a part
  text += "}{} }{";
  const Pattern at_once = pattern_of(text);
  EXPECT_EQ(*at_once.text, text);
  EXPECT_EQ(at_once.places, 4U);
  PatternInParts parts(text);
  EXPECT_FALSE(parts.go_on(now())) << "the time was over";
  const auto pattern = parts.go_on(now());
  ASSERT_TRUE(pattern);
  EXPECT_EQ(*pattern->text, text);
  EXPECT_EQ(pattern->places, at_once.places);
  EXPECT_EQ(pattern->digest, at_once.digest);
  EXPECT_NE(pattern->digest, pattern_of(text + "x").digest);
  EXPECT_EQ(*pattern_of("").text, "") << "a payload without bytes, and not none";
}

TEST(DigestTest, InPartsItIsTheSame) {
  std::vector<std::string> many(5'000, "ab");
  many[7] = std::string(1 << 20, 'x');
  many.back() = "";
  std::vector<std::string_view> views(many.begin(), many.end());
  const proto::ArgumentList all = proto::ArgumentList::copy_of(views);
  views.insert(views.begin(), {"SUBMIT", "JOBS"});
  const proto::ArgumentList command = proto::ArgumentList::copy_of(views);
  DigestInParts in_parts(command, 2);
  std::optional<Digest> digest;
  int steps = 1;
  while (!(digest = in_parts.go_on(Instant::min()))) ++steps;
  EXPECT_GT(steps, 10);
  EXPECT_EQ(*digest, digest_of(all));
}

// Stores have digests, which later versions of the program compare with their own.
TEST(DigestTest, ItsValueIsThatOfEarlierVersions) {
  Texts many;
  for (std::size_t i = 0; i < 3'000; ++i) many.emplace_back(i % 70, static_cast<char>('a' + i % 26));
  many[7] = std::string(1 << 20, 'x');
  many[1'500] = std::string(2'040, 'y');
  many[1'501] = std::string(2'048, 'z');
  many[1'502] = std::string(2'049, 'w');
  EXPECT_EQ(digest_of(arguments(many)), (Digest{0x2a3d39cce88c0512U, 0xdc44217852353c13U}));
  EXPECT_EQ(digest_of(arguments({})), (Digest{0x6001c324468d497fU, 0x99aa06d3014798d8U}));
}

}  // namespace
}  // namespace locksley::daemon
