// Length: one table, of all commands with their arguments.
#include "proto/command_table.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "proto/batch_options.h"
#include "proto/command_syntax.h"
#include "proto/customer_settings.h"
#include "proto/name_table.h"
#include "proto/text.h"

namespace locksley::proto {
namespace {

using Type = ArgumentDoc::Type;
using Group = CommandGroup;
using Id = CommandId;
using Sub = SubcommandId;

// Arguments, for COMMAND DOCS.

constexpr ArgumentDoc kId[] = {{.name = "id"}};
constexpr ArgumentDoc kMessage[] = {{.name = "message"}};
constexpr ArgumentDoc kOptionalMessage[] = {{.name = "message", .optional = true}};
constexpr ArgumentDoc kChannels[] = {{.name = "channel", .multiple = true}};
constexpr ArgumentDoc kOptionalChannels[] = {{.name = "channel", .optional = true, .multiple = true}};
constexpr ArgumentDoc kPatterns[] = {{.name = "pattern", .multiple = true}};
constexpr ArgumentDoc kOptionalPatterns[] = {{.name = "pattern", .optional = true, .multiple = true}};
constexpr ArgumentDoc kNames[] = {{.name = "command-name", .optional = true, .multiple = true}};
constexpr ArgumentDoc kSetting[] = {{.name = "key"}, {.name = "value"}};
constexpr ArgumentDoc kSettings[] = {
    {.name = "key-value", .type = Type::kBlock, .multiple = true, .arguments = kSetting}};
constexpr ArgumentDoc kFolder[] = {{.name = "name"}};
constexpr ArgumentDoc kHandlerName[] = {{.name = "handler"}};
constexpr ArgumentDoc kName[] = {{.name = "connection-name"}};
constexpr ArgumentDoc kKeys[] = {{.name = "key", .multiple = true}};

constexpr ArgumentDoc kKeepWords[] = {
    {.name = "all", .type = Type::kPureToken, .token = "ALL"},
    {.name = "failures", .type = Type::kPureToken, .token = "FAILURES"},
    {.name = "none", .type = Type::kPureToken, .token = "NONE"},
};

consteval ArgumentDoc doc_of(const BatchOption& option) {
  ArgumentDoc doc{.name = option.value_name, .token = option.name, .optional = true};
  if (std::holds_alternative<KeepValue>(option.value)) {
    doc.type = Type::kOneOf;
    doc.arguments = kKeepWords;
  } else if (std::holds_alternative<FlagValue>(option.value)) {
    doc.type = Type::kPureToken;
  } else if (std::holds_alternative<AfterValue>(option.value)) {
    doc.multiple = true;
    doc.multiple_token = true;
  } else if (!std::holds_alternative<TextValue>(option.value)) {
    doc.type = Type::kInteger;
  }
  return doc;
}

// The handler, the options of a batch, and the `last` arguments.
template <class... Last>
consteval auto batch_arguments(const Last&... last) {
  std::array<ArgumentDoc, 1 + kBatchOptions.size() + sizeof...(last)> all{{{.name = "handler"}}};
  std::ranges::transform(kBatchOptions, all.begin() + 1, doc_of);
  std::size_t next = 1 + kBatchOptions.size();
  ((all[next++] = last), ...);
  return all;
}

constexpr ArgumentDoc kRangeParts[] = {
    {.name = "low", .type = Type::kInteger},
    {.name = "high", .type = Type::kInteger},
    {.name = "payload", .optional = true},
};
constexpr ArgumentDoc kSources[] = {
    {.name = "payload", .token = "JOBS", .multiple = true},
    {.name = "range", .type = Type::kBlock, .token = "RANGE", .arguments = kRangeParts},
};
constexpr auto kSubmit =
    batch_arguments(ArgumentDoc{.name = "jobs", .type = Type::kOneOf, .arguments = kSources});
constexpr auto kOpen = batch_arguments();
constexpr auto kRun = batch_arguments(ArgumentDoc{.name = "payload", .token = "JOBS", .multiple = true});

constexpr ArgumentDoc kAdd[] = {{.name = "id"}, {.name = "payload", .multiple = true}};
constexpr ArgumentDoc kAddat[] = {
    {.name = "id"}, {.name = "n", .type = Type::kInteger}, {.name = "payload", .multiple = true}};
constexpr ArgumentDoc kWait[] = {{.name = "id"},
                                 {.name = "timeout-ms", .type = Type::kInteger, .optional = true}};
constexpr ArgumentDoc kRetry[] = {
    {.name = "id"},
    {.name = "round", .type = Type::kInteger, .token = "ROUND", .optional = true},
    {.name = "index", .type = Type::kInteger, .optional = true, .multiple = true},
};
constexpr ArgumentDoc kWeight[] = {{.name = "id"}, {.name = "weight", .type = Type::kInteger}};
constexpr ArgumentDoc kSlots[] = {{.name = "id"}, {.name = "slots", .type = Type::kInteger}};
constexpr ArgumentDoc kCustomerName[] = {{.name = "customer"}};
constexpr auto kCustomerSet = [] {
  std::array<ArgumentDoc, 1 + kCustomerOptions.size()> all{{{.name = "customer"}}};
  std::ranges::transform(kCustomerOptions, all.begin() + 1, [](const CustomerOption& option) {
    const bool is_rate = option.set == nullptr;
    return ArgumentDoc{.name = option.value_name,
                       .type = is_rate ? Type::kString : Type::kInteger,
                       .token = option.name,
                       .optional = true};
  });
  return all;
}();
constexpr ArgumentDoc kCustomerList[] = {
    {.name = "pattern", .token = "MATCH", .optional = true},
    {.name = "cursor", .type = Type::kInteger, .token = "CURSOR", .optional = true},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .optional = true},
};
constexpr ArgumentDoc kResults[] = {
    {.name = "id"},
    {.name = "cursor", .type = Type::kInteger, .token = "FROM", .optional = true},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .optional = true},
    {.name = "timeout-ms", .type = Type::kInteger, .token = "BLOCK", .optional = true},
    {.name = "discard", .type = Type::kPureToken, .token = "DISCARD", .optional = true},
    {.name = "failed", .type = Type::kPureToken, .token = "FAILED", .optional = true},
};
constexpr ArgumentDoc kJob[] = {{.name = "id"}, {.name = "index", .type = Type::kInteger}};
constexpr ArgumentDoc kLog[] = {
    {.name = "id"},
    {.name = "index", .type = Type::kInteger},
    {.name = "offset", .type = Type::kInteger, .token = "FROM", .optional = true},
    {.name = "timeout-ms", .type = Type::kInteger, .token = "BLOCK", .optional = true},
};
constexpr ArgumentDoc kRunning[] = {
    {.name = "id", .optional = true},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .optional = true},
};
constexpr ArgumentDoc kList[] = {
    {.name = "state", .token = "STATE", .optional = true},
    {.name = "pattern", .token = "MATCH", .optional = true},
    {.name = "customer", .token = "FOR", .optional = true},
    {.name = "handler", .token = "HANDLER", .optional = true},
    {.name = "cursor", .type = Type::kInteger, .token = "CURSOR", .optional = true},
    {.name = "count", .type = Type::kInteger, .token = "COUNT", .optional = true},
};
constexpr ArgumentDoc kAuth[] = {{.name = "username", .optional = true}, {.name = "password"}};
constexpr ArgumentDoc kHelloAuth[] = {{.name = "username"}, {.name = "password"}};
constexpr ArgumentDoc kHelloParts[] = {
    {.name = "protover", .type = Type::kInteger},
    {.name = "auth", .type = Type::kBlock, .token = "AUTH", .optional = true, .arguments = kHelloAuth},
    {.name = "clientname", .token = "SETNAME", .optional = true},
};
constexpr ArgumentDoc kHello[] = {
    {.name = "arguments", .type = Type::kBlock, .optional = true, .arguments = kHelloParts}};
