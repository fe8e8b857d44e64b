#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <sstream>

#include "config/keys.h"
#include "config/load.h"
#include "config/schema.h"

// deploy/locksley.yaml, the file that people read to learn the keys.

namespace locksley::config {
namespace {

std::string sample_text() {
  std::ifstream stream(LOCKSLEY_SAMPLE_CONFIG, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Whether a change of the key needs a restart, as schema.h has it.
class ChangeCollector final : public PathVisitor {
 public:
  template <class T, class Rule>
  void key(Key key, const T&, const Rule&) {
    needs_restart[path_to(key)] = key.change == Change::kRestart;
  }
  template <class Entries, class Walk>
  void entries(Key key, const Entries&, const TextRule&, const Walk&) {
    needs_restart[path_to(key)] = key.change == Change::kRestart;
  }

  std::map<std::string, bool> needs_restart;
};

// The dotted keys of the sample with the line that each stands on. The sample is block style, two
// spaces a level, so that this can be read without the loader that is under test.
std::map<std::string, std::string> lines_by_key() {
  std::map<std::string, std::string> result;
  std::vector<std::string> path;
  for (const std::string& line : lines_of(sample_text())) {
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos || line[indent] == '#') continue;
    path.resize(indent / 2);
    path.push_back(line.substr(indent, line.find(':') - indent));
    std::string key;
    for (const std::string& name : path) key = dotted(key, name);
    result[key] = line;
  }
  return result;
}

TEST(SampleTest, LoadsToTheDefaults) {
  const auto config = load_file(LOCKSLEY_SAMPLE_CONFIG);
  ASSERT_TRUE(config.has_value()) << to_string(config.error().front());
  EXPECT_EQ(*config, Config{});
}

TEST(SampleTest, ShowsEveryKey) {
  const auto lines = lines_by_key();
  for (const std::string& key : all_keys())
    EXPECT_TRUE(lines.contains(key)) << key << " is not in the sample";
}

TEST(SampleTest, ExplainsEveryKeyOnItsLine) {
  const auto lines = lines_by_key();
  for (const std::string& key : all_keys()) {
    ASSERT_TRUE(lines.contains(key)) << key;
    EXPECT_NE(lines.at(key).find(" # "), std::string::npos) << key << " is not explained";
  }
}

TEST(SampleTest, MarksExactlyTheKeysThatNeedARestart) {
  const Config config;
  ChangeCollector collector;
  visit_keys(collector, config);
  const auto lines = lines_by_key();
  for (const auto& [key, needs_restart] : collector.needs_restart) {
    ASSERT_TRUE(lines.contains(key)) << key;
    EXPECT_EQ(lines.at(key).find("[restart]") != std::string::npos, needs_restart) << key;
  }
}

// The settings to copy are right.
TEST(SampleTest, CommentedSettingsAreGoodOnes) {
  std::string text;
  bool is_setting = false;
  for (const std::string& line : lines_of(sample_text())) {
    if (line.starts_with("lanes:") || line.starts_with("handlers:") || line.starts_with("users:")) continue;
    is_setting = line.starts_with('#') && (is_setting || (line.size() > 1 && line[1] != ' '));
    text += (is_setting ? line.substr(1) : line) + '\n';
  }
  const auto config = load_text(text, "sample");
  ASSERT_TRUE(config.has_value()) << to_string(config.error().front());
  EXPECT_TRUE(config->users.contains("alice"));
  EXPECT_TRUE(config->lanes.contains("gpu"));
}

}  // namespace
}  // namespace locksley::config
