// The replies of COMMAND, of its subcommands and of HELP.
#pragma once

#include "proto/argument_list.h"
#include "proto/command_table.h"
#include "proto/reply_writer.h"

namespace locksley::proto {

// Write the replies of COMMAND and its subcommands, and of HELP, from the table of commands.
// `arguments` is the whole command, its name and subcommand included. Called by the connection's
// thread; nothing blocks.

void write_command_all(ReplyWriter& reply);    // COMMAND
void write_command_count(ReplyWriter& reply);  // COMMAND COUNT
void write_command_list(ReplyWriter& reply,
                        const ArgumentList& arguments);  // COMMAND LIST [FILTERBY PATTERN glob]
void write_command_info(ReplyWriter& reply, const ArgumentList& arguments);  // COMMAND INFO [name …]
void write_command_docs(ReplyWriter& reply, const ArgumentList& arguments);  // COMMAND DOCS [name …]

// Whether the command names the subcommand HELP, which every command with subcommands has in
// addition to those in the table.
bool names_help(const ArgumentList& arguments);
// Whether the command asks for its subcommands, as `CLIENT HELP` does. Needs: it has subcommands.
bool asks_for_help(const ArgumentList& arguments);
// The syntax and the purpose of each subcommand: simple strings, as in Redis.
void write_help(ReplyWriter& reply, const CommandSpec& container);

}  // namespace locksley::proto
