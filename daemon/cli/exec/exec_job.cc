#include "daemon/cli/exec/exec_job.h"

#include <algorithm>
#include <charconv>

#include "daemon/cli/text/table.h"

namespace locksley::cli {

std::string ExecJob::text() const {
  std::string text = std::to_string(number);
  for (const std::string& argument : arguments) text.append(1, '\0').append(argument);
  return text;
}

ExecJob ExecJob::of(std::string_view text) {
  ExecJob job;
  std::size_t end = text.find('\0');
  std::from_chars(text.data(), text.data() + std::min(end, text.size()), job.number);
  while (end != std::string_view::npos) {
    text.remove_prefix(end + 1);
    end = text.find('\0');
    job.arguments.emplace_back(text.substr(0, end));
  }
  return job;
}

std::string ExecJob::joined() const {
  std::string result;
  for (std::size_t i = 0; i < arguments.size(); ++i) result.append(i == 0 ? "" : " ").append(arguments[i]);
  return result;
}

std::string ExecJob::shown() const {
  constexpr std::size_t kLongest = 200;
  std::string text;
  for (const std::string& argument : arguments) {
    if (text.size() > kLongest) break;
    text.append(&argument == &arguments.front() ? "" : " ").append(argument, 0, kLongest + 1);
  }
  return shortened(printable(text), kLongest);
}

}  // namespace locksley::cli
