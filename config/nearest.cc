#include "config/nearest.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace locksley::config {
namespace {

constexpr std::size_t kLongestGuess = 64;  // longer than any name, so a hostile key costs nothing

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

// Optimal string alignment distance: Levenshtein's with swaps of neighbours.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_up(b.size() + 1);
  std::vector<std::size_t> up(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) up[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t changed = lower(a[i - 1]) == lower(b[j - 1]) ? 0 : 1;
      row[j] = std::min({up[j] + 1, row[j - 1] + 1, up[j - 1] + changed});
      if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) && lower(a[i - 2]) == lower(b[j - 1])) {
        row[j] = std::min(row[j], two_up[j - 2] + 1);
      }
    }
    std::swap(two_up, up);
    std::swap(up, row);
  }
  return up[b.size()];
}

}  // namespace

std::string nearest_name(std::string_view written, std::span<const std::string> names) {
  if (written.empty() || written.size() > kLongestGuess) return {};
  // A third of the letters may be wrong, and at least one: "prot" means port, "cat" means no key.
  std::size_t best = std::max<std::size_t>(1, written.size() / 3) + 1;
  std::string_view found;
  for (const std::string& name : names) {
    const std::size_t d = distance(written, name);
    if (d < best && d < name.size()) {
      best = d;
      found = name;
    }
  }
  return std::string(found);
}

}  // namespace locksley::config
