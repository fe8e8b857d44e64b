#include "config/load.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>
#include <system_error>
#include <tuple>
#include <utility>

#include "config/document.h"
#include "config/dump.h"
#include "config/nearest.h"
#include "config/reader.h"
#include "config/utf8.h"
#include "config/validate.h"

namespace locksley::config {
namespace {

using Problems = std::vector<Problem>;

// Byte offsets to positions.
class LineIndex {
 public:
  explicit LineIndex(std::string_view text) : text_(text) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') starts_.push_back(i + 1);
    }
  }

  Position at(std::size_t offset) const {
    offset = std::min(offset, text_.size());
    const auto next = std::ranges::upper_bound(starts_, offset);
    const std::size_t start = *std::prev(next);
    return {static_cast<std::size_t>(next - starts_.begin()),
            count_characters(text_.substr(start, offset - start)) + 1};
  }

  // The text from the start of the line on.
  std::string_view from(std::size_t line) const { return text_.substr(starts_.at(line - 1)); }

 private:
  std::string_view text_;
  std::vector<std::size_t> starts_{0};
};

// Whether the quoted scalar that starts at `open` has a closing quote. The library accepts the end
// of the text in its place.
bool is_quote_closed(std::string_view text, std::size_t open) {
  const char quote = text[open];
  for (std::size_t i = open + 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      if (quote == '"' || i + 1 == text.size() || text[i + 1] != quote) return true;
      ++i;  // '' is an apostrophe
    }
  }
  return false;
}

// The library reads the escapes \N and \_ as one byte each, 0x85 and 0xA0. They mean U+0085 and
// U+00A0, and these bytes are the second ones of their UTF-8. No other continuation byte stands
// alone: the text is UTF-8, and all other escapes become whole characters.
std::string with_whole_characters(std::string_view value) {
  std::string result;
  std::size_t to_come = 0;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (!continues_character(c)) {
      to_come = byte >= 0xF0 ? 3 : byte >= 0xE0 ? 2 : byte >= 0xC0 ? 1 : 0;
    } else if (to_come > 0) {
      --to_come;
    } else {
      result += '\xC2';
    }
    result += c;
  }
  return result;
}

bool is_indented_by_tab(std::string_view line) {
  const std::size_t content = line.find_first_not_of(" \t");
  return line.substr(0, content).find('\t') != std::string_view::npos;
}

// Builds the tree of one document from the library's events.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(std::string_view text, const LineIndex& lines) : text_(text), lines_(lines) {}

  const Node& root() const { return root_; }
  Position start() const { return start_; }

  void OnDocumentStart(const YAML::Mark& mark) override { start_ = position(mark); }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(node(Node::Kind::kNull, mark, "", anchor));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t /*anchor*/) override {
    add(node(Node::Kind::kAlias, mark, "", 0));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node scalar = node(Node::Kind::kScalar, mark, tag, anchor);
    scalar.text = with_whole_characters(value);
    scalar.is_quoted = tag == "!";
    const auto at = static_cast<std::size_t>(mark.pos);
    scalar.is_unclosed =
        at < text_.size() && (text_[at] == '"' || text_[at] == '\'') && !is_quote_closed(text_, at);
    add(std::move(scalar));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value /*style*/) override {
    open_.push_back(node(Node::Kind::kList, mark, tag, anchor));
  }

  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value /*style*/) override {
    open_.push_back(node(Node::Kind::kMap, mark, tag, anchor));
  }

  void OnMapEnd() override { close(); }

 private:
  Position position(const YAML::Mark& mark) const {
    return mark.is_null() ? Position{1, 1} : lines_.at(static_cast<std::size_t>(mark.pos));
  }

  // "?" is the library's tag for a plain value, "!" for a quoted one.
  Node node(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) const {
    Node result;
    result.kind = kind;
    result.position = position(mark);
    result.has_anchor = anchor != 0;
    result.has_tag = !tag.empty() && tag != "?" && tag != "!";
    return result;
  }

  void close() {
    Node finished = std::move(open_.back());
    open_.pop_back();
    add(std::move(finished));
  }

  void add(Node node) {
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Node& parent = open_.back();
    const bool is_key = parent.kind == Node::Kind::kMap && parent.keys.size() == parent.items.size();
    (is_key ? parent.keys : parent.items).push_back(std::move(node));
  }

  std::string_view text_;
  const LineIndex& lines_;
  Node root_;
  Position start_;
  std::vector<Node> open_;
};

