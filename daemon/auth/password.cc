#include "daemon/auth/password.h"

#include <fmt/format.h>
#include <sodium.h>

#include <array>

namespace locksley::daemon {

std::expected<std::string, std::string> hash_password(std::string_view password, HashCost cost) {
  if (password.empty()) return std::unexpected("the password is empty");
  if (password.size() > kLongestPassword) {
    return std::unexpected(fmt::format("the password is longer than {} bytes", kLongestPassword));
  }
  if (sodium_init() < 0) return std::unexpected("the system provides no random numbers for a salt");
  std::array<char, crypto_pwhash_STRBYTES> encoded{};
  if (crypto_pwhash_str_alg(encoded.data(), password.data(), password.size(), cost.passes,
                            std::size_t{cost.memory_kib} * 1024, crypto_pwhash_ALG_ARGON2ID13) != 0) {
    return std::unexpected(fmt::format("not enough memory for the hash: it takes {} KiB", cost.memory_kib));
  }
  return encoded.data();
}

bool is_password_of(const std::string& hash, std::string_view password) {
  return crypto_pwhash_argon2id_str_verify(hash.c_str(), password.data(), password.size()) == 0;
}

std::string decoy_hash() {
  const HashCost cost;
  return fmt::format("$argon2id$v=19$m={},t={},p=1${}${}", cost.memory_kib, cost.passes, std::string(22, 'A'),
                     std::string(43, 'A'));
}

}  // namespace locksley::daemon
