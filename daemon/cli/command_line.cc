// Length: one list, of all commands and their options.
#include "daemon/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "config/nearest.h"
#include "daemon/base/decimal_numbers.h"
#include "daemon/base/exit_codes.h"
#include "daemon/cli/batch_flags.h"
#include "daemon/cli/exec/command_check.h"
#include "daemon/cli/exec/exec_plan.h"
#include "daemon/cli/exec/foreign_options.h"
#include "daemon/cli/feed/payload_words.h"
#include "daemon/cli/names/path_template.h"
#include "daemon/cli/text/table.h"

namespace locksley::cli {
namespace {

using std::chrono::milliseconds;

const std::map<std::string, WhenProgress> kWhenProgress{
    {"auto", WhenProgress::kAuto}, {"always", WhenProgress::kAlways}, {"never", WhenProgress::kNever}};

using daemon::decimal_numbers;

using Integers = std::numeric_limits<std::int64_t>;
const CLI::Validator kIndexes = decimal_numbers(std::uint64_t{0}, std::uint64_t{Integers::max()});
const CLI::Validator kCounts =
    decimal_numbers(0U, static_cast<std::uint32_t>(proto::BatchOptions::kMaxCount));

constexpr std::uint64_t kMostFrames = std::uint64_t{1} << 40;  // at ten a second: three thousand years

void add_payload_options(CLI::App& command, PayloadOptions& payloads) {
  auto* group = command.add_option_group("Payloads", "Where the jobs come from");
  group->add_option("PAYLOAD", payloads.arguments,
                    "One job each; without PAYLOADs one job for each line of standard input");
  group->add_flag("-0,--null", payloads.nul_separated,
                  "Payloads on standard input are separated by NUL, not by newline");
  group->add_flag("--files", payloads.files,
                  "Each argument (or line) names a file whose content is the payload");
  using Range = std::pair<std::int64_t, std::int64_t>;
  group
      ->add_option_function<Range>(
          "--range",
          [&payloads](const Range& range) {
            if (range.first > range.second) throw CLI::ValidationError("--range", "LOW is above HIGH");
            payloads.range = range;
          },
          "One job for each integer from LOW up to, not including, HIGH; {} in PAYLOAD stands for it")
      ->type_name("LOW HIGH")
      ->transform(decimal_numbers(Integers::min(), Integers::max()).description(""));
}

void check_payloads(const PayloadOptions& payloads) {
  if (payloads.range && payloads.arguments.size() > 1) {
    throw CLI::ValidationError("--range", "takes one PAYLOAD at most, the template");
  }
  if (payloads.range && (payloads.files || payloads.nul_separated)) {
    throw CLI::ValidationError("--range", "cannot be combined with --files or -0");
  }
  if (payloads.nul_separated && !payloads.arguments.empty()) {
    throw CLI::ValidationError("-0", "is for standard input, and PAYLOADs were given");
  }
}

// `locksley exec` without `--`, as users of xargs and GNU parallel write it.
const std::string kNoMark =
    "exec: -- must stand before the command: locksley exec -- COMMAND {}\n" + std::string(kNeedsShell);

// A number without a unit is a number of seconds, as in GNU parallel.
std::string with_seconds(const std::string& text) {
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? text + "s" : text;
}

std::string refuse_bare_delay(const std::string& text) {
  if (with_seconds(text) != text) {
    throw CLI::ValidationError("--delay",
                               "'" + text +
                                   "' has no unit. It is not the pause of GNU parallel between the "
                                   "commands, but one before the first, such as 10s");
  }
  return text;
}

// The command that was given, from the program itself to its last subcommand.
std::vector<const CLI::App*> commands_given(const CLI::App& program) {
  std::vector<const CLI::App*> all{&program};
  for (auto next = program.get_subcommands(); !next.empty(); next = next.front()->get_subcommands())
    all.push_back(next.front());
  return all;
}

// "; did you mean 'PREFIXname'?", or nothing.
std::string guess(std::string_view written, std::span<const std::string> names, std::string_view prefix) {
  const std::string near = config::nearest_name(written, names);
  return near.empty() ? std::string() : "; did you mean '" + std::string(prefix) + near + "'?";
}

std::string no_such_command(const CLI::App& program, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* known :
       commands_given(program).back()->get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(known->get_name());
  return "no command is named '" + printable(word) + "'" + guess(word, names, "");
}

// The long names of a command's options, without "--".
void add_option_names(const CLI::App& command, std::vector<std::string>& names) {
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  }
  // Groups of options are commands without names.
  const auto is_group = [](const CLI::App* one) { return one->get_name().empty(); };
  for (const CLI::App* group : command.get_subcommands(is_group)) add_option_names(*group, names);
}

std::string no_such_option(const CLI::App& program, const std::string& word) {
  constexpr std::string_view kDashes = "--";
  if (program.got_subcommand("exec")) {
    const std::string_view instead = instead_of_option(word);
    if (!instead.empty()) return "exec has no option " + printable(word) + ": " + std::string(instead);
  }
  std::string text = "no option is named '" + printable(word) + "'";
  if (!word.starts_with(kDashes)) return text;
  std::vector<std::string> names;
  for (const CLI::App* command : commands_given(program)) add_option_names(*command, names);
  const std::string_view name = std::string_view(word).substr(kDashes.size());
  return text + guess(name.substr(0, name.find('=')), names, kDashes);
}

// The error for a word that stands where a command should, as in `locksley customer show`; empty:
// there is no such word.
std::string problem_with_command(const CLI::App& program) {
  const std::vector<std::string> words = program.remaining(true);
  if (words.empty()) return {};
  const std::string& first = words.front();
  return first.starts_with('-') ? no_such_option(program, first) : no_such_command(program, first);
}

// The error for an option that the command does not have; empty: there is no such option.
std::string problem_with_options(const CLI::App& program) {
  for (const std::string& word : program.remaining(true)) {
    const bool is_option = word.size() > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9');
    if (is_option) return no_such_option(program, word);
  }
  return {};
}

// The sub-commands. Each fills its struct; the one that was called passes it to `chosen`.
class Parser {
 public:
  std::expected<CommandLine, CommandLineEnd> parse(std::vector<std::string> arguments) {
    add_global_options();
    add_submit();
    add_run();
    add_exec();
    add_results();
    add_wait();
    add_list();
    add_batch_commands();
    add_job_commands();
    add_weight();
    add_slots();
    add_customers();
    add_customer_commands();
    add_handler_commands();
    add_backup();
    add_server_commands();
    add_top();
    add_bench();
    add_hash_password();
    add_work();
    app_.require_subcommand(1);
    if (!arguments.empty() && arguments.front() == "help") ask_for_help(arguments);
    marked_ = mark_payload_words(arguments);
    try {
      std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
      app_.parse(std::move(arguments));
    } catch (const CLI::ParseError& error) {
      std::ostringstream out, problem;
      const int code = app_.exit(error, out, problem);
      const bool lacks_a_command = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError);
      const bool is_extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
      const std::string bad_word = lacks_a_command ? problem_with_command(app_)
                                   : is_extra      ? problem_with_options(app_)
                                                   : std::string();
      if (!bad_word.empty()) problem.str(bad_word + "\nRun with --help for more information.\n");
      const bool is_exec = app_.got_subcommand("exec");
      // `locksley exec wc -l`: CLI11 took `-l` for an option of `exec`.
      if (is_exec && is_extra && marked_ == 0 && !exec_.words.empty()) problem.str(kNoMark + '\n');
      const int wrong = is_exec ? daemon::kExitExecFailed : daemon::kExitUsage;
      return std::unexpected(
          CommandLineEnd{code == 0 ? int{daemon::kExitOk} : wrong, code == 0 ? out.str() : problem.str()});
    }
    return std::move(line_);
  }

