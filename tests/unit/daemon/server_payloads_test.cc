#include <gtest/gtest.h>

#include <string>
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

// Small ones are copied together, large ones kept: a fetch must go from one kind to the other and back.
TEST(StreamedPayloadsTest, FetchGoesAcrossPiecesOfBothKinds) {
  StreamedPayloads payloads;
  Texts expected;
  const auto add = [&](const Texts& texts) {
    payloads.add(arguments(texts));
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
    payloads.add(arguments({expected.back()}));
  }
  EXPECT_EQ(fetch(payloads, 0, expected.size()), expected);
  EXPECT_EQ(fetch(payloads, 100, 3), Texts(expected.begin() + 100, expected.begin() + 103));
}

TEST(StreamedPayloadsTest, EmptyPayloadsAreCountedToo) {
  StreamedPayloads payloads;
  for (int i = 0; i < 20'000; ++i) payloads.add(arguments({"", ""}));
  EXPECT_EQ(fetch(payloads, 39'998, 2), (Texts{"", ""}));
}

TEST(StreamedPayloadsTest, ViewsStayGoodWhileMoreIsAdded) {
  StreamedPayloads payloads;
  payloads.add(arguments({"first"}));
  std::vector<std::string_view> views(1);
  std::string scratch;
  payloads.fetch(0, views, scratch);
  for (int i = 0; i < 10'000; ++i) payloads.add(arguments({std::string(50, 'y')}));
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
