#include "config/reload.h"

#include <any>
#include <map>

#include "config/schema.h"

namespace locksley::config {
namespace {

// Walks two configurations one after the other: Recorder keeps the values of the old one, Merger compares
// those of the new one with them.
using Values = std::map<std::string, std::any, std::less<>>;

class Recorder final : public PathVisitor {
 public:
  template <class T, class Rule>
  void key(Key key, const T& value, const Rule&) {
    values_.emplace(path_to(key), value);
  }

  template <class Entries, class Walk>
  void entries(Key key, const Entries& entries, const TextRule&, const Walk&) {
    values_.emplace(path_to(key), entries);
  }

  const Values& values() const { return values_; }

 private:
  Values values_;
};

class Merger final : public PathVisitor {
 public:
  Merger(const Values& old_values, Reload& reload) : old_values_(old_values), reload_(reload) {}

  template <class T, class Rule>
  void key(Key key, T& value, const Rule&) {
    merge(key, value);
  }

  template <class Entries, class Walk>
  void entries(Key key, Entries& entries, const TextRule&, const Walk&) {
    merge(key, entries);
  }

 private:
  template <class T>
  void merge(Key key, T& value) {
    const std::string path = path_to(key);
    const T& old_value = std::any_cast<const T&>(old_values_.at(path));
    if (value == old_value) return;
    if (key.change == Change::kLive) {
      reload_.live.push_back(path);
    } else {
      reload_.restart.push_back(path);
      value = old_value;
    }
  }

  const Values& old_values_;
  Reload& reload_;
};

}  // namespace

Reload diff_reloadable(const Config& old_config, const Config& new_config) {
  Recorder recorder;
  visit_keys(recorder, old_config);
  Reload reload{{}, {}, new_config};
  Merger merger(recorder.values(), reload);
  visit_keys(merger, reload.effective);
  return reload;
}

}  // namespace locksley::config
