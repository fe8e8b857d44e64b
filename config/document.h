#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "config/problem.h"

namespace locksley::config {

// A YAML document as it was written: entries in their order, those that are there twice included, aliases not
// followed. It is what the YAML library's events say and no more, so that the traps of YAML are met here and
// not inside the library. A tree in the plain sense: its size is bounded by the file's.
struct Node {
  enum class Kind { kNull, kScalar, kList, kMap, kAlias };

  Kind kind = Kind::kNull;
  Position position;
  std::string text;          // of a scalar, quotes and escapes undone
  bool is_quoted = false;    // the scalar was written in quotes or as a block
  bool is_unclosed = false;  // its closing quote is missing
  bool has_anchor = false;   // &name stood before it
  bool has_tag = false;      // !tag stood before it
  std::vector<Node> keys;    // of a map; keys[i] belongs to items[i]
  std::vector<Node> items;   // of a list or a map

  // find_forbidden_forms() reports it and there is no value to read.
  bool is_unreadable() const { return kind == Kind::kAlias || is_unclosed; }
};

// "nothing", "a list", "a mapping", "an alias", or the scalar in quotes, shortened: completes "found ...".
std::string describe(const Node& node);

// What YAML allows and a configuration must not have, because readers of YAML disagree about it or because it
// can grow without bound: a key twice, keys that are no scalars, anchors, aliases, merge keys, tags, and
// closing quotes that the library does not miss. The problems name no file.
std::vector<Problem> find_forbidden_forms(const Node& root);

}  // namespace locksley::config
