#include "daemon/metrics/page_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

namespace locksley::daemon {
namespace {

constexpr std::string_view kTotal = "_total";

void escape(std::string_view text, bool with_quotes, std::string& out) {
  for (const char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '\\' || (c == '"' && with_quotes)) out += '\\';
      out += c;
    }
  }
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

// OpenMetrics: bounds are always written like 1.0, so that a series has the same name whatever
// program writes it.
std::string bound(double value, bool is_open) {
  std::string text = number(value);
  if (is_open && text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
  return text;
}

std::string_view type_of(const prometheus::MetricFamily& family) {
  switch (family.type) {
    case prometheus::MetricType::Counter:
      return "counter";
    case prometheus::MetricType::Histogram:
      return "histogram";
    default:
      return "gauge";
  }
}

}  // namespace

void PageWriter::write(const prometheus::MetricFamily& family, std::size_t from, std::size_t most) {
  name_ = family.name;
  const bool is_counter = family.type == prometheus::MetricType::Counter;
  const bool has_suffix = is_counter && is_open();
  if (has_suffix && name_.ends_with(kTotal)) name_.remove_suffix(kTotal.size());
  if (from == 0) head(type_of(family), family.help);
  const std::size_t end = std::min(family.metric.size(), from + most);
  for (std::size_t i = from; i < end; ++i) {
    const prometheus::ClientMetric& metric = family.metric[i];
    if (family.type == prometheus::MetricType::Histogram) {
      histogram(metric);
    } else {
      sample(has_suffix ? kTotal : "", metric, {},
             number(is_counter ? metric.counter.value : metric.gauge.value));
    }
  }
}

std::string PageWriter::take() && {
  if (is_open()) text_ += "# EOF\n";
  return std::move(text_);
}

void PageWriter::head(std::string_view type, std::string_view help) {
  fmt::format_to(std::back_inserter(text_), "# TYPE {} {}\n", name_, type);
  for (const std::string_view unit : {"seconds", "bytes", "ratio"}) {
    if (is_open() && name_.ends_with(unit) && name_.substr(0, name_.size() - unit.size()).ends_with('_')) {
      fmt::format_to(std::back_inserter(text_), "# UNIT {} {}\n", name_, unit);
    }
  }
  fmt::format_to(std::back_inserter(text_), "# HELP {} ", name_);
  escape(help, is_open(), text_);
  text_ += '\n';
}

void PageWriter::sample(std::string_view suffix, const prometheus::ClientMetric& metric, std::string_view le,
                        std::string_view value) {
  text_ += name_;
  text_ += suffix;
  char before = '{';
  const auto label = [&](std::string_view name, std::string_view label_value) {
    text_ += std::exchange(before, ',');
    text_ += name;
    text_ += "=\"";
    escape(label_value, true, text_);
    text_ += '"';
  };
  for (const auto& [name, label_value] : metric.label) label(name, label_value);
  if (!le.empty()) label("le", le);
  if (before == ',') text_ += '}';
  text_ += ' ';
  text_ += value;
  text_ += '\n';
}

void PageWriter::histogram(const prometheus::ClientMetric& metric) {
  const prometheus::ClientMetric::Histogram& values = metric.histogram;
  const std::string count = fmt::format("{}", values.sample_count);
  for (const auto& bucket : values.bucket) {
    sample("_bucket", metric, bound(bucket.upper_bound, is_open()),
           fmt::format("{}", bucket.cumulative_count));
  }
  sample("_bucket", metric, "+Inf", count);
  sample("_count", metric, {}, count);
  sample("_sum", metric, {}, number(values.sample_sum));
}

}  // namespace locksley::daemon
