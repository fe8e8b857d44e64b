#include "config/reload.h"

#include <any>
#include <map>

#include "config/schema.h"

namespace locksley::config {
namespace {

// Walks two configurations one after the other: Recorder keeps the values of the old one, Merger
// compares those of the new one with them.
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

// The keys of one entry, in their order.
class EntryRecorder final : public PathVisitor {
 public:
  struct Item {
    std::string path;
    Change change;
    std::any value;
    bool (*is_same)(const std::any& first, const std::any& second);
  };

  template <class T, class Rule>
  void key(Key key, const T& value, const Rule&) {
    items_.push_back({path_to(key), key.change, value, [](const std::any& first, const std::any& second) {
                        return std::any_cast<const T&>(first) == std::any_cast<const T&>(second);
                      }});
  }
  const std::vector<Item>& items() const { return items_; }

 private:
  std::vector<Item> items_;
};

class Merger final : public PathVisitor {
 public:
  Merger(const Values& old_values, Reload& reload) : old_values_(old_values), reload_(reload) {}

  template <class T, class Rule>
  void key(Key key, T& value, const Rule&) {
    merge(key, value);
  }

  // Compares the entries: added, removed and changed ones.
  template <class Entries, class Walk>
  void entries(Key key, Entries& entries, const TextRule&, const Walk& walk) {
    const std::string path = path_to(key);
    const auto& old_entries = std::any_cast<const Entries&>(old_values_.at(path));
    Entries all = entries;
    all.insert(old_entries.begin(), old_entries.end());
    for (const auto& [name, entry] : all) {
      const std::string entry_path = dotted(path, name);
      if (!entries.contains(name) || !old_entries.contains(name)) {
        reload_.live.push_back(entry_path);
        reload_.file.push_back(entry_path);
      } else if (entries.at(name) != old_entries.at(name)) {
        reload_.live.push_back(entry_path);
        look_into(entry_path, old_entries.at(name), entries.at(name), walk);
      }
    }
  }

 private:
  template <class T>
  void merge(Key key, T& value) {
    const std::string path = path_to(key);
    const T& old_value = std::any_cast<const T&>(old_values_.at(path));
    if (value == old_value) return;
    if (key.change == Change::kRestart) {
      reload_.restart.push_back(path);
      value = old_value;
    } else {
      reload_.live.push_back(path);
      if (key.change == Change::kFile) reload_.file.push_back(path);
    }
  }

  template <class Entry, class Walk>
  void look_into(const std::string& path, const Entry& old_entry, const Entry& entry, const Walk& walk) {
    EntryRecorder before;
    EntryRecorder after;
    walk(before, old_entry);
    walk(after, entry);
    for (std::size_t i = 0; i < after.items().size(); ++i) {
      const EntryRecorder::Item& item = after.items()[i];
      if (item.change == Change::kFile && !item.is_same(item.value, before.items()[i].value)) {
        reload_.file.push_back(dotted(path, item.path));
      }
    }
  }

  const Values& old_values_;
  Reload& reload_;
};

}  // namespace

Reload diff_reloadable(const Config& old_config, const Config& new_config) {
  Recorder recorder;
  visit_keys(recorder, old_config);
  Reload reload{{}, {}, {}, new_config};
  Merger merger(recorder.values(), reload);
  visit_keys(merger, reload.effective);
  return reload;
}

ChangedParts changed_parts(const Config& old_config, const Config& new_config) {
  return {.users = old_config.users != new_config.users,
          .customers = old_config.customers != new_config.customers};
}

}  // namespace locksley::config
