#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "config/problem.h"

namespace locksley::config {

// A YAML document as written: entries in their order, duplicates included, aliases not followed. It
// has exactly the content of the YAML library's events, so that our code, not the library, handles
// the traps of YAML. It is a tree, and its size is proportional to the size of the file.
struct Node {
  enum class Kind { kNull, kScalar, kList, kMap, kAlias };

  Kind kind = Kind::kNull;
  Position position;
  std::string text;          // of a scalar, quotes and escapes undone
  bool is_quoted = false;    // the scalar was written in quotes or as a block
  bool is_unclosed = false;  // its closing quote is missing
  bool has_anchor = false;   // it was preceded by &name
  bool has_tag = false;      // it was preceded by !tag
  std::vector<Node> keys;    // of a map; keys[i] belongs to items[i]
  std::vector<Node> items;   // of a list or a map

  // Whether there is no value to read; find_forbidden_forms() reports the problem.
  bool is_unreadable() const { return kind == Kind::kAlias || is_unclosed; }
};

// "nothing", "a list", "a mapping", "an alias", or the scalar in quotes, shortened: completes
// "found ...".
std::string describe(const Node& node);

// Finds the forms that YAML allows and a configuration must not have, because readers of YAML
// disagree about them or because they can grow without bound: duplicate keys, keys that are not
// scalars, anchors, aliases, merge keys, tags, and missing closing quotes that the library accepts.
// The problems name no file.
std::vector<Problem> find_forbidden_forms(const Node& root);

}  // namespace locksley::config