constexpr ArgumentDoc kInfo[] = {{.name = "section", .optional = true, .multiple = true}};
constexpr ArgumentDoc kSelect[] = {{.name = "index", .type = Type::kInteger}};

constexpr ArgumentDoc kKill[] = {{.name = "client-id", .type = Type::kInteger, .token = "ID"}};
constexpr ArgumentDoc kOnOffWords[] = {
    {.name = "on", .type = Type::kPureToken, .token = "ON"},
    {.name = "off", .type = Type::kPureToken, .token = "OFF"},
};
constexpr ArgumentDoc kOnOff[] = {{.name = "enabled", .type = Type::kOneOf, .arguments = kOnOffWords}};
constexpr ArgumentDoc kReplyWords[] = {
    {.name = "on", .type = Type::kPureToken, .token = "ON"},
    {.name = "off", .type = Type::kPureToken, .token = "OFF"},
    {.name = "skip", .type = Type::kPureToken, .token = "SKIP"},
};
constexpr ArgumentDoc kReply[] = {{.name = "mode", .type = Type::kOneOf, .arguments = kReplyWords}};
constexpr ArgumentDoc kInfoWords[] = {
    {.name = "libname", .token = "LIB-NAME"},
    {.name = "libver", .token = "LIB-VER"},
};
constexpr ArgumentDoc kSetinfo[] = {{.name = "attr", .type = Type::kOneOf, .arguments = kInfoWords}};
constexpr ArgumentDoc kFilterPattern[] = {{.name = "pattern", .token = "PATTERN"}};
constexpr ArgumentDoc kFilter[] = {{.name = "filterby",
                                    .type = Type::kBlock,
                                    .token = "FILTERBY",
                                    .optional = true,
                                    .arguments = kFilterPattern}};

