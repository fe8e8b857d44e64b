// The arguments of each command of `locksley`, as plain structs.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "proto/customer_settings.h"
#include "proto/submit_options.h"

namespace locksley::cli {

// A command line as plain values: command_line.h makes it from argv, and a command sees only these
// values.

struct GlobalOptions {
  std::string server = {};   // HOST:PORT, or several with commas between them
  std::string url = {};      // redis://user@host:port, rediss:// with TLS
  std::string ca_file = {};  // for TLS, as are the two members below
  std::string certificate = {};
  std::string key = {};
  std::string password_file = {};  // its first line is the password
  bool json = false;
};

enum class WhenProgress { kAuto, kAlways, kNever };

// Where the payloads of `submit` and `run` come from.
struct PayloadOptions {
  std::vector<std::string> arguments = {};
  bool nul_separated = false;
  bool files = false;
  // Low and high; arguments[0] is then the template.
  std::optional<std::pair<std::int64_t, std::int64_t>> range = {};
};

struct SubmitArguments {
  std::string handler = {};
  // The id is a new random one, so the daemon has no batch of this id.
  bool has_new_id = false;
  proto::BatchOptions batch = {};
  PayloadOptions payloads = {};
};

struct RunArguments {
  SubmitArguments submit = {};
  WhenProgress progress = WhenProgress::kAuto;
  bool ordered = false;
  std::string results = {};  // a folder or a template of paths; empty: outputs go to standard output
};

struct ExecArguments {
  proto::BatchOptions batch = {};
  std::vector<std::string> words = {};  // after `--`: the command, and, after `:::`, arguments
  bool nul_separated = false;
  bool skips_empty = false;                 // records of standard input
  std::uint64_t each = 1;                   // records for one job
  std::string directory = {};               // empty: the current one
  std::vector<std::string> variables = {};  // NAME=value, or NAME
  bool keeps_order = false;
  bool tags = false;
  bool is_dry_run = false;
  bool shows_progress = false;
  std::string results = {};
  std::string joblog = {};
  bool resumes = false;
  bool resumes_failed = false;
  bool retries_failed = false;
  std::string halt = "never";
};

struct ResultsArguments {
  std::string id = {};
  std::vector<std::string> inputs = {};  // with `files`; empty: the records of standard input
  bool files = false;
  bool nul_separated = false;  // inputs that are read, and outputs
  bool follow = false;
  bool ordered = false;
  bool failed = false;
  bool payloads = false;
  bool discard = false;
  std::string results = {};  // as in RunArguments
};

struct WaitArguments {
  std::string id = {};
  std::optional<std::chrono::milliseconds> timeout = {};
  bool progress = false;
};

struct ListArguments {
  std::string state = {};
  std::string match = {};
  std::optional<std::string> customer = {};  // empty: batches for no customer
  std::string handler = {};
  std::uint64_t limit = 0;  // 0: all
};

// Lists the customers.
struct CustomersArguments {
  std::string match = {};
  std::uint64_t limit = 0;  // 0: all
};

struct CustomerArguments {
  enum class Command { kGet, kSet, kDelete };
  Command command = Command::kGet;
  std::string name = {};
  proto::CustomerSettings changes = {};  // of kSet
};

struct BenchArguments {
  std::string handler = "echo";
  std::optional<std::uint64_t> jobs = {};  // absent: a number that takes a few seconds
  std::size_t payload_bytes = 16;
  std::optional<std::string> text = {};  // the payload of every job, in place of payload_bytes
  std::uint64_t batch = 10'000;
  unsigned connections = 2;
  bool latency = false;
};

struct TopArguments {
  std::chrono::milliseconds interval{1000};
  std::optional<std::uint64_t> frames = {};  // printed as text; absent: no limit, and a screen on a terminal
  std::string order = "newest";
  std::string filter = {};
};

// The commands that take one batch and print the daemon's reply.
struct BatchArguments {
  enum class Command { kStatus, kExplain, kCancel, kRetry, kForget, kPause, kResume };
  Command command;
  std::string id = {};
  std::vector<std::uint64_t> indexes = {};  // of retry: only these jobs
};

// One job.
struct JobArguments {
  enum class Part { kAll, kPayload, kOutput };
  std::string id = {};
  std::uint64_t index = 0;
  Part part = Part::kAll;
};

struct RunningArguments {
  std::string id = {};  // empty: of all batches
};

struct LogArguments {
  std::string id = {};
  std::uint64_t index = 0;
  bool follow = false;
};

struct WeightArguments {
  std::string id = {};
  std::uint32_t weight = 1;
};

struct SlotsArguments {
  std::string id = {};
  std::uint32_t slots = 0;  // 0: no bound
};

// Restarts the handler.
struct HandlerArguments {
  std::string name = {};
};

struct BackupArguments {
  std::string name = {};
};

struct ServerArguments {
  enum class Command { kHandlers, kTenants, kWorkers, kPing, kInfo };
  Command command;
  std::string section = {};  // of INFO; empty: all
};

struct HashPasswordArguments {};

struct WorkArguments {
  std::string handler = {};
  std::vector<std::string> program = {};  // and its arguments
  std::uint32_t slots = 1;
  std::string name = {};  // of this worker; empty: the machine's
  bool insecure = false;
};

using Arguments =
    std::variant<SubmitArguments, RunArguments, ExecArguments, ResultsArguments, WaitArguments, ListArguments,
                 BatchArguments, JobArguments, RunningArguments, LogArguments, WeightArguments,
                 SlotsArguments, HandlerArguments, BackupArguments, CustomersArguments, CustomerArguments,
                 ServerArguments, TopArguments, BenchArguments, HashPasswordArguments, WorkArguments>;

struct CommandLine {
  GlobalOptions global;
  Arguments command;
};

}  // namespace locksley::cli
