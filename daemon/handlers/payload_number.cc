#include "daemon/handlers/payload_number.h"

#include <charconv>
#include <system_error>

namespace locksley::daemon {
namespace {

constexpr std::size_t kMaxExcerpt = 40;  // bytes of a wrong payload that its error quotes; a guess

// The beginning of the payload, as one printable line.
std::string excerpt(std::string_view payload) {
  std::string text(payload.substr(0, kMaxExcerpt));
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  if (payload.size() > kMaxExcerpt) text += "...";
  return text;
}

}  // namespace

std::expected<std::uint64_t, std::string> parse_number(std::string_view payload, std::uint64_t max) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(payload.data(), payload.data() + payload.size(), value);
  if (error == std::errc() && end == payload.data() + payload.size() && value <= max) return value;
  return std::unexpected("the payload must be a number from 0 to " + std::to_string(max) + ", not '" +
                         excerpt(payload) + "'");
}

}  // namespace locksley::daemon
