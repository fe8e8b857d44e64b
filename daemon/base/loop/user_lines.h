// A line of waiting items for each user, served round robin.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace locksley::daemon {

// The owner of an item that waits in UserLines: a user, the strangers, or the daemon.
using LineNumber = std::uint32_t;
inline constexpr LineNumber kStrangersLine = 0;  // all connections that have not logged in
inline constexpr LineNumber kDaemonsLine = 1;    // the daemon's own work
constexpr LineNumber line_of_tenant(std::uint32_t number) { return number + 2; }
// None: the line does not belong to a tenant.
constexpr std::optional<std::uint32_t> tenant_of_line(LineNumber line) {
  return line < line_of_tenant(0) ? std::nullopt : std::optional(line - line_of_tenant(0));
}

// A line of items for each user. The users are served round robin, and the items of one user in
// their order. So the first item of a user waits for at most one item of each other user, however
// many these have queued.
//
// A member of its owner; one thread. push() and pop() are O(1), and allocate only while a line
// becomes longer than it has been; a long line gives its memory back when it is empty. Memory is
// held for each number up to the largest one used.
template <class Item>
class UserLines {
 public:
  bool empty() const { return users_.empty(); }

  void push(LineNumber user, Item item) {
    if (lines_.size() <= user) lines_.resize(user + 1);
    Line<Item>& line = lines_[user];
    if (line.empty()) users_.push(user);
    line.push(std::move(item));
  }

  struct Next {
    LineNumber user;
    Item item;
  };
  // Needs: !empty().
  Next pop() {
    const LineNumber user = users_.pop();
    Line<Item>& line = lines_[user];
    Next next{user, line.pop()};
    if (!line.empty()) users_.push(user);
    return next;
  }

 private:
  template <class T>
  class Line {
   public:
    bool empty() const { return first_ == items_.size(); }
    void push(T item) { items_.push_back(std::move(item)); }
    T pop() {
      T item = std::move(items_[first_++]);
      if (empty()) {
        items_.clear();
        first_ = 0;
        if (items_.capacity() > kKept) items_.shrink_to_fit();
      } else if (first_ >= kKept && first_ >= items_.size() / 2) {
        items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(first_));
        first_ = 0;
      }
      return item;
    }

   private:
    static constexpr std::size_t kKept = 256;  // guess: some kilobytes
    std::vector<T> items_;
    std::size_t first_ = 0;  // the items before it have been taken
  };

  std::vector<Line<Item>> lines_;
  Line<LineNumber> users_;  // users with items in their lines, in the order of service
};

}  // namespace locksley::daemon
