#include "daemon/workers/interface/worker_commands.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <concepts>
#include <limits>
#include <set>
#include <span>

#include "proto/number.h"
#include "proto/text.h"

namespace locksley::daemon {
namespace {

using proto::ArgumentList;
using proto::equals_ignoring_case;
using std::chrono::milliseconds;
using Error = std::unexpected<std::string>;

Error wrong_number(std::string_view command) {
  return Error(fmt::format("ERR wrong number of arguments for '{}' command", command));
}
Error syntax_error(std::string_view at) {
  return Error(fmt::format("ERR syntax error at '{}'", proto::printable(at)));
}
Error too_big(std::string_view what, std::uint64_t most) {
  return Error(fmt::format("TOOBIG {}: at most {}", what, most));
}

constexpr std::size_t kMostOptions = 6;  // of any command: JOIN and CLAIM have that many

// Walks over the options of a command. After a failure, error() has the first one.
class Options {
 public:
  Options(const ArgumentList& arguments, std::size_t first) : arguments_(arguments), at_(first) {}

  // The next option's name; none at the end, and after a failure, such as an option that is given
  // twice.
  std::optional<std::string_view> next() {
    if (error_ || at_ >= arguments_.size()) return std::nullopt;
    const std::string_view name = arguments_[at_++];
    const std::span seen(seen_.data(), seen_count_);
    if (std::ranges::any_of(seen,
                            [name](std::string_view other) { return equals_ignoring_case(name, other); })) {
      fail(fmt::format("ERR option '{}' is given twice", proto::printable(name)));
      return std::nullopt;
    }
    if (seen_count_ < seen_.size()) seen_[seen_count_++] = name;
    return name;
  }
  std::string_view text(std::string_view option) {
    if (at_ < arguments_.size()) return arguments_[at_++];
    fail(fmt::format("ERR {} needs a value", option));
    return {};
  }
  // A number in [least, most]; 0 after a failure.
  std::uint64_t number(std::string_view option, std::uint64_t least, std::uint64_t most) {
    const std::string_view given = text(option);
    if (error_) return 0;
    const auto value = proto::parse_uint64(given);
    if (value && *value >= least && *value <= most) return *value;
    fail(fmt::format("{} {} is a number from {} to {}, not '{}'", value && *value > most ? "TOOBIG" : "ERR",
                     option, least, most, proto::printable(given)));
    return 0;
  }
  template <std::unsigned_integral T>
  T number_of(std::string_view option, std::uint64_t least = 0, T most = std::numeric_limits<T>::max()) {
    return static_cast<T>(number(option, least, most));
  }
  milliseconds duration(std::string_view option, milliseconds least, milliseconds most) {
    return milliseconds(
        number(option, static_cast<std::uint64_t>(least.count()), static_cast<std::uint64_t>(most.count())));
  }
  // All arguments that follow, at least one; each name once.
  std::vector<std::string_view> rest(const WorkerLimits& limits) {
    std::vector<std::string_view> names;
    std::set<std::string_view> known;
    const std::size_t count = arguments_.size() - at_;
    if (count == 0) fail("ERR HANDLERS needs a handler");
    if (count > limits.handlers) fail(fmt::format("TOOBIG HANDLERS: at most {}", limits.handlers));
    while (!error_ && at_ < arguments_.size()) {
      const std::string_view name = arguments_[at_++];
      if (known.insert(name).second) names.push_back(name);
      if (name.size() > limits.handler_bytes)
        fail(fmt::format("TOOBIG the name of a handler: at most {} bytes", limits.handler_bytes));
    }
    return names;
  }
  void fail(std::string error) {
    if (!error_) error_ = std::move(error);
  }
  void unknown(std::string_view name) {
    fail(fmt::format("ERR syntax error at '{}'", proto::printable(name)));
  }
  const std::optional<std::string>& error() const { return error_; }

