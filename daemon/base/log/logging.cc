#include "daemon/base/log/logging.h"

#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink-inl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/sync/mutex.h"
#include "daemon/base/log/log_line.h"

namespace locksley::daemon {

namespace {

// Written by all threads that log, read for metrics: a counter, nothing follows from its value.
std::atomic<std::uint64_t> lost_lines{0};

// Its base holds mutex_ while it calls the functions below.
class StderrSink final : public spdlog::sinks::base_sink<Mutex> {
 public:
  // A pipe is writable if it has room for 4 KiB. Writing more could block, so a longer line is cut.
  static constexpr std::size_t kMostBytes = 4096;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override LOCKSLEY_REQUIRES(mutex_) {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    if (!write_line(line)) {
      ++lost_here_;
      ++lost_lines;
      return;
    }
    if (lost_here_ == 0) return;
    const std::string text =
        std::to_string(std::exchange(lost_here_, 0)) + " log lines before this one were lost";
    spdlog::memory_buf_t notice;
    formatter_->format({message.time, {}, message.logger_name, spdlog::level::warn, text}, notice);
    write_line(notice);
  }
  void flush_() override {}

 private:
  static bool write_line(const spdlog::memory_buf_t& line) {
    pollfd error_output{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
    if (::poll(&error_output, 1, 0) != 1 || (error_output.revents & POLLOUT) == 0) return false;
    std::size_t size = line.size();
    std::string cut;
    const char* data = line.data();
    if (size > kMostBytes) {
      cut.assign(data, kMostBytes - 1);
      cut += '\n';
      data = cut.data();
      size = kMostBytes;
    }
    return ::write(STDERR_FILENO, data, size) == static_cast<ssize_t>(size);
  }

  std::uint64_t lost_here_ LOCKSLEY_GUARDED_BY(mutex_) = 0;  // not yet reported
};

// The most bytes of the members of a JSON line. A longer line would be cut, and would not be JSON.
constexpr std::size_t kMostMembers = StderrSink::kMostBytes - 128;

// `text` as a JSON string with its quotes; its end is cut off if it does not fit into `room` bytes.
std::string json_string(std::string_view text, std::size_t room) {
  for (;;) {
    std::string quoted = nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    if (quoted.size() <= room || text.empty()) return quoted;
    text = text.substr(0, text.size() * room / (quoted.size() + 1));
  }
}

// %* : the words as a JSON string, followed by the fields as members.
class JsonMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const LogParts parts = take_apart({message.payload.data(), message.payload.size()});
    std::string text = json_string(parts.words, kMostMembers);
    for (const LogParts::Field& field : parts.fields) {
      const std::size_t around = field.name.size() + std::string_view(R"(,"":"")").size();
      if (text.size() + around + field.value.size() > kMostMembers && field.is_number) break;
      if (text.size() + around > kMostMembers) break;
      text += ",\"";
      text += field.name;
      text += "\":";
      text +=
          field.is_number ? std::string(field.value) : json_string(field.value, kMostMembers - text.size());
    }
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JsonMessage>(); }
};

// %* : the words and the fields, with control characters as \xHH, so that they stay one line.
class TextMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const LogParts parts = take_apart({message.payload.data(), message.payload.size()});
    for (const char c : parts.words) put(c, out);
    for (const LogParts::Field& field : parts.fields) {
      out.push_back(' ');
      out.append(field.name.data(), field.name.data() + field.name.size());
      out.push_back('=');
      put_value(field.value, out);
    }
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<TextMessage>(); }

 private:
  static void put(char c, spdlog::memory_buf_t& out) {
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f) return out.push_back(c);
    const char escaped[] = {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    out.append(escaped, escaped + sizeof escaped);
  }
  // One word is written bare, any other value in quotes, with quotes inside it escaped.
  static void put_value(std::string_view value, spdlog::memory_buf_t& out) {
    const auto is_plain = [](char c) { return c > ' ' && c < '\x7f' && c != '"' && c != '=' && c != '\\'; };
    if (!value.empty() && std::ranges::all_of(value, is_plain)) {
      out.append(value.data(), value.data() + value.size());
      return;
    }
    out.push_back('"');
    for (const char c : value) {
      if (c == '"' || c == '\\') out.push_back('\\');
      put(c, out);
    }
    out.push_back('"');
  }
};

}  // namespace

std::shared_ptr<spdlog::logger> make_log(const config::Log& settings) {
  auto log = std::make_shared<spdlog::logger>("locksleyd", std::make_shared<StderrSink>());
  set_log_format(*log, settings.format);
  set_log_level(*log, settings.level);
  return log;
}

void set_log_format(spdlog::logger& log, config::LogFormat format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (format == config::LogFormat::kJson) {
    formatter->add_flag<JsonMessage>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%*})");
  } else {
    formatter->add_flag<TextMessage>('*').set_pattern("%Y-%m-%d %H:%M:%S.%e %l %*");
  }
  log.set_formatter(std::move(formatter));
}

void set_log_level(spdlog::logger& log, config::LogLevel level) {
  switch (level) {
    case config::LogLevel::kTrace:
      return log.set_level(spdlog::level::trace);
    case config::LogLevel::kDebug:
      return log.set_level(spdlog::level::debug);
    case config::LogLevel::kInfo:
      return log.set_level(spdlog::level::info);
    case config::LogLevel::kWarn:
      return log.set_level(spdlog::level::warn);
    case config::LogLevel::kError:
      return log.set_level(spdlog::level::err);
  }
}

std::uint64_t lost_log_lines() { return lost_lines; }

}  // namespace locksley::daemon
