#include "daemon/logging.h"

#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace locksley::daemon {

namespace {

// Written by whoever logs, read by metrics: a count and nothing more.
std::atomic<std::uint64_t> lost_lines{0};

class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
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
  // Writable means, of a pipe, that it has room for 4 KiB: more could wait, so a longer line is cut.
  static constexpr std::size_t kMostBytes = 4096;

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

  std::uint64_t lost_here_ = 0;  // guarded by the base's mutex
};

// %* : the message as a JSON string, quotes included. (%v would not escape it.)
class JsonMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    const nlohmann::json text(std::string(message.payload.data(), message.payload.size()));
    const std::string escaped = text.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    out.append(escaped.data(), escaped.data() + escaped.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<JsonMessage>(); }
};

// %* : the message with control characters as \xHH, so that it stays one line.
class TextMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& out) override {
    constexpr std::string_view kHex = "0123456789abcdef";
    for (const char c : message.payload) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte >= 0x20 && byte != 0x7f) {
        out.push_back(c);
        continue;
      }
      const char escaped[] = {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
      out.append(escaped, escaped + sizeof escaped);
    }
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<TextMessage>(); }
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
