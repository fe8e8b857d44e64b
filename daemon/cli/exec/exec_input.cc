#include "daemon/cli/exec/exec_input.h"

#include <algorithm>
#include <utility>

namespace locksley::cli {

using client::client_error;
using client::Expected;
using Kind = client::ClientError::Kind;

std::expected<ExecWords, std::string> ExecWords::parse(std::span<const std::string> words) {
  ExecWords result;
  for (const std::string& word : words) {
    if (word == "::::" || word == "::::+") {
      return std::unexpected(word + " is missing here: give the lines of a file on standard input, < FILE");
    }
    if (word == ":::" || word == ":::+") {
      result.lists.push_back({.goes_along = word == ":::+"});
    } else if (result.lists.empty()) {
      result.command.push_back(word);
    } else {
      result.lists.back().arguments.push_back(word);
    }
  }
  if (!result.lists.empty() && result.lists.front().goes_along)
    return std::unexpected(":::+ goes along with the list before it, and there is none: use :::");
  if (!result.command.empty() && result.command.front().empty())
    return std::unexpected("the command's program has an empty name");
  return result;
}

ExecInput::ExecInput(std::span<const ExecWords::List> lists, const Options& options, int input_fd,
                     int stop_fd)
    : lists_(lists), options_(options), records_(input_fd, options.separator, stop_fd) {}

bool ExecInput::next_combination(std::vector<std::string>& arguments) {
  // Of lists that go along with each other the shortest counts, as with GNU parallel.
  std::vector<std::size_t> sizes;
  for (const ExecWords::List& list : lists_) {
    if (!list.goes_along) sizes.push_back(list.arguments.size());
    sizes.back() = std::min(sizes.back(), list.arguments.size());
  }
  if (place_.empty()) {
    if (std::ranges::find(sizes, std::size_t{0}) != sizes.end()) return false;
    place_.assign(sizes.size(), 0);
  } else {
    std::size_t i = place_.size();
    for (; i > 0 && ++place_[i - 1] == sizes[i - 1]; --i) place_[i - 1] = 0;
    if (i == 0) {
      at_end_ = true;
      return false;
    }
  }
  arguments.clear();
  std::size_t driver = 0;
  for (const ExecWords::List& list : lists_) {
    if (!list.goes_along) ++driver;
    arguments.push_back(list.arguments[place_[driver - 1]]);
  }
  return true;
}

Expected<ExecInput::Outcome> ExecInput::next_records(std::vector<std::string>& arguments,
                                                     std::chrono::milliseconds patience) {
  std::string record;
  while (partial_.size() < options_.each) {
    const auto outcome = records_.next(record, patience);
    if (!outcome || *outcome == Outcome::kIdle) return outcome;
    if (*outcome == Outcome::kEnd) {
      at_end_ = true;
      if (partial_.empty()) return Outcome::kEnd;
      break;
    }
    ++record_;
    if (record.find('\0') != std::string::npos) {
      return client_error(Kind::kInput,
                          "line " + std::to_string(record_) +
                              " of the input has a NUL byte, which no argument can have: -0 reads "
                              "arguments that are separated by NUL");
    }
    if (options_.skips_empty && record.find_first_not_of(" \t") == std::string::npos) continue;
    partial_.push_back(std::move(record));
    record.clear();
  }
  arguments = std::exchange(partial_, {});
  return Outcome::kRecord;
}

Expected<ExecInput::Outcome> ExecInput::next(ExecJob& job, std::chrono::milliseconds patience) {
  if (at_end_) return Outcome::kEnd;
  if (!lists_.empty()) {
    if (!next_combination(job.arguments)) return Outcome::kEnd;
  } else {
    const auto outcome = next_records(job.arguments, patience);
    if (!outcome || *outcome != Outcome::kRecord) return outcome;
  }
  job.number = ++number_;
  return Outcome::kRecord;
}

}  // namespace locksley::cli
