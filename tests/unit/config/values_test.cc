// The configuration value by value: what CONFIG GET and CONFIG SET show and take.
#include <gmock/gmock.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "config/dump.h"
#include "config/load.h"

namespace locksley::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

Config sample() {
  auto loaded = load_text(
      "limits: {max_payload: 1MiB}\n"
      "handlers: {lines: {command: [wc, -l], rate: 20/s, limits: {cpu: 3s}}, p: {plugin: ./p.so}}\n",
      "f");
  return std::move(loaded.value());
}

std::vector<std::string> refusal_of(const Values& values) {
  const auto changed = with_values(sample(), values);
  std::vector<std::string> sentences;
  if (!changed) {
    for (const Problem& problem : changed.error()) sentences.push_back(to_string(problem));
  }
  return sentences;
}

TEST(ValuesTest, EachKeyIsListedOnceUnderItsDottedNameInTheOrderOfTheFile) {
  const Values values = list_values(sample());
  const auto has = [&](const std::string& key, const std::string& value) {
    return std::ranges::count(values, std::pair(key, value)) == 1;
  };
  EXPECT_EQ(values.front().first, "listen.address");
  EXPECT_TRUE(has("limits.max_payload", "1MiB"));
  EXPECT_TRUE(has("handlers.lines.command", "[wc, \"-l\"]"));
  EXPECT_TRUE(has("handlers.lines.limits.cpu", "3s"));
  EXPECT_TRUE(has("handlers.lines.rate", "20/s"));
  EXPECT_TRUE(has("handlers.p.plugin", "\"./p.so\""));
  EXPECT_TRUE(has("users", "{}"));
  EXPECT_EQ(std::ranges::count(values, "handlers.p.rate", &Values::value_type::first), 0);
}

TEST(ValuesTest, APartHasAFewUsersAndTheNextGoesOnAfterThem) {
  constexpr std::size_t kUsers = 3 * ValueParts::kMostEntries;
  Config config = sample();
  for (std::size_t i = 0; i < kUsers; ++i) config.users["u" + std::to_string(1000 + i)];
  std::vector<std::string> weights;
  const auto add_weights = [&weights](const Values& part) {
    std::size_t added = 0;
    for (const auto& [key, value] : part) {
      if (!key.starts_with("users.") || !key.ends_with(".weight")) continue;
      weights.push_back(key);
      ++added;
    }
    return added;
  };
  ValueParts parts;
  Values all;
  for (bool is_last = false; !is_last;) {
    Values part;
    is_last = parts.read_some(config, part);
    EXPECT_LE(add_weights(part), ValueParts::kMostEntries);
    std::ranges::copy(part, std::back_inserter(all));
  }
  EXPECT_EQ(weights.size(), kUsers);
  EXPECT_EQ(weights.front(), "users.u1000.weight");
  EXPECT_TRUE(std::ranges::is_sorted(weights));
  EXPECT_EQ(all, list_values(config));
  std::ranges::sort(all);
  EXPECT_EQ(std::ranges::adjacent_find(all), all.end());
}

TEST(ValuesTest, PartsGoOnInTheConfigurationThatHasComeInForce) {
  Config config;
  for (std::size_t i = 0; i <= ValueParts::kMostEntries; ++i) config.users["u" + std::to_string(1000 + i)];
  const std::string last = config.users.rbegin()->first;
  ValueParts parts;
  Values part;
  EXPECT_FALSE(parts.read_some(config, part));
  part.clear();
  config.users = {{"a", {}}, {"v", {}}};
  EXPECT_TRUE(parts.read_some(config, part));
  const auto has = [&part](const std::string& key) {
    return std::ranges::count(part, key, &Values::value_type::first) == 1;
  };
  EXPECT_FALSE(has("users." + last + ".weight"));
  EXPECT_FALSE(has("users.a.weight"));
  EXPECT_TRUE(has("users.v.weight"));
}

TEST(ValuesTest, HashesOfPasswordsAreNotListed) {
  Config config;
  config.users["u"].password_hash = "secret";
  std::string all;
  for (const auto& [key, value] : list_values(config)) all += key + "=" + value + "\n";
  EXPECT_THAT(all, HasSubstr("users.u.weight=1"));
  EXPECT_THAT(all, Not(HasSubstr("password_hash")));
  EXPECT_THAT(all, Not(HasSubstr("secret")));
}

TEST(ValuesTest, WhatIsListedCanBeSet) {
  EXPECT_EQ(with_values(sample(), list_values(sample())).value(), sample());
}

