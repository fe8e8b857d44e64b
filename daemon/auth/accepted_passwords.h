// The memory of passwords that were accepted, and of the sources from which they came.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace locksley::daemon {

// A bounded LRU set of passwords that were accepted, so that the next connection with the same
// password is accepted without an argon2id check. It holds keyed digests of user, hash and
// password. When a user's hash changes, the old digest no longer matches.
//
// For each password, the set also holds the last sources from which it was accepted. The
// Authenticator looks up the password whenever it comes from one of these sources, whatever other
// passwords come from there, and limits the look-ups of other sources. So quick guesses are
// possible only from an address that the user has, too.
//
// The key is random and never leaves the process. An attacker who can read the process's memory can
// test guesses against the digests faster than against the hashes, but can also read the passwords
// as they arrive.
//
// Owned by the Authenticator; not synchronised: the I/O thread. Nothing blocks. The constructor
// throws std::runtime_error if the system has no random numbers.
class AcceptedPasswords {
 public:
  static constexpr std::size_t kMost = 4096;       // guess: more users at a time than a daemon has; 1 MB
  static constexpr std::size_t kMostSources = 16;  // of a password; guess: a user's machines; 1 KB

  using Digest = std::array<unsigned char, 32>;

  explicit AcceptedPasswords(std::size_t most = kMost);
  ~AcceptedPasswords();
  AcceptedPasswords(const AcceptedPasswords&) = delete;
  AcceptedPasswords& operator=(const AcceptedPasswords&) = delete;

  // Equal for equal arguments only. Reveals nothing about them without the key.
  Digest digest(std::string_view user, std::string_view hash, std::string_view password) const;

  void remember(const Digest& digest, const std::string& source);
  // Whether the digest is remembered. If so, it becomes the one used last.
  bool knows(const Digest& digest);
  // Whether the digest is remembered with this source. If so, both become the ones used last.
  bool knows_from(const Digest& digest, const std::string& source);

 private:
  struct Accepted {
    Digest digest;
    std::vector<std::string> sources;  // least recently used first; at most kMostSources
  };

  const std::size_t most_;
  std::array<unsigned char, 32> key_;
  std::list<Accepted> by_use_;  // least recently used first
  std::map<Digest, std::list<Accepted>::iterator> accepted_;
};

}  // namespace locksley::daemon
