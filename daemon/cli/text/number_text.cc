#include "daemon/cli/text/number_text.h"

#include <array>
#include <cstdio>
#include <ctime>

namespace locksley::cli {
namespace {

template <class... Values>
std::string formatted(const char* format, Values... values) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

}  // namespace

std::string with_commas(std::uint64_t value) {
  std::string digits = std::to_string(value);
  for (std::size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, 1, ',');
  return digits;
}

std::string short_number(double value) {
  const char* suffix = "";
  // From 999.5 on, rounding would give four digits.
  for (const char* next : {"k", "M", "G"}) {
    if (value < 999.5) break;
    value /= 1000;
    suffix = next;
  }
  const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  std::string digits = formatted("%.*f", decimals, value);
  if (digits.find('.') != std::string::npos) {
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
  }
  return digits + suffix;
}

std::string short_duration(std::chrono::milliseconds time) {
  const auto ms = static_cast<long long>(time.count());
  if (ms < 1000) return formatted("%lldms", ms);
  if (ms < 59'950) return formatted("%.1fs", static_cast<double>(ms) / 1000);
  const long long s = (ms + 500) / 1000;
  if (s < 3600) return formatted("%lld:%02lld", s / 60, s % 60);
  return formatted("%lld:%02lld:%02lld", s / 3600, s / 60 % 60, s % 60);
}

std::string percent(double fraction) { return formatted("%.1f%%", fraction * 100); }

std::string local_time(std::int64_t unix_milliseconds) {
  if (unix_milliseconds <= 0) return "-";
  const std::time_t seconds = static_cast<std::time_t>(unix_milliseconds / 1000);
  std::tm parts{};
  if (localtime_r(&seconds, &parts) == nullptr) return "-";
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &parts);
  return text.data();
}

}  // namespace locksley::cli
