#include "proto/exec_payload.h"

namespace locksley::proto {
namespace {

// The text up to the next NUL, which is removed with it. `at_end`: there was no NUL.
std::string_view next_text(std::string_view& rest, bool& at_end) {
  const std::size_t nul = rest.find('\0');
  const std::string_view text = rest.substr(0, nul);
  at_end = nul == std::string_view::npos;
  rest.remove_prefix(at_end ? rest.size() : nul + 1);
  return text;
}

}  // namespace

std::expected<ExecCommand, std::string> decode_exec_payload(std::string_view payload) {
  ExecCommand command;
  bool at_end = false;
  command.directory = next_text(payload, at_end);
  if (!command.directory.empty() && command.directory.front() != '/')
    return std::unexpected("the payload is no command: its directory is not an absolute path");
  for (;;) {
    if (at_end) return std::unexpected("the payload is no command: it ends before the program's name");
    const std::string_view variable = next_text(payload, at_end);
    if (variable.empty()) break;
    const std::size_t equals = variable.find('=');
    if (equals == 0 || equals == std::string_view::npos)
      return std::unexpected("the payload is no command: a variable is not NAME=value");
    command.variables.push_back(variable);
  }
  while (!at_end) command.words.push_back(next_text(payload, at_end));
  if (command.words.empty() || command.words.front().empty())
    return std::unexpected("the payload is no command: the program has no name");
  return command;
}

std::string encode_exec_payload(std::string_view directory, std::span<const std::string> variables,
                                std::span<const std::string> words) {
  std::string payload(directory);
  for (const std::string& variable : variables) payload.append(1, '\0').append(variable);
  payload.append(1, '\0');
  for (const std::string& word : words) payload.append(1, '\0').append(word);
  return payload;
}

}  // namespace locksley::proto
