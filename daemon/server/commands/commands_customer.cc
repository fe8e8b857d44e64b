// CUSTOMER: the settings of customers, and what they have.
#include <string>
#include <string_view>

#include "daemon/server/commands/commands.h"
#include "daemon/server/commands/members.h"
#include "daemon/server/session/session.h"
#include "daemon/server/state/control.h"
#include "daemon/server/state/customer_view.h"
#include "daemon/server/state/server_state.h"
#include "proto/read_options.h"

namespace locksley::daemon {

namespace {

void set(Session& session, const proto::ArgumentList& arguments) LOCKSLEY_REQUIRES(kIoThread) {
  const auto parsed = proto::parse_customer_set(arguments);
  if (!parsed) return session.fail(parsed.error());
  const auto ticket = set_customer(session.state(), session.user(), parsed->name, parsed->changes);
  if (!ticket) return session.fail(ticket.error());
  session.replies().reply_when_stored(*ticket, [](proto::ReplyWriter& reply) { reply.ok(); });
}

void remove(Session& session, std::string_view customer) LOCKSLEY_REQUIRES(kIoThread) {
  const auto removed = delete_customer(session.state(), session.user(), customer);
  if (!removed) return session.fail(removed.error());
  session.replies().reply_when_stored(
      removed->ticket, [&](proto::ReplyWriter& reply) { reply.integer(removed->had_settings ? 1 : 0); });
}

void write(proto::ReplyWriter& reply, const CustomerSeen& customer) {
  reply.map(kCustomerMembers);
  visit_members(customer, Members(reply));
}

void get(Session& session, std::string_view customer) LOCKSLEY_REQUIRES(kIoThread) {
  const auto seen = customer_seen(session.state(), session.user(), customer);
  if (!seen) return session.fail(seen.error());
  proto::ReplyWriter reply = session.reply();
  write(reply, *seen);
}

void list(Session& session, const proto::ArgumentList& arguments) LOCKSLEY_REQUIRES(kIoThread) {
  const auto parsed = proto::parse_customer_list(arguments);
  if (!parsed) return session.fail(parsed.error());
  const CustomerPage page = customers_seen(session.state(), {.tenant = customers_of(session.user()),
                                                             .match = parsed->match,
                                                             .cursor = parsed->cursor,
                                                             .count = parsed->count});
  proto::ReplyWriter reply = session.reply();
  reply.array(2);
  reply.bulk_integer(static_cast<std::int64_t>(page.next));
  reply.array(page.customers.size());
  for (const CustomerSeen& customer : page.customers) write(reply, customer);
}

}  // namespace

void customer_command(Session& session, proto::Command& command) {
  const proto::SubcommandSpec* const spec = subcommand_of(session, command, proto::CommandId::kCustomer);
  if (spec == nullptr) return;
  switch (spec->id) {
    case proto::SubcommandId::kCustomerSet:
      return set(session, command.arguments);
    case proto::SubcommandId::kCustomerDel:
      return remove(session, command.arguments[2]);
    case proto::SubcommandId::kCustomerGet:
      return get(session, command.arguments[2]);
    default:
      return list(session, command.arguments);
  }
}

}  // namespace locksley::daemon
