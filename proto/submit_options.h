// The arguments of SUBMIT, OPEN and RUN as structs, and the parsers that fill them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <variant>

#include "proto/argument_list.h"
#include "proto/batch_options.h"

namespace locksley::proto {

// `JOBS payload …`: the payloads are the command's arguments from `first` on.
// arguments.drop_front(first) leaves only them.
struct JobsSource {
  std::size_t first;
};

// `RANGE low high [payload]`: one job for each integer in [low, high). low == high is a batch
// without jobs.
struct RangeSource {
  std::int64_t low;
  std::int64_t high;
  // Which argument of the command is the payload, which may be large; each `{}` in it stands for
  // the decimal. Absent: the payload is the decimal alone.
  std::optional<std::size_t> payload_at;

  std::uint64_t size() const { return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low); }
};

// SUBMIT or RUN handler [option …] JOBS payload … | RANGE low high [payload]
struct SubmitCommand {
  std::string handler;
  BatchOptions options;
  std::variant<JobsSource, RangeSource> source;
};

// OPEN handler [option …]
struct OpenCommand {
  std::string handler;
  BatchOptions options;
};

// Parse a whole command, its name included, and copy the parts that they keep. The error is the
// text of the error reply without its '-': it names the option, what was expected and what was
// found. No side effects, any thread.
std::expected<SubmitCommand, std::string> parse_submit(const ArgumentList& arguments);
std::expected<OpenCommand, std::string> parse_open(const ArgumentList& arguments);
// As SUBMIT, but only with JOBS; RETAIN is accepted and has no effect.
std::expected<SubmitCommand, std::string> parse_run(const ArgumentList& arguments);

// Whether a command of one of these kinds has more than `most` AFTER and AFTEROK among its options.
// Reads no more words than needed; for an invalid command either answer is possible.
bool has_more_waits(const ArgumentList& arguments, std::size_t most);
// Whether EPHEMERAL is among its options; reads the options only. For an invalid command either
// answer is possible.
bool is_ephemeral(const ArgumentList& arguments);

}  // namespace locksley::proto