 private:
  // `help COMMAND` as `COMMAND --help`, and `help` as `--help`.
  void ask_for_help(std::vector<std::string>& words) const {
    words.erase(words.begin());
    const auto is_named = [&](const CLI::App* command) { return command->get_name() == words.front(); };
    // A word that is no command is an error.
    if (words.empty() || !app_.get_subcommands(is_named).empty()) words.emplace_back("--help");
  }

  CLI::App* add(const std::string& name, const std::string& description, const std::string& example) {
    CLI::App* command = app_.add_subcommand(name, description);
    command->footer("Example:\n  " + example);
    // So that --json and --server may also follow the command.
    command->fallthrough();
    return command;
  }

  void add_global_options() {
    app_.description("Runs batches of jobs on a Locksley daemon.");
    app_.name("locksley");
    app_.footer(
        "The address comes from --server or --url, else from LOCKSLEY_URL; the default is 127.0.0.1:7770.\n"
        "The password comes from --password-file or LOCKSLEY_PASSWORD.\n\n"
        "Example:\n  find . -name '*.log' | locksley run --files sha256");
    auto* server = app_.add_option(
        "--server", line_.global.server,
        "Address of the daemon as HOST:PORT; for several daemons on one store HOST:PORT,HOST:PORT");
    server->check(refuse_empty);
    app_.add_option("--url", line_.global.url,
                    "Address as redis://[user@]host[:port][,host[:port]]; rediss:// with TLS")
        ->excludes(server)
        ->check(refuse_empty);
    auto* authority = app_.add_option(
        "--ca-file", line_.global.ca_file,
        "PEM file of the authority that signed the daemon's certificate; default: LOCKSLEY_CA_FILE, "
        "else the authorities that this machine trusts");
    auto* certificate = app_.add_option("--cert", line_.global.certificate,
                                        "PEM file of the certificate to show to the daemon");
    auto* key = app_.add_option("--key", line_.global.key, "PEM file of the certificate's private key");
    certificate->needs(key)->check(refuse_empty);
    key->needs(certificate)->check(refuse_empty);
    authority->check(refuse_empty);
    app_.add_option("--password-file", line_.global.password_file, "File whose first line is the password")
        ->check(refuse_empty);
    app_.add_flag("--json", line_.global.json, "Print JSON, for programs");
    app_.set_version_flag("--version", "locksley " LOCKSLEY_VERSION);
  }