// Most arguments of a command that replies to each argument with a longer text. More than the table
// has names.
constexpr std::int32_t kMaxNames = 100;
constexpr std::int32_t kMaxSettings = 200;    // words of CONFIG SET
constexpr std::int32_t kMaxClientIds = 1000;  // words of CLIENT LIST

// Flags.
constexpr std::uint8_t kAnytime = kBeforeAuth | kWhileSubscribed;
// Each argument has a reply of its own, so EXEC could not count the replies.
constexpr std::uint8_t kTopics = kWhileSubscribed | kNotInMulti;

// The version that first had a command, if that is not the first version.
constexpr std::string_view kSince020 = "0.2.0";

// clang-format off: a table, one entry in as few lines as it fits
constexpr CommandSpec kCommands[] = {
    {Id::kActive, "active", 1, 1, kBeforeAuth, Group::kConnection,
     "Returns which daemon this one saw to be the active one, and how long ago; for daemons", {}, kSince020},
    {Id::kAdd, "add", 3, kNoMaximum, kWrite, Group::kSubmit, "Adds jobs to an open batch", kAdd},
    {Id::kAddat, "addat", 4, kNoMaximum, kWrite, Group::kSubmit,
     "Adds jobs to an open batch from index n on; does nothing if it has these jobs already", kAddat, kSince020},
    {Id::kAuth, "auth", 2, 3, kBeforeAuth | kNotInMulti, Group::kConnection, "Authenticates the connection", kAuth},
    {Id::kBackup, "backup", 2, 2, kBlocking | kNotInMulti, Group::kAdmin,
     "Copies the store into a new folder", kFolder, kSince020},
    {Id::kCancel, "cancel", 2, 2, kWrite, Group::kControl,
     "Cancels the jobs of a batch that have not ended; returns how many will not run", kId},
    {Id::kClient, "client", 2, kNoMaximum, kNoFlags, Group::kConnection, "Commands about client connections"},
    {Id::kClose, "close", 2, 2, kWrite, Group::kSubmit,
     "Closes an open batch, so that no jobs can be added; returns its number of jobs", kId},
    {Id::kCommand, "command", 1, kNoMaximum, kNoFlags, Group::kConnection, "Describes the commands"},
    {Id::kConfig, "config", 2, kNoMaximum, kBlocking, Group::kConnection, "Commands about the configuration"},
    {Id::kCustomer, "customer", 2, kNoMaximum, kNoFlags, Group::kConnection, "Commands about customers", {}, kSince020},
    {Id::kDiscard, "discard", 1, 1, kEndsMulti, Group::kConnection,
     "Drops the commands queued since MULTI", {}, kSince020},
    {Id::kEcho, "echo", 2, 2, kNoFlags, Group::kConnection, "Returns the given string", kMessage},
    {Id::kExec, "exec", 1, 1, kBlocking | kEndsMulti, Group::kConnection,
     "Executes the commands queued since MULTI; returns their replies", {}, kSince020},
    {Id::kExplain, "explain", 2, 2, kNoFlags, Group::kRead,
     "Explains why a batch is not running, and when it will be over", kId},
    {Id::kForget, "forget", 2, 2, kWrite, Group::kControl, "Removes a finished batch and its results", kId},
    {Id::kHandler, "handler", 2, kNoMaximum, kNoFlags, Group::kAdmin, "Commands about a handler", {}, kSince020},
    {Id::kHandlers, "handlers", 1, 1, kNoFlags, Group::kRead, "Lists the handlers"},
    {Id::kHello, "hello", 1, kNoMaximum, kBeforeAuth | kNotInMulti, Group::kConnection,
     "Chooses the protocol version; may also authenticate and name the connection", kHello},
    {Id::kInfo, "info", 1, kMaxNames, kNoFlags, Group::kConnection,
     "Returns information and counters of the daemon, as text", kInfo},
    {Id::kJob, "job", 3, 3, kBlocking, Group::kRead,
     "Returns the facts about one job: its payload, its output, where it ran, when and for how long", kJob, kSince020},
    {Id::kList, "list", 1, 13, kNoFlags, Group::kRead, "Lists batches, newest first", kList},
    {Id::kLog, "log", 3, 7, kBlocking, Group::kRead,
     "Returns the standard error of a job, from an offset on", kLog, kSince020},
    {Id::kMulti, "multi", 1, 1, kNotInMulti, Group::kConnection,
     "Queues the commands that follow until EXEC", {}, kSince020},
    {Id::kNodes, "nodes", 1, 1, kNoFlags, Group::kRead,
     "Lists the daemons that share the store: which is active, which stand by", {}, kSince020},
    {Id::kOpen, "open", 2, kNoMaximum, kWrite, Group::kSubmit, "Opens a batch that jobs are added to", kOpen},
    {Id::kPause, "pause", 2, 2, kWrite, Group::kControl, "Pauses a batch: no more of its jobs start until RESUME", kId},
    {Id::kPing, "ping", 1, 2, kWhileSubscribed, Group::kConnection, "Returns PONG, or the given string",
     kOptionalMessage},
    {Id::kPsubscribe, "psubscribe", 2, kNoMaximum, kTopics, Group::kRead,
     "Subscribes to all channels that match a pattern", kPatterns},
    {Id::kPunsubscribe, "punsubscribe", 1, kNoMaximum, kTopics, Group::kConnection,
     "Unsubscribes from patterns", kOptionalPatterns},
    {Id::kQuit, "quit", 1, kNoMaximum, kAnytime | kEndsMulti, Group::kConnection, "Closes the connection"},
    {Id::kReset, "reset", 1, 1, kAnytime | kEndsMulti, Group::kConnection, "Resets the connection to its initial state"},
    {Id::kResults, "results", 2, 10, kBlocking, Group::kRead,
     "Returns results of a batch in the order of completion, from a cursor on; may discard those before it", kResults},
    {Id::kResume, "resume", 2, 2, kWrite, Group::kControl, "Resumes a paused batch", kId},
    {Id::kRetry, "retry", 2, kNoMaximum, kWrite | kBlocking, Group::kControl,
     "Queues the failed jobs of a batch again, or those with the given indexes; returns their number", kRetry},
    {Id::kRun, "run", 3, kNoMaximum, kWrite | kBlocking | kNotInMulti, Group::kSubmit,
     "Runs jobs, waits, and returns their results in the order of the jobs", kRun},
    {Id::kRunning, "running", 1, 4, kBlocking, Group::kRead, "Lists the running jobs, the longest-running first",
     kRunning, kSince020},
    {Id::kSelect, "select", 2, 2, kNoFlags, Group::kConnection, "Accepts database 0, as there is no other", kSelect},
    {Id::kSlots, "slots", 3, 3, kWrite, Group::kControl,
     "Changes how many jobs of a batch may run at once; 0: no bound", kSlots, kSince020},
    {Id::kStatus, "status", 2, 2, kNoFlags, Group::kRead, "Returns the state and the counts of a batch", kId},
    {Id::kSubmit, "submit", 3, kNoMaximum, kWrite, Group::kSubmit,
     "Submits a batch of jobs for a handler; returns its id", kSubmit},
    {Id::kSubscribe, "subscribe", 2, kNoMaximum, kTopics, Group::kRead,
     "Subscribes to channels of events: batch:<id> for one batch, batches for all", kChannels},
    {Id::kTenants, "tenants", 1, 1, kNoFlags, Group::kRead, "Lists the tenants with their shares"},
    {Id::kUnsubscribe, "unsubscribe", 1, kNoMaximum, kTopics, Group::kConnection,
     "Unsubscribes from channels", kOptionalChannels},
    {Id::kUnwatch, "unwatch", 1, 1, kNoFlags, Group::kConnection,
     "Accepted without effect, since WATCH is refused", {}, kSince020},
    {Id::kWait, "wait", 2, 3, kBlocking, Group::kRead,
     "Returns the status of a batch as soon as it is over, or at the timeout", kWait},
    {Id::kWatch, "watch", 2, kNoMaximum, kNotInMulti, Group::kConnection,
     "Refused: there are no keys to watch", kKeys, kSince020},
    {Id::kWeight, "weight", 3, 3, kWrite, Group::kControl, "Changes the weight of a batch", kWeight},
    {Id::kWorkers, "workers", 1, 1, kNoFlags, Group::kRead,
     "Lists the workers of the pool and the remote workers, with their counters"},
};

