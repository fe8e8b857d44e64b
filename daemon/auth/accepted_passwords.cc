#include "daemon/auth/accepted_passwords.h"

#include <sodium.h>

#include <stdexcept>

namespace locksley::daemon {

AcceptedPasswords::AcceptedPasswords(std::size_t most) : most_(most), key_() {
  if (sodium_init() < 0) throw std::runtime_error("there are no random numbers to make keys of");
  crypto_generichash_keygen(key_.data());
}

AcceptedPasswords::~AcceptedPasswords() { sodium_memzero(key_.data(), key_.size()); }

AcceptedPasswords::Digest AcceptedPasswords::digest(std::string_view user, std::string_view hash,
                                                    std::string_view password) const {
  crypto_generichash_state state;
  crypto_generichash_init(&state, key_.data(), key_.size(), Digest{}.size());
  // With their lengths, so that no two lists of texts are the same bytes.
  for (const std::string_view text : {user, hash, password}) {
    const std::uint64_t size = text.size();
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&size), sizeof size);
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  Digest result;
  crypto_generichash_final(&state, result.data(), result.size());
  sodium_memzero(&state, sizeof state);
  return result;
}

void AcceptedPasswords::remember(const Digest& digest) {
  if (knows(digest)) return;
  if (accepted_.size() >= most_) {
    accepted_.erase(by_use_.front());
    by_use_.pop_front();
  }
  accepted_.emplace(digest, by_use_.insert(by_use_.end(), digest));
}

bool AcceptedPasswords::knows(const Digest& digest) {
  const auto found = accepted_.find(digest);
  if (found == accepted_.end()) return false;
  by_use_.splice(by_use_.end(), by_use_, found->second);
  return true;
}

}  // namespace locksley::daemon
