#include "daemon/cli/names/name_parts.h"

#include <charconv>
#include <optional>
#include <system_error>

namespace locksley::cli {

std::string_view base_of(std::string_view name) { return name.substr(name.rfind('/') + 1); }

std::string_view folders_of(std::string_view name) {
  while (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);
  const std::size_t slash = name.rfind('/');
  if (slash == std::string_view::npos) return ".";
  name = name.substr(0, slash + 1);
  while (name.size() > 1 && name.ends_with('/')) name.remove_suffix(1);
  return name;
}

std::string_view without_extension(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || name.find('/', dot) != std::string_view::npos) return name;
  return name.substr(0, dot);
}

namespace {

// `mark`: the text between the braces. None: it is no replacement string.
std::optional<NamePart> name_part_of(std::string_view mark) {
  if (mark.empty()) return NamePart::kWhole;
  if (mark == ".") return NamePart::kWithoutExtension;
  if (mark == "/") return NamePart::kBase;
  if (mark == "//") return NamePart::kFolders;
  if (mark == "/.") return NamePart::kBaseWithoutExtension;
  return std::nullopt;
}

}  // namespace

std::size_t read_replacement(std::string_view text, Replacement& replacement) {
  const std::size_t end = text.find('}');
  if (!text.starts_with('{') || end == std::string_view::npos) return 0;
  std::string_view mark = text.substr(1, end - 1);
  replacement = {};
  if (mark == "#") {
    replacement.is_number = true;
    return end + 1;
  }
  const auto [rest, error] = std::from_chars(mark.data(), mark.data() + mark.size(), replacement.position);
  const bool has_position = rest != mark.data();
  if (has_position && (error != std::errc{} || replacement.position == 0)) return 0;
  mark.remove_prefix(static_cast<std::size_t>(rest - mark.data()));
  const auto part = name_part_of(mark);
  if (!part) return 0;
  replacement.part = *part;
  return end + 1;
}

std::string_view part_of(std::string_view name, NamePart part) {
  switch (part) {
    case NamePart::kWithoutExtension:
      return without_extension(name);
    case NamePart::kBase:
      return base_of(name);
    case NamePart::kFolders:
      return folders_of(name);
    case NamePart::kBaseWithoutExtension:
      return without_extension(base_of(name));
    case NamePart::kWhole:
      break;
  }
  return name;
}

}  // namespace locksley::cli
