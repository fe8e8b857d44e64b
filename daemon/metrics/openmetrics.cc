#include "daemon/metrics/openmetrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <utility>

#include "daemon/base/net/header_text.h"
#include "proto/text.h"

namespace locksley::daemon {
namespace {

constexpr std::string_view kTotal = "_total";

void escape(std::string_view text, std::string& out) {
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

// Bounds are always written like 1.0, so that a series has the same name whatever program writes
// it.
std::string bound(double value) {
  std::string text = number(value);
  if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

class Writer {
 public:
  void write(const prometheus::MetricFamily& family) {
    name_ = family.name;
    switch (family.type) {
      case prometheus::MetricType::Counter:
        if (name_.ends_with(kTotal)) name_.remove_suffix(kTotal.size());
        head("counter", family.help);
        for (const auto& metric : family.metric) sample(kTotal, metric, {}, number(metric.counter.value));
        return;
      case prometheus::MetricType::Gauge:
        head("gauge", family.help);
        for (const auto& metric : family.metric) sample("", metric, {}, number(metric.gauge.value));
        return;
      case prometheus::MetricType::Histogram:
        head("histogram", family.help);
        for (const auto& metric : family.metric) histogram(metric);
        return;
      default:
        return;
    }
  }
  std::string take() && { return std::move(text_ += "# EOF\n"); }

 private:
  void head(std::string_view type, std::string_view help) {
    fmt::format_to(std::back_inserter(text_), "# TYPE {} {}\n", name_, type);
    for (const std::string_view unit : {"seconds", "bytes", "ratio"}) {
      if (name_.ends_with(unit) && name_.substr(0, name_.size() - unit.size()).ends_with('_')) {
        fmt::format_to(std::back_inserter(text_), "# UNIT {} {}\n", name_, unit);
      }
    }
    fmt::format_to(std::back_inserter(text_), "# HELP {} ", name_);
    escape(help, text_);
    text_ += '\n';
  }

  void sample(std::string_view suffix, const prometheus::ClientMetric& metric, std::string_view le,
              std::string_view value) {
    text_ += name_;
    text_ += suffix;
    char before = '{';
    const auto label = [&](std::string_view name, std::string_view label_value) {
      text_ += std::exchange(before, ',');
      text_ += name;
      text_ += "=\"";
      escape(label_value, text_);
      text_ += '"';
    };
    for (const auto& [name, label_value] : metric.label) label(name, label_value);
    if (!le.empty()) label("le", le);
    if (before == ',') text_ += '}';
    text_ += ' ';
    text_ += value;
    text_ += '\n';
  }

  void histogram(const prometheus::ClientMetric& metric) {
    const prometheus::ClientMetric::Histogram& values = metric.histogram;
    const std::string count = fmt::format("{}", values.sample_count);
    for (const auto& bucket : values.bucket) {
      sample("_bucket", metric, bound(bucket.upper_bound), fmt::format("{}", bucket.cumulative_count));
    }
    sample("_bucket", metric, "+Inf", count);
    sample("_count", metric, {}, count);
    sample("_sum", metric, {}, number(values.sample_sum));
  }

  std::string text_;
  std::string_view name_;  // of the current family
};

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

std::string openmetrics_text(const Families& families) {
  Writer writer;
  for (const prometheus::MetricFamily& family : families) writer.write(family);
  return std::move(writer).take();
}

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
