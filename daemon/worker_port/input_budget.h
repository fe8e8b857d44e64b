// Bounds on bytes that workers have sent and that are not yet a whole command.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace locksley::daemon {

// Counts the bytes of commands that have not arrived whole, of all connections and of each user. A
// user's connections may have no more of them than are still free: half of the budget, if no other
// user has any.
//
// Owned by the LinkService; outlives its shares. One thread. Nothing blocks.
class InputBudget {
  struct OfUser {
    std::uint64_t shares = 0;  // that name the entry; without any it is erased
    std::uint64_t bytes = 0;
  };
  using Users = std::map<std::string, OfUser>;

 public:
  explicit InputBudget(std::uint64_t most) : most_(most) {}
  InputBudget(const InputBudget&) = delete;
  InputBudget& operator=(const InputBudget&) = delete;

  // The part of one connection. Strangers count as one user, with the empty name.
  class Share {
   public:
    explicit Share(InputBudget& budget) : budget_(budget), user_(budget.enter({})) {}
    ~Share() {
      set(0);
      budget_.leave(user_);
    }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    void set_user(const std::string& user) {
      const std::uint64_t bytes = bytes_;
      set(0);
      budget_.leave(std::exchange(user_, budget_.enter(user)));
      set(bytes);
    }
    // Sets the bytes of the connection. False: they have grown, and the user has more bytes than
    // are still free; the caller closes the connection.
    bool set(std::uint64_t bytes) {
      if (bytes == bytes_) return true;
      const bool grows = bytes > bytes_;
      // Modulo 2^64.
      std::uint64_t& of_user = user_->second.bytes;
      of_user += bytes - bytes_;
      budget_.used_ += bytes - bytes_;
      bytes_ = bytes;
      return !grows || (budget_.used_ <= budget_.most_ && of_user <= budget_.most_ - budget_.used_);
    }

   private:
    InputBudget& budget_;
    Users::iterator user_;
    std::uint64_t bytes_ = 0;
  };

  std::uint64_t used() const { return used_; }
  std::uint64_t most_of_user_alone() const { return most_ / 2; }

 private:
  Users::iterator enter(const std::string& user) {
    const auto entry = by_user_.try_emplace(user).first;
    ++entry->second.shares;
    return entry;
  }
  void leave(Users::iterator user) {
    if (--user->second.shares == 0) by_user_.erase(user);
  }

  const std::uint64_t most_;
  std::uint64_t used_ = 0;
  Users by_user_;
};

}  // namespace locksley::daemon
