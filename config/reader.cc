// Length: one visitor of the schema, with a function for each type of value.
#include "config/reader.h"

#include <algorithm>
#include <concepts>
#include <optional>

#include "config/keys.h"
#include "config/nearest.h"
#include "config/password_hash.h"
#include "config/schema.h"
#include "config/words.h"

namespace locksley::config {
namespace {

// Why a text is not a valid value.
struct Mismatch {
  std::string expected;
  std::string suggestion;
  std::string found = {};  // empty: the text itself
};

template <class T>
using Parsed = std::expected<T, Mismatch>;

// What was expected, for a text that is not a value of this kind, and for one with leading zeros. A
// number that is too large for the type is reported as out of the key's bounds.
struct Wording {
  std::string_view syntax;
  std::string_view leading_zero;
};

template <class T, class Rule>
Parsed<T> checked(const std::expected<T, UnitError>& parsed, const Wording& wording, const Rule& rule) {
  if (!parsed) {
    switch (parsed.error().fault) {
      case UnitFault::kSyntax:
        return std::unexpected(Mismatch{std::string(wording.syntax), parsed.error().suggestion});
      case UnitFault::kLeadingZero:
        return std::unexpected(Mismatch{std::string(wording.leading_zero), parsed.error().suggestion});
      case UnitFault::kTooLarge:
        return std::unexpected(Mismatch{describe(rule), ""});
    }
  }
  if (const auto expected = fault(rule, *parsed)) return std::unexpected(Mismatch{*expected, ""});
  return *parsed;
}

Parsed<std::uint64_t> parse(const Node& node, const Bounds<std::uint64_t>& bounds) {
  if (node.is_quoted) return std::unexpected(Mismatch{describe(bounds) + ", without quotes", ""});
  return checked(parse_count(node.text), {describe(bounds), "a whole number without leading zeros"}, bounds);
}

Parsed<Duration> parse(const Node& node, const Bounds<Duration>& bounds) {
  return checked(parse_duration(node.text),
                 {"a duration such as 10ms (us, ms, s, m, h, d)", "a duration without leading zeros"},
                 bounds);
}

Parsed<Bytes> parse(const Node& node, const Bounds<Bytes>& bounds) {
  return checked(parse_bytes(node.text),
                 {"a size such as 64MiB (B, KiB, MiB, GiB, TiB)", "a size without leading zeros"}, bounds);
}

Parsed<Rate> parse(const Node& node, const Bounds<Rate>& bounds) {
  return checked(parse_rate(node.text), {"a rate such as 20/s (/s, /m, /h)", "a rate without leading zeros"},
                 bounds);
}

// "auto", or the same as the others.
template <class T>
Parsed<Limit> parse(const Node& node, const LimitRule<T>& rule) {
  if (node.text == kAuto && !node.is_quoted) return auto_limit();
  const auto value = parse(node, rule.bounds);
  if (!value) {
    Mismatch mismatch = value.error();
    mismatch.expected += ", or auto";
    return std::unexpected(std::move(mismatch));
  }
  if constexpr (std::same_as<T, Bytes>) {
    return Limit{.count = value->count};
  } else {
    return Limit{.count = *value};
  }
}

Parsed<std::string> parse(const Node& node, const TextRule& rule) {
  if (const auto expected = fault(rule, node.text)) return std::unexpected(Mismatch{*expected, ""});
  return node.text;
}

Parsed<std::string> parse(const Node& node, HashRule) {
  if (auto found = fault_of_hash(node.text)) {
    return std::unexpected(Mismatch{std::string(HashRule::kExpected), "", *std::move(found)});
  }
  return node.text;
}

Parsed<std::string> parse(const Node& node, DatabaseRule) {
  if (auto found = fault_of_database(node.text)) {
    return std::unexpected(Mismatch{std::string(DatabaseRule::kExpected), "", *std::move(found)});
  }
  return node.text;
}

template <Worded E>
std::vector<std::string> all_words() {
  std::vector<std::string> result;
  for (const Word<E>& word : words(E{})) result.emplace_back(word.word);
  return result;
}

// "time or jobs", "fsync, async or none"
std::string joined(const std::vector<std::string>& choices) {
  std::string result;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) result += i + 1 == choices.size() ? " or " : ", ";
    result += choices[i];
  }
  return result;
}

