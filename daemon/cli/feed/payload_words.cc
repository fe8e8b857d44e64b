#include "daemon/cli/feed/payload_words.h"

#include <algorithm>

namespace locksley::cli {
namespace {

constexpr char kMark = '\1';  // no option begins with it

}  // namespace

std::size_t mark_payload_words(std::vector<std::string>& arguments) {
  const auto dashes = std::ranges::find(arguments, "--");
  const bool takes_payloads = std::any_of(arguments.begin(), dashes, [](const std::string& word) {
    return word == "submit" || word == "run" || word == "results" || word == "work" || word == "exec";
  });
  if (dashes == arguments.end() || !takes_payloads) return 0;
  const auto first = arguments.erase(dashes);
  std::for_each(first, arguments.end(), [](std::string& word) { word.insert(0, 1, kMark); });
  return static_cast<std::size_t>(arguments.end() - first);
}

void unmark_payload_words(SubmitArguments& submit, std::size_t count) {
  unmark_payload_words(submit.payloads.arguments, submit.handler, count);
}

void unmark_payload_words(std::vector<std::string>& words, std::string& handler, std::size_t count) {
  for (auto word = words.rbegin(); word != words.rend() && count > 0; ++word, --count) {
    word->erase(0, 1);
  }
  if (count > 0) handler.erase(0, 1);
}

}  // namespace locksley::cli
