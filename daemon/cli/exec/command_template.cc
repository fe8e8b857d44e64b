#include "daemon/cli/exec/command_template.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "daemon/cli/names/name_parts.h"

namespace locksley::cli {

CommandTemplate::CommandTemplate(std::span<const std::string> words) {
  bool has_replacement = false;
  for (const std::string& word : words) {
    words_.push_back(parse(word));
    has_replacement |=
        std::ranges::any_of(words_.back(), [](const Piece& piece) { return piece.form != Form::kText; });
  }
  if (!has_replacement) words_.push_back({{.form = Form::kWhole}});
}

std::size_t CommandTemplate::read_replacement(std::string_view text, Piece& piece) {
  if (!text.starts_with('{')) return 0;
  const std::size_t end = text.find('}');
  if (end == std::string_view::npos) return 0;
  std::string_view inner = text.substr(1, end - 1);
  piece = {};
  if (inner == "#") {
    piece.form = Form::kNumber;
    return end + 1;
  }
  const auto [rest, error] = std::from_chars(inner.data(), inner.data() + inner.size(), piece.position);
  const bool has_position = rest != inner.data();
  if (has_position && (error != std::errc{} || piece.position == 0)) return 0;
  inner.remove_prefix(static_cast<std::size_t>(rest - inner.data()));
  static constexpr std::pair<std::string_view, Form> kForms[] = {{"", Form::kWhole},
                                                                 {".", Form::kWithoutExtension},
                                                                 {"/", Form::kBase},
                                                                 {"//", Form::kFolders},
                                                                 {"/.", Form::kBaseWithoutExtension}};
  const auto* const found = std::ranges::find(kForms, inner, &std::pair<std::string_view, Form>::first);
  if (found == std::end(kForms)) return 0;
  piece.form = found->second;
  return end + 1;
}

CommandTemplate::Word CommandTemplate::parse(std::string_view text) {
  Word word;
  std::string plain;
  while (!text.empty()) {
    Piece piece{};
    const std::size_t length = read_replacement(text, piece);
    if (length == 0) {
      plain.push_back(text.front());
      text.remove_prefix(1);
      continue;
    }
    if (!plain.empty()) word.push_back({.form = Form::kText, .text = std::exchange(plain, {})});
    word.push_back(std::move(piece));
    text.remove_prefix(length);
  }
  if (!plain.empty() || word.empty()) word.push_back({.form = Form::kText, .text = std::move(plain)});
  return word;
}

std::string CommandTemplate::formed(Form form, std::string_view argument) {
  switch (form) {
    case Form::kWithoutExtension:
      return std::string(without_extension(argument));
    case Form::kBase:
      return std::string(base_of(argument));
    case Form::kFolders:
      return std::string(folders_of(argument));
    case Form::kBaseWithoutExtension:
      return std::string(without_extension(base_of(argument)));
    case Form::kText:
    case Form::kNumber:
    case Form::kWhole:
      break;
  }
  return std::string(argument);
}

std::vector<std::string> CommandTemplate::words(std::span<const std::string> arguments,
                                                std::uint64_t number) const {
  std::vector<std::string> result;
  for (const Word& word : words_) {
    const bool is_list = word.size() == 1 && word[0].position == 0 && word[0].form != Form::kText &&
                         word[0].form != Form::kNumber;
    if (is_list) {
      for (const std::string& argument : arguments) result.push_back(formed(word[0].form, argument));
      continue;
    }
    std::string& text = result.emplace_back();
    for (const Piece& piece : word) {
      if (piece.form == Form::kText) {
        text += piece.text;
      } else if (piece.form == Form::kNumber) {
        text += std::to_string(number);
      } else if (piece.position != 0) {
        if (piece.position <= arguments.size()) text += formed(piece.form, arguments[piece.position - 1]);
      } else {
        for (std::size_t i = 0; i < arguments.size(); ++i) {
          text.append(i == 0 ? "" : " ").append(formed(piece.form, arguments[i]));
        }
      }
    }
  }
  return result;
}

}  // namespace locksley::cli
