#include "proto/command_docs.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "proto/command_syntax.h"
#include "proto/command_table.h"
#include "proto/glob.h"
#include "proto/text.h"

namespace locksley::proto {
namespace {

void write_info(ReplyWriter& reply, const SubcommandSpec& spec);

// One entry of COMMAND INFO as Redis 7 has it: name, arity, flags, first key, last key, step,
// categories, tips, key specifications, subcommands. There are no keys here.
void write_info(ReplyWriter& reply, std::string_view name, std::int32_t arity, std::uint8_t flags,
                CommandGroup group, std::span<const SubcommandSpec> subcommands) {
  constexpr std::size_t kParts = 10;
  std::vector<std::string_view> words;
  if (flags & kWrite) words.push_back("write");
  if (flags & kBlocking) words.push_back("blocking");
  if (flags & kBeforeAuth) words.push_back("no_auth");
  if (flags & kWhileSubscribed) words.push_back("pubsub");
  if (flags & kNotInMulti) words.push_back("no_multi");
  if (group == CommandGroup::kRead) words.push_back("readonly");
  if (group == CommandGroup::kAdmin) words.push_back("admin");
  reply.array(kParts);
  reply.bulk(name);
  reply.integer(arity);
  reply.array(words.size());
  for (std::string_view word : words) reply.simple(word);
  for (int key = 0; key < 3; ++key) reply.integer(0);
  reply.array(1);
  reply.simple("@" + std::string(to_string(group)));
  reply.array(0);
  reply.array(0);
  reply.array(subcommands.size());
  for (const SubcommandSpec& one : subcommands) write_info(reply, one);
}

void write_info(ReplyWriter& reply, const SubcommandSpec& spec) {
  write_info(reply, full_name(spec), spec.arity(), kNoFlags, spec.group, {});
}

void write_info(ReplyWriter& reply, const CommandSpec& spec) {
  write_info(reply, spec.name, spec.arity(), spec.flags, spec.group, spec.subcommands());
}

std::string_view type_name(ArgumentDoc::Type type) {
  switch (type) {
    case ArgumentDoc::Type::kString:
      return "string";
    case ArgumentDoc::Type::kInteger:
      return "integer";
    case ArgumentDoc::Type::kPureToken:
      return "pure-token";
    case ArgumentDoc::Type::kOneOf:
      return "oneof";
    case ArgumentDoc::Type::kBlock:
      return "block";
  }
  return "";
}

void write_arguments(ReplyWriter& reply, std::span<const ArgumentDoc> arguments) {
  reply.array(arguments.size());
  for (const ArgumentDoc& one : arguments) {
    const bool has_flags = one.optional || one.multiple;
    reply.map(2 + (one.token.empty() ? 0u : 1u) + (has_flags ? 1u : 0u) + (one.arguments.empty() ? 0u : 1u));
    reply.bulk("name");
    reply.bulk(one.name);
    reply.bulk("type");
    reply.bulk(type_name(one.type));
    if (!one.token.empty()) {
      reply.bulk("token");
      reply.bulk(one.token);
    }
    if (has_flags) {
      reply.bulk("flags");
      reply.array((one.optional ? 1u : 0u) + (one.multiple ? 1u : 0u) + (one.multiple_token ? 1u : 0u));
      if (one.optional) reply.simple("optional");
      if (one.multiple) reply.simple("multiple");
      if (one.multiple_token) reply.simple("multiple_token");
    }
    if (!one.arguments.empty()) {
      reply.bulk("arguments");
      write_arguments(reply, one.arguments);
    }
  }
}

// `Spec`: CommandSpec or SubcommandSpec.
template <class Spec>
void write_docs(ReplyWriter& reply, const Spec& spec, std::span<const SubcommandSpec> subcommands) {
  reply.map(3 + (spec.arguments.empty() ? 0u : 1u) + (subcommands.empty() ? 0u : 1u));
  reply.bulk("summary");
  reply.bulk(spec.summary);
  reply.bulk("since");
  reply.bulk(spec.since);
  reply.bulk("group");
  reply.bulk(to_string(spec.group));
  if (!spec.arguments.empty()) {
    reply.bulk("arguments");
    write_arguments(reply, spec.arguments);
  }
  if (!subcommands.empty()) {
    reply.bulk("subcommands");
    reply.map(subcommands.size());
    for (const SubcommandSpec& one : subcommands) {
      reply.bulk(full_name(one));
      write_docs(reply, one, {});
    }
  }
}

// A command, or one of its subcommands.
struct Named {
  const CommandSpec* command = nullptr;        // null: there is none of this name
  const SubcommandSpec* subcommand = nullptr;  // null: the command itself

