// One job of `locksley exec`, as its input has it. Any thread; nothing blocks or fails.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace locksley::cli {

// A job of `locksley exec`, as its input has it: its number, from 1, which it keeps when it runs
// again in another batch, and its arguments. A plain value.
struct ExecJob {
  std::uint64_t number = 0;
  std::vector<std::string> arguments = {};

  // The job as one text, and back: one thread hands the text to another (PassingNames).
  std::string text() const;
  static ExecJob of(std::string_view text);

  // The arguments with spaces in between.
  std::string joined() const;
  // The same for messages: printable, and no longer than a few lines.
  std::string shown() const;
};

}  // namespace locksley::cli