  static CLI::Option* add_results_option(CLI::App& command, std::string& results) {
    return command
        .add_option("--results", results,
                    "Write each job's output to a file: in the folder DIR, named by the job's index; or with "
                    "a path in which {} {.} {/} {//} {/.} {#} are replaced as by GNU parallel")
        ->check(refuse_empty)
        ->type_name("DIR|TEMPLATE");
  }

  void add_submit() {
    auto* command =
        add("submit", "Submit a batch and print its id", "id=$(seq 1000 | locksley submit fib --weight 3)");
    command->add_option("HANDLER", submit_.handler, "Handler that runs the jobs; see `locksley handlers`")
        ->required();
    add_payload_options(*command, submit_.payloads);
    add_batch_options(*command, submit_.batch);
    command->callback([this] {
      unmark_payload_words(submit_, marked_);
      check_payloads(submit_.payloads);
      line_.command = submit_;
    });
  }

  void add_run() {
    auto* command = add("run", "Submit a batch, show its progress, print the outputs as they complete",
                        "find . -name '*.log' | locksley run --files sha256");
    command->add_option("HANDLER", run_.submit.handler, "Handler that runs the jobs; see `locksley handlers`")
        ->required();
    command->add_flag("--ordered", run_.ordered, "Print outputs in the order of the input");
    add_results_option(*command, run_.results);
    command
        ->add_option_function<std::string>(
            "--progress", [this](const std::string& when) { run_.progress = kWhenProgress.at(when); },
            "The progress bar: auto (on a terminal), always (as lines without a terminal), never")
        ->check(CLI::IsMember(kWhenProgress))
        ->type_name("WHEN");
    add_payload_options(*command, run_.submit.payloads);
    add_batch_options(*command, run_.submit.batch);
    command->callback([this] {
      unmark_payload_words(run_.submit, marked_);
      check_payloads(run_.submit.payloads);
      if (run_.ordered && !run_.results.empty()) {
        throw CLI::ValidationError("--ordered", "cannot be combined with --results");
      }
      if (run_.submit.batch.retain && run_.submit.batch.retain->count() == 0)
        throw CLI::ValidationError("--retain", "0s would drop the batch before its outputs are read");
      line_.command = run_;
    });
  }