std::unexpected<Problems> whole_file(const std::string& file, std::string message) {
  return std::unexpected(Problems{{file, 0, 0, "", std::move(message), ""}});
}

std::unexpected<Problems> at_position(const std::string& file, Position position, std::string message) {
  return std::unexpected(Problems{{file, position.line, position.column, "", std::move(message), ""}});
}

// The error for an escape that YAML does not know. The library's own message shows one byte after
// the backslash, which may be part of a character, or the library's mark for the end of the text.
std::unexpected<Problems> at_escape(std::string_view text, const LineIndex& lines, const std::string& file,
                                    std::size_t behind) {
  if (behind >= text.size() && text.ends_with('\\')) {
    return at_position(file, lines.at(behind), "expected a closing quote, found the end of the file");
  }
  const std::size_t start = behind - std::string_view("\\q").size();
  std::size_t end = behind;
  while (end < text.size() && continues_character(text[end])) ++end;
  return at_position(file, lines.at(start),
                     "not valid YAML: unknown escape " + in_quotes(text.substr(start, end - start)) +
                         ": in double quotes a backslash is written twice");
}

std::expected<Node, Problems> parse_document(std::string_view text, const std::string& file) {
  const LineIndex lines(text);
  if (const auto offset = find_unreadable(text)) {
    return at_position(file, lines.at(*offset),
                       "expected text in UTF-8, found a byte that is not, or a control character");
  }
  TreeBuilder first(text, lines);
  TreeBuilder second(text, lines);
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    const bool has_second = parser.HandleNextDocument(first) && parser.HandleNextDocument(second);
    if (has_second) {
      return at_position(file, second.start(), "expected one YAML document, found a second one");
    }
  } catch (const YAML::DeepRecursion& error) {
    return at_position(file, lines.at(static_cast<std::size_t>(error.mark.pos)),
                       "expected sections with keys in them, found too many levels of nesting");
  } catch (const YAML::Exception& error) {
    const auto offset = static_cast<std::size_t>(error.mark.pos);
    if (error.msg.starts_with(YAML::ErrorMsg::INVALID_ESCAPE)) return at_escape(text, lines, file, offset);
    const Position position = error.mark.is_null() ? Position{1, 1} : lines.at(offset);
    const std::string hint = is_indented_by_tab(lines.from(position.line))
                                 ? " (the line is indented with a tab, which YAML does not allow)"
                                 : "";
    return at_position(file, position, "not valid YAML: " + error.msg + hint);
  }
  return first.root();
}

std::expected<Node, Problems> parse_text(std::string_view text, const std::string& file) {
  if (text.size() > kMaxFileBytes) {
    return whole_file(
        file, "expected a file of at most " + to_string(Bytes{kMaxFileBytes}) + ", found a larger one");
  }
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  return parse_document(text, file);
}

std::expected<std::string, Problems> text_of(const std::filesystem::path& path) {
  const std::string name = path.string();
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return whole_file(name, "expected a configuration file, found a directory");
  }
  errno = 0;
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return whole_file(name, "cannot be opened: " + std::generic_category().message(errno));
  std::string text(kMaxFileBytes + 1, '\0');  // one more than allowed, to detect a longer file
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) return whole_file(name, "cannot be read: " + std::generic_category().message(errno));
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return text;
}

void append(Problems& problems, Problems more) { std::ranges::move(more, std::back_inserter(problems)); }

// The configuration that a document describes, or its problems, in the order of their lines; they
// name no file.
// `users`: those of the configuration, if the document leaves them out.
std::expected<Config, Problems> checked(const Node& document,
                                        const std::map<std::string, User>* users = nullptr) {
  Reading reading = read_config(document);
  if (users != nullptr) reading.config.users = *users;
  settle_limits(reading.config.limits, reading.origins);
  settle_users(reading.config);
  Problems problems = find_forbidden_forms(document);
  append(problems, std::move(reading.problems));
  append(problems, check(reading.config, reading.origins));
  if (problems.empty()) return std::move(reading.config);
  std::ranges::sort(problems, {},
                    [](const Problem& p) { return std::tie(p.line, p.column, p.key, p.message); });
  return std::unexpected(std::move(problems));
}

