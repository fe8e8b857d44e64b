#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string_view>

namespace locksley::daemon {

// Passwords that were found right, so that the next connection with the same one is accepted at once: as
// keyed digests of user, hash and password. The key is random, and never leaves the process; who can read the
// process's memory has an easier time with them than with the hashes, but reads the passwords as they come
// in, too. A user with another hash is another digest, so what is no longer right is not found.
//
// Those that were not used for longest go first. I/O thread.
class AcceptedPasswords {
 public:
  static constexpr std::size_t kMost = 4096;  // guess: more users at a time than a daemon has; 500 KB

  using Digest = std::array<unsigned char, 32>;

  explicit AcceptedPasswords(std::size_t most = kMost);
  ~AcceptedPasswords();
  AcceptedPasswords(const AcceptedPasswords&) = delete;
  AcceptedPasswords& operator=(const AcceptedPasswords&) = delete;

  // Equal for equal arguments, and otherwise different; says nothing of them without the key.
  Digest digest(std::string_view user, std::string_view hash, std::string_view password) const;

  void remember(const Digest& digest);
  // Whether it is remembered; it counts as used now.
  bool knows(const Digest& digest);

 private:
  const std::size_t most_;
  std::array<unsigned char, 32> key_;
  std::list<Digest> by_use_;  // least recently used first
  std::map<Digest, std::list<Digest>::iterator> accepted_;
};

}  // namespace locksley::daemon