  void add_exec() {
    auto* command =
        add("exec",
            "Run a command for each argument, as xargs and GNU parallel do; the daemon's configuration "
            "needs exec: true. Exits with the number of jobs that failed, 101 for more than 100, 255 if it "
            "could not do its work",
            "ls *.log | locksley exec --joblog log -- gzip -k {}\n  locksley exec -k -- convert {} {.}.png "
            "::: *.jpg");
    command->add_option(
        "WORD", exec_.words,
        "After --: the command, in which {} {.} {/} {//} {/.} {#} {1} {2.} ... are replaced as by GNU "
        "parallel; then ::: and the arguments. Without :::, each line of standard input is an argument");
    command->add_flag("-0,--null", exec_.nul_separated,
                      "Arguments on standard input are separated by NUL, not by newline");
    command->add_flag("-r,--no-run-if-empty", exec_.skips_empty, "Skip empty lines of standard input");
    command
        ->add_option("-n,-N,--max-args,--max-replace-args", exec_.each,
                     "Arguments of standard input for one command")
        ->transform(decimal_numbers(std::uint64_t{1}, std::uint64_t{1'000'000}))
        ->capture_default_str();
    command
        ->add_option_function<std::string>(
            "-j,-P,--jobs,--max-procs",
            [this](const std::string& text) {
              const auto jobs = jobs_at_once(text, std::thread::hardware_concurrency());
              if (!jobs) throw CLI::ValidationError("-j", jobs.error());
              exec_.batch.slots = *jobs;
            },
            "At most this many commands at once, as --slots; 50%, +1 and -1 are relative to the number of "
            "this machine's processors; 0: only the daemon's limit for the lane")
        ->type_name("JOBS");
    command
        ->add_option("--workdir,--wd", exec_.directory, "Folder in which the commands run; default: this one")
        ->check(refuse_empty);
    command
        ->add_option("--env", exec_.variables,
                     "A variable for the commands: NAME=VALUE, or NAME for its value in this environment")
        ->allow_extra_args(false);
    command->add_flag("-k,--keep-order", exec_.keeps_order, "Print outputs in the order of the input");
    command->add_flag("--tag", exec_.tags, "Print the arguments before each line of output");
    command->add_flag("--dry-run", exec_.is_dry_run, "Print the commands without running them");
    command->add_flag("--progress,--bar,--eta", exec_.shows_progress,
                      "Show a progress bar, or lines without a terminal");
    command
        ->add_option(
            "--results", exec_.results,
            "Write outputs to files instead: DIR/1/ARGUMENT/stdout, stderr and seq; or to a path "
            "in which {} {.} {/} {//} {/.} {#} {1} {2.} ... are replaced, and that path with .err and .seq")
        ->check(refuse_empty)
        ->type_name("DIR|TEMPLATE");
    command
        ->add_option("--joblog", exec_.joblog,
                     "Write a line for each job that has ended, as GNU parallel does")
        ->check(refuse_empty)
        ->type_name("FILE");
    command->add_flag("--resume", exec_.resumes,
                      "Run only jobs that are not in the joblog, and continue the batch of a killed run");
    command->add_flag("--resume-failed", exec_.resumes_failed,
                      "Same as --resume, and run the failed jobs again, also those of the continued batch");
    command->add_flag("--retry-failed", exec_.retries_failed,
                      "Run the failed jobs of the joblog again, with the commands in the joblog");
    command
        ->add_option(
            "--halt", exec_.halt,
            "When to end early: now or soon, then ,fail= or ,success= or ,done= and a number or percentage "
            "of jobs, such as now,fail=1 or soon,fail=30%; now also ends the running jobs")
        ->capture_default_str();
    add_batch_options(*command, exec_.batch);
    command->get_option("--timeout")->transform(with_seconds);
    command->get_option("--delay")->transform(refuse_bare_delay);
    // Options of GNU parallel and xargs that have no effect here.
    command->add_flag("--will-cite")->group("");
    command
        ->add_option_function<std::string>("-I",
                                           [](const std::string& text) {
                                             if (text != "{}")
                                               throw CLI::ValidationError(
                                                   "-I", "the replacement string is {} and no other");
                                           })
        ->group("");
    command->callback([this] {
      if (exec_.words.size() > marked_) throw CLI::ValidationError(kNoMark);
      std::string none;
      unmark_payload_words(exec_.words, none, marked_);
      if (auto plan = ExecPlan::make(exec_); !plan) throw CLI::ValidationError("exec", plan.error());
      line_.command = exec_;
    });
  }

