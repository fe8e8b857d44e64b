#include "proto/command_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "proto/command_docs.h"
#include "proto/glob.h"
#include "proto/reply_reader.h"
#include "tests/unit/proto/reader_support.h"

namespace locksley::proto {
namespace {

ArgumentList list(const std::vector<std::string_view>& words) { return ArgumentList::copy_of(words); }

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return result;
}

TEST(CommandTableTest, EveryCommandIsFoundByItsNameInAnyCaseAndByItsId) {
  for (const CommandSpec& spec : commands()) {
    EXPECT_EQ(find_command(spec.name), &spec);
    EXPECT_EQ(find_command(upper(spec.name)), &spec);
    EXPECT_EQ(&command(spec.id), &spec);
  }
}

TEST(CommandTableTest, NothingElseIsFound) {
  for (const CommandSpec& spec : commands()) {
    std::string other(spec.name);
    for (std::size_t i = 0; i < other.size(); ++i) {
      const char kept = other[i];
      other[i] = '~';
      EXPECT_EQ(find_command(other), nullptr) << other;
      other[i] = kept;
    }
    EXPECT_EQ(find_command(other + "x"), nullptr);
    EXPECT_EQ(find_command("x" + other), nullptr);
    // HANDLER is a command, too.
    const std::string_view shorter = std::string_view(other).substr(0, other.size() - 1);
    EXPECT_EQ(find_command(shorter) != nullptr, shorter == "handler") << shorter;
  }
  for (const std::string_view name : {"", "x", "MGET", "GET", "RETRIES", "SHUTDOWN"}) {
    EXPECT_EQ(find_command(name), nullptr) << name;
  }
  EXPECT_EQ(find_command(std::string(100'000, 'a')), nullptr);
}

TEST(CommandTableTest, HasTheCommandsOfTheProtocol) {
  std::set<std::string_view> names;
  for (const CommandSpec& spec : commands()) names.insert(spec.name);
  const std::set<std::string_view> expected = {
      "submit",      "open",       "add",          "close",  "run",      "status",  "wait",
      "results",     "cancel",     "forget",       "list",   "handlers", "workers", "explain",
      "weight",      "pause",      "resume",       "retry",  "tenants",  "info",    "subscribe",
      "unsubscribe", "psubscribe", "punsubscribe", "hello",  "auth",     "ping",    "echo",
      "quit",        "reset",      "select",       "client", "command",  "config",  "multi",
      "addat",       "exec",       "discard",      "watch",  "unwatch",  "handler", "job",
      "log",         "running",    "customer",     "slots",  "nodes",    "backup",  "active"};
  EXPECT_EQ(names, expected);
}

TEST(CommandTableTest, ArityIsAsRedisCounts) {
  EXPECT_EQ(find_command("echo")->arity(), 2);
  EXPECT_EQ(find_command("ping")->arity(), -1);
  EXPECT_TRUE(find_command("ping")->accepts(1));
  EXPECT_TRUE(find_command("ping")->accepts(2));
  EXPECT_FALSE(find_command("ping")->accepts(3));
  EXPECT_FALSE(find_command("submit")->accepts(2));
  EXPECT_TRUE(find_command("submit")->accepts(3)) << "the parser says what is missing";
  EXPECT_TRUE(find_command("submit")->accepts(1'000'003));
}

TEST(CommandTableTest, WhatIsAllowedWhen) {
  std::set<std::string_view> before_auth;
  std::set<std::string_view> subscribed;
  for (const CommandSpec& spec : commands()) {
    if (spec.allowed_before_auth()) before_auth.insert(spec.name);
    if (spec.allowed_while_subscribed()) subscribed.insert(spec.name);
  }
  EXPECT_EQ(before_auth, (std::set<std::string_view>{"active", "auth", "hello", "quit", "reset"}));
  EXPECT_EQ(subscribed, (std::set<std::string_view>{"subscribe", "unsubscribe", "psubscribe", "punsubscribe",
                                                    "ping", "quit", "reset"}));
  std::set<std::string_view> refused;
  std::set<std::string_view> at_once;
  for (const CommandSpec& spec : commands()) {
    if (!spec.allowed_in_transaction()) refused.insert(spec.name);
    if (spec.ends_transaction()) at_once.insert(spec.name);
  }
  EXPECT_EQ(refused,
            (std::set<std::string_view>{"run", "subscribe", "unsubscribe", "psubscribe", "punsubscribe",
                                        "hello", "auth", "multi", "watch", "backup"}));
  EXPECT_EQ(at_once, (std::set<std::string_view>{"exec", "discard", "quit", "reset"}));
}

TEST(CommandTableTest, SubcommandsBelongToTheirContainers) {
  std::size_t count = 0;
  for (const CommandSpec& spec : commands()) {
    for (const SubcommandSpec& one : spec.subcommands()) {
      EXPECT_EQ(one.container, spec.id);
      EXPECT_EQ(find_subcommand(spec.id, upper(one.name)), &one);
      ++count;
    }
  }
  EXPECT_EQ(count, static_cast<std::size_t>(SubcommandId::kCount));
  EXPECT_EQ(find_subcommand(CommandId::kClient, "docs"), nullptr);
  EXPECT_EQ(find_subcommand(CommandId::kClient, "MAINT_NOTIFICATIONS"), nullptr);
  EXPECT_EQ(find_subcommand(CommandId::kSubmit, "id"), nullptr);
}

TEST(CommandTableTest, OnlyPayloadsAndMessagesAreLong) {
  const std::string longest(kMostWordBytes, 'x');
  const std::string longer(kMostWordBytes + 1, '1');
  const auto is_too_long = [](const std::vector<std::string_view>& words) {
    return find_command(words.front())->has_too_long_word(ArgumentList::copy_of(words));
  };
  EXPECT_FALSE(is_too_long({"status", longest}));
  for (const std::vector<std::string_view>& words : {std::vector<std::string_view>{"status", longer},
                                                     {"config", "set", "a", "b", longer, "c"},
                                                     {"open", longer},
                                                     {"submit", longer, "jobs", "a"},
                                                     {"run", longer, "jobs", "a"},
                                                     {"add", longer, "a"},
                                                     {"addat", longer, "0", "a"}}) {
    EXPECT_TRUE(is_too_long(words)) << words.front();
    EXPECT_NE(too_long_word_error(*find_command(words.front())).find(words.front()), std::string::npos);
  }
  for (const std::vector<std::string_view>& words :
       {std::vector<std::string_view>{"submit", "echo", "jobs", longer},
        {"run", "echo", "jobs", longer},
        {"add", "id", longer},
        {"addat", "id", "0", longer},
        {"echo", longer},
        {"ping", longer}}) {
    EXPECT_FALSE(is_too_long(words)) << words.front();
  }
}

TEST(CommandTableTest, ErrorsAreWordedAsInRedis) {
  EXPECT_EQ(unknown_command_error(list({"NOSUCHCMD"})),
            "ERR unknown command 'NOSUCHCMD', with args beginning with: ");
  EXPECT_EQ(unknown_command_error(list({"x", "a", "b"})),
            "ERR unknown command 'x', with args beginning with: 'a' 'b' ");
  EXPECT_EQ(unknown_command_error(list({"FO\r\n+OK\r\nO", "x\ry"})),
            "ERR unknown command 'FO  +OK  O', with args beginning with: 'x y' ");
  const std::string big(5000, 'N');
  EXPECT_LE(unknown_command_error(list({big, big, big})).size(), 400u);
  EXPECT_EQ(arity_error(*find_command("ECHO")), "ERR wrong number of arguments for 'echo' command");
  EXPECT_EQ(arity_error(*find_subcommand(CommandId::kClient, "setname")),
            "ERR wrong number of arguments for 'client|setname' command");
  EXPECT_EQ(help_arity_error(*find_command("client")),
            "ERR wrong number of arguments for 'client|help' command");
  EXPECT_EQ(unknown_subcommand_error(*find_command("client"), "NOSUCH"),
            "ERR unknown subcommand 'NOSUCH'. Try CLIENT HELP.");
  EXPECT_EQ(
      not_while_subscribed_error(*find_command("status")),
      "ERR Can't execute 'status': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed "
      "in this context");
}

TEST(CommandTableTest, ArityErrorsOfCommandsThatRedisDoesNotHaveEndWithTheSyntax) {
  const auto syntax_in = [](const std::string& error) { return error.substr(error.find("command: ") + 9); };
  EXPECT_EQ(arity_error(*find_command("SUBMIT")),
            "ERR wrong number of arguments for 'submit' command: SUBMIT handler [option ...] "
            "JOBS payload [payload ...]|RANGE low high [payload]");
  EXPECT_EQ(syntax_in(arity_error(*find_command("run"))),
            "RUN handler [option ...] JOBS payload [payload ...]");
  EXPECT_EQ(syntax_in(arity_error(*find_command("addat"))), "ADDAT id n payload [payload ...]");
  EXPECT_EQ(syntax_in(arity_error(*find_command("log"))), "LOG id index [FROM offset] [BLOCK timeout-ms]");
  EXPECT_EQ(syntax_in(arity_error(*find_command("handlers"))), "HANDLERS");
  EXPECT_EQ(syntax_in(arity_error(*find_subcommand(CommandId::kCustomer, "get"))), "CUSTOMER GET customer");
  EXPECT_EQ(syntax_in(arity_error(*find_command("active"))), "ACTIVE");
  EXPECT_EQ(syntax_in(arity_error(*find_command("nodes"))), "NODES");
  EXPECT_EQ(syntax_in(arity_error(*find_command("customer"))), "CUSTOMER DEL|GET|LIST|SET ...");
  EXPECT_EQ(syntax_in(arity_error(*find_command("handler"))), "HANDLER RESTART ...");
  for (const CommandSpec& spec : commands()) EXPECT_LT(arity_error(spec).size(), 250u) << spec.name;
}

// What `write` writes, read back: so that every header announces what follows it.
template <typename Write>
Reply written(Protocol protocol, const Write& write) {
  OutputBuffer out;
  ReplyWriter writer(out, protocol);
  write(writer);
  ReplyReader reader;
  Reply reply;
  ReadStatus status = ReadStatus::kNeedMore;
  feed(reader, out.to_string(), [&] { status = reader.next(reply); });
  EXPECT_EQ(status, ReadStatus::kComplete) << reader.error_message();
  EXPECT_EQ(reader.buffered_bytes(), 0u);
  return reply;
}

TEST(CommandDocsTest, DocsOfAllCommandsAreWholeInBothVersions) {
  for (const Protocol protocol : {Protocol::kResp2, Protocol::kResp3}) {
    const Reply docs =
        written(protocol, [](ReplyWriter& w) { write_command_docs(w, list({"COMMAND", "DOCS"})); });
    EXPECT_EQ(docs.type, protocol == Protocol::kResp3 ? Reply::Type::kMap : Reply::Type::kArray);
    EXPECT_EQ(docs.elements.size(), 2 * commands().size());
    for (const CommandSpec& spec : commands()) {
      const Reply* one = docs.find(spec.name);
      ASSERT_NE(one, nullptr) << spec.name;
      for (const std::string_view key : {"summary", "since", "group"})
        EXPECT_NE(one->find(key), nullptr) << key;
    }
    ASSERT_NE(docs.find("client"), nullptr);
    EXPECT_NE(docs.find("client")->find("subcommands")->find("client|setname"), nullptr);
  }
}

TEST(CommandDocsTest, DocsSayWhichVersionFirstHadACommand) {
  const Reply docs = written(Protocol::kResp3, [](ReplyWriter& w) {
    write_command_docs(w, list({"COMMAND", "DOCS", "run", "job", "handler"}));
  });
  EXPECT_EQ(docs.find("run")->find("since")->text, "0.1.0");
  EXPECT_EQ(docs.find("job")->find("since")->text, "0.2.0");
  EXPECT_EQ(docs.find("handler")->find("subcommands")->find("handler|restart")->find("since")->text, "0.2.0");
}

TEST(CommandDocsTest, DocsDescribeArgumentsInRedisWords) {
  const Reply docs = written(Protocol::kResp3, [](ReplyWriter& w) {
    write_command_docs(w, list({"COMMAND", "DOCS", "Submit", "nosuch"}));
  });
  ASSERT_EQ(docs.elements.size(), 2u) << "unknown names are left out";
  const Reply& arguments = *docs.find("submit")->find("arguments");
  EXPECT_EQ(arguments.elements.front().find("name")->text, "handler");
  EXPECT_EQ(arguments.elements.front().find("type")->text, "string");
  const Reply& weight = arguments.elements[4];
  EXPECT_EQ(weight.find("token")->text, "WEIGHT");
  EXPECT_EQ(weight.find("type")->text, "integer");
  EXPECT_EQ(weight.find("flags")->elements.front().text, "optional");
  const Reply& jobs = arguments.elements.back();
  EXPECT_EQ(jobs.find("type")->text, "oneof");
  EXPECT_EQ(jobs.find("arguments")->elements.size(), 2u);
}

TEST(CommandDocsTest, DocsHaveEachOptionOfABatch) {
  for (const std::string_view command : {"submit", "open", "run"}) {
    const Reply docs = written(
        Protocol::kResp3, [&](ReplyWriter& w) { write_command_docs(w, list({"COMMAND", "DOCS", command})); });
    std::map<std::string, const Reply*> by_token;
    for (const Reply& one : docs.find(command)->find("arguments")->elements) {
      if (const Reply* token = one.find("token")) by_token[token->text] = &one;
    }
    for (const std::string_view option :
         {"ID", "NAME", "WEIGHT", "TIMEOUT", "DEADLINE", "DELAY", "AFTER", "AFTEROK", "RETRIES", "KEEP",
          "RETAIN", "SLOTS", "MAXFAILS", "EPHEMERAL", "TRACE"}) {
      EXPECT_TRUE(by_token.contains(std::string(option))) << command << " " << option;
    }
    ASSERT_TRUE(by_token.contains("AFTER"));
    std::vector<std::string> flags;
    for (const Reply& flag : by_token["AFTER"]->find("flags")->elements) flags.push_back(flag.text);
    EXPECT_EQ(flags, (std::vector<std::string>{"optional", "multiple", "multiple_token"}));
  }
}

TEST(CommandDocsTest, HelpListsTheSubcommandsWithTheirArguments) {
  const auto help = [](CommandId container) {
    std::vector<std::string> lines;
    const Reply reply = written(Protocol::kResp2, [&](ReplyWriter& w) { write_help(w, command(container)); });
    for (const Reply& line : reply.elements) lines.push_back(line.text);
    return lines;
  };
  const std::vector<std::string> customer = help(CommandId::kCustomer);
  ASSERT_EQ(customer.size(), 11U);
  EXPECT_EQ(customer[0], "CUSTOMER <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  EXPECT_EQ(customer[1], "DEL customer");
  EXPECT_EQ(customer[2], "    Drops the settings of a customer; returns whether it had any.");
  EXPECT_EQ(customer[7], "SET customer [WEIGHT weight] [SLOTS slots] [RATE rate] [MAXJOBS max-jobs]");
  EXPECT_EQ(customer[9], "HELP");
  const auto has = [&](CommandId container, const std::string& line) {
    const std::vector<std::string> lines = help(container);
    return std::ranges::count(lines, line) == 1;
  };
  EXPECT_TRUE(has(CommandId::kClient, "NO-EVICT ON|OFF"));
  EXPECT_TRUE(has(CommandId::kClient, "KILL ID client-id"));
  EXPECT_TRUE(has(CommandId::kClient, "GETNAME"));
  EXPECT_TRUE(has(CommandId::kCommand, "LIST [FILTERBY PATTERN pattern]"));
  for (const CommandSpec& spec : commands()) {
    if (spec.subcommands().empty()) continue;
    EXPECT_EQ(help(spec.id).size(), 3 + 2 * spec.subcommands().size()) << spec.name;
    EXPECT_EQ(find_subcommand(spec.id, "help"), nullptr) << "the table's own goes before it";
  }
  EXPECT_TRUE(asks_for_help(list({"customer", "Help"})));
  EXPECT_FALSE(asks_for_help(list({"customer", "help", "me"})));
}

TEST(CommandDocsTest, AnUnknownNameAloneIsAnEmptyMap) {
  OutputBuffer out;
  ReplyWriter writer(out, Protocol::kResp2);
  write_command_docs(writer, list({"COMMAND", "DOCS", "nosuchcmd"}));
  writer.set_protocol(Protocol::kResp3);
  write_command_docs(writer, list({"COMMAND", "DOCS", "nosuchcmd"}));
  EXPECT_EQ(out.to_string(), "*0\r\n%0\r\n");
}

TEST(CommandDocsTest, InfoIsTenPartsACommandAndNullForAnUnknownName) {
  const Reply all = written(Protocol::kResp2, [](ReplyWriter& w) { write_command_all(w); });
  EXPECT_EQ(all.elements.size(), commands().size());
  for (const Reply& one : all.elements) EXPECT_EQ(one.elements.size(), 10u);
  const Reply some = written(Protocol::kResp3, [](ReplyWriter& w) {
    write_command_info(w, list({"COMMAND", "INFO", "PING", "nosuch"}));
  });
  ASSERT_EQ(some.elements.size(), 2u);
  EXPECT_EQ(some.elements[0].elements[0].text, "ping");
  EXPECT_EQ(some.elements[0].elements[1].integer, -1);
  EXPECT_TRUE(some.elements[1].is_null());
}

TEST(CommandDocsTest, ListAndCount) {
  const Reply count = written(Protocol::kResp2, [](ReplyWriter& w) { write_command_count(w); });
  EXPECT_EQ(count.integer, static_cast<std::int64_t>(commands().size()));
  const Reply names =
      written(Protocol::kResp2, [](ReplyWriter& w) { write_command_list(w, list({"COMMAND", "LIST"})); });
  EXPECT_EQ(names.elements.size(), commands().size());
  const Reply some = written(Protocol::kResp2, [](ReplyWriter& w) {
    write_command_list(w, list({"COMMAND", "LIST", "FILTERBY", "PATTERN", "*SUBSCRIBE"}));
  });
  EXPECT_EQ(some.elements.size(), 4u);
  const Reply wrong = written(Protocol::kResp2, [](ReplyWriter& w) {
    write_command_list(w, list({"COMMAND", "LIST", "FILTERBY", "MODULE", "x"}));
  });
  EXPECT_TRUE(wrong.is_error());
}

// Each name of a command is compared with it, so that a long pattern would take milliseconds.
TEST(CommandDocsTest, ListTakesAPatternAsLongAsThatOfOtherCommands) {
  const auto filtered_by = [](std::string_view pattern) {
    return written(Protocol::kResp2, [pattern](ReplyWriter& w) {
      write_command_list(w, list({"COMMAND", "LIST", "FILTERBY", "PATTERN", pattern}));
    });
  };
  const Reply longest = filtered_by(std::string(kMaxGlobBytes, '*'));
  EXPECT_EQ(longest.elements.size(), commands().size());
  const Reply too_long = filtered_by(std::string(kMaxGlobBytes + 1, '*'));
  EXPECT_TRUE(too_long.is_error());
  EXPECT_EQ(too_long.text, "ERR COMMAND LIST takes a pattern of at most 256 bytes");
}

}  // namespace
}  // namespace locksley::proto
