#include "config/lanes.h"
#include "config/validate.h"

#include <gtest/gtest.h>

#include "config/dump.h"
#include "config/load.h"
#include "config/reload.h"
#include "tests/unit/config/shown.h"

namespace locksley::config {
namespace {

using namespace std::chrono_literals;

Config loaded(const std::string& text) {
  const auto config = load_text(text, "f");
  EXPECT_TRUE(config.has_value()) << shown(config.error());
  return config.value_or(Config{});
}

std::string problems_of(const std::string& text) {
  const auto config = load_text(text, "f");
  return config ? "" : shown(config.error());
}

TEST(LanesTest, SlotsAreANumberOrNames) {
  const Config config = loaded(
      "lanes:\n  media: {slots: 8, idle_timeout: 5s}\n  gpu: {slots: [\"0\", GPU-1/2]}\n"
      "handlers:\n  h: {command: [a], lane: gpu}\n");
  EXPECT_EQ(config.lanes.at("media").slots, (Slots{8, {}}));
  EXPECT_EQ(config.lanes.at("media").idle_timeout, 5s);
  EXPECT_EQ(config.lanes.at("gpu").slots, (Slots{2, {"0", "GPU-1/2"}}));
  EXPECT_EQ(config.lanes.at("gpu").idle_timeout, 60s);
  EXPECT_EQ(config.handlers.at("h").lane, "gpu");
  EXPECT_EQ(loaded(dump(config)), config);
}

TEST(LanesTest, WhoNamesNoLaneIsInOneThatIsAsLargeAsThePoolOrTheLargestConcurrency) {
  Config config;
  EXPECT_TRUE(process_lanes(config, 4).empty());
  config.handlers["a"].command = {"a"};
  config.handlers["native"].plugin = "p";
  EXPECT_EQ(process_lanes(config, 4).at("processes").slots.count, 4U);
  config.handlers["b"].worker = {"b"};
  config.handlers["b"].concurrency = 6;
  EXPECT_EQ(process_lanes(config, 4).at("processes").slots.count, 6U);
  // Of a handler in another lane it is all the same.
  config.lanes["l"].slots.count = 1;
  config.handlers["b"].lane = "l";
  EXPECT_EQ(process_lanes(config, 4).at("processes").slots.count, 4U);
  EXPECT_EQ(process_lanes(config, 4).at("l").slots.count, 1U);
  config.lanes["processes"].slots.count = 2;
  EXPECT_EQ(process_lanes(config, 4).at("processes").slots.count, 2U);
}

TEST(LanesTest, ExecIsAHandlerWithAllSlotsOfItsLane) {
  Config config;
  config.process.user = "nobody";
  EXPECT_FALSE(all_handlers(config, 4).contains("exec"));
  config.exec.is_on = true;
  EXPECT_TRUE(config.handlers.empty());
  const Handler exec = all_handlers(config, 4).at("exec");
  EXPECT_TRUE(exec.runs_payloads);
  EXPECT_EQ(exec.user, "nobody");
  EXPECT_EQ(exec.concurrency, 4U);
  EXPECT_EQ(process_lanes(config, 4).at("processes").slots.count, 4U);
  config.handlers["cat"].command = {"cat"};
  config.handlers["cat"].concurrency = 9;
  EXPECT_EQ(all_handlers(config, 4).size(), 2U);
  EXPECT_EQ(all_handlers(config, 4).at("exec").concurrency, 9U);
  config.lanes["processes"].slots.count = 50;
  EXPECT_EQ(all_handlers(config, 4).at("exec").concurrency, 50U);
}

TEST(LanesTest, ExecMayHaveABoundOfOutputs) {
  EXPECT_EQ(all_handlers(loaded("exec: true"), 4).at("exec").max_output, mebibytes(16));
  const Config config = loaded("exec: {max_output: 64MiB}");
  EXPECT_TRUE(config.exec.is_on);
  EXPECT_EQ(all_handlers(config, 4).at("exec").max_output, mebibytes(64));
  EXPECT_TRUE(loaded("exec: {}").exec.is_on);
  for (const char* const text : {"exec: false", "exec: true", "exec: {max_output: 64MiB}"}) {
    EXPECT_NE(dump(loaded(text)).find(text), std::string::npos) << text;
    EXPECT_EQ(loaded(dump(loaded(text))), loaded(text)) << text;
  }
}

TEST(LanesTest, ExecIsRefusedWithUsersAndWithAHandlerOfItsName) {
  Config config;
  config.exec.is_on = true;
  EXPECT_TRUE(check(config).empty());
  config.handlers["exec"].command = {"cat"};
  ASSERT_EQ(check(config).size(), 1U);
  EXPECT_EQ(check(config).front().key, "handlers.exec");
  config.handlers.clear();
  config.users["alice"].certificate = "alice";
  ASSERT_EQ(check(config).size(), 1U);
  EXPECT_EQ(check(config).front().key, "exec");
}

TEST(LanesTest, MoreConcurrencyThanSlotsIsAWarning) {
  const Config config = loaded(
      "lanes: {l: {slots: 2}}\n"
      "handlers: {a: {command: [a], lane: l, concurrency: 3}, b: {command: [b], lane: l, concurrency: 2},"
      " c: {command: [c], concurrency: 99}}\n");
  EXPECT_EQ(
      lane_warnings(config),
      (std::vector<std::string>{"handlers.a.concurrency: 3 is more than the slots of its lane l (2), so "
                                "at most that many of its jobs run at once"}));
}

TEST(LanesTest, WhatCannotBeALaneIsAProblem) {
  const auto has = [](const std::string& text, const std::string& what) {
    const std::string problems = problems_of(text);
    EXPECT_NE(problems.find(what), std::string::npos) << problems;
  };
  has("lanes: {cpu: {slots: 1}}\n", "expected another name, because this is the name of the pool's lane");
  has("lanes: {l: {}}\n", "expected slots, found none");
  has("lanes: {l: {slots: 0}}\n",
      "lanes.l.slots: expected a whole number from 1 to 10000, or a list of names");
  has("lanes: {l: {slots: []}}\n", "lanes.l.slots");
  has("lanes: {l: {slots: [a, b, a]}}\n", "expected names that differ from each other, found \"a\" twice");
  has("lanes: {l: {slots: [c, \"a b\"]}}\n", "without spaces, found \"a b\"");
  has("handlers: {h: {command: [a], lane: nowhere}}\n",
      "handlers.h.lane: expected a lane of the section lanes, found \"nowhere\"");
  has("handlers: {h: {command: [a], lane: cpu}}\n", "expected a lane of processes, and not the pool's lane");
  has("lanes: {l: {slots: 1}}\nhandlers: {h: {plugin: p, lane: l}}\n", "lane with a command");
}

TEST(LanesTest, ALaneHasAtMostAThousandHandlers) {
  std::string handlers;
  for (int i = 0; i < 1000; ++i) handlers += "  h" + std::to_string(i) + ": {command: [a]}\n";
  EXPECT_EQ(problems_of("handlers:\n" + handlers), "");
  handlers += "  one_more: {command: [a], lane: processes}\n";
  EXPECT_NE(problems_of("handlers:\n" + handlers).find("at most 1000 handlers in lane processes"),
            std::string::npos);
  handlers += "  plugin: {plugin: p}\n";
  EXPECT_EQ(problems_of("lanes: {l: {slots: 1}}\nhandlers:\n" +
                        handlers.replace(handlers.rfind("processes"), 9, "l")),
            "");
}

TEST(LanesTest, SlotsAndTheLaneOfAHandlerChangeAtOnceAndANewLaneOnlyByTheFile) {
  const Config before = loaded("lanes: {l: {slots: 1}}\nhandlers: {h: {command: [a], lane: l}}\n");
  const auto changed =
      with_values(before, std::vector<std::pair<std::string, std::string>>{{"lanes.l.slots", "[x, y]"},
                                                                           {"handlers.h.lane", "processes"}});
  ASSERT_TRUE(changed.has_value()) << shown(changed.error());
  const Reload reload = diff_reloadable(before, *changed);
  EXPECT_EQ(reload.live, (std::vector<std::string>{"lanes.l", "handlers.h"}));
  EXPECT_TRUE(reload.file.empty());
  Config more = before;
  more.lanes["m"].slots.count = 1;
  EXPECT_EQ(diff_reloadable(before, more).file, (std::vector<std::string>{"lanes.m"}));
}

}  // namespace
}  // namespace locksley::config