  void add_results() {
    auto* command = add("results", "Print the outputs of a batch; failures go to standard error",
                        "locksley results $id --follow");
    command->add_option("ID", results_.id, "The batch")->required();
    auto* inputs = command->add_option(
        "INPUT", results_.inputs,
        "With --files: the inputs of the jobs, in the order in which they were submitted");
    command->add_flag(
        "--files", results_.files,
        "Name the jobs by their inputs: the INPUTs, or the lines of standard input, the same as for "
        "submit");
    command->add_flag("-0,--null", results_.nul_separated,
                      "Outputs, and INPUTs on standard input, end with NUL, not with newline");
    command->add_flag("--follow", results_.follow, "Wait for more outputs until the batch is over");
    auto* ordered =
        command->add_flag("--ordered", results_.ordered, "Print in the order of the jobs, not of completion");
    auto* failed = command->add_flag("--failed", results_.failed,
                                     "Print only the jobs that did not end ok, to standard output");
    command
        ->add_flag("--payloads", results_.payloads,
                   "With --failed: print the payloads of these jobs, for the standard input of submit; with "
                   "-0 on both sides if payloads have newlines")
        ->needs(failed)
        ->excludes(ordered);
    auto* results = add_results_option(*command, results_.results);
    results->excludes(ordered)->excludes(failed);
    // Outputs that --ordered holds back or --failed leaves out would be lost.
    command->add_flag("--discard", results_.discard, "Let the daemon drop the printed outputs")
        ->excludes(ordered)
        ->excludes(failed);
    command->callback([this, inputs] {
      unmark_payload_words(results_.inputs, results_.id, marked_);
      if (inputs->count() > 0 && !results_.files) throw CLI::ValidationError("INPUT", "needs --files");
      if (!results_.files && PathTemplate::parse(results_.results).needs_names()) {
        throw CLI::ValidationError("--results",
                                   "needs the names of the inputs: repeat them after --files, or use {#}");
      }
      line_.command = results_;
    });
  }

  void add_wait() {
    auto* command = add("wait", "Wait until a batch is over; exit 0 only if every job was ok",
                        "locksley wait $id --timeout 5m --progress");
    command->add_option("ID", wait_.id, "The batch")->required();
    add_duration(*command, "--timeout", wait_.timeout, "Give up after this time, with exit status 75");
    command->add_flag("--progress", wait_.progress, "Show a progress bar, or lines without a terminal");
    command->callback([this] { line_.command = wait_; });
  }

  void add_list() {
    auto* command = add("list", "List batches, newest first", "locksley list --state running");
    command
        ->add_option("--state", list_.state,
                     "Only batches in this state: open, queued, running, done or cancelled")
        ->check(CLI::IsMember({"open", "queued", "running", "done", "cancelled"}));
    command->add_option("--match", list_.match, "Only batches whose id or name matches this glob pattern");
    command->add_option("--for", list_.customer,
                        "Only batches for this customer; an admin may write USER/CUSTOMER");
    command->add_option("--handler", list_.handler, "Only batches of this handler");
    command->add_option("--limit", list_.limit, "List at most this many")->transform(kIndexes);
    command->callback([this] { line_.command = list_; });
  }