// Sets the value of a dotted key. False if there is no such section. The reader reports a key that
// the section does not have.
bool put_at(Node& root, std::string_view key, Node value) {
  Node* map = &root;
  for (std::size_t dot = key.find('.'); dot != std::string_view::npos; dot = key.find('.')) {
    const auto found = std::ranges::find(map->keys, key.substr(0, dot), &Node::text);
    if (found == map->keys.end()) return false;
    map = &map->items[static_cast<std::size_t>(found - map->keys.begin())];
    if (map->kind != Node::Kind::kMap) return false;
    key.remove_prefix(dot + 1);
  }
  const auto found = std::ranges::find(map->keys, key, &Node::text);
  if (found != map->keys.end()) {
    map->items[static_cast<std::size_t>(found - map->keys.begin())] = std::move(value);
    return true;
  }
  Node name;
  name.kind = Node::Kind::kScalar;
  name.text = key;
  map->keys.push_back(std::move(name));
  map->items.push_back(std::move(value));
  return true;
}

std::vector<std::string> names_in(const Config& config) {
  std::vector<std::string> names;
  for (auto& [key, value] : list_values(config)) names.push_back(std::move(key));
  return names;
}

}  // namespace

std::expected<Config, std::vector<Problem>> with_values(
    const Config& config, std::span<const std::pair<std::string, std::string>> values) {
  Problems problems;
  // The library needs seconds for ten thousand users: they are left out, unless one of the values
  // belongs to a user.
  const bool are_users_meant =
      std::ranges::any_of(values, [](const auto& value) { return value.first.starts_with("users"); });
  Config others = config;
  if (!are_users_meant) others.users.clear();
  Node root = *parse_document(dump(others), "");
  std::set<std::string, std::less<>> named;
  for (const auto& [key, text] : values) {
    if (!named.insert(key).second) {
      problems.push_back({"", 0, 0, key, "given twice", ""});
      continue;
    }
    auto value = parse_document(text, "");
    if (!value) {
      problems.push_back({"", 0, 0, key, value.error().front().message, ""});
    } else if (auto fault = find_forbidden_forms(*value); !fault.empty()) {
      problems.push_back({"", 0, 0, key, fault.front().message, ""});
    } else if (!put_at(root, key, std::move(*value))) {
      problems.push_back({"", 0, 0, key, "there is no such key", nearest_name(key, names_in(config))});
    }
  }
  if (!problems.empty()) return std::unexpected(std::move(problems));
  auto result = checked(root, are_users_meant ? nullptr : &config.users);
  if (!result) {
    for (Problem& problem : result.error()) problem.line = problem.column = 0;
  }
  return result;
}

std::expected<Config, std::vector<Problem>> load_text(std::string_view text, const std::string& file_name) {
  const auto document = parse_text(text, file_name);
  if (!document) return std::unexpected(document.error());

  auto config = checked(*document);
  if (!config) {
    for (Problem& problem : config.error()) problem.file = file_name;
  }
  return config;
}

std::expected<Config, std::vector<Problem>> load_file(const std::filesystem::path& path) {
  const auto text = text_of(path);
  if (!text) return std::unexpected(text.error());
  return load_text(*text, path.string());
}

std::vector<std::string> with_positions(const std::filesystem::path& path,
                                        std::vector<std::string> messages) {
  const auto text = text_of(path);
  const auto document = text ? parse_text(*text, "") : std::unexpected(text.error());
  if (!document) return messages;
  const Origins origins = read_config(*document).origins;
  for (std::string& message : messages) {
    std::string key = message.substr(0, message.find(": "));
    auto origin = origins.find(key);
    while (origin == origins.end() && key.find('.') != std::string::npos) {
      key.resize(key.rfind('.'));
      origin = origins.find(key);
    }
    if (origin == origins.end()) continue;
    const Position position = origin->second.position;
    message = to_string(Problem{path.string(), position.line, position.column, "", std::move(message), ""});
  }
  return messages;
}

}  // namespace locksley::config
