#include "daemon/cli/exec/foreign_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>

#include "proto/batch_options.h"

namespace locksley::cli {
namespace {

struct Instead {
  std::string_view option;
  std::string_view text;
};

constexpr std::string_view kEachLine =
    "a line of standard input is one argument; -0 is for arguments that are separated by NUL";
constexpr std::string_view kOutputs = "an output is printed when its job has ended";
constexpr std::string_view kSomeLines = "-n N takes N lines for one command";
constexpr std::string_view kPacked = "-n N puts N arguments into one command";
constexpr std::string_view kOneArgument = "split the arguments within a script, or combine lists after :::";
constexpr std::string_view kRemote = "a handler with remote: true runs on other machines";
constexpr std::string_view kFilter = "filter or sort the lines before";
constexpr std::string_view kPipe =
    "a command has no standard input; cut the input into files, and give their names";

constexpr std::array kInstead = std::to_array<Instead>({
    {"-a", "give the file on standard input, < FILE"},
    {"--arg-file", "give the file on standard input, < FILE"},
    {"-C", kOneArgument},
    {"--colsep", kOneArgument},
    {"-d", kEachLine},
    {"--delimiter", kEachLine},
    {"--header", kOneArgument},
    {"-l", kSomeLines},
    {"-L", kSomeLines},
    {"--max-lines", kSomeLines},
    {"--line-buffer", kOutputs},
    {"--lb", kOutputs},
    {"-u", kOutputs},
    {"--ungroup", kOutputs},
    {"-m", kPacked},
    {"-X", kPacked},
    {"-x", kPacked},
    {"--xargs", kPacked},
    {"--nice", "begin the command with nice"},
    {"--pipe", kPipe},
    {"--pipepart", kPipe},
    {"--plus", "use {.} {/} {//} {/.}, or a shell for other parts of a name"},
    {"-p", "--dry-run prints the commands"},
    {"--interactive", "--dry-run prints the commands"},
    {"-q", "no shell is involved, so nothing needs to be quoted"},
    {"--quote", "no shell is involved, so nothing needs to be quoted"},
    {"-S", kRemote},
    {"--sshlogin", kRemote},
    {"--slf", kRemote},
    {"--sshloginfile", kRemote},
    {"-s", kPacked},
    {"--max-chars", kPacked},
    {"--shuf", kFilter},
    {"--skip-first-line", kFilter},
    {"-t", "the joblog has the commands, and --dry-run prints them"},
    {"-v", "the joblog has the commands, and --dry-run prints them"},
    {"--verbose", "the joblog has the commands, and --dry-run prints them"},
    {"--tagstring", "--tag prints the arguments"},
    {"--load", "-j, and the slots of the daemon's lane, bound how many commands run at once"},
    {"--memfree", "a handler has limits of memory"},
    {"--semaphore", "-j bounds how many commands run at once"},
});

}  // namespace

std::string_view instead_of_option(std::string_view word) {
  const std::string_view name = word.starts_with("--") ? word.substr(0, word.find('=')) : word.substr(0, 2);
  const auto found = std::ranges::find(kInstead, name, &Instead::option);
  return found == kInstead.end() ? std::string_view() : found->text;
}

std::expected<std::optional<std::uint32_t>, std::string> jobs_at_once(std::string_view text,
                                                                      unsigned processors) {
  const std::unexpected<std::string> problem{
      "expected a number of commands, or 50%, +1 or -1 of the processors, found '" + std::string(text) + "'"};
  const bool adds = text.starts_with('+');
  const bool takes = text.starts_with('-');
  const bool is_percent = text.ends_with('%');
  if ((adds || takes) && is_percent) return problem;
  text.remove_prefix(adds || takes ? 1 : 0);
  text.remove_suffix(is_percent ? 1 : 0);
  std::uint32_t number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || rest != text.data() + text.size()) return problem;
  const std::uint64_t cores = std::max(processors, 1U);
  std::uint64_t jobs = number;
  if (adds) jobs = cores + number;
  if (takes) jobs = cores - std::min<std::uint64_t>(number, cores);
  if (is_percent) jobs = cores * number / 100;
  if (adds || takes || is_percent) jobs = std::max<std::uint64_t>(jobs, 1);
  if (jobs == 0) return std::nullopt;
  return static_cast<std::uint32_t>(std::min(jobs, proto::BatchOptions::kMaxCount));
}

}  // namespace locksley::cli
