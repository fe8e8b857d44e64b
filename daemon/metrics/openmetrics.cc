#include "daemon/metrics/openmetrics.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>

#include "daemon/base/net/header_text.h"
#include "proto/text.h"

namespace locksley::daemon {
namespace {

// One range of an Accept field.
struct MediaRange {
  std::string_view type;
  std::string_view version;  // empty: any
  double quality = 1;
};

std::optional<double> parse_quality(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 1))
    return std::nullopt;
  return value;
}

std::optional<MediaRange> parse_range(std::string_view text) {
  MediaRange range;
  range.type = take_part(text, ';');
  while (!text.empty()) {
    std::string_view value = take_part(text, ';');
    const std::string_view name = take_part(value, '=');
    if (value.size() >= 2 && value.starts_with('"') && value.ends_with('"')) {
      value = value.substr(1, value.size() - 2);
    }
    if (proto::equals_ignoring_case(name, "version")) {
      range.version = value;
    } else if (proto::equals_ignoring_case(name, "q")) {
      const std::optional<double> quality = parse_quality(value);
      if (!quality) return std::nullopt;
      range.quality = *quality;
    }
  }
  return range;
}

}  // namespace

bool wants_openmetrics(std::string_view accept) {
  // The client's preference for Prometheus' format: by its name, else by text/*, else by */*.
  constexpr std::string_view kOfText[] = {"*/*", "text/*", "text/plain"};
  std::optional<double> by_text[std::size(kOfText)];
  double openmetrics = 0;
  while (!accept.empty()) {
    const std::optional<MediaRange> range = parse_range(take_part(accept, ','));
    if (!range) continue;
    const auto is_version = [&](std::string_view ours) {
      return range->version.empty() || range->version == ours;
    };
    if (proto::equals_ignoring_case(range->type, "application/openmetrics-text") && is_version("1.0.0")) {
      openmetrics = std::max(openmetrics, range->quality);
    }
    for (std::size_t i = 0; i < std::size(kOfText); ++i) {
      if (proto::equals_ignoring_case(range->type, kOfText[i]) && is_version("0.0.4")) {
        by_text[i] = std::max(by_text[i].value_or(0), range->quality);
      }
    }
  }
  double text = 0;
  for (const std::optional<double>& quality : by_text) text = quality.value_or(text);
  return openmetrics > 0 && openmetrics >= text;
}

}  // namespace locksley::daemon
