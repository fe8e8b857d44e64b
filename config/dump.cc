#include "config/dump.h"

#include <algorithm>
#include <concepts>
#include <optional>
#include <string_view>

#include "config/schema.h"
#include "config/words.h"

namespace locksley::config {
namespace {

// Texts that need no quotes: every YAML reader reads them as the same text.
bool is_plain(std::string_view text) {
  const auto ordinary = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == '/';
  };
  if (text.empty() || text.front() == '-' || text.front() == '.') return false;
  return std::ranges::all_of(text, ordinary) && text != "null" && text != "Null" && text != "NULL";
}

std::string written(std::string_view text) {
  if (is_plain(text)) return std::string(text);
  static constexpr std::string_view kHex = "0123456789abcdef";
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      result += "\\x";
      result += kHex[byte >> 4];
      result += kHex[byte & 15];
    } else {
      result += c;
    }
  }
  return result + "\"";
}

std::string written(const std::string& text) { return written(std::string_view(text)); }
std::string written(std::unsigned_integral auto number) { return std::to_string(number); }
std::string written(Duration duration) { return to_string(duration); }
std::string written(Bytes bytes) { return to_string(bytes); }
std::string written(Rate rate) { return to_string(rate); }
std::string written(Worded auto word) { return std::string(word_of(word)); }

template <class T>
std::string written(const std::vector<T>& list) {
  std::string result = "[";
  for (const T& item : list) {
    if (result.size() > 1) result += ", ";
    result += written(item);
  }
  return result + "]";
}

std::string written(const Slots& slots) {
  return slots.names.empty() ? written(slots.count) : written(slots.names);
}

std::string written(const Exec& exec) {
  if (exec == Exec{.is_on = true}) return "true";
  return exec.is_on ? "{max_output: " + written(exec.max_output) + "}" : "false";
}

// Visits the values that are written, each once, and passes them to Line.
template <class Line>
class ValueVisitor {
 public:
  explicit ValueVisitor(Line& line) : line_(line) {}

  template <class Walk>
  void section(std::string_view name, const Walk& walk) {
    line_.begin_section(name);
    walk();
    line_.end_section();
  }

  template <class Entry, class Walk>
  void entries(Key key, const std::map<std::string, Entry>& entries, const TextRule&, const Walk& walk) {
    auto at = line_.first_of(entries);
    if (entries.empty()) return line_.value(key.name, "{}");
    section(key.name, [&] {
      for (; at != entries.end() && line_.takes(at->first); ++at) {
        is_in_entry_ = true;
        section(at->first, [&] { walk(*this, at->second); });
        is_in_entry_ = false;
      }
    });
  }

  template <class T, class Rule>
  void key(Key key, const T& value, const Rule&) {
    line_.value(key.name, written(value));
  }

  // In an entry, an empty text or list stands for a key that is not there.
  template <class Rule>
  void key(Key key, const std::string& value, const Rule&) {
    if (!is_in_entry_ || !value.empty()) line_.value(key.name, written(value));
  }

  template <class T, class Rule>
  void key(Key key, const std::vector<T>& value, const Rule&) {
    if (!is_in_entry_ || !value.empty()) line_.value(key.name, written(value));
  }

  void key(Key key, Limit value, const LimitRule<std::uint64_t>&) { limit(key, value, written(value.count)); }
  void key(Key key, Limit value, const LimitRule<Bytes>&) { limit(key, value, written(Bytes{value.count})); }

  template <class T, class Rule>
  void key(Key key, const std::optional<T>& value, const Rule&) {
    if (value) line_.value(key.name, written(*value));
  }

 private:
  void limit(Key key, Limit value, const std::string& text) {
    if (!value.is_auto) return line_.value(key.name, text);
    // 0: no limit, or not derived.
    if (value.count == 0) return line_.value(key.name, std::string(kAuto));
    line_.derived(key.name, text);
  }

  Line& line_;
  bool is_in_entry_ = false;
};

// Lines of YAML. A section without a value has none.
class YamlLines {
 public:
  void begin_section(std::string_view name) { sections_.push_back(written(name) + ":"); }
  void end_section() {
    sections_.pop_back();
    begun_ = std::min(begun_, sections_.size());
  }
  // All entries of a map.
  template <class Entries>
  auto first_of(const Entries& entries) const {
    return entries.begin();
  }
  bool takes(const std::string&) const { return true; }
  void value(std::string_view name, const std::string& text) { line(std::string(name) + ": " + text); }
  void derived(std::string_view name, const std::string& text) {
    line(std::string(name) + ": " + std::string(kAuto) + "  # " + text);
  }
  std::string take() { return std::move(text_); }

