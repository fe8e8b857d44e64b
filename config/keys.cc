#include "config/keys.h"

#include "config/schema.h"

namespace locksley::config {
namespace {

class Collector final : public PathVisitor {
 public:
  template <class T, class Rule>
  void key(Key key, const T&, const Rule&) {
    keys_.push_back(path_to(key));
  }

  template <class Entries, class Walk>
  void entries(Key key, const Entries&, const TextRule&, const Walk&) {
    keys_.push_back(path_to(key));
  }

  std::vector<std::string> take() { return std::move(keys_); }

 private:
  std::vector<std::string> keys_;
};

}  // namespace

std::string dotted(std::string_view prefix, std::string_view name) {
  std::string result(prefix);
  if (!result.empty()) result += '.';
  return result.append(name);
}

std::vector<std::string> all_keys() {
  const Config config;
  Collector collector;
  visit_keys(collector, config);
  return collector.take();
}

}  // namespace locksley::config
