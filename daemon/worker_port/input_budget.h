// Bounds on bytes that workers have sent and that are not yet a whole command.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace locksley::daemon {

// The bytes of commands that have not arrived whole: of all connections, and of each user, which may have as many as it
// leaves free: half of them, if no other user has any.
//
// Owned by the LinkService; outlives its shares. One thread. Nothing blocks.
class InputBudget {
 public:
  explicit InputBudget(std::uint64_t most) : most_(most) {}
  InputBudget(const InputBudget&) = delete;
  InputBudget& operator=(const InputBudget&) = delete;

  // The part of one connection. Strangers count as one user, with the empty name.
  class Share {
   public:
    explicit Share(InputBudget& budget) : budget_(budget) {}
    ~Share() { set(0); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    void set_user(const std::string& user) {
      const std::uint64_t bytes = bytes_;
      set(0);
      user_ = user;
      set(bytes);
    }
    // Sets the bytes of the connection. False: they have grown, and those of the user are more than all users leave
    // free; the caller closes the connection.
    bool set(std::uint64_t bytes) {
      if (bytes == bytes_) return true;
      const std::uint64_t of_user = budget_.add(user_, bytes - bytes_);
      const bool grows = bytes > bytes_;
      bytes_ = bytes;
      return !grows || (budget_.used_ <= budget_.most_ && of_user <= budget_.most_ - budget_.used_);
    }

   private:
    InputBudget& budget_;
    std::string user_;
    std::uint64_t bytes_ = 0;
  };

  std::uint64_t used() const { return used_; }

 private:
  // Modulo 2^64: `bytes` may be a difference below zero. Returns the sum of the user.
  std::uint64_t add(const std::string& user, std::uint64_t bytes) {
    used_ += bytes;
    const auto entry = by_user_.try_emplace(user).first;
    entry->second += bytes;
    const std::uint64_t sum = entry->second;
    if (sum == 0) by_user_.erase(entry);
    return sum;
  }

  const std::uint64_t most_;
  std::uint64_t used_ = 0;
  std::map<std::string, std::uint64_t> by_user_;
};

}  // namespace locksley::daemon
