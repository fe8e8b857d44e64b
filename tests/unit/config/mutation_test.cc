#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <sstream>

#include "config/dump.h"
#include "config/load.h"
#include "config/validate.h"

// Random edits of the sample configuration: the loader gives a valid configuration or problems that
// point into the file, whatever it is given. LOCKSLEY_TEST_SEED repeats a run; LOCKSLEY_TEST_ROUNDS
// makes it longer.

namespace locksley::config {
namespace {

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::string original_text() {
  std::ifstream stream(LOCKSLEY_SAMPLE_CONFIG, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Comments hide most edits, so half of the runs start from the same file without them.
std::string without_comments(const std::string& text) {
  std::string result;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    line.erase(std::min(line.size(), line.find('#')));
    if (line.find_first_not_of(' ') != std::string::npos) result += line + '\n';
  }
  return result;
}

// All settings that the sample explains, those to copy included.
std::string with_settings(std::string text) {
  return text +
         "handlers:\n  lines: {command: [wc, -l], input: stdin, concurrency: 4, timeout: 30s, retries: 2}\n"
         "users:\n  alice: {password_hash: "
         "\"$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA\", weight: 3, handlers: [lines], "
         "commands: [submit, read]}\n";
}

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  void mutate(std::string& text) {
    static const std::array<std::string, 36> kPieces{"\"",       "'",
                                                     ":",        ": ",
                                                     "- ",       "{",
                                                     "}",        "[",
                                                     "]",        "&a ",
                                                     "*a",       "<<: ",
                                                     "!!int ",   "---\n",
                                                     "...\n",    "\t",
                                                     "\n",       "  ",
                                                     "|\n",      ">-\n",
                                                     "? ",       "% ",
                                                     "#",        "0",
                                                     "-1",       "99999999999999999999",
                                                     "ten",      "null",
                                                     "~",        "\xFF",
                                                     "\xC3\xA9", std::string(1, '\0'),
                                                     "\r\n",     "pool:\n",
                                                     "\\",       "\xEF\xBB\xBF"};
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        text.insert(at, kPieces[below(kPieces.size())]);
        break;
      case 1:
        text.erase(at, below(8));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(40)));
        break;
      case 4:
        text.resize(at);
        break;
      default:
        if (at < text.size()) text.replace(at, 1, kPieces[below(kPieces.size())]);
        break;
    }
  }

  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(random_);
  }

 private:
  std::mt19937_64 random_;
};

// A problem points to a character of the file, or just past the end of a line.
void expect_inside(const Problem& problem, const std::vector<std::size_t>& line_bytes) {
  ASSERT_GE(problem.line, 1U) << to_string(problem);
  ASSERT_LE(problem.line, line_bytes.size()) << to_string(problem);
  EXPECT_GE(problem.column, 1U) << to_string(problem);
  EXPECT_LE(problem.column, line_bytes[problem.line - 1] + 1) << to_string(problem);
  EXPECT_FALSE(problem.message.empty());
  EXPECT_EQ(problem.file, "mutated");
  EXPECT_EQ(to_string(problem).find('\n'), std::string::npos);
}

TEST(MutationTest, EveryEditGivesAConfigOrProblemsInsideTheFile) {
  const std::uint64_t seed = from_environment("LOCKSLEY_TEST_SEED", std::random_device{}());
  const std::uint64_t rounds = from_environment("LOCKSLEY_TEST_ROUNDS", 3000);
  std::cout << "LOCKSLEY_TEST_SEED=" << seed << '\n';
  Mutator mutator(seed);
  const std::array<std::string, 3> originals{original_text(), without_comments(original_text()),
                                             with_settings("log: {level: info}\n")};
  std::uint64_t loaded = 0;
  std::uint64_t refused = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    std::string text = originals[round % originals.size()];
    for (std::size_t edits = 1 + mutator.below(4); edits > 0; --edits) mutator.mutate(text);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round << ":\n" << text);

    const auto config = load_text(text, "mutated");
    if (config.has_value()) {
      ++loaded;
      EXPECT_TRUE(check(*config).empty());
      EXPECT_EQ(load_text(dump(*config), "dump"), config);
    } else {
      ++refused;
      std::vector<std::size_t> line_bytes{0};
      for (const char c : text) {
        if (c == '\n') {
          line_bytes.push_back(0);
        } else {
          ++line_bytes.back();
        }
      }
      ASSERT_FALSE(config.error().empty());
      for (const Problem& problem : config.error()) expect_inside(problem, line_bytes);
      EXPECT_TRUE(std::ranges::is_sorted(config.error(), {}, &Problem::line));
    }
    if (HasFailure()) break;
  }
  // Edits that change nothing, or everything, would test nothing.
  EXPECT_GT(loaded, 0U);
  EXPECT_GT(refused, 0U);
}

}  // namespace
}  // namespace locksley::config
