// Bounds on bytes that workers have sent and that are not yet a whole command.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace locksley::daemon {

// Counts the bytes of commands that have not arrived whole, of all connections and of each user,
// and says which connections may read on. Any other connection waits until there is room, and its
// peer with it. These rules ensure that some commands always complete:
//
// - A connection reads kLittle of its command, whatever the others hold, unless the command is
//   known to be larger. So BEATs and CLAIMs do not wait for large results.
// - A connection reads if its user then holds at most a third of what is free: a quarter of the
//   budget if no other user holds any. Strangers count as one user. A large argument counts with
//   its whole length from its beginning, so that two half-read ones do not wait for each other.
// - The first connection of a user is that whose command was found large first. It reads until the
//   user holds as much as is free: half of the budget for a user alone.
// - The first of all connections reads until its user has half of the budget. If the budget is used
//   up before, or if the user's other connections hold part of that half, the last connection gives
//   way, and is closed. If no command is larger than a quarter of the budget, a single user loses
//   no connection.
// - A connection that may read, but whose command arrives too slowly, gives way after kPatience
//   checks, if other connections of its user wait for room, or if the first of another user does.
//
// Owned by the LinkService; outlives its shares. One thread. Nothing blocks. A set() takes O(1),
// but O(log n) when a large command is found or ends, and O(users that wait) while some wait.
class InputBudget {
  struct OfUser;
  using Users = std::map<std::string, OfUser>;

 public:
  // A connection reads up to this much, whatever others hold. A guess: some commands without
  // results.
  static constexpr std::uint64_t kLittle = 16 * 1024;
  // A command must grow by this much within kPatience checks; a slower peer is not waited for.
  // Guesses: links are faster, and interruptions are shorter.
  static constexpr std::uint64_t kLeastProgress = 64 * 1024;
  static constexpr int kPatience = 10;  // checks; the owner checks once a second

  // One connection.
  class Owner {
   public:
    virtual ~Owner() = default;
    // The connection waited, and may read again. Called by functions of other connections: it must
    // act later.
    virtual void input_has_room() = 0;
    // The connection gives way: it must call set(0) at once, and close.
    virtual void free_input() = 0;
  };

  explicit InputBudget(std::uint64_t most) : most_(most) {}
  InputBudget(const InputBudget&) = delete;
  InputBudget& operator=(const InputBudget&) = delete;

  // The part of one connection. Strangers count as one user, with the empty name.
  class Share {
   public:
    Share(InputBudget& budget, Owner& owner)
        : budget_(budget), owner_(owner), user_(budget.users_.try_emplace(std::string()).first) {
      ++user_->second.shares;
    }
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    void set_user(const std::string& user);
    // So many bytes were received; or the peer took so many, for which the connection waited before
    // it reads on.
    void received(std::uint64_t bytes) { progress_ += bytes; }
    // A command has come whole: at the next set(), the connection holds bytes of the next command.
    void ended_command() { is_next_command_ = true; }
    // Sets the bytes of the connection.
    void set(std::uint64_t bytes);
    // How many bytes may be read now; 0: the connection is to wait() until input_has_room(). None:
    // its command can never come whole. `awaited`: how many bytes of the command have yet to come,
    // as far as is known.
    std::optional<std::uint64_t> room(std::uint64_t awaited);
    void wait();
    bool is_waiting() const { return is_waiting_; }
    // Called about once a second, after begin_look(). True: the connection must give way, since its
    // command has come too slowly for long while others wait.
    bool is_stuck();

   private:
    friend InputBudget;
    void enter_order();
    void leave_order();
    void stop_waiting();
    bool is_stranger() const { return user_->first.empty(); }

    InputBudget& budget_;
    Owner& owner_;
    Users::iterator user_;
    std::uint64_t bytes_ = 0;
    std::uint64_t awaited_ = 0;
    std::uint64_t place_ = 0;       // in the order in which commands were found large; 0: it is not large
    std::uint64_t progress_ = 0;    // bytes since the last check that found enough of them
    int looks_ = 0;                 // since then
    bool is_waiting_ = false;       // for room; it has a place
    bool is_next_command_ = false;  // ended_command() since the last set()
  };

  std::uint64_t used() const { return used_; }
  std::uint64_t most_of_user_alone() const { return most_ / 2; }
  bool is_awaited() const { return !waiting_users_.empty(); }
  // Call it before is_stuck() of each Share.
  void begin_look();

 private:
  using ShareQueue = std::map<std::uint64_t, Share*>;  // by Share::place_
  struct OfUser {
    std::uint64_t shares = 0;  // how many refer to this entry; at 0 it is erased
    std::uint64_t bytes = 0;
    ShareQueue large;    // connections whose command is known to be larger than kLittle
    ShareQueue waiting;  // those of `large` that wait
  };

  std::uint64_t free() const { return used_ < most_ ? most_ - used_ : 0; }
  bool is_first(const Share& share) const { return !large_.empty() && large_.begin()->second == &share; }
  bool may_grow(const Share& share) const;
  // The connection that gives way so that the first of all can go on; null: none can.
  Share* last_beside(const Share& first) const;
  void wake_waiting();
  void leave(Users::iterator user);

  const std::uint64_t most_;
  std::uint64_t used_ = 0;
  Users users_;
  ShareQueue large_;  // of all users, without strangers
  std::set<OfUser*> waiting_users_;
  std::uint64_t last_place_ = 0;
  bool first_waits_ = false;  // begin_look() found that the first of a user waits for other users
};

}  // namespace locksley::daemon
