#include "daemon/auth/accepted_passwords.h"

#include <sodium.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace locksley::daemon {

AcceptedPasswords::AcceptedPasswords(std::size_t most) : most_(most), key_() {
  if (sodium_init() < 0) throw std::runtime_error("the system provides no random numbers for a key");
  crypto_generichash_keygen(key_.data());
}

AcceptedPasswords::~AcceptedPasswords() { sodium_memzero(key_.data(), key_.size()); }

AcceptedPasswords::Digest AcceptedPasswords::digest(std::string_view user, std::string_view hash,
                                                    std::string_view password) const {
  crypto_generichash_state state;
  crypto_generichash_init(&state, key_.data(), key_.size(), Digest{}.size());
  // The lengths keep two different lists of texts from being the same bytes.
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

void AcceptedPasswords::remember(const Digest& digest, const std::string& source) {
  if (knows_from(digest, source)) return;
  if (!knows(digest)) {
    if (accepted_.size() >= most_) {
      accepted_.erase(by_use_.front().digest);
      by_use_.pop_front();
    }
    accepted_.emplace(digest, by_use_.insert(by_use_.end(), {digest, {}}));
  }
  std::vector<std::string>& sources = by_use_.back().sources;
  if (sources.size() >= kMostSources) sources.erase(sources.begin());
  sources.push_back(source);
}

bool AcceptedPasswords::knows(const Digest& digest) {
  const auto found = accepted_.find(digest);
  if (found == accepted_.end()) return false;
  by_use_.splice(by_use_.end(), by_use_, found->second);
  return true;
}

bool AcceptedPasswords::knows_from(const Digest& digest, const std::string& source) {
  const auto found = accepted_.find(digest);
  if (found == accepted_.end()) return false;
  std::vector<std::string>& sources = found->second->sources;
  const auto place = std::ranges::find(sources, source);
  if (place == sources.end()) return false;
  std::rotate(place, std::next(place), sources.end());
  by_use_.splice(by_use_.end(), by_use_, found->second);
  return true;
}

}  // namespace locksley::daemon
