// Lines of the log and their fields, taken apart as by the log's formatters.
#include "daemon/base/log/log_line.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/batch/batch.h"
#include "core/batch/handler.h"

namespace locksley::daemon {
namespace {

class KeepingSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::string payload;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    payload.assign(message.payload.data(), message.payload.size());
  }
  void flush_() override {}
};

struct Line {
  std::string words;
  std::vector<std::pair<std::string, std::string>> fields;
};

Line taken_apart(const LogLine& line) {
  const auto sink = std::make_shared<KeepingSink>();
  spdlog::logger log("test", sink);
  line.write(log, spdlog::level::info);
  const LogParts parts = take_apart(sink->payload);
  Line result{.words = std::string(parts.words), .fields = {}};
  for (const auto& [name, value, is_number] : parts.fields) {
    result.fields.emplace_back(std::string(name) + (is_number ? "#" : ""), value);
  }
  return result;
}

using Fields = std::vector<std::pair<std::string, std::string>>;

TEST(LogLineTest, KeepsWordsAndFieldsApart) {
  const Line line =
      taken_apart(LogLine("two words").with("text", "a=b \"c\"\n").with("number", -5).with("none", ""));
  EXPECT_EQ(line.words, "two words");
  EXPECT_EQ(line.fields, (Fields{{"text", "a=b \"c\"\n"}, {"number#", "-5"}, {"none", ""}}));
}

TEST(LogLineTest, NoValueLooksLikeAField) {
  const std::string forged =
      "x\x1d"
      "batch\x1f"
      "forged\x1e"
      "n\x1f"
      "5\x1c";
  const Line line = taken_apart(LogLine(forged).with("name", forged));
  EXPECT_EQ(line.words, "x?batch?forged?n?5?");
  EXPECT_EQ(line.fields, (Fields{{"name", "x?batch?forged?n?5?"}}));
}

TEST(LogLineTest, WhatIsNoneIsWordsAlone) {
  const std::string text =
      "from elsewhere\x1d"
      "batch\x1f"
      "forged";
  const LogParts parts = take_apart(text);
  EXPECT_EQ(parts.words, text);
  EXPECT_TRUE(parts.fields.empty());
  EXPECT_EQ(take_apart("").words, "");
}

TEST(LogLineTest, SaysWhatABatchIs) {
  Handler handler("resize", "", [](JobContext&, std::string_view) {});
  BatchOptions options;
  options.id = "b-1";
  options.tenant = "alice";
  Batch plain(options, handler, std::make_unique<RangePayloads>(0));
  EXPECT_EQ(taken_apart(LogLine("x").about(plain)).fields,
            (Fields{{"batch", "b-1"}, {"tenant", "alice"}, {"handler", "resize"}}));
  options.trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  Batch traced(options, handler, std::make_unique<RangePayloads>(0));
  EXPECT_EQ(taken_apart(LogLine("x").about(traced)).fields.back(),
            (std::pair<std::string, std::string>{"trace", "4bf92f3577b34da6a3ce929d0e0e4736"}));
}

TEST(LogLineTest, LongValuesAreCut) {
  const Line line = taken_apart(LogLine("x").with("value", std::string(5000, 'y')));
  EXPECT_EQ(line.fields.front().second, std::string(LogLine::kMostValueBytes, 'y'));
}

}  // namespace
}  // namespace locksley::daemon
