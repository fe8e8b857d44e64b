#include "proto/command_syntax.h"

#include <algorithm>
#include <cstddef>

namespace locksley::proto {
namespace {

// Guess: more options than these are looked up in a list anyway.
constexpr std::size_t kMostOptions = 8;

bool is_option(const ArgumentDoc& argument) { return argument.optional && !argument.token.empty(); }

std::string word_of(const ArgumentDoc& one) {
  std::string word(one.name);
  if (one.type == ArgumentDoc::Type::kPureToken) word = one.token;
  if (one.type == ArgumentDoc::Type::kOneOf) word = syntax(one.arguments, "|");
  if (one.type == ArgumentDoc::Type::kBlock) word = syntax(one.arguments);
  std::string with_token = word;
  if (one.type != ArgumentDoc::Type::kPureToken && !one.token.empty()) {
    with_token.insert(0, std::string(one.token) + ' ');
  }
  if (one.multiple) with_token += " [" + (one.multiple_token ? with_token : word) + " ...]";
  return one.optional ? '[' + with_token + ']' : with_token;
}

}  // namespace

std::string syntax(std::span<const ArgumentDoc> arguments, std::string_view separator) {
  std::string text;
  while (!arguments.empty()) {
    if (!text.empty()) text += separator;
    const auto options =
        static_cast<std::size_t>(std::ranges::find_if_not(arguments, is_option) - arguments.begin());
    const bool are_many = options > kMostOptions;
    text += are_many ? "[option ...]" : word_of(arguments.front());
    arguments = arguments.subspan(are_many ? options : 1);
  }
  return text;
}

}  // namespace locksley::proto
