// A line of the log that says what it is about: words, and fields behind them.
#pragma once

#include <spdlog/common.h>

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace spdlog {
class logger;
}

namespace locksley {
class Batch;
}

namespace locksley::daemon {

// Made, filled and written at one place; nothing is kept. As text a line is `words name=value name="other
// value"`, as JSON an object with a member for each field; the log's format decides when it is written
// (logging.cc), so the same place serves both. Values may be any bytes: quotes, line ends, broken UTF-8; none
// can look like a field of its own. A value is cut after kMostValueBytes.
//
// Whatever is about a job or a batch calls about(), and is found by batch, tenant, handler and trace.
class LogLine {
 public:
  static constexpr std::size_t kMostValueBytes = 1000;

  // Implicit: where a line is asked for, words will do.
  template <std::convertible_to<std::string_view> Words>
  LogLine(const Words& words) {
    begin(words);
  }

  // Fields `batch`, `tenant`, `handler`, and `trace`, the trace's id, if its submitter gave one.
  LogLine& about(const Batch& batch);
  LogLine& with(std::string_view name, std::string_view text);
  LogLine& with(std::string_view name, std::integral auto number) {
    return with_number(name, std::to_string(number));
  }

  void write(spdlog::logger& log, spdlog::level::level_enum level) const;

 private:
  void begin(std::string_view words);
  LogLine& with_number(std::string_view name, std::string_view number);
  void add(std::string_view text);

  std::string payload_;
};

// What a logger was handed, for who formats it.
struct LogParts {
  struct Field {
    std::string_view name;
    std::string_view value;
    bool is_number;
  };
  std::string_view words;
  std::vector<Field> fields;
};

// A payload that is no LogLine's is words alone.
LogParts take_apart(std::string_view payload);

}  // namespace locksley::daemon
