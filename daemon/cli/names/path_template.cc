#include "daemon/cli/names/path_template.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace locksley::cli {

using client::client_error;
using client::Expected;
using ErrorKind = client::ClientError::Kind;

namespace {

// A part of a path that a name has made.
struct Range {
  std::size_t begin;
  std::size_t end;
};

// Whether a component is `..`, and the text of a name is part of it.
bool has_parent_from_name(std::string_view path, const std::vector<Range>& from_names) {
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    if (path.substr(begin, end - begin) == ".." && std::ranges::any_of(from_names, [&](const Range& range) {
          return range.begin <= end && range.end >= begin;
        }))
      return true;
    begin = end + 1;
  }
  return false;
}

// What a replacement string with this position stands for.
std::optional<std::string_view> name_at(std::size_t position, std::string_view name,
                                        std::span<const std::string> arguments) {
  if (position == 0 || (position == 1 && arguments.empty())) return name;
  if (position > arguments.size()) return std::nullopt;
  return arguments[position - 1];
}

}  // namespace

PathTemplate PathTemplate::parse(std::string_view text) {
  PathTemplate result;
  std::string plain;
  std::optional<std::string> before;  // the text before the first replacement string
  while (!text.empty()) {
    Replacement found;
    const std::size_t length = read_replacement(text, found);
    if (length == 0) {
      plain.push_back(text.front());
      text.remove_prefix(1);
      continue;
    }
    if (!before) before = plain;
    if (!plain.empty()) result.pieces_.push_back({.kind = Kind::kText, .text = std::exchange(plain, {})});
    result.needs_names_ |= !found.is_number;
    result.pieces_.push_back({.kind = found.is_number ? Kind::kNumber : Kind::kPart,
                              .part = found.part,
                              .position = found.position});
    text.remove_prefix(length);
  }
  result.is_folder_ = !before;
  result.folder_ = before ? before->substr(0, before->rfind('/') + 1) : plain;
  if (!plain.empty()) result.pieces_.push_back({.kind = Kind::kText, .text = std::move(plain)});
  return result;
}

Expected<std::string> PathTemplate::path(std::uint64_t index, std::string_view name,
                                         std::span<const std::string> arguments) const {
  if (is_folder_) return folder_ + "/" + std::to_string(index);
  std::string path;
  std::vector<Range> from_names;
  for (const Piece& piece : pieces_) {
    const std::size_t begin = path.size();
    switch (piece.kind) {
      case Kind::kText:
        path += piece.text;
        continue;
      case Kind::kNumber:
        path += std::to_string(index + 1);
        continue;
      case Kind::kPart:
        if (const auto whole = name_at(piece.position, name, arguments)) path += part_of(*whole, piece.part);
        break;
    }
    // At the beginning of a path, the folders of an input are those that the user named.
    const bool is_beside_input =
        begin == 0 && piece.part != NamePart::kBase && piece.part != NamePart::kBaseWithoutExtension;
    if (!is_beside_input) from_names.push_back({begin, path.size()});
  }
  const std::string whose = "--results: the output of '" + std::string(name) + "' ";
  if (has_parent_from_name(path, from_names)) {
    return client_error(ErrorKind::kLocal, whose + "would leave " + (folder_.empty() ? "./" : folder_) +
                                               " by a '..' in its path: " + path);
  }
  const std::string_view last = base_of(path);
  if (last.empty() || last == "." || last == "..") {
    return client_error(ErrorKind::kLocal, whose + "has a path that names no file: " + path);
  }
  if (path.find('\0') != std::string::npos) {
    return client_error(ErrorKind::kLocal, whose + "has a path with a NUL byte in it");
  }
  return path;
}

}  // namespace locksley::cli