TEST(ValuesTest, WhatIsSetIsInTheResultAndNothingElseHasChanged) {
  Config expected = sample();
  expected.limits.max_clients = 7;
  expected.handlers["lines"].retries = 3;
  expected.handlers["p"].timeout = 5s;
  expected.handlers["lines"].limits.files = 9;
  EXPECT_EQ(with_values(sample(), Values{{"limits.max_clients", "7"},
                                         {"handlers.lines.retries", "3"},
                                         {"handlers.p.timeout", "5s"},
                                         {"handlers.lines.limits.files", "9"}})
                .value(),
            expected);
}

TEST(ValuesTest, AWholeSectionCanBeSet) {
  Config expected = sample();
  expected.handlers.erase("p");
  expected.handlers["lines"] = {};
  expected.handlers["lines"].command = {"cat"};
  EXPECT_EQ(with_values(sample(), Values{{"handlers", "{lines: {command: [cat]}}"}}).value(), expected);
}

// They are not read with the rest, since they may be very many.
TEST(ValuesTest, UsersStayUnlessAValueIsOneOfTheirs) {
  Config before = sample();
  before.users["alice"].password_hash =
      std::string("$argon2id$") + "v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA";
  before.users["alice"].weight = 3;
  Config expected = before;
  expected.log.level = LogLevel::kDebug;
  EXPECT_EQ(with_values(before, Values{{"log.level", "debug"}}).value(), expected);
  expected.users["alice"].weight = 4;
  EXPECT_EQ(with_values(before, Values{{"log.level", "debug"}, {"users.alice.weight", "4"}}).value(),
            expected);
  expected.users.clear();
  EXPECT_EQ(with_values(before, Values{{"users", "{}"}, {"log.level", "debug"}}).value(), expected);
}

// In the words of a file, without its name and places.
TEST(ValuesTest, RefusalsAreThoseOfAFile) {
  EXPECT_THAT(refusal_of({{"limits.max_clients", "many"}}),
              ElementsAre("limits.max_clients: expected a whole number from 1 to 1000000, found \"many\""));
  EXPECT_THAT(refusal_of({{"scheduling.share", "tim"}}),
              ElementsAre("scheduling.share: expected time or jobs, found \"tim\"; did you mean \"time\"?"));
  EXPECT_THAT(refusal_of({{"limits.max_payload", "8MiB"}, {"limits.max_command", "4MiB"}}),
              ElementsAre("limits.max_payload: expected at most limits.max_command (4MiB), found \"8MiB\""));
  EXPECT_THAT(refusal_of({{"limits.max_clientz", "1"}}),
              ElementsAre("limits.max_clientz: unknown key; did you mean \"max_clients\"?"));
  EXPECT_THAT(refusal_of({{"handlers.lines.worker", "[cat]"}}),
              ElementsAre("handlers.lines: expected exactly one of command, worker and plugin, found 2"));
}

TEST(ValuesTest, WhatIsNoKeyOrNoValueIsRefused) {
  EXPECT_THAT(refusal_of({{"limit.max_clients", "1"}}),
              ElementsAre("limit.max_clients: there is no such key; did you mean \"limits.max_clients\"?"));
  EXPECT_THAT(refusal_of({{"log.level.x", "1"}}),
              ElementsAre(HasSubstr("log.level.x: there is no such key")));
  EXPECT_THAT(refusal_of({{"", "1"}}), ElementsAre(HasSubstr("unknown key")));
  EXPECT_THAT(refusal_of({{"log.level", "info"}, {"log.level", "warn"}}),
              ElementsAre("log.level: given twice"));
  EXPECT_THAT(refusal_of({{"log.level", "[a"}}), ElementsAre(HasSubstr("log.level: not valid YAML")));
  EXPECT_THAT(refusal_of({{"log.level", "&a info"}}), ElementsAre(HasSubstr("log.level: ")));
  EXPECT_THAT(refusal_of({{"log.level", "info\n---\nwarn"}}), ElementsAre(HasSubstr("log.level: ")));
  EXPECT_THAT(refusal_of({{"log.level", ""}}), ElementsAre(HasSubstr("log.level: expected ")));
  EXPECT_THAT(refusal_of({{"log.level", "\xff"}}),
              ElementsAre(HasSubstr("log.level: expected text in UTF-8")));
}

TEST(ValuesTest, AllThatIsWrongIsSaidAtOnce) {
  EXPECT_EQ(refusal_of({{"limits.max_clients", "many"}, {"log.level", "loud"}}).size(), 2u);
}

}  // namespace
}  // namespace locksley::config