  void add_customers() {
    auto* command =
        add("customers", "List the customers that have settings or unfinished batches, and their shares",
            "locksley customers --match 'eu-*'");
    command->add_option("--match", customers_.match,
                        "Only customers whose name (for an admin, USER/CUSTOMER) matches this glob pattern");
    command->add_option("--limit", customers_.limit, "List at most this many")->transform(kIndexes);
    command->callback([this] { line_.command = customers_; });
  }

  void add_customer_commands() {
    using Command = CustomerArguments::Command;
    auto* command =
        add("customer", "Show or change a customer", "locksley customer set acme --weight 3 --slots 8");
    command->require_subcommand(1);
    const auto one = [this, command](const std::string& name, Command kind, const std::string& description) {
      auto* sub = command->add_subcommand(name, description);
      sub->fallthrough();
      sub->add_option("NAME", customer_.name, "The customer; an admin may write USER/CUSTOMER")->required();
      sub->callback([this, kind] {
        customer_.command = kind;
        line_.command = customer_;
      });
      return sub;
    };
    one("get", Command::kGet, "Show its weight, its caps, its queued jobs, and its share");
    one("del", Command::kDelete, "Drop its settings, so that it has the defaults again");
    auto* set =
        one("set", Command::kSet,
            "Change its weight and its caps, with immediate effect; what is not given stays unchanged");
    proto::CustomerSettings& changes = customer_.changes;
    set->add_option("--weight", changes.weight, "Share relative to the user's other customers, 1 to 1000")
        ->transform(decimal_numbers(1U, proto::BatchOptions::kMaxWeight));
    set->add_option("--slots", changes.slots, "Jobs at once, in each lane; 0: no limit")->transform(kCounts);
    set->add_option_function<std::string>(
           "--rate",
           [&changes](const std::string& text) {
             changes.rate = proto::parse_customer_rate(text);
             if (!changes.rate)
               throw CLI::ValidationError("--rate", "'" + text + "' is not a rate such as 20/s");
           },
           "Maximum rate of job starts in each lane, such as 20/s, 300/m or 5/h; 0: no limit")
        ->type_name("RATE");
    set->add_option("--max-jobs", changes.max_jobs, "Maximum number of unfinished jobs; 0: no limit")
        ->transform(kIndexes);
  }

  void add_batch_commands() {
    using Command = BatchArguments::Command;
    const auto one = [this](const std::string& name, Command kind, const std::string& description) {
      auto* command = add(name, description, "locksley " + name + " $id");
      command->add_option("ID", id_, "The batch")->required();
      command->callback([this, kind] { line_.command = BatchArguments{kind, id_, indexes_}; });
      return command;
    };
    one("status", Command::kStatus, "Show the progress of a batch");
    one("explain", Command::kExplain, "Explain why a batch is not running, and when it will be over");
    one("cancel", Command::kCancel, "Cancel a batch: stop its running jobs, and print how many will not run");
    one("retry", Command::kRetry, "Queue its failed jobs again, and print their number")
        ->add_option("INDEX", indexes_, "Only these jobs; default: all failed jobs")
        ->transform(kIndexes);
    one("forget", Command::kForget, "Drop a finished batch and its results");
    one("pause", Command::kPause, "Start no more of its jobs until it is resumed");
    one("resume", Command::kResume, "Start the jobs of a paused batch again");
  }

  void add_job_commands() {
    const auto one = [this](const std::string& name, const std::string& description, std::string& id,
                            std::uint64_t& index) {
      auto* command = add(name, description, "locksley " + name + " $id 17");
      command->add_option("ID", id, "The batch")->required();
      command->add_option("INDEX", index, "The job, from 0")->required()->transform(kIndexes);
      return command;
    };
    auto* job = one("job", "Show one job: how it ended, where and how often it ran, its payload and output",
                    job_.id, job_.index);
    using Part = JobArguments::Part;
    auto* payload = job->add_flag_callback(
        "--payload", [this] { job_.part = Part::kPayload; }, "Print only its payload, unchanged");
    job->add_flag_callback(
           "--output", [this] { job_.part = Part::kOutput; }, "Print only its output or error, unchanged")
        ->excludes(payload);
    job->callback([this] { line_.command = job_; });
    auto* log = one("log", "Print the last 64 KiB of a job's standard error", log_.id, log_.index);
    log->add_flag("--follow", log_.follow, "Continue to print until the job has ended");
    log->callback([this] { line_.command = log_; });
    auto* running = add("running", "List the running jobs, the longest-running first", "locksley running");
    running->add_option("ID", running_.id, "Only jobs of this batch");
    running->callback([this] { line_.command = running_; });
  }

