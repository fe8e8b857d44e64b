#include "config/units.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <span>

namespace locksley::config {
namespace {

struct Unit {
  std::string_view name;
  std::uint64_t factor;
};

// Smallest first: formatting looks for the last one that divides.
constexpr std::array kDurationUnits{
    Unit{"us", 1},         Unit{"ms", 1'000},           Unit{"s", 1'000'000},
    Unit{"m", 60'000'000}, Unit{"h", 3'600'000'000ULL}, Unit{"d", 86'400'000'000ULL},
};
constexpr std::array kByteUnits{
    Unit{"B", 1},
    Unit{"KiB", std::uint64_t{1} << 10},
    Unit{"MiB", std::uint64_t{1} << 20},
    Unit{"GiB", std::uint64_t{1} << 30},
    Unit{"TiB", std::uint64_t{1} << 40},
};
constexpr std::array kPeriods{
    Unit{"/s", 1'000'000},
    Unit{"/m", 60'000'000},
    Unit{"/h", 3'600'000'000ULL},
};

// Other common spellings of the units above, in lower case.
struct Alias {
  std::string_view written;
  std::string_view unit;
};
constexpr std::array kDurationAliases{
    Alias{"usec", "us"}, Alias{"µs", "us"},    Alias{"msec", "ms"},   Alias{"sec", "s"},
    Alias{"secs", "s"},  Alias{"second", "s"}, Alias{"seconds", "s"}, Alias{"min", "m"},
    Alias{"mins", "m"},  Alias{"minute", "m"}, Alias{"minutes", "m"}, Alias{"hr", "h"},
    Alias{"hour", "h"},  Alias{"hours", "h"},  Alias{"day", "d"},     Alias{"days", "d"},
};
constexpr std::array kByteAliases{
    Alias{"bytes", "B"}, Alias{"k", "KiB"},  Alias{"kb", "KiB"}, Alias{"ki", "KiB"}, Alias{"m", "MiB"},
    Alias{"mb", "MiB"},  Alias{"mi", "MiB"}, Alias{"g", "GiB"},  Alias{"gb", "GiB"}, Alias{"gi", "GiB"},
    Alias{"t", "TiB"},   Alias{"tb", "TiB"}, Alias{"ti", "TiB"},
};
constexpr std::array kPeriodAliases{
    Alias{"/sec", "/s"},    Alias{"/second", "/s"}, Alias{"/min", "/m"},
    Alias{"/minute", "/m"}, Alias{"/hour", "/h"},   Alias{"ps", "/s"},
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

struct Split {
  std::string_view digits;
  std::string_view rest;
};

Split split(std::string_view text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  const auto length = static_cast<std::size_t>(end - text.begin());
  return {text.substr(0, length), text.substr(length)};
}

std::expected<std::uint64_t, UnitError> parse_digits(std::string_view digits) {
  if (digits.empty()) return std::unexpected(UnitError{});
  if (digits.size() > 1 && digits.front() == '0') {
    const std::size_t first = digits.find_first_not_of('0');
    const std::string_view value = first == std::string_view::npos ? "0" : digits.substr(first);
    return std::unexpected(UnitError{UnitFault::kLeadingZero, std::string(value)});
  }
  std::uint64_t value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc{}) {
    return std::unexpected(UnitError{UnitFault::kTooLarge, ""});
  }
  return value;
}

// The unit that the text probably means, or an empty string.
std::string_view guess_unit(std::string_view written, std::span<const Unit> units,
                            std::span<const Alias> aliases) {
  const std::size_t from = written.find_first_not_of(' ');
  if (from == std::string_view::npos) return {};
  const std::string text = lower(written.substr(from));
  for (const Unit& unit : units) {
    if (lower(unit.name) == text) return unit.name;
  }
  for (const Alias& alias : aliases) {
    if (alias.written == text) return alias.unit;
  }
  return {};
}

struct Amount {
  std::uint64_t number;
  const Unit* unit;
};

std::expected<Amount, UnitError> parse_amount(std::string_view text, std::span<const Unit> units,
                                              std::span<const Alias> aliases) {
  const auto [digits, rest] = split(text);
  const auto unit = std::ranges::find(units, rest, &Unit::name);
  auto number = parse_digits(digits);
  if (unit != units.end()) {
    if (!number) {
      if (!number.error().suggestion.empty()) number.error().suggestion += rest;
      return std::unexpected(number.error());
    }
    return Amount{*number, &*unit};
  }
  UnitError error;
  if (number) {
    if (const std::string_view guess = guess_unit(rest, units, aliases); !guess.empty()) {
      error.suggestion = std::string(digits).append(guess);
    }
  }
  return std::unexpected(error);
}

std::expected<std::uint64_t, UnitError> multiply(Amount amount, std::uint64_t largest) {
  if (amount.number > largest / amount.unit->factor) {
    return std::unexpected(UnitError{UnitFault::kTooLarge, ""});
  }
  return amount.number * amount.unit->factor;
}

std::string format(std::uint64_t value, std::span<const Unit> units) {
  const Unit* best = &units.front();
  for (const Unit& unit : units) {
    if (value % unit.factor == 0) best = &unit;
  }
  return std::to_string(value / best->factor).append(best->name);
}

constexpr auto kLongestDuration = static_cast<std::uint64_t>(std::numeric_limits<Duration::rep>::max());

}  // namespace

std::expected<Duration, UnitError> parse_duration(std::string_view text) {
  if (text == "0") return std::unexpected(UnitError{UnitFault::kSyntax, "0s"});
  const auto amount = parse_amount(text, kDurationUnits, kDurationAliases);
  if (!amount) return std::unexpected(amount.error());
  const auto value = multiply(*amount, kLongestDuration);
  if (!value) return std::unexpected(value.error());
  return Duration{static_cast<Duration::rep>(*value)};
}

std::expected<Bytes, UnitError> parse_bytes(std::string_view text) {
  if (!text.empty() && split(text).rest.empty()) {
    const auto count = parse_digits(text);
    if (!count) return std::unexpected(count.error());
    return Bytes{*count};
  }
  const auto amount = parse_amount(text, kByteUnits, kByteAliases);
  if (!amount) return std::unexpected(amount.error());
  const auto count = multiply(*amount, std::numeric_limits<std::uint64_t>::max());
  if (!count) return std::unexpected(count.error());
  return Bytes{*count};
}

std::expected<Rate, UnitError> parse_rate(std::string_view text) {
  const auto amount = parse_amount(text, kPeriods, kPeriodAliases);
  if (!amount) return std::unexpected(amount.error());
  return Rate{amount->number, Duration{static_cast<Duration::rep>(amount->unit->factor)}};
}

std::expected<std::uint64_t, UnitError> parse_count(std::string_view text) {
  const auto [digits, rest] = split(text);
  if (!rest.empty()) return std::unexpected(UnitError{});
  return parse_digits(digits);
}

std::string to_string(Duration duration) {
  if (duration == Duration::zero()) return "0s";
  return format(static_cast<std::uint64_t>(duration.count()), kDurationUnits);
}

std::string to_string(Bytes bytes) {
  if (bytes.count % 1024 != 0 || bytes.count == 0) return std::to_string(bytes.count);
  return format(bytes.count, kByteUnits);
}

std::string to_string(Rate rate) {
  const auto factor = static_cast<std::uint64_t>(rate.period.count());
  const auto period = std::ranges::find(kPeriods, factor, &Unit::factor);
  return std::to_string(rate.count).append(period == kPeriods.end() ? "/s" : period->name);
}

}  // namespace locksley::config
