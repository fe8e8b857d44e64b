#include "daemon/cli/exec/command_check.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <system_error>
#include <vector>

#include "daemon/cli/exec/shell_words.h"
#include "daemon/cli/names/name_parts.h"
#include "daemon/cli/text/table.h"

namespace locksley::cli {
namespace {

constexpr std::size_t kLongestShown = 200;

std::string shown(std::string_view text) { return shortened(printable(std::string(text)), kLongestShown); }

// The replacement string at the beginning of `text` that only GNU parallel has; empty: there is
// none.
std::string_view missing_replacement(std::string_view text) {
  if (text.starts_with("{%}")) return text.substr(0, 3);
  const bool is_from_the_end = text.starts_with("{-");
  const std::size_t begin = is_from_the_end ? 2 : 1;
  const std::size_t after = std::min(text.find_first_not_of("0123456789", begin), text.size());
  const bool has_digits = after > begin;
  if (is_from_the_end && !has_digits) return {};
  if (text.substr(after).starts_with('=')) {
    const std::size_t end = text.find("=}", after + 1);
    return end == std::string_view::npos ? std::string_view() : text.substr(0, end + 2);
  }
  // {-2.} is read as {2.}, without the minus.
  Replacement counted;
  const std::string positive = "{" + std::string(text.substr(std::min(begin, text.size())));
  const std::size_t length = is_from_the_end ? read_replacement(positive, counted) : 0;
  return text.substr(0, length == 0 ? 0 : length + 1);
}

std::string problem_with_replacements(std::string_view word) {
  for (std::size_t at = word.find('{'); at != std::string_view::npos; at = word.find('{', at + 1)) {
    const std::string_view found = missing_replacement(word.substr(at));
    if (found.empty()) continue;
    std::string_view instead = " is missing here";
    if (found == "{%}") instead = " is missing here: a command has the number of its slot as $LOCKSLEY_SLOT";
    return shown(found) + std::string(instead) +
           "; as mere text, give it by --env, or as one of the arguments after :::";
  }
  return {};
}

// The command with the same script, in which "$1", "$2" … stand for the replacement strings, and
// with these strings as words after the script. For a script with quotes that is not possible: the
// result is then an example.
std::string with_arguments(std::string_view shell, std::string_view script) {
  if (script.find_first_of("'\"\\`") != std::string_view::npos)
    return std::string(shell) + " -c 'sort \"$1\" | uniq' _ {}";
  std::string text;
  std::vector<std::string> found;
  while (!script.empty()) {
    Replacement replacement;
    const std::size_t length = read_replacement(script, replacement);
    if (length == 0 || replacement.is_number) {
      const std::size_t plain = std::max<std::size_t>(length, 1);
      text += script.substr(0, plain);
      script.remove_prefix(plain);
      continue;
    }
    const std::string name(script.substr(0, length));
    const auto place = std::ranges::find(found, name) - found.begin();
    if (place == static_cast<std::ptrdiff_t>(found.size())) found.push_back(name);
    text += "\"$" + (place < 9 ? std::to_string(place + 1) : "{" + std::to_string(place + 1) + "}") + "\"";
    script.remove_prefix(length);
  }
  if (found.empty()) {
    text += " \"$1\"";
    found.emplace_back("{}");
  }
  std::string line = std::string(shell) + " -c " + quoted_command(std::array{text}) + " _";
  for (const std::string& name : found) line += " " + name;
  return shown(line);
}

bool is_file(std::string_view word, std::string_view directory) {
  std::error_code problem;
  return word.find('/') != std::string_view::npos &&
         std::filesystem::exists(std::filesystem::path(directory) / word, problem);
}

// A path with spaces or parentheses, of a file that may exist only where the daemon is.
bool may_be_path(std::string_view word) {
  return word.starts_with('/') && word.find_first_of("\t\n|&;<>$`") == std::string_view::npos;
}

std::string problem_with_program(std::string_view program, std::string_view directory) {
  if (program.find_first_of(" \t\n|&;<>()$`") == std::string_view::npos || may_be_path(program) ||
      is_file(program, directory))
    return {};
  return "'" + shown(program) + "' is no program. " +
         std::string(kNeedsShell.substr(0, kNeedsShell.find(':'))) + ": locksley exec -- " +
         with_arguments("sh", program);
}

bool is_shell(std::string_view word) {
  static constexpr std::array<std::string_view, 8> kShells{"sh",  "bash", "dash", "zsh",
                                                           "ksh", "mksh", "ash",  "fish"};
  return std::ranges::find(kShells, base_of(word)) != kShells.end();
}

// A program whose arguments are another command.
bool is_wrapper(std::string_view word) {
  static constexpr std::array<std::string_view, 13> kWrappers{
      "env",  "nice",    "nohup", "ionice", "timeout",     "setsid", "stdbuf",
      "chrt", "taskset", "time",  "sudo",   "systemd-run", "flock"};
  return std::ranges::find(kWrappers, base_of(word)) != kWrappers.end();
}

// Of `sh -eu -o pipefail -c SCRIPT`, the script: the first word that is no option, if one of the
// options before it is -c. Null: there is none.
const std::string* script_of(std::span<const std::string> words) {
  bool has_script = false;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const bool is_option = word.size() > 1 && (word.front() == '-' || word.front() == '+');
    if (!is_option) return has_script ? &word : nullptr;
    if (word.starts_with("--")) continue;
    has_script |= word.front() == '-' && word.contains('c');
    if (word.ends_with('o') || word.ends_with('O')) ++i;
  }
  return nullptr;
}

std::string problem_with_script(std::span<const std::string> words) {
  auto shell = words.begin();
  if (is_wrapper(*shell)) shell = std::ranges::find_if(words, is_shell);
  if (shell == words.end() || !is_shell(*shell)) return {};
  const std::string* const script =
      script_of(words.subspan(static_cast<std::size_t>(shell - words.begin()) + 1));
  if (script == nullptr) return {};
  Replacement found;
  if (read_replacement(*script, found) == script->size()) return {};
  for (std::size_t at = 0; at < script->size(); ++at) {
    const std::size_t length = read_replacement(std::string_view(*script).substr(at), found);
    if (length == 0 || found.is_number) continue;
    return script->substr(at, length) + " within the script of " + shown(*shell) +
           " -c is refused: the shell would execute what an argument contains. Hand it over as a word after "
           "the script: locksley exec -- " +
           with_arguments(shown(*shell), *script);
  }
  return {};
}

}  // namespace

std::string problem_with_exec_command(std::span<const std::string> words, std::string_view directory) {
  if (words.empty()) return {};
  for (const std::string& word : words) {
    if (auto problem = problem_with_replacements(word); !problem.empty()) return problem;
  }
  if (auto problem = problem_with_program(words.front(), directory); !problem.empty()) return problem;
  return problem_with_script(words);
}

}  // namespace locksley::cli