  void add_weight() {
    auto* command = add("weight", "Change the share of a batch, at once", "locksley weight $id 10");
    command->add_option("ID", weight_.id, "The batch")->required();
    command->add_option("N", weight_.weight, "1 to 1000")
        ->required()
        ->transform(decimal_numbers(1U, proto::BatchOptions::kMaxWeight));
    command->callback([this] { line_.command = weight_; });
  }

  void add_slots() {
    auto* command = add("slots", "Change, with immediate effect, how many jobs of a batch may run at once",
                        "locksley slots $id 4");
    command->add_option("ID", slots_.id, "The batch")->required();
    command->add_option("N", slots_.slots, "Jobs at once; 0: no bound")->required()->transform(kCounts);
    command->callback([this] { line_.command = slots_; });
  }

  void add_handler_commands() {
    auto* command = add("handler", "Change a handler", "locksley handler restart thumbnails");
    command->require_subcommand(1);
    auto* restart = command->add_subcommand(
        "restart", "Replace its processes one by one, each after its jobs, and print their number");
    restart->fallthrough();
    restart->add_option("NAME", handler_.name, "The handler; see `locksley handlers`")->required();
    restart->callback([this] { line_.command = handler_; });
  }

  void add_backup() {
    auto* command =
        add("backup", "Copy the daemon's store, while it serves, into a folder on the daemon's machine",
            "locksley backup monday");
    command
        ->add_option("NAME", backup_.name,
                     "Name of the new folder, in the daemon's store.backup_directory; its path is printed")
        ->required();
    command->callback([this] { line_.command = backup_; });
  }

  void add_server_commands() {
    using Command = ServerArguments::Command;
    const auto one = [this](const std::string& name, Command kind, const std::string& description) {
      auto* command = add(name, description, "locksley " + name);
      command->callback([this, kind] { line_.command = ServerArguments{kind, section_}; });
      return command;
    };
    one("handlers", Command::kHandlers, "List the handlers, which run jobs");
    one("tenants", Command::kTenants, "List the tenants and their shares");
    one("workers", Command::kWorkers,
        "List the workers of the pool, and remote workers, with their counters");
    one("ping", Command::kPing, "Measure how fast the daemon replies");
    one("info", Command::kInfo, "Print the daemon's information and counters")
        ->add_option("SECTION", section_, "Only this section");
  }

  void add_top() {
    auto* command = add("top",
                        "Show the daemon's workers, lanes, tenants and batches, live. On a terminal, press h "
                        "for the keys; without a terminal, or with -b, print text",
                        "locksley top -d 0.5 --sort progress");
    command
        ->add_option_function<double>(
            "-d,--interval",
            [this](double seconds) {
              if (std::isnan(seconds)) throw CLI::ValidationError("--interval", "'nan' is no time");
              top_.interval = milliseconds(std::llround(seconds * 1000));
            },
            "Seconds between two updates")
        ->check(CLI::Range(0.1, 3600.0))
        ->type_name("SECONDS")
        ->default_str("1");
    auto* frames = command
                       ->add_option("-b,--batch", top_.frames,
                                    "Print text: SCREENS screens, then exit; without a number, until it "
                                    "is interrupted, as top -b does")
                       ->expected(0, 1)
                       ->transform(decimal_numbers(std::uint64_t{1}, kMostFrames))
                       ->type_name("[SCREENS]");
    command->add_flag_callback("--once", [this] { top_.frames = 1; }, "Same as --batch 1")->excludes(frames);
    command->add_option("--sort", top_.order, "Sort the batches by this column")
        ->check(CLI::IsMember({"newest", "progress", "rate", "left", "jobs", "failed", "name", "tenant"}))
        ->capture_default_str();
    command->add_option("--filter", top_.filter,
                        "Only batches with this text in their name, id, handler, tenant or state");
    command->callback([this, frames] {
      // Without a number, CLI11 leaves `frames` empty or sets it to 0.
      if (frames->count() != 0 && top_.frames.value_or(0) == 0) top_.frames = kMostFrames;
      line_.command = top_;
    });
  }

