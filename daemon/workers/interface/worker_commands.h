// The commands of remote workers, parsed and bounded. Plain values and pure functions.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/index_range.h"
#include "core/base/job.h"
#include "proto/argument_list.h"

namespace locksley::daemon {

// The limits of the arguments of a worker's commands. All are guesses.
struct WorkerLimits {
  std::size_t name_bytes = 256;
  std::uint32_t slots = 4'096;  // of one worker
  std::size_t handlers = 1'024;
  std::size_t handler_bytes = 128;
  std::chrono::milliseconds least_lease = std::chrono::seconds(1);
  std::chrono::milliseconds longest_lease = std::chrono::hours(24);
  std::chrono::milliseconds longest_block = std::chrono::minutes(5);
  std::chrono::milliseconds longest_grace = std::chrono::minutes(10);
  std::size_t note_bytes = 4 * 1024;
  std::size_t log_bytes = 64 * 1024;
};

// The names of leases on the wire: "<life>-<number>", where `life` is a random number of this
// process, so that a lease of an earlier process is not taken for one of this.
struct LeaseName {
  std::uint64_t life = 0;
  std::uint64_t number = 0;
  // As it is on the wire.
  class Text {
   public:
    explicit Text(const LeaseName& name);
    std::string_view view() const { return {bytes_.data(), size_}; }

   private:
    std::array<char, 16 + 1 + std::numeric_limits<std::uint64_t>::digits10 + 1> bytes_;
    std::size_t size_;
  };
  std::string to_string() const { return std::string(Text(*this).view()); }
  static std::optional<LeaseName> parse(std::string_view text);
  friend bool operator==(const LeaseName&, const LeaseName&) = default;
};

// The commands of workers, one struct for each. Their views refer to the command's arguments.
// proto/WORKER_PROTOCOL.md describes them.
struct JoinCommand {
  std::string_view name;
  std::uint32_t slots = 0;
  std::optional<std::chrono::milliseconds> lease;
  std::chrono::milliseconds grace{0};
  bool wants_pushes = false;
  bool is_partial =
      false;  // PARTIAL: unknown handlers, and handlers that its user may not serve, are left out
  std::vector<std::string_view> handlers;  // each once
};
struct ClaimCommand {
  std::optional<std::uint32_t> slot;
  std::uint32_t width = 1;
  std::uint64_t jobs = ~std::uint64_t{0};
  std::uint64_t bytes = ~std::uint64_t{0};
  std::chrono::milliseconds block{0};
  std::vector<std::string_view> handlers;  // each once; empty: all that the worker joined with
};
struct SettleCommand {
  LeaseName lease;
  JobStatus status = JobStatus::kOk;
  IndexRange jobs;
  static constexpr std::size_t kFirstOutput = 4;  // its place among the arguments
};
struct NoteCommand {
  LeaseName lease;
  std::uint64_t index = 0;
  std::optional<std::uint32_t> progress;  // per cent
  std::optional<std::string_view> text;
  std::string_view log;
  std::optional<std::int32_t> exit_status;
};
struct YieldCommand {
  LeaseName lease;
  std::uint64_t from = 0;
};
struct BeatCommand {
  std::vector<std::pair<LeaseName, std::uint64_t>> next;
};
struct ReclaimCommand {
  std::uint64_t batch = 0;
  std::uint32_t attempt = 1;
  IndexRange jobs;
  std::optional<std::uint32_t> slot;
  std::uint32_t width = 1;
  std::optional<LeaseName> former;  // under which the worker knew the jobs
};

// Parse a whole command, its name included. The error is that of the reply, with its code. Nothing
// blocks.
template <class Command>
using Parsed = std::expected<Command, std::string>;
Parsed<JoinCommand> parse_join(const proto::ArgumentList& arguments, const WorkerLimits& limits);
Parsed<ClaimCommand> parse_claim(const proto::ArgumentList& arguments, const WorkerLimits& limits);
Parsed<SettleCommand> parse_settle(const proto::ArgumentList& arguments);
Parsed<NoteCommand> parse_note(const proto::ArgumentList& arguments, const WorkerLimits& limits);
Parsed<YieldCommand> parse_yield(const proto::ArgumentList& arguments);
// `most_leases`: more pairs than that are an error.
Parsed<BeatCommand> parse_beat(const proto::ArgumentList& arguments, std::size_t most_leases);
Parsed<ReclaimCommand> parse_reclaim(const proto::ArgumentList& arguments);

}  // namespace locksley::daemon
