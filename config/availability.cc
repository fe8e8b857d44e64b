#include "config/availability.h"

#include <array>
#include <string>
#include <string_view>

#include "config/keys.h"

namespace locksley::config {
namespace {

// Keys that use a feature, dotted.
using Uses = std::vector<std::string>;

Uses use_if(bool is_used, std::string key) { return is_used ? Uses{std::move(key)} : Uses{}; }

struct Feature {
  Uses (*uses)(const Config& config);
  std::string_view instead;  // what this build does
};

const std::array kMissing{
    Feature{[](const Config& c) { return use_if(c.listen.threads != Listen{}.threads, "listen.threads"); },
            "one thread serves all connections"},
};

}  // namespace

std::vector<Problem> find_unavailable(const Config& config, const Origins& origins) {
  std::vector<Problem> problems;
  for (const Feature& feature : kMissing) {
    for (const std::string& key : feature.uses(config)) {
      const auto origin = origins.find(key);
      const Position position = origin == origins.end() ? Position{} : origin->second.position;
      problems.push_back({"", position.line, position.column, key,
                          "not available in this build: " + std::string(feature.instead) + "; remove the key",
                          ""});
    }
  }
  return problems;
}

}  // namespace locksley::config
