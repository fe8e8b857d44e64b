// The configuration's loader: any text is a configuration, which can be written and read again, or
// a list of problems that lead to places in it.
#include "config/dump.h"
#include "config/load.h"
#include "config/reload.h"
#include "config/utf8.h"
#include "config/validate.h"
#include "tests/fuzz/target.h"

namespace locksley {
namespace {

using fuzz::fail;
using fuzz::require;

// The line's length in characters; none if there is no such line. Behind the last line break a line
// begins, too.
std::vector<std::size_t> line_lengths(std::string_view text) {
  std::vector<std::size_t> lengths;
  for (;;) {
    const std::size_t end = text.find('\n');
    lengths.push_back(config::count_characters(text.substr(0, end)));
    if (end == std::string_view::npos) return lengths;
    text.remove_prefix(end + 1);
  }
}

void check_problems(const std::vector<config::Problem>& problems, std::string_view text) {
  require(!problems.empty(), "what is refused has a reason");
  const std::vector<std::size_t> lengths = line_lengths(text);
  std::size_t line = 0;
  for (const config::Problem& problem : problems) {
    const std::string said = config::to_string(problem);
    const auto claim = [&](bool holds, std::string_view what) {
      if (!holds) fail(what, said);
    };
    claim(problem.file == "fuzz.yaml", "a problem names the file");
    claim(!problem.message.empty(), "a problem is said");
    claim((problem.line == 0) == (problem.column == 0), "a place has a line and a column, or neither");
    claim(problem.line <= lengths.size(), "the line is in the text");
    claim(problem.line == 0 || problem.column <= lengths[problem.line - 1] + 1, "the column is in the line");
    claim(problem.line != 0 || text.size() > config::kMaxFileBytes,
          "only a text that is too large has no place");
    claim(problem.line >= line, "problems are in the order of the lines");
    claim(std::ranges::none_of(said, [](char c) { return static_cast<unsigned char>(c) < ' '; }),
          "a problem is one line");
    claim(!config::find_unreadable(said), "a problem is readable text");
    line = problem.line;
  }
}

void check_config(const config::Config& config) {
  const std::string text = config::dump(config);
  const auto again = config::load_text(text, "dump.yaml");
  if (!again)
    fail("what dump() writes can be loaded", config::to_string(again.error().front()) + "\n" + text);
  if (*again != config) fail("what dump() writes is the same configuration", text);
  require(config::dump(*again) == text, "dump() writes the same of the same");
}

}  // namespace
}  // namespace locksley

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace locksley;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto loaded = config::load_text(text, "fuzz.yaml");
  if (loaded) {
    check_config(*loaded);
  } else {
    check_problems(loaded.error(), text);
  }
  return 0;
}