constexpr SubcommandSpec kSubcommands[] = {
    {Sub::kClientGetname, Id::kClient, "getname", 2, 2, Group::kConnection, "Returns the name of the connection"},
    {Sub::kClientId, Id::kClient, "id", 2, 2, Group::kConnection, "Returns the number of the connection"},
    {Sub::kClientInfo, Id::kClient, "info", 2, 2, Group::kConnection, "Describes this connection"},
    {Sub::kClientKill, Id::kClient, "kill", 4, 4, Group::kConnection,
     "Closes a connection of the user; an admin can close any", kKill},
    {Sub::kClientList, Id::kClient, "list", 2, kMaxClientIds, Group::kConnection,
     "Describes the user's connections; for an admin all connections"},
    {Sub::kClientNoEvict, Id::kClient, "no-evict", 3, 3, Group::kConnection,
     "Accepted without effect", kOnOff},
    {Sub::kClientNoTouch, Id::kClient, "no-touch", 3, 3, Group::kConnection,
     "Accepted without effect: there are no keys to touch", kOnOff},
    {Sub::kClientReply, Id::kClient, "reply", 3, 3, Group::kConnection,
     "Turns replies on, off, or off for the next command", kReply},
    {Sub::kClientSetinfo, Id::kClient, "setinfo", 4, 4, Group::kConnection, "Names the client library", kSetinfo},
    {Sub::kClientSetname, Id::kClient, "setname", 3, 3, Group::kConnection, "Names the connection", kName},
    {Sub::kCommandCount, Id::kCommand, "count", 2, 2, Group::kConnection, "Returns the number of commands"},
    {Sub::kCommandDocs, Id::kCommand, "docs", 2, kMaxNames, Group::kConnection,
     "Returns documentation of commands", kNames},
    {Sub::kCommandInfo, Id::kCommand, "info", 2, kMaxNames, Group::kConnection,
     "Returns arity and flags of commands", kNames},
    {Sub::kCommandList, Id::kCommand, "list", 2, 5, Group::kConnection, "Returns the names of the commands", kFilter},
    {Sub::kConfigGet, Id::kConfig, "get", 3, kMaxNames, Group::kConnection,
     "Returns the keys that match a pattern, with their values", kPatterns},
    {Sub::kConfigReload, Id::kConfig, "reload", 2, 2, Group::kAdmin, "Reads the configuration file again"},
    {Sub::kConfigSet, Id::kConfig, "set", 4, kMaxSettings, Group::kAdmin,
     "Changes values until the configuration file is read again", kSettings},
    {Sub::kCustomerDel, Id::kCustomer, "del", 3, 3, Group::kControl,
     "Drops the settings of a customer; returns whether it had any", kCustomerName, kSince020},
    {Sub::kCustomerGet, Id::kCustomer, "get", 3, 3, Group::kRead,
     "Returns the settings, the counts and the share of a customer", kCustomerName, kSince020},
    {Sub::kCustomerList, Id::kCustomer, "list", 2, 8, Group::kRead,
     "Lists the customers that have settings or unfinished batches, newest first", kCustomerList, kSince020},
    {Sub::kCustomerSet, Id::kCustomer, "set", 3, 11, Group::kControl,
     "Sets the weight and the caps of a customer; settings that are not named stay", kCustomerSet, kSince020},
    {Sub::kHandlerRestart, Id::kHandler, "restart", 3, 3, Group::kAdmin,
     "Replaces the processes of a handler one by one, each after its jobs; returns their number", kHandlerName, kSince020},
};
// clang-format on

