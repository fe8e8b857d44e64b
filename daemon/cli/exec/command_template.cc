#include "daemon/cli/exec/command_template.h"

#include <algorithm>
#include <utility>

namespace locksley::cli {

CommandTemplate::CommandTemplate(std::span<const std::string> words) {
  bool has_replacement = false;
  for (const std::string& word : words) {
    words_.push_back(parse(word));
    has_replacement |=
        std::ranges::any_of(words_.back(), [](const Piece& piece) { return piece.kind != Kind::kText; });
  }
  if (!has_replacement) words_.push_back({{.kind = Kind::kPart}});
}

CommandTemplate::Word CommandTemplate::parse(std::string_view text) {
  Word word;
  std::string plain;
  while (!text.empty()) {
    Replacement found;
    const std::size_t length = read_replacement(text, found);
    if (length == 0) {
      plain.push_back(text.front());
      text.remove_prefix(1);
      continue;
    }
    if (!plain.empty()) word.push_back({.kind = Kind::kText, .text = std::exchange(plain, {})});
    word.push_back({.kind = found.is_number ? Kind::kNumber : Kind::kPart,
                    .part = found.part,
                    .position = found.position});
    text.remove_prefix(length);
  }
  if (!plain.empty() || word.empty()) word.push_back({.kind = Kind::kText, .text = std::move(plain)});
  return word;
}

std::vector<std::string> CommandTemplate::words(std::span<const std::string> arguments,
                                                std::uint64_t number) const {
  std::vector<std::string> result;
  for (const Word& word : words_) {
    const bool is_list = word.size() == 1 && word[0].kind == Kind::kPart && word[0].position == 0;
    if (is_list) {
      for (const std::string& argument : arguments) result.emplace_back(part_of(argument, word[0].part));
      continue;
    }
    std::string& text = result.emplace_back();
    for (const Piece& piece : word) {
      if (piece.kind == Kind::kText) {
        text += piece.text;
      } else if (piece.kind == Kind::kNumber) {
        text += std::to_string(number);
      } else if (piece.position != 0) {
        if (piece.position <= arguments.size()) text += part_of(arguments[piece.position - 1], piece.part);
      } else {
        for (std::size_t i = 0; i < arguments.size(); ++i) {
          text.append(i == 0 ? "" : " ").append(part_of(arguments[i], piece.part));
        }
      }
    }
  }
  return result;
}

}  // namespace locksley::cli