  void add_bench() {
    auto* command = add("bench", "Put load on the daemon and measure it",
                        "locksley bench --jobs 10000000 --batch 100000");
    command->add_option("--handler", bench_.handler, "Handler that runs the jobs")->capture_default_str();
    command
        ->add_option("--jobs", bench_.jobs, "Number of jobs in all; default: 1000000, with --latency 50000")
        ->transform(decimal_numbers(std::uint64_t{1}, std::uint64_t{1} << 40));
    auto* payload = command->add_option("--payload", bench_.payload_bytes, "Bytes of each job's payload")
                        ->transform(decimal_numbers(std::size_t{0}, std::size_t{64} << 20))
                        ->capture_default_str();
    command->add_option("--text", bench_.text, "The payload of every job, e.g. 50 for `spin`")
        ->excludes(payload);
    command->add_option("--batch", bench_.batch, "Jobs in one batch")
        ->transform(decimal_numbers(std::uint64_t{1}, std::uint64_t{10'000'000}))
        ->capture_default_str();
    command->add_option("--connections", bench_.connections, "Connections, each with a thread of its own")
        ->transform(decimal_numbers(1U, 1024U))
        ->capture_default_str();
    command->add_flag("--latency", bench_.latency,
                      "Run one job at a time on each connection, by RUN, and print percentiles of the time");
    command->callback([this] { line_.command = bench_; });
  }

  void add_hash_password() {
    auto* command =
        add("hash-password",
            "Print the hash of a password, for password_hash in the daemon's configuration. Asks for it "
            "on the terminal, or reads one line of standard input",
            "locksley hash-password < password.txt");
    command->callback([this] { line_.command = HashPasswordArguments{}; });
  }

  void add_work() {
    auto* command = add("work",
                        "Run the jobs of a handler on this machine, as a remote worker of the daemon: "
                        "PROGRAM takes job after job, like a `worker` in the configuration. The default port "
                        "is 7771, the port for workers",
                        "locksley work resize --url rediss://queue.example --slots 4 -- python3 resize.py");
    command->add_option("HANDLER", work_.handler, "Handler whose jobs the program runs")->required();
    command->add_option("PROGRAM", work_.program, "Program and its arguments, after --")->required();
    command->add_option("--slots", work_.slots, "Number of programs that run at once")
        ->transform(decimal_numbers(1U, 4'096U));  // a daemon allows no more (WorkerLimits)
    command->add_option("--name", work_.name, "Name of this worker; default: the machine's");
    command->add_flag("--insecure", work_.insecure, "Allow redis://, without encryption, to another machine");
    command->callback([this] {
      unmark_payload_words(work_.program, work_.handler, marked_);
      line_.command = work_;
    });
  }

  CLI::App app_;
  CommandLine line_{};
  SubmitArguments submit_;
  RunArguments run_;
  ExecArguments exec_;
  ResultsArguments results_;
  WaitArguments wait_;
  ListArguments list_;
  JobArguments job_;
  RunningArguments running_;
  LogArguments log_;
  WeightArguments weight_;
  SlotsArguments slots_;
  CustomersArguments customers_;
  CustomerArguments customer_;
  HandlerArguments handler_;
  BackupArguments backup_;
  TopArguments top_;
  BenchArguments bench_;
  WorkArguments work_;
  std::string id_;
  std::vector<std::uint64_t> indexes_;
  std::string section_;
  std::size_t marked_ = 0;  // words after `--`
};

}  // namespace

std::expected<CommandLine, CommandLineEnd> parse_command_line(std::vector<std::string> arguments) {
  return Parser().parse(std::move(arguments));
}

}  // namespace locksley::cli
