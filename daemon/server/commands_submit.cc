// Commands that bring batches in.
#include <utility>

#include "daemon/server/batch_replies.h"
#include "daemon/server/commands.h"
#include "daemon/server/server.h"
#include "daemon/server/session.h"
#include "proto/submit_options.h"

namespace locksley::daemon {

namespace {

void reply_id(Session& session, const Batches::Accepted& accepted) {
  if (!accepted) return session.fail(accepted.error());
  const BatchRecord& record = **accepted;
  session.reply_when_stored(record.ticket, [&](proto::ReplyWriter& reply) { reply.bulk(record.id()); });
}

void reply_count(Session& session, const BatchRecord& record,
                 const std::expected<std::uint64_t, Batches::Refusal>& count) {
  if (!count) return session.fail(count.error());
  session.reply_when_stored(
      record.ticket, [&](proto::ReplyWriter& reply) { reply.integer(static_cast<std::int64_t>(*count)); });
}

}  // namespace

void submit_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_submit(command.arguments);
  if (!parsed) return session.fail(parsed.error());
  reply_id(session, session.server().batches().submit(session.user(), *parsed, std::move(command.arguments)));
}

void open_command(Session& session, proto::Command& command) {
  const auto parsed = proto::parse_open(command.arguments);
  if (!parsed) return session.fail(parsed.error());
  reply_id(session, session.server().batches().open(session.user(), *parsed, session.id()));
}

void add_command(Session& session, proto::Command& command) {
  BatchRecord* record = batch_of(session, command.arguments[1]);
  if (record == nullptr) return;
  if (const std::string& handler = record->handler().name(); !session.user().may_use(handler)) {
    return session.fail(no_handler_permission_error(session.user(), handler));
  }
  proto::ArgumentList payloads = std::move(command.arguments);
  payloads.drop_front(2);
  reply_count(session, *record, session.server().batches().add(*record, std::move(payloads), session.id()));
}

void close_command(Session& session, proto::Command& command) {
  BatchRecord* record = batch_of(session, command.arguments[1]);
  if (record == nullptr) return;
  reply_count(session, *record, session.server().batches().close(*record));
}

Coroutine<void> run_command(Session& session, proto::Command command) {
  const auto parsed = proto::parse_run(command.arguments);
  if (!parsed) {
    session.fail(parsed.error());
    co_return;
  }
  Batches& batches = session.server().batches();
  const auto accepted = batches.run(session.user(), *parsed, std::move(command.arguments));
  if (!accepted) {
    session.fail(accepted.error());
    co_return;
  }
  const std::shared_ptr<BatchRecord> record = *accepted;
  const auto is_over = [](const BatchRecord& batch) { return batch.is_over(); };
  // Not inside the co_await: there g++ 12 evaluates both sides of a conditional.
  const Instant deadline =
      parsed->options.deadline ? std::chrono::steady_clock::now() + *parsed->options.deadline : kNever;
  Session::Until until = co_await session.until(record, is_over, deadline);
  if (until == Session::Until::kTimeout) {
    batches.cancel(*record, "deadline passed");
    until = co_await session.until(record, is_over, kNever);
  }
  if (until == Session::Until::kGone) {
    batches.cancel(*record, "the client of its RUN has gone");
    co_return;
  }
  proto::ReplyWriter reply = session.reply();
  const auto written = write_run_outputs(reply, *record, parsed->options.keep,
                                         session.server().config().limits.output_buffer.count);
  if (!written) session.fail(written.error());
}

}  // namespace locksley::daemon
