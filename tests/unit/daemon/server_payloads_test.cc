#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/server/content.h"
#include "daemon/server/received_payloads.h"
#include "daemon/server/streamed_payloads.h"

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

TEST(ReceivedPayloadsTest, GivesBackWhatCame) {
  ReceivedPayloads payloads(arguments({"a", "", "ccc", "dd"}));
  EXPECT_EQ(fetch(payloads, 0, 4), (Texts{"a", "", "ccc", "dd"}));
  EXPECT_EQ(fetch(payloads, 2, 1), (Texts{"ccc"}));
  EXPECT_GT(payloads.memory_bytes(), 0u);
}

TEST(ReceivedPayloadsTest, HoldsNoMemoryAfterRelease) {
  ReceivedPayloads payloads(arguments({std::string(100'000, 'x')}));
  EXPECT_GE(payloads.memory_bytes(), 100'000u);
  payloads.release();
  EXPECT_EQ(payloads.memory_bytes(), 0u);
}

std::shared_ptr<const proto::ArgumentList> shared(proto::ArgumentList list) {
  return std::make_shared<const proto::ArgumentList>(std::move(list));
}

// Stands for a store: payload i is "stored i".
class NumberedPayloads final : public PayloadSource {
 public:
  void fetch(std::uint64_t first, std::span<std::string_view> out, std::string& scratch) override {
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
  }
  std::uint64_t memory_bytes() const override { return 0; }
};

// What touches a stored piece comes from the store whole, as all jobs that are claimed are there.
TEST(StreamedPayloadsTest, WhatTheMemoryHasNoRoomForComesFromTheStore) {
  StreamedPayloads payloads(std::make_unique<NumberedPayloads>());
  payloads.add(shared(arguments({"a", "b"})));
  payloads.add_stored(2);
  payloads.add_stored(1);
  payloads.add(shared(arguments({"c"})));
  EXPECT_EQ(fetch(payloads, 0, 2), (Texts{"a", "b"}));
  EXPECT_EQ(fetch(payloads, 1, 3), (Texts{"stored 1", "stored 2", "stored 3"}));
  EXPECT_EQ(fetch(payloads, 4, 1), (Texts{"stored 4"}));
  EXPECT_EQ(fetch(payloads, 5, 1), (Texts{"c"}));
}

TEST(StreamedPayloadsTest, WhatIsWithdrawnIsGoneAndWhatComesNextTakesItsPlace) {
  StreamedPayloads payloads(std::make_unique<NumberedPayloads>());
  payloads.add(shared(arguments({"a", "b"})));
  payloads.add(shared(arguments({"c"})));
  payloads.add_stored(3);
  payloads.withdraw(3);
  payloads.withdraw(1);
  payloads.add(shared(arguments({"d", "e"})));
  EXPECT_EQ(fetch(payloads, 0, 4), (Texts{"a", "b", "d", "e"}));
}

TEST(StreamedPayloadsTest, KeepsOnlyWhatIsWantedAndTakesMore) {
  StreamedPayloads payloads(std::make_unique<NumberedPayloads>());
  const std::string large(StreamedPayloads::kCopiedBytes, 'x');
  payloads.add(shared(arguments({"a", "b"})));         // 0, 1
  payloads.add(shared(arguments({large, "c"})));       // 2, 3
  payloads.add(shared(arguments({"d"})));              // 4
  payloads.add(shared(arguments({large, "e", "f"})));  // 5 to 7
  const std::uint64_t before = payloads.memory_bytes();
  payloads.keep_only(std::vector<IndexRange>{{3, 4}});
  EXPECT_EQ(fetch(payloads, 2, 2), (Texts{large, "c"}));
  EXPECT_EQ(fetch(payloads, 0, 2), (Texts{"stored 0", "stored 1"}));
  EXPECT_EQ(fetch(payloads, 4, 4), (Texts{"stored 4", "stored 5", "stored 6", "stored 7"}));
  EXPECT_LT(payloads.memory_bytes(), before / 2);
  payloads.add(shared(arguments({"g"})));
  EXPECT_EQ(fetch(payloads, 8, 1), (Texts{"g"}));
  payloads.keep_only({});
  EXPECT_EQ(payloads.memory_bytes(), 0U);
  payloads.add(shared(arguments({"h"})));
  EXPECT_EQ(fetch(payloads, 9, 1), (Texts{"h"}));
}

// Small ones are copied together, large ones kept: a fetch must go from one kind to the other and back.
TEST(StreamedPayloadsTest, FetchGoesAcrossPiecesOfBothKinds) {
  StreamedPayloads payloads;
  Texts expected;
  const auto add = [&](const Texts& texts) {
    payloads.add(shared(arguments(texts)));
    expected.insert(expected.end(), texts.begin(), texts.end());
  };
  add({"a", "bb"});
  add({std::string(StreamedPayloads::kCopiedBytes, 'c'), "d"});
  add({"", "e"});
  add({"f"});
  for (std::size_t first = 0; first < expected.size(); ++first) {
    const std::size_t count = expected.size() - first;
    EXPECT_EQ(fetch(payloads, first, count),
              Texts(expected.begin() + static_cast<std::ptrdiff_t>(first), expected.end()));
  }
}

TEST(StreamedPayloadsTest, ManySmallAddsSpillIntoNewPieces) {
  StreamedPayloads payloads;
  Texts expected;
  const std::string text(1000, 'x');
  for (std::size_t i = 0; i < 3 * StreamedPayloads::kPieceBytes / text.size(); ++i) {
    expected.push_back(text + std::to_string(i));
    payloads.add(shared(arguments({expected.back()})));
  }
  EXPECT_EQ(fetch(payloads, 0, expected.size()), expected);
  EXPECT_EQ(fetch(payloads, 100, 3), Texts(expected.begin() + 100, expected.begin() + 103));
}

TEST(StreamedPayloadsTest, EmptyPayloadsAreCountedToo) {
  StreamedPayloads payloads;
  for (int i = 0; i < 20'000; ++i) payloads.add(shared(arguments({"", ""})));
  EXPECT_EQ(fetch(payloads, 39'998, 2), (Texts{"", ""}));
}

TEST(StreamedPayloadsTest, ViewsStayGoodWhileMoreIsAdded) {
  StreamedPayloads payloads;
  payloads.add(shared(arguments({"first"})));
  std::vector<std::string_view> views(1);
  std::string scratch;
  payloads.fetch(0, views, scratch);
  for (int i = 0; i < 10'000; ++i) payloads.add(shared(arguments({std::string(50, 'y')})));
  EXPECT_EQ(views[0], "first");
}

TEST(ContentTest, TellsTheSameJobsFromOthersBeforeAndAfterThePayloadsHaveGone) {
  ReceivedPayloads payloads(arguments({"ab", "c"}));
  Content content;
  content.received = &payloads;
  content.jobs = 2;
  for (const bool released : {false, true}) {
    if (released) content.release(true);
    EXPECT_TRUE(content.is_same(arguments({"ab", "c"}))) << released;
    EXPECT_FALSE(content.is_same(arguments({"a", "bc"}))) << released;
    EXPECT_FALSE(content.is_same(arguments({"ab"}))) << released;
    EXPECT_FALSE(content.is_same(proto::RangeSource{.low = 0, .high = 2, .payload = {}})) << released;
  }
  EXPECT_EQ(payloads.memory_bytes(), 0u);
}

TEST(ContentTest, ComparesRanges) {
  Content content;
  content.range =
      std::make_unique<proto::RangeSource>(proto::RangeSource{.low = 1, .high = 3, .payload = "x{}"});
  content.jobs = 2;
  EXPECT_TRUE(content.is_same(proto::RangeSource{.low = 1, .high = 3, .payload = "x{}"}));
  EXPECT_FALSE(content.is_same(proto::RangeSource{.low = 1, .high = 3, .payload = {}}));
  EXPECT_FALSE(content.is_same(proto::RangeSource{.low = 1, .high = 4, .payload = "x{}"}));
  EXPECT_FALSE(content.is_same(arguments({"x1", "x2"})));
}

}  // namespace
}  // namespace locksley::daemon