constexpr std::size_t kCommandCount = static_cast<std::size_t>(Id::kCount);

template <typename Spec>
consteval bool is_in_order(std::span<const Spec> table, std::size_t count) {
  if (table.size() != count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    if (static_cast<std::size_t>(table[i].id) != i) return false;
  }
  return true;
}
static_assert(is_in_order(std::span<const CommandSpec>(kCommands), kCommandCount));
static_assert(is_in_order(std::span<const SubcommandSpec>(kSubcommands),
                          static_cast<std::size_t>(Sub::kCount)));
static_assert(std::ranges::is_sorted(kCommands, {}, &CommandSpec::name));

constexpr auto kCommandNames = name_table(kCommands);

std::string wrong_number(std::string_view name) {
  std::string text = "ERR wrong number of arguments for '";
  text += name;
  text += "' command";
  return text;
}

// The subcommands of a command that has some: "GET|SET ...".
std::string names_of_subcommands(const CommandSpec& container) {
  std::string names;
  for (const SubcommandSpec& spec : container.subcommands())
    names += (names.empty() ? "" : "|") + in_capitals(spec.name);
  return names + " ...";
}

// Every user has the commands of Redis that describe a connection: for these the text is that of
// Redis.
bool is_worded_as_in_redis(const CommandSpec& spec) {
  return spec.group == Group::kConnection && spec.id != Id::kActive && spec.id != Id::kCustomer;
}
bool is_worded_as_in_redis(const SubcommandSpec& spec) { return spec.group == Group::kConnection; }

