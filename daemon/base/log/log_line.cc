#include "daemon/base/log/log_line.h"

#include <spdlog/logger.h>

#include <algorithm>

#include "core/batch/batch.h"
#include "core/batch/handler.h"

namespace locksley::daemon {
namespace {

// A payload is kBegin, the words, and for each field kText or kNumber, its name, kValue, its value.
// No part contains one of these characters.
constexpr char kBegin = '\x1c';
constexpr char kText = '\x1d';
constexpr char kNumber = '\x1e';
constexpr char kValue = '\x1f';

bool is_mark(char c) { return c >= kBegin && c <= kValue; }

// The trace's id in a W3C traceparent: 32 digits after two digits of version and a dash.
constexpr std::size_t kTraceAt = 3;
constexpr std::size_t kTraceDigits = 32;

}  // namespace

void LogLine::begin(std::string_view words) {
  payload_ = kBegin;
  add(words);
}

void LogLine::add(std::string_view text) {
  for (const char c : text.substr(0, kMostValueBytes)) payload_ += is_mark(c) ? '?' : c;
}

LogLine& LogLine::with(std::string_view name, std::string_view text) {
  payload_ += kText;
  payload_ += name;
  payload_ += kValue;
  add(text);
  return *this;
}

LogLine& LogLine::with_number(std::string_view name, std::string_view number) {
  payload_ += kNumber;
  payload_ += name;
  payload_ += kValue;
  payload_ += number;
  return *this;
}

LogLine& LogLine::about(const Batch& batch) {
  const BatchOptions& options = batch.options();
  with("batch", options.id).with("tenant", options.tenant);
  if (!options.customer.empty()) with("customer", options.customer);
  with("handler", batch.handler().name());
  if (options.trace.size() >= kTraceAt + kTraceDigits) {
    with("trace", std::string_view(options.trace).substr(kTraceAt, kTraceDigits));
  }
  return *this;
}

void LogLine::write(spdlog::logger& log, spdlog::level::level_enum level) const {
  log.log(level, spdlog::string_view_t(payload_.data(), payload_.size()));
}

LogParts take_apart(std::string_view payload) {
  if (!payload.starts_with(kBegin)) return {.words = payload, .fields = {}};
  payload.remove_prefix(1);
  const auto take = [&] {
    const auto end = static_cast<std::size_t>(std::ranges::find_if(payload, is_mark) - payload.begin());
    const std::string_view part = payload.substr(0, end);
    payload.remove_prefix(end);
    return part;
  };
  LogParts parts{.words = take(), .fields = {}};
  while (!payload.empty()) {
    const bool is_number = payload.front() == kNumber;
    payload.remove_prefix(1);
    const std::string_view name = take();
    if (!payload.empty()) payload.remove_prefix(1);
    parts.fields.push_back({name, take(), is_number});
  }
  return parts;
}

}  // namespace locksley::daemon