template <Worded E>
Parsed<E> parse_word(const Node& node) {
  for (const Word<E>& word : words(E{})) {
    if (word.word == node.text) return word.value;
  }
  const std::vector<std::string> choices = all_words<E>();
  return std::unexpected(Mismatch{joined(choices), nearest_name(node.text, choices)});
}

// The dotted key of this name in another section, for a key at the wrong depth; empty: there is
// none.
std::string place_of(const std::string& name) {
  for (const std::string& path : all_keys()) {
    if (path.ends_with("." + name)) return path;
  }
  return {};
}

class Reader {
 public:
  explicit Reader(const Node& root) : map_(&root) {}

  Reading read() && {
    if (map_->kind == Node::Kind::kMap || map_->kind == Node::Kind::kNull) {
      visit_keys(*this, reading_.config);
      report_unknown_keys();
    } else if (!map_->is_unreadable()) {
      report(map_->position, "", {"a mapping of sections such as listen: {port: 7770}", ""}, *map_);
    }
    return std::move(reading_);
  }

  template <class Walk>
  void section(std::string_view name, const Walk& walk) {
    const Found found = find(name);
    const Node* inner = nullptr;
    if (found.value != nullptr) {
      const std::string path = dotted(path_, name);
      inner = map_or_report(found, path, "a mapping of keys", true);
      remember(path, found, inner != nullptr);
    }
    descend(name, inner, walk);
  }

  template <class Entry, class Walk>
  void entries(Key key, std::map<std::string, Entry>& entries, const TextRule& name_rule, const Walk& walk) {
    const Found found = find(key.name);
    if (found.value == nullptr) return;
    const std::string path = dotted(path_, key.name);
    const Node* map = map_or_report(found, path, "a mapping of names", true);
    remember(path, found, map != nullptr);
    if (map == nullptr) return;
    for (std::size_t i = 0; i < map->items.size(); ++i) {
      const Node& name = map->keys[i];
      if (is_forbidden_key(name) || entries.contains(name.text)) continue;
      const Found entry{&name, &map->items[i]};
      const std::string entry_path = dotted(path, name.text);
      if (const auto expected = fault(name_rule, name.text)) {
        report(name.position, entry_path, {*expected, ""}, name);
        continue;
      }
      const Node* inner = map_or_report(entry, entry_path, "a mapping of keys", false);
      remember(entry_path, entry, inner != nullptr);
      if (inner == nullptr) continue;
      Entry& value = entries[name.text];
      descend(entry_path, inner, [&] { walk(*this, value); }, true);
    }
  }

  template <std::unsigned_integral T>
  void key(Key key, T& value, const Bounds<std::uint64_t>& bounds) {
    scalar(key, value, describe(bounds), [&](const Node& node) { return parse(node, bounds); });
  }

  void key(Key key, Duration& value, const Bounds<Duration>& bounds) {
    scalar(key, value, describe(bounds), [&](const Node& node) { return parse(node, bounds); });
  }

  void key(Key key, Bytes& value, const Bounds<Bytes>& bounds) {
    scalar(key, value, describe(bounds), [&](const Node& node) { return parse(node, bounds); });
  }

  template <class T>
  void key(Key key, Limit& value, const LimitRule<T>& rule) {
    const std::uint64_t before = value.count;
    scalar(key, value, describe(rule), [&](const Node& node) { return parse(node, rule); });
    // As if the file did not have the key, until derive_limits() is called.
    if (value.is_auto) value.count = before;
  }

  void key(Key key, Rate& value, const Bounds<Rate>& bounds) {
    scalar(key, value, describe(bounds), [&](const Node& node) { return parse(node, bounds); });
  }

  void key(Key key, std::optional<Rate>& value, const Bounds<Rate>& bounds) {
    scalar(key, value, describe(bounds), [&](const Node& node) { return parse(node, bounds); });
  }

  template <std::unsigned_integral T>
  void key(Key key, std::optional<T>& value, const Bounds<std::uint64_t>& bounds) {
    std::uint64_t number = 0;
    bool is_read = false;
    scalar(key, number, describe(bounds), [&](const Node& node) {
      const auto parsed = parse(node, bounds);
      is_read = parsed.has_value();
      return parsed;
    });
    if (is_read) value = static_cast<T>(number);  // the bounds fit the type
  }