 private:
  const ArgumentList& arguments_;
  std::size_t at_;
  std::array<std::string_view, kMostOptions> seen_;
  std::size_t seen_count_ = 0;
  std::optional<std::string> error_;
};

template <class Command>
Parsed<Command> result(const Options& options, Command command) {
  if (options.error()) return Error(*options.error());
  return command;
}

LeaseName lease_name(Options& options) {
  const auto name = LeaseName::parse(options.text("lease"));
  // An unknown name, in any form, counts as the name of a lease that is gone.
  return name.value_or(LeaseName{});
}

std::optional<JobStatus> parse_status(std::string_view text) {
  for (std::size_t i = 0; i < kJobStatuses; ++i) {
    if (equals_ignoring_case(text, to_string(static_cast<JobStatus>(i)))) return static_cast<JobStatus>(i);
  }
  return std::nullopt;
}

}  // namespace

LeaseName::Text::Text(const LeaseName& name) {
  const char* const end = fmt::format_to(bytes_.data(), FMT_COMPILE("{:016x}-{}"), name.life, name.number);
  size_ = static_cast<std::size_t>(end - bytes_.data());
}

std::optional<LeaseName> LeaseName::parse(std::string_view text) {
  constexpr std::size_t kLifeDigits = 16;
  if (text.size() <= kLifeDigits + 1 || text[kLifeDigits] != '-') return std::nullopt;
  LeaseName name;
  const char* const end = text.data() + kLifeDigits;
  const auto [at, error] = std::from_chars(text.data(), end, name.life, 16);
  const auto number = proto::parse_uint64(text.substr(kLifeDigits + 1));
  if (error != std::errc() || at != end || !number) return std::nullopt;
  name.number = *number;
  // One name for each lease: no upper-case digits.
  return Text(name).view() == text ? std::optional(name) : std::nullopt;
}

Parsed<JoinCommand> parse_join(const ArgumentList& arguments, const WorkerLimits& limits) {
  if (arguments.size() < 6) return wrong_number("join");
  JoinCommand join;
  join.name = arguments[1];
  if (join.name.empty()) return Error("ERR the name of a worker is empty");
  if (join.name.size() > limits.name_bytes)
    return too_big("bytes of the name of a worker", limits.name_bytes);
  for (const char c : join.name) {
    if (c <= ' ' || c > '~')
      return Error("ERR the name of a worker is of printable ASCII characters, without spaces");
  }
  Options options(arguments, 2);
  while (const auto option = options.next()) {
    if (equals_ignoring_case(*option, "SLOTS")) {
      join.slots = options.number_of<std::uint32_t>("SLOTS", 1, limits.slots);
    } else if (equals_ignoring_case(*option, "LEASE")) {
      join.lease = options.duration("LEASE", limits.least_lease, limits.longest_lease);
    } else if (equals_ignoring_case(*option, "GRACE")) {
      join.grace = options.duration("GRACE", milliseconds(0), limits.longest_grace);
    } else if (equals_ignoring_case(*option, "PUSH")) {
      join.wants_pushes = true;
    } else if (equals_ignoring_case(*option, "PARTIAL")) {
      join.is_partial = true;
    } else if (equals_ignoring_case(*option, "HANDLERS")) {
      join.handlers = options.rest(limits);
    } else {
      return syntax_error(*option);
    }
  }
  if (join.slots == 0) options.fail("ERR JOIN needs SLOTS");
  if (join.handlers.empty()) options.fail("ERR JOIN needs HANDLERS");
  return result(options, std::move(join));
}

Parsed<ClaimCommand> parse_claim(const ArgumentList& arguments, const WorkerLimits& limits) {
  ClaimCommand claim;
  Options options(arguments, 1);
  while (const auto option = options.next()) {
    if (equals_ignoring_case(*option, "SLOT")) {
      claim.slot = options.number_of<std::uint32_t>("SLOT");
    } else if (equals_ignoring_case(*option, "WIDTH")) {
      claim.width = options.number_of<std::uint32_t>("WIDTH", 1, limits.slots);
    } else if (equals_ignoring_case(*option, "JOBS")) {
      claim.jobs = options.number_of<std::uint64_t>("JOBS", 1);
    } else if (equals_ignoring_case(*option, "BYTES")) {
      claim.bytes = options.number_of<std::uint64_t>("BYTES", 1);
    } else if (equals_ignoring_case(*option, "BLOCK")) {
      claim.block = options.duration("BLOCK", milliseconds(0), limits.longest_block);
    } else if (equals_ignoring_case(*option, "HANDLERS")) {
      claim.handlers = options.rest(limits);
    } else {
      return syntax_error(*option);
    }
  }
  return result(options, std::move(claim));
}

Parsed<SettleCommand> parse_settle(const ArgumentList& arguments) {
  if (arguments.size() <= SettleCommand::kFirstOutput) return wrong_number("settle");
  Options options(arguments, 1);
  SettleCommand settle;
  settle.lease = lease_name(options);
  const std::string_view given = options.text("status");
  const auto status = parse_status(given);
  if (!status) options.fail(fmt::format("ERR unknown status '{}'", proto::printable(given)));
  settle.status = status.value_or(JobStatus::kError);
  const std::uint64_t outputs = arguments.size() - SettleCommand::kFirstOutput;
  settle.jobs.low = options.number("first", 0, std::numeric_limits<std::uint64_t>::max() - outputs);
  settle.jobs.high = settle.jobs.low + outputs;
  return result(options, settle);
}

Parsed<NoteCommand> parse_note(const ArgumentList& arguments, const WorkerLimits& limits) {
  if (arguments.size() < 3) return wrong_number("note");
  Options options(arguments, 1);
  NoteCommand note;
  note.lease = lease_name(options);
  note.index = options.number_of<std::uint64_t>("index");
  while (const auto option = options.next()) {
    if (equals_ignoring_case(*option, "PROGRESS")) {
      note.progress = options.number_of<std::uint32_t>("PROGRESS", 0, 100);
    } else if (equals_ignoring_case(*option, "TEXT")) {
      note.text = options.text("TEXT");
      if (note.text->size() > limits.note_bytes) return too_big("bytes of TEXT", limits.note_bytes);
    } else if (equals_ignoring_case(*option, "LOG")) {
      note.log = options.text("LOG");
      if (note.log.size() > limits.log_bytes) return too_big("bytes of LOG", limits.log_bytes);
    } else if (equals_ignoring_case(*option, "EXIT")) {
      note.exit_status = static_cast<std::int32_t>(options.number_of<std::uint32_t>("EXIT", 0, 255));
    } else {
      return syntax_error(*option);
    }
  }
  return result(options, note);
}

Parsed<YieldCommand> parse_yield(const ArgumentList& arguments) {
  if (arguments.size() < 2 || arguments.size() > 3) return wrong_number("yield");
  Options options(arguments, 1);
  YieldCommand yield;
  yield.lease = lease_name(options);
  if (arguments.size() == 3) yield.from = options.number_of<std::uint64_t>("from");
  return result(options, yield);
}

Parsed<BeatCommand> parse_beat(const ArgumentList& arguments, std::size_t most_leases) {
  if (arguments.size() % 2 == 0) return wrong_number("beat");
  if (arguments.size() / 2 > most_leases) return too_big("leases of a BEAT", most_leases);
  Options options(arguments, 1);
  BeatCommand beat;
  for (std::size_t i = 1; i < arguments.size() && !options.error(); i += 2) {
    const LeaseName lease = lease_name(options);
    beat.next.emplace_back(lease, options.number_of<std::uint64_t>("next"));
  }
  return result(options, std::move(beat));
}

Parsed<ReclaimCommand> parse_reclaim(const ArgumentList& arguments) {
  if (arguments.size() < 5) return wrong_number("reclaim");
  Options options(arguments, 1);
  ReclaimCommand reclaim;
  reclaim.batch = options.number_of<std::uint64_t>("batch");
  reclaim.attempt = options.number_of<std::uint32_t>("attempt");
  reclaim.jobs.low = options.number_of<std::uint64_t>("first");
  reclaim.jobs.high = options.number_of<std::uint64_t>("high");
  if (reclaim.jobs.low >= reclaim.jobs.high) options.fail("ERR RECLAIM: first is not less than high");
  while (const auto option = options.next()) {
    if (equals_ignoring_case(*option, "SLOT")) {
      reclaim.slot = options.number_of<std::uint32_t>("SLOT");
    } else if (equals_ignoring_case(*option, "WIDTH")) {
      reclaim.width = options.number_of<std::uint32_t>("WIDTH", 1);
    } else if (equals_ignoring_case(*option, "LEASE")) {
      reclaim.former = LeaseName::parse(options.text("LEASE"));
    } else {
      return syntax_error(*option);
    }
  }
  return result(options, reclaim);
}

}  // namespace locksley::daemon
