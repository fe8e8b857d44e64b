// Users in the order of their burdens, for code that takes from the heaviest one again and again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <tuple>
#include <vector>

namespace locksley::daemon {

// Owners with their burdens (Tenant::burden), the heaviest first; of equal owners, the first that
// was added. While the heaviest gives something up, this costs O(log owners) each time, and no walk
// over all owners.
//
// A value, for one piece of work: it learns of a changed burden only by the functions below. One
// thread at a time. Nothing blocks or fails.
template <class Owner>
class HeaviestFirst {
 public:
  // Call it for all owners before any other function.
  void add(Owner& owner, double burden) { owners_.push_back({burden, owners_.size(), &owner}); }
  // Call it once, after the last add().
  void complete() { std::ranges::make_heap(owners_, is_behind); }

  bool empty() const { return owners_.empty(); }
  // Needs, from here on: not empty().
  Owner& heaviest() const { return *owners_.front().owner; }
  double burden() const { return owners_.front().burden; }
  void change_heaviest(double burden) {
    std::ranges::pop_heap(owners_, is_behind);
    owners_.back().burden = burden;
    std::ranges::push_heap(owners_, is_behind);
  }
  void remove_heaviest() {
    std::ranges::pop_heap(owners_, is_behind);
    owners_.pop_back();
  }

 private:
  struct Entry {
    double burden;
    std::size_t place;  // in the order of add()
    Owner* owner;
  };
  static bool is_behind(const Entry& one, const Entry& other) {
    return std::tuple(one.burden, other.place) < std::tuple(other.burden, one.place);
  }

  std::vector<Entry> owners_;  // a heap
};

}  // namespace locksley::daemon