  bool operator==(const Named&) const = default;
};

// `name`: the name of a command, or of a subcommand as full_name() writes it.
Named find_named(std::string_view name) {
  const std::size_t bar = name.find('|');
  const CommandSpec* const command = find_command(name.substr(0, bar));
  if (bar == std::string_view::npos || command == nullptr) return {command};
  const SubcommandSpec* const subcommand = find_subcommand(command->id, name.substr(bar + 1));
  return subcommand == nullptr ? Named{} : Named{command, subcommand};
}

// The commands that the arguments name, from the third argument on, without unknown names. All
// commands if the arguments name none.
std::vector<Named> named_commands(const ArgumentList& arguments) {
  std::vector<Named> found;
  if (arguments.size() <= 2) {
    for (const CommandSpec& spec : commands()) found.push_back({&spec});
  }
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const Named named = find_named(arguments[i]);
    const bool is_new = named.command != nullptr && std::ranges::find(found, named) == found.end();
    if (is_new) found.push_back(named);
  }
  return found;
}

}  // namespace

void write_command_all(ReplyWriter& reply) {
  reply.array(commands().size());
  for (const CommandSpec& spec : commands()) write_info(reply, spec);
}

void write_command_count(ReplyWriter& reply) { reply.integer(static_cast<std::int64_t>(commands().size())); }

void write_command_list(ReplyWriter& reply, const ArgumentList& arguments) {
  std::optional<std::string> pattern;
  if (arguments.size() > 2) {
    const bool is_filter = arguments.size() == 5 && equals_ignoring_case(arguments[2], "filterby") &&
                           equals_ignoring_case(arguments[3], "pattern");
    if (!is_filter) {
      reply.error("ERR COMMAND LIST takes nothing or FILTERBY PATTERN glob");
      return;
    }
    if (arguments[4].size() > kMaxGlobBytes) {
      reply.error("ERR COMMAND LIST takes a pattern of at most " + std::to_string(kMaxGlobBytes) + " bytes");
      return;
    }
    pattern = arguments[4];
    for (char& c : *pattern) c = to_lower(c);
  }
  std::vector<std::string_view> names;
  for (const CommandSpec& spec : commands()) {
    if (!pattern || glob_match(*pattern, spec.name)) names.push_back(spec.name);
  }
  reply.array(names.size());
  for (std::string_view name : names) reply.bulk(name);
}

void write_command_info(ReplyWriter& reply, const ArgumentList& arguments) {
  if (arguments.size() <= 2) {
    write_command_all(reply);
    return;
  }
  reply.array(arguments.size() - 2);
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    if (const Named named = find_named(arguments[i]); named.subcommand != nullptr) {
      write_info(reply, *named.subcommand);
    } else if (named.command != nullptr) {
      write_info(reply, *named.command);
    } else {
      reply.null();
    }
  }
}

void write_command_docs(ReplyWriter& reply, const ArgumentList& arguments) {
  const std::vector<Named> found = named_commands(arguments);
  reply.map(found.size());
  for (const auto& [spec, subcommand] : found) {
    if (subcommand != nullptr) {
      reply.bulk(full_name(*subcommand));
      write_docs(reply, *subcommand, {});
      continue;
    }
    reply.bulk(spec->name);
    write_docs(reply, *spec, spec->subcommands());
  }
}

bool names_help(const ArgumentList& arguments) { return equals_ignoring_case(arguments[1], "HELP"); }

bool asks_for_help(const ArgumentList& arguments) { return arguments.size() == 2 && names_help(arguments); }

void write_help(ReplyWriter& reply, const CommandSpec& container) {
  const std::span<const SubcommandSpec> subcommands = container.subcommands();
  reply.array(1 + 2 * (subcommands.size() + 1));
  reply.simple(in_capitals(container.name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  for (const SubcommandSpec& one : subcommands) {
    const std::string arguments = syntax(one.arguments);
    reply.simple(in_capitals(one.name) + (arguments.empty() ? "" : ' ' + arguments));
    reply.simple("    " + std::string(one.summary) + '.');
  }
  reply.simple("HELP");
  reply.simple("    Prints this help.");
}

}  // namespace locksley::proto