 private:
  void line(const std::string& content) {
    for (; begun_ < sections_.size(); ++begun_) write(begun_, sections_[begun_]);
    write(begun_, content);
  }
  void write(std::size_t depth, const std::string& content) {
    text_.append(2 * depth, ' ').append(content) += '\n';
  }

  std::string text_;
  std::vector<std::string> sections_;
  std::size_t begun_ = 0;  // so many of these have their line
};

// Removes the password from `user:password@host` and from `password=…` in the query.
std::string without_password(std::string url) {
  constexpr std::string_view kHidden = "***";
  const std::size_t begin = url.find("://");
  if (begin == std::string::npos) return url;
  constexpr std::string_view kQuery = "password=";
  for (std::size_t at = url.find(kQuery); at != std::string::npos;
       at = url.find(kQuery, at + kQuery.size())) {
    if (url[at - 1] != '?' && url[at - 1] != '&' && url[at - 1] != 'l') continue;  // sslpassword, too
    const std::size_t value = at + kQuery.size();
    url.replace(value, std::min(url.find('&', value), url.size()) - value, kHidden);
  }
  const std::size_t at = url.find('@', begin);
  const std::size_t colon = url.find(':', begin + 3);
  if (at != std::string::npos && colon < at) url.replace(colon + 1, at - colon - 1, kHidden);
  return url;
}

}  // namespace

Config without_password(Config config) {
  config.store.url = without_password(std::move(config.store.url));
  return config;
}

std::string dump(const Config& config) {
  YamlLines lines;
  ValueVisitor visitor(lines);
  visit_keys(visitor, config);
  return lines.take();
}

// Dotted keys of one part.
class DottedPairs {
 public:
  DottedPairs(const Config& config, const ValueParts::Place& from, Values& into)
      : config_(config), from_(from), into_(into), is_within_(from.map == 0) {}

  void begin_section(std::string_view name) { path_.push_back(dotted(path(), name)); }
  void end_section() { path_.pop_back(); }
  // The first entry that may belong to the part.
  template <class Entries>
  auto first_of(const Entries& entries) {
    ++map_;
    last_.reset();
    if (map_ != from_.map) return is_within_ ? entries.begin() : entries.end();
    is_within_ = true;
    last_ = from_.after;
    return last_ ? entries.upper_bound(*last_) : entries.begin();
  }
  // Whether the part has this entry. If not, it is complete.
  bool takes(const std::string& name) {
    if (entries_ == ValueParts::kMostEntries) {
      next_ = {.map = map_, .after = last_};
      is_within_ = false;
      return false;
    }
    ++entries_;
    last_ = name;
    return true;
  }
  void value(std::string_view name, const std::string& text) {
    if (!is_within_ || name == "password_hash") return;
    const bool is_url = name == "url" && path() == "store";
    into_.emplace_back(dotted(path(), name), is_url ? written(without_password(config_.store.url)) : text);
  }
  void derived(std::string_view name, const std::string&) { value(name, std::string(kAuto)); }

  // Where the next part begins; none: this was the last.
  const std::optional<ValueParts::Place>& next() const { return next_; }

 private:
  std::string path() const { return path_.empty() ? std::string() : path_.back(); }

  const Config& config_;
  const ValueParts::Place& from_;
  Values& into_;
  bool is_within_;                   // the entry that is visited now belongs to the part
  std::size_t map_ = 0;              // the one that is visited, or was last
  std::size_t entries_ = 0;          // of the part
  std::optional<std::string> last_;  // entry of this map
  std::optional<ValueParts::Place> next_;
  std::vector<std::string> path_;
};

bool ValueParts::read_some(const Config& config, Values& into) {
  DottedPairs pairs(config, next_, into);
  ValueVisitor visitor(pairs);
  visit_keys(visitor, config);
  const std::optional<Place>& next = pairs.next();
  if (next) next_ = *next;
  return !next;
}

Values list_values(const Config& config) {
  Values values;
  ValueParts parts;
  while (!parts.read_some(config, values)) {
  }
  return values;
}

}  // namespace locksley::config