  void key(Key key, std::string& value, const TextRule& rule) {
    scalar(key, value, rule.expected, [&](const Node& node) { return parse(node, rule); });
  }

  void key(Key key, std::string& value, HashRule rule) {
    scalar(key, value, HashRule::kExpected, [&](const Node& node) { return parse(node, rule); });
  }

  void key(Key key, std::string& value, DatabaseRule rule) {
    scalar(key, value, DatabaseRule::kExpected, [&](const Node& node) { return parse(node, rule); });
  }

  void key(Key key, Slots& value, const SlotsRule& rule) {
    const Node* const node = look_up(key.name).value;
    if (node == nullptr || node->kind != Node::Kind::kList)
      return scalar(key, value.count, describe(rule), [&](const Node& count) -> Parsed<std::uint64_t> {
        if (auto parsed = parse(count, rule.count)) return parsed;
        return std::unexpected(Mismatch{describe(rule), ""});
      });
    this->key(key, value.names, ListRule{rule.name});
    value.count = static_cast<std::uint32_t>(value.names.size());
  }

  void key(Key key, Exec& value, const ExecRule& rule) {
    if (const Node* const node = look_up(key.name).value; node == nullptr || node->kind != Node::Kind::kMap) {
      return scalar(key, value.is_on, ExecRule::kExpected, [](const Node& word) -> Parsed<bool> {
        if (word.text == "true" || word.text == "false") return word.text == "true";
        const std::vector<std::string> choices{"false", "true"};
        return std::unexpected(Mismatch{std::string(ExecRule::kExpected), nearest_name(word.text, choices)});
      });
    }
    value.is_on = true;
    section(key.name, [&] { this->key(Key{"max_output", key.change}, value.max_output, rule.max_output); });
  }

  template <Worded E>
  void key(Key key, E& value, WordRule) {
    scalar(key, value, joined(all_words<E>()), [](const Node& node) { return parse_word<E>(node); });
  }

  void key(Key key, std::vector<std::string>& value, const ListRule& rule) {
    list(key, value, "a list such as [first, second]", rule.empty,
         [&](const Node& node) { return parse(node, rule.item); });
  }

  template <Worded E>
  void key(Key key, std::vector<E>& value, WordRule) {
    list(key, value, "a list of " + joined(all_words<E>()), ListRule::Empty::kRefused,
         [](const Node& node) { return parse_word<E>(node); });
  }

 private:
  struct Found {
    const Node* key = nullptr;
    const Node* value = nullptr;  // null: the file does not have the key
  };

  // Keys that find_forbidden_forms() has reported.
  static bool is_forbidden_key(const Node& key) {
    return (key.kind != Node::Kind::kScalar && key.kind != Node::Kind::kNull) ||
           (key.text == "<<" && !key.is_quoted);
  }

  // The first entry of this name. find_forbidden_forms() reports the others as duplicates.
  Found find(std::string_view name) {
    known_.emplace_back(name);
    return look_up(name);
  }

  Found look_up(std::string_view name) const {
    if (map_ == nullptr) return {};
    const auto same = [&](const Node& key) { return key.kind == Node::Kind::kScalar && key.text == name; };
    const auto key = std::ranges::find_if(map_->keys, same);
    if (key == map_->keys.end()) return {};
    return {&*key, &map_->items[static_cast<std::size_t>(key - map_->keys.begin())]};
  }

  // An empty value has no position worth showing.
  static Position position_of(const Found& found) {
    return found.value->kind == Node::Kind::kNull ? found.key->position : found.value->position;
  }

  const Node* map_or_report(const Found& found, const std::string& path, std::string expected,
                            bool is_null_allowed) {
    const Node& value = *found.value;
    if (value.kind == Node::Kind::kMap || (value.kind == Node::Kind::kNull && is_null_allowed)) return &value;
    if (!value.is_unreadable()) {
      report(position_of(found), path, {std::move(expected), ""}, value);
    }
    return nullptr;
  }

  // Maps and lists are shown where their key stands: their own position is that of their first
  // item.
  void remember(const std::string& path, const Found& found, bool is_valid) {
    const bool is_scalar = found.value->kind == Node::Kind::kScalar;
    reading_.origins.try_emplace(path, Origin{is_scalar ? found.value->position : found.key->position,
                                              describe(*found.value), is_valid});
  }