std::string wrong_number(const auto& spec, std::string_view name, const std::string& words,
                         const std::string& arguments) {
  if (is_worded_as_in_redis(spec)) return wrong_number(name);
  return wrong_number(name) + ": " + words + (arguments.empty() ? "" : " ") + arguments;
}

}  // namespace

std::string_view to_string(CommandGroup group) {
  switch (group) {
    case CommandGroup::kConnection:
      return "connection";
    case CommandGroup::kSubmit:
      return "submit";
    case CommandGroup::kRead:
      return "read";
    case CommandGroup::kControl:
      return "control";
    case CommandGroup::kAdmin:
      return "admin";
    case CommandGroup::kWork:
      return "work";
  }
  return "";
}

std::span<const CommandSpec> commands() { return kCommands; }

const CommandSpec& command(CommandId id) { return kCommands[static_cast<std::size_t>(id)]; }

std::span<const SubcommandSpec> CommandSpec::subcommands() const {
  const auto found = std::ranges::equal_range(kSubcommands, id, {}, &SubcommandSpec::container);
  return {found.begin(), found.end()};
}

bool CommandSpec::has_such_a_word(const ArgumentList& words) const {
  switch (id) {
    case Id::kEcho:
    case Id::kPing:
      return false;
    case Id::kAdd:
    case Id::kAddat:
    case Id::kRun:
    case Id::kSubmit:
      // After the id or the handler come options, which have limits of their own, and payloads.
      return words.size() > 1 && words[1].size() > kMostWordBytes;
    default:
      return true;
  }
}

