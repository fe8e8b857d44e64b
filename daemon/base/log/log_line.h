// A line of the log: words, followed by named fields.
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

// Built and written in one statement. As text, a line is `words name=value name="other value"`; as
// JSON it is an object with a member for each field. The logger chooses the format when it writes
// (logging.cc). Values may be any bytes, such as quotes, line ends or invalid UTF-8; no value can
// look like another field. A value is cut after kMostValueBytes.
//
// Every line about a job or a batch calls about(), so that it can be found by batch, tenant,
// handler and trace. A value, one thread's. write() does not block (make_log()).
class LogLine {
 public:
  static constexpr std::size_t kMostValueBytes = 1000;

  // Implicit: words alone are a line.
  template <std::convertible_to<std::string_view> Words>
  LogLine(const Words& words) {
    begin(words);
  }

  // Adds the fields `batch`, `tenant` and `handler`; `customer`, if the submitter named one; and
  // `trace`, the trace's id, if the submitter gave a trace.
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

// The parts of a logger's payload, for the formatters.
struct LogParts {
  struct Field {
    std::string_view name;
    std::string_view value;
    bool is_number;
  };
  std::string_view words;
  std::vector<Field> fields;
};

// Splits a payload into its parts. A payload that no LogLine wrote is words only.
LogParts take_apart(std::string_view payload);

}  // namespace locksley::daemon