  template <class T, class Parse>
  void scalar(Key key, T& value, std::string_view expected, const Parse& parse_node) {
    const Found found = find(key.name);
    if (found.value == nullptr) return;
    const std::string path = dotted(path_, key.name);
    bool is_valid = false;
    if (found.value->kind == Node::Kind::kScalar && !found.value->is_unclosed) {
      auto parsed = parse_node(*found.value);
      is_valid = parsed.has_value();
      if (is_valid) {
        if constexpr (std::unsigned_integral<T>) {
          value = static_cast<T>(*parsed);  // the bounds fit the type
        } else {
          value = *std::move(parsed);
        }
      } else {
        report(position_of(found), path, parsed.error(), *found.value);
      }
    } else if (!found.value->is_unreadable()) {
      report(position_of(found), path, {std::string(expected), ""}, *found.value);
    }
    remember(path, found, is_valid);
  }

  template <class T, class Parse>
  void list(Key key, std::vector<T>& value, const std::string& expected, ListRule::Empty empty,
            const Parse& parse_node) {
    const Found found = find(key.name);
    if (found.value == nullptr) return;
    const std::string path = dotted(path_, key.name);
    const Node& node = *found.value;
    const bool is_list = node.kind == Node::Kind::kList;
    const bool has_too_few = is_list && node.items.empty() && empty == ListRule::Empty::kRefused;
    bool is_valid = is_list && !has_too_few;
    if (has_too_few) {
      report(position_of(found), path, {expected + ", with one item at least", ""}, "an empty list");
    } else if (!is_valid && !node.is_unreadable()) {
      report(position_of(found), path, {expected, ""}, node);
    }
    std::vector<T> items;
    for (std::size_t i = 0; is_list && i < node.items.size(); ++i) {
      const Node& item = node.items[i];
      if (item.is_unreadable()) {
        is_valid = false;
        continue;
      }
      auto parsed = parse_node(item);
      if (item.kind != Node::Kind::kScalar || !parsed) {
        is_valid = false;
        const Position position = item.kind == Node::Kind::kNull ? found.key->position : item.position;
        report(position, path + "[" + std::to_string(i) + "]",
               parsed ? Mismatch{"a text", ""} : parsed.error(), item);
        continue;
      }
      items.push_back(*std::move(parsed));
    }
    if (is_valid) value = std::move(items);
    remember(path, found, is_valid);
  }

  // Walks the keys of `map` (null: the file does not have it) under `name`.
  template <class Walk>
  void descend(std::string_view name, const Node* map, const Walk& walk, bool is_whole_path = false) {
    const std::string outer_path = path_;
    const Node* const outer_map = map_;
    std::vector<std::string> outer_known = std::move(known_);
    path_ = is_whole_path ? std::string(name) : dotted(outer_path, name);
    map_ = map;
    known_.clear();
    walk();
    report_unknown_keys();
    path_ = outer_path;
    map_ = outer_map;
    known_ = std::move(outer_known);
  }

  void report_unknown_keys() {
    if (map_ == nullptr) return;
    for (const Node& key : map_->keys) {
      if (is_forbidden_key(key) || std::ranges::find(known_, key.text) != known_.end()) continue;
      std::string suggestion = nearest_name(key.text, known_);
      if (suggestion.empty()) suggestion = place_of(key.text);
      reading_.problems.push_back(
          {"", key.position.line, key.position.column, dotted(path_, key.text),
           suggestion.empty() ? "unknown key, expected " + joined(known_) : "unknown key",
           std::move(suggestion)});
    }
  }

  void report(Position position, const std::string& path, const Mismatch& mismatch, const Node& found) {
    report(position, path, mismatch, mismatch.found.empty() ? describe(found) : mismatch.found);
  }

  void report(Position position, const std::string& path, const Mismatch& mismatch,
              const std::string& found) {
    reading_.problems.push_back({"", position.line, position.column, path,
                                 "expected " + mismatch.expected + ", found " + found, mismatch.suggestion});
  }

  const Node* map_;  // whose keys are being read; null: the file does not have it
  std::string path_;
  std::vector<std::string> known_;  // names that were looked up in map_ so far
  Reading reading_;
};

}  // namespace

Reading read_config(const Node& root) { return Reader(root).read(); }

}  // namespace locksley::config
