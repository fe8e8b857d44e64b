#include "config/password_hash.h"

#include <charconv>
#include <cstddef>

namespace locksley::config {
namespace {

// Takes pieces off the front of a text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool take(std::string_view expected) {
    if (!rest_.starts_with(expected)) return false;
    rest_.remove_prefix(expected.size());
    return true;
  }

  // A whole number from 1, without leading zeros.
  std::optional<std::uint64_t> take_number() {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), number);
    if (error != std::errc{} || rest_.front() == '0') return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return number;
  }

  // Base64 without padding, of so many bytes, up to the next '$' or the end.
  bool take_base64(std::size_t least_bytes, std::size_t most_bytes) {
    const std::string_view text = rest_.substr(0, rest_.find('$'));
    rest_.remove_prefix(text.size());
    constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (text.find_first_not_of(kDigits) != std::string_view::npos) return false;
    const std::size_t bytes = text.size() * 3 / 4;
    if (bytes < least_bytes || bytes > most_bytes) return false;
    // The last digit has bits that belong to no byte. They must be 0, so that a hash has only one
    // form.
    const std::size_t left_over = text.size() * 6 % 8;
    return left_over < 6 && (kDigits.find(text.back()) & ((1U << left_over) - 1)) == 0;
  }

  bool is_at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
};

std::string too_much(std::string_view name, std::uint64_t found, std::uint64_t most) {
  return std::string(name) + "=" + std::to_string(found) + ", more than " + std::to_string(most);
}

}  // namespace

std::optional<std::string> fault_of_hash(std::string_view text) {
  constexpr const char* other = "another text";
  Scanner scanner(text);
  if (!scanner.take("$argon2id$v=19$m=")) return other;
  const auto memory = scanner.take_number();
  if (!memory || !scanner.take(",t=")) return other;
  const auto passes = scanner.take_number();
  if (!passes || !scanner.take(",p=")) return other;
  const auto lanes = scanner.take_number();
  // At least the length that RFC 9106 requires of a salt, and the length that libraries require of
  // a hash.
  if (!lanes || !scanner.take("$") || !scanner.take_base64(8, 64)) return other;
  if (!scanner.take("$") || !scanner.take_base64(16, 64) || !scanner.is_at_end()) return other;

  if (*memory > kMostHashMemoryKib) return too_much("m", *memory, kMostHashMemoryKib);
  if (*passes > kMostHashPasses) return too_much("t", *passes, kMostHashPasses);
  if (*lanes > kMostHashLanes) return too_much("p", *lanes, kMostHashLanes);
  if (*memory * *passes > kMostHashWork) return too_much("m * t", *memory * *passes, kMostHashWork);
  if (*memory < 8 * *lanes) return "m=" + std::to_string(*memory) + ", less than 8 for each lane of p";
  return std::nullopt;
}

}  // namespace locksley::config
