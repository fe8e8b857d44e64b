#include "proto/customer_settings.h"

#include <algorithm>
#include <array>

#include "proto/number.h"

namespace locksley::proto {
namespace {

struct Period {
  std::string_view unit;
  std::chrono::seconds length;
};
constexpr std::array kPeriods = {Period{"/s", std::chrono::seconds(1)}, Period{"/m", std::chrono::minutes(1)},
                                 Period{"/h", std::chrono::hours(1)}};

}  // namespace

std::optional<CustomerRate> parse_customer_rate(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto count = parse_uint64(text.substr(0, slash));
  if (!count || *count > CustomerSettings::kMaxRate) return std::nullopt;
  CustomerRate rate{static_cast<std::uint32_t>(*count)};
  const std::string_view unit = slash == std::string_view::npos ? "" : text.substr(slash);
  const auto known = std::ranges::find(kPeriods, unit, &Period::unit);
  if (known == kPeriods.end()) {
    if (*count != 0 || !unit.empty()) return std::nullopt;
    return CustomerRate{};
  }
  if (*count != 0) rate.period = known->length;
  return rate;
}

std::string to_string(CustomerRate rate) {
  if (rate.count == 0) return "0";
  const auto known = std::ranges::find(kPeriods, rate.period, &Period::length);
  return std::to_string(rate.count) + std::string(known == kPeriods.end() ? "/s" : known->unit);
}

void CustomerSettings::merge(const CustomerSettings& changes) {
  const auto take = [](auto& into, const auto& from) {
    if (from) into = from;
  };
  take(weight, changes.weight);
  take(slots, changes.slots);
  take(rate, changes.rate);
  take(max_jobs, changes.max_jobs);
}

}  // namespace locksley::proto