const CommandSpec* find_command(std::string_view name) {
  const std::size_t index = kCommandNames.find(name);
  return index == kCommandNames.kNone ? nullptr : &kCommands[index];
}

const SubcommandSpec* find_subcommand(CommandId container, std::string_view name) {
  for (const SubcommandSpec& spec : command(container).subcommands()) {
    if (equals_ignoring_case(spec.name, name)) return &spec;
  }
  return nullptr;
}

std::string unknown_command_error(const ArgumentList& arguments) {
  constexpr std::size_t kMaxQuoted = 128;  // as Redis: of the name, and of all the arguments together
  std::string text = "ERR unknown command '";
  text += printable(arguments.empty() ? std::string_view() : arguments[0], kMaxQuoted);
  text += "', with args beginning with: ";
  std::string shown;
  for (std::size_t i = 1; i < arguments.size() && shown.size() < kMaxQuoted; ++i) {
    shown += '\'' + printable(arguments[i], kMaxQuoted - shown.size()) + "' ";
  }
  return text + shown;
}

std::string arity_error(const CommandSpec& command) {
  const std::string arguments =
      command.subcommands().empty() ? syntax(command.arguments) : names_of_subcommands(command);
  return wrong_number(command, command.name, in_capitals(command.name), arguments);
}

std::string full_name(const SubcommandSpec& subcommand) {
  std::string name(command(subcommand.container).name);
  name += '|';
  name += subcommand.name;
  return name;
}

std::string arity_error(const SubcommandSpec& subcommand) {
  const std::string words =
      in_capitals(command(subcommand.container).name) + ' ' + in_capitals(subcommand.name);
  return wrong_number(subcommand, full_name(subcommand), words, syntax(subcommand.arguments));
}

std::string help_arity_error(const CommandSpec& container) {
  return wrong_number(std::string(container.name) + "|help");
}

std::string too_long_word_error(const CommandSpec& command) {
  std::string text = "ERR a word of '";
  text += command.name;
  return text + "' has more than " + std::to_string(kMostWordBytes) +
         " bytes: only payloads, and the messages of ECHO and PING, may have more";
}

std::string unknown_subcommand_error(const CommandSpec& command, std::string_view subcommand) {
  return "ERR unknown subcommand '" + printable(subcommand) + "'. Try " + in_capitals(command.name) +
         " HELP.";
}

std::string not_while_subscribed_error(const CommandSpec& command) {
  std::string text = "ERR Can't execute '";
  text += command.name;
  text += "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
  return text;
}

std::string not_in_transaction_error(std::string_view name) {
  std::string text = "ERR Command not allowed inside a transaction: '";
  text += name;
  text += '\'';
  return text;
}

}  // namespace locksley::proto
