// The commands of the wire in one table (names, numbers of arguments, permissions, syntax), and the
// errors about a command that does not fit its row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "proto/argument_list.h"

namespace locksley::proto {

// The commands of the wire, in the order of the table. A server dispatches on it.
enum class CommandId : std::uint8_t {
  kActive,
  kAdd,
  kAddat,
  kAuth,
  kBackup,
  kCancel,
  kClient,
  kClose,
  kCommand,
  kConfig,
  kCustomer,
  kDiscard,
  kEcho,
  kExec,
  kExplain,
  kForget,
  kHandler,
  kHandlers,
  kHello,
  kInfo,
  kJob,
  kList,
  kLog,
  kMulti,
  kNodes,
  kOpen,
  kPause,
  kPing,
  kPsubscribe,
  kPunsubscribe,
  kQuit,
  kReset,
  kResults,
  kResume,
  kRetry,
  kRun,
  kRunning,
  kSelect,
  kSlots,
  kStatus,
  kSubmit,
  kSubscribe,
  kTenants,
  kUnsubscribe,
  kUnwatch,
  kWait,
  kWatch,
  kWeight,
  kWorkers,
  kCount,  // not a command
};

// The subcommands of the commands that have some, as CLIENT SETNAME.
enum class SubcommandId : std::uint8_t {
  kClientGetname,
  kClientId,
  kClientInfo,
  kClientKill,
  kClientList,
  kClientNoEvict,
  kClientNoTouch,
  kClientReply,
  kClientSetinfo,
  kClientSetname,
  kCommandCount,
  kCommandDocs,
  kCommandInfo,
  kCommandList,
  kConfigGet,
  kConfigReload,
  kConfigSet,
  kCustomerDel,
  kCustomerGet,
  kCustomerList,
  kCustomerSet,
  kHandlerRestart,
  kCount,  // not a subcommand
};

// The unit of permissions: every user has `connection`; the other groups can be granted to a user.
enum class CommandGroup : std::uint8_t { kConnection, kSubmit, kRead, kControl, kAdmin, kWork };
std::string_view to_string(CommandGroup group);

// Other properties of a command, for the dispatcher; one bit each.
enum CommandFlag : std::uint8_t {
  kNoFlags = 0,
  kBeforeAuth = 1,       // allowed before the peer is authenticated
  kWhileSubscribed = 2,  // allowed under RESP2 while the connection is subscribed to a channel
  kBlocking = 4,         // may keep the connection waiting
  kWrite = 8,            // changes batches
  kNotInMulti = 16,      // refused between MULTI and EXEC
  kEndsMulti = 32,       // executed at once between MULTI and EXEC: it ends the transaction
};

// One argument for COMMAND DOCS, in the words of Redis, so that redis-cli can help and hint.
struct ArgumentDoc {
  enum class Type : std::uint8_t { kString, kInteger, kPureToken, kOneOf, kBlock };
  std::string_view name;
  Type type = Type::kString;
  std::string_view token = {};  // the word before it, if any
  bool optional = false;
  bool multiple = false;
  bool multiple_token = false;                  // with `multiple`: the token is repeated before each value
  std::span<const ArgumentDoc> arguments = {};  // of kOneOf and kBlock
};

inline constexpr std::int32_t kNoMaximum = 0x7FFFFFFF;

// The version of the daemon that first had a command, unless the row of the command names a later
// one.
inline constexpr std::string_view kFirstVersion = "0.1.0";

// The row of a subcommand.
struct SubcommandSpec {
  SubcommandId id;
  CommandId container;
  std::string_view name;       // lower case
  std::int32_t min_arguments;  // both names included
  std::int32_t max_arguments;
  CommandGroup group;
  std::string_view summary;
  std::span<const ArgumentDoc> arguments = {};
  std::string_view since = kFirstVersion;

  constexpr std::int32_t arity() const {
    return min_arguments == max_arguments ? min_arguments : -min_arguments;
  }
  constexpr bool accepts(std::size_t count) const {
    return count >= static_cast<std::size_t>(min_arguments) &&
           count <= static_cast<std::size_t>(max_arguments);
  }
};

// Ids, names, options and their values are hashed, compared, copied and quoted at once: none is
// longer. Guess: enough for each key of the configuration.
inline constexpr std::size_t kMostWordBytes = 64 * 1024;

// The row of a command.
struct CommandSpec {
  CommandId id;
  std::string_view name;       // lower case
  std::int32_t min_arguments;  // the name included
  std::int32_t max_arguments;  // kNoMaximum: as many as the limits allow
  std::uint8_t flags;          // CommandFlag
  CommandGroup group;
  std::string_view summary;
  std::span<const ArgumentDoc> arguments = {};
  std::string_view since = kFirstVersion;

  // The arity as Redis writes it: n for exactly n arguments, -n for at least n.
  constexpr std::int32_t arity() const {
    return min_arguments == max_arguments ? min_arguments : -min_arguments;
  }
  constexpr bool allowed_before_auth() const { return (flags & kBeforeAuth) != 0; }
  constexpr bool allowed_while_subscribed() const { return (flags & kWhileSubscribed) != 0; }
  constexpr bool allowed_in_transaction() const { return (flags & kNotInMulti) == 0; }
  constexpr bool ends_transaction() const { return (flags & kEndsMulti) != 0; }
  // Whether an argument that is no payload and no message is longer than kMostWordBytes. Constant
  // time.
  bool has_too_long_word(const ArgumentList& words) const {
    return words.longest_bound() > kMostWordBytes && has_such_a_word(words);
  }
  constexpr bool accepts(std::size_t count) const {
    return count >= static_cast<std::size_t>(min_arguments) &&
           count <= static_cast<std::size_t>(max_arguments);
  }
  std::span<const SubcommandSpec> subcommands() const;

 private:
  bool has_such_a_word(const ArgumentList& words) const;
};

// The full name as Redis writes it: "client|setname".
std::string full_name(const SubcommandSpec& subcommand);

// The table of commands, in the order of CommandId, which is that of the names. Constant data; any
// thread may call each function below.
std::span<const CommandSpec> commands();
const CommandSpec& command(CommandId id);

// The command of this name, in any case; null if there is none. One hash and one comparison.
const CommandSpec* find_command(std::string_view name);
// The subcommand of this name, in any case; null if there is none.
const SubcommandSpec* find_subcommand(CommandId container, std::string_view name);

// Error replies without their '-', worded as Redis words them, because stock clients match on some.
std::string unknown_command_error(const ArgumentList& arguments);
// They end with the syntax of the command, except for those commands of Redis that every user has.
std::string arity_error(const CommandSpec& command);
std::string arity_error(const SubcommandSpec& subcommand);   // "… for 'client|setname' command"
std::string help_arity_error(const CommandSpec& container);  // of its subcommand HELP
std::string too_long_word_error(const CommandSpec& command);
std::string unknown_subcommand_error(const CommandSpec& command, std::string_view subcommand);
// Under RESP2, while subscribed.
std::string not_while_subscribed_error(const CommandSpec& command);
// Between MULTI and EXEC; `name` as full_name() has it.
std::string not_in_transaction_error(std::string_view name);

}  // namespace locksley::proto
