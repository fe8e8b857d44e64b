#include "config/document.h"

#include <map>
#include <string_view>

#include "config/keys.h"

namespace locksley::config {
namespace {

class Inspector {
 public:
  std::vector<Problem> take() { return std::move(problems_); }

  void inspect(const Node& node, const std::string& path) {
    if (node.kind == Node::Kind::kAlias) {
      report(node, path, "aliases (*name) are not supported: write the value out");
      return;
    }
    if (node.has_anchor) report(node, path, "anchors (&name) are not supported: write each value out");
    if (node.has_tag) report(node, path, "tags (!name) are not supported: write the plain value");
    if (node.is_unclosed) report(node, path, "expected a closing quote, found the end of the file");
    if (node.kind == Node::Kind::kMap) inspect_map(node, path);
    if (node.kind == Node::Kind::kList) {
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        inspect(node.items[i], path + "[" + std::to_string(i) + "]");
      }
    }
  }

 private:
  void inspect_map(const Node& node, const std::string& path) {
    std::map<std::string_view, std::size_t> first_lines;
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const Node& key = node.keys[i];
      if (key.kind != Node::Kind::kScalar && key.kind != Node::Kind::kNull) {
        report(key, path, "expected the name of a key, found " + describe(key));
        continue;
      }
      if (key.kind == Node::Kind::kScalar && key.text == "<<" && !key.is_quoted) {
        report(key, dotted(path, "<<"), "merge keys (<<) are not supported: write the values out");
        continue;
      }
      const std::string key_path = dotted(path, key.text);
      if (key.has_anchor || key.has_tag || key.is_unclosed) {
        report(key, key_path,
               key.is_unclosed ? "expected a closing quote, found the end of the file"
                               : "anchors and tags before a key are not supported");
      }
      const auto [first, is_new] = first_lines.emplace(key.text, key.position.line);
      if (!is_new) {
        report(key, key_path,
               "expected each key once, found it again; it is also on line " + std::to_string(first->second));
      }
      inspect(node.items[i], key_path);
    }
  }

  void report(const Node& node, const std::string& path, std::string message) {
    problems_.push_back({"", node.position.line, node.position.column, path, std::move(message), ""});
  }

  std::vector<Problem> problems_;
};

}  // namespace

std::string describe(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kScalar:
      return in_quotes(node.text);
    case Node::Kind::kList:
      return "a list";
    case Node::Kind::kMap:
      return "a mapping";
    case Node::Kind::kAlias:
      return "an alias";
  }
  return "nothing";
}

std::vector<Problem> find_forbidden_forms(const Node& root) {
  Inspector inspector;
  inspector.inspect(root, "");
  return inspector.take();
}

}  // namespace locksley::config
