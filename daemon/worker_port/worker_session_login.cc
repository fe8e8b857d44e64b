// The login of a worker, and the commands for which a peer need not have joined.
#include <fmt/format.h>

#include <utility>

#include "daemon/base/loop/user_lines.h"
#include "daemon/server/accounts/credential.h"
#include "daemon/server/state/password_login.h"
#include "daemon/worker_port/link_service.h"
#include "daemon/worker_port/worker_session.h"
#include "proto/hello.h"
#include "proto/number.h"
#include "proto/text.h"

namespace locksley::daemon {

using proto::equals_ignoring_case;

std::optional<WorkerSession::TurnEnd> WorkerSession::execute_own() {
  const proto::ArgumentList& arguments = command_.arguments;
  const std::string_view name = arguments[0];
  WorkerLink& link = service_.link();
  const auto is = [&name](std::string_view word) { return equals_ignoring_case(name, word); };
  if (is("HELLO") || is("AUTH")) {
    link.end_claim(id_, boot_time());
    return TurnEnd::kAsk;
  }
  if (is("QUIT")) {
    link.end_claim(id_, boot_time());
    link.reply(id_).ok();
    life().go_to(Life::kLastReply);
    return TurnEnd::kClose;
  }
  if (!is_logged_in()) {
    fail(proto::kNoAuth);
    return TurnEnd::kNeedMore;
  }
  // If the connection has not joined, the link refuses the command, and needs no batch.
  if (is("RECLAIM") && link.workers().contains(id_)) return TurnEnd::kAsk;
  if (is("PING") || is("ECHO") || is("SELECT") || is("CLIENT") || is("INFO")) {
    link.end_claim(id_, boot_time());
    client_command();
    return TurnEnd::kNeedMore;
  }
  return std::nullopt;
}

void WorkerSession::client_command() {
  const proto::ArgumentList& arguments = command_.arguments;
  const std::string_view name = arguments[0];
  proto::ReplyWriter reply = service_.link().reply(id_);
  const auto is = [&](std::size_t place, std::string_view word) {
    return arguments.size() > place && equals_ignoring_case(arguments[place], word);
  };
  const auto wrong_number = [&](std::string_view command) {
    reply.error(fmt::format("ERR wrong number of arguments for '{}' command", command));
  };
  if ((is(0, "PING") || is(0, "ECHO")) && arguments.size() == 2 && arguments[1].size() > kMostEcho) {
    return reply.error(
        fmt::format("TOOBIG on the port for workers {} takes {} bytes at most", name, kMostEcho));
  }
  if (is(0, "PING")) {
    if (arguments.size() > 2) return wrong_number("ping");
    return arguments.size() == 2 ? reply.bulk(arguments[1]) : reply.simple("PONG");
  }
  if (is(0, "ECHO")) return arguments.size() == 2 ? reply.bulk(arguments[1]) : wrong_number("echo");
  if (is(0, "SELECT")) {
    if (arguments.size() != 2) return wrong_number("select");
    return arguments[1] == "0" ? reply.ok() : reply.error("ERR DB index is out of range");
  }
  if (is(0, "INFO")) {
    const ClusterBoard* const cluster = service_.directory().cluster;
    const auto role = cluster == nullptr ? ClusterBoard::Role::kActive : cluster->role();
    return reply.verbatim(
        fmt::format("# Server\r\nredis_version:{}\r\nredis_mode:standalone\r\nloading:{}\r\n"
                    "role:{}\r\n",
                    proto::kRedisVersion,
                    role == ClusterBoard::Role::kLoading || role == ClusterBoard::Role::kUnconfirmed ? 1 : 0,
                    role == ClusterBoard::Role::kActive ? "master" : "slave"));
  }
  if (is(1, "SETNAME") && arguments.size() == 3) {
    if (!proto::is_client_name(arguments[2]))
      return reply.error(proto::client_name_error("Client names", arguments[2]));
    name_ = arguments[2];
    return reply.ok();
  }
  if (is(1, "GETNAME") && arguments.size() == 2) return name_.empty() ? reply.null() : reply.bulk(name_);
  if (is(1, "ID") && arguments.size() == 2) return reply.integer(static_cast<std::int64_t>(id_));
  if (is(1, "SETINFO") && arguments.size() == 4) return reply.ok();
  reply.error(
      fmt::format("ERR unknown subcommand '{}', or a wrong number of arguments: the port for workers takes "
                  "CLIENT ID, CLIENT GETNAME, CLIENT SETNAME name and CLIENT SETINFO attribute value",
                  proto::printable(arguments.size() > 1 ? arguments[1] : name)));
}

Coroutine<void> WorkerSession::ask() {
  kLinkThread.assert_held();
  const std::string_view name = command_.arguments[0];
  if (equals_ignoring_case(name, "HELLO")) {
    co_await hello();
  } else if (equals_ignoring_case(name, "AUTH")) {
    co_await auth();
  } else {
    co_await reclaim();
  }
}

Coroutine<void> WorkerSession::hello() {
  kLinkThread.assert_held();
  const proto::ArgumentList& arguments = command_.arguments;
  const auto hello = proto::parse_hello(arguments, protocol_);
  if (!hello) {
    fail(hello.error());
    co_return;
  }
  const auto worker = service_.link().workers().find(id_);
  if (worker != service_.link().workers().end() && worker->second.wants_pushes &&
      hello->protocol != proto::Protocol::kResp3) {
    fail("ERR this connection has joined with PUSH, which needs RESP3: LEAVE first");
    co_return;
  }
  if (hello->user != 0) {
    LoginQuestion question = by_password(arguments[hello->user], hello->user + 1);
    if (refuses_change_to(question.name)) co_return;
    if (!co_await log_in(std::move(question))) co_return;
  } else if (!is_logged_in()) {
    fail(proto::kHelloNoAuth);
    co_return;
  }
  if (hello->name) name_ = *hello->name;
  protocol_ = hello->protocol;
  service_.link().set_protocol(id_, protocol_);
  proto::write_hello(service_.link().reply(id_), protocol_, id_);
}

Coroutine<void> WorkerSession::auth() {
  kLinkThread.assert_held();
  const auto parsed = proto::parse_auth(command_.arguments, service_.directory().has_users);
  if (!parsed) {
    fail(parsed.error());
    co_return;
  }
  LoginQuestion question = by_password(parsed->user, parsed->password);
  if (refuses_change_to(question.name)) co_return;
  if (co_await log_in(std::move(question))) service_.link().reply(id_).ok();
}

bool WorkerSession::refuses_change_to(std::string_view user) {
  const auto worker = service_.link().workers().find(id_);
  if (worker == service_.link().workers().end() || worker->second.user == user) return false;
  fail(fmt::format("ERR this connection has joined as the user {}: LEAVE first", worker->second.user));
  return true;
}

LoginQuestion WorkerSession::by_password(std::string_view user, std::size_t password) {
  LoginQuestion question{.by = Credential::kPassword,
                         .name = std::string(user),
                         .password = std::string(command_.arguments[password]),
                         .address = transport().address().to_string()};
  command_.arguments.wipe(password);
  return question;
}

template <class Answer, class Ask>
Coroutine<std::optional<Answer>> WorkerSession::answer_to(Ask ask) {
  auto answer = std::make_shared<std::optional<Answer>>();
  // The question must not own the session: the I/O thread may be the last to hold the function for
  // the answer.
  ask([weak = weak_from_this(), answer](Answer given) {
    *answer = std::move(given);
    if (const auto self = weak.lock()) self->wakeup().wake();
  });
  while (!answer->has_value() && !is_dropped()) {
    if (!wakeup().take()) co_await wakeup().wait();
  }
  if (is_dropped()) co_return std::nullopt;
  co_return std::move(*answer);
}

// False: the connection is dropped, or the answer was a refusal, which is in the output.
Coroutine<bool> WorkerSession::log_in(LoginQuestion question) {
  kLinkThread.assert_held();
  const Credential by = question.by;
  question.place = place_;
  if (by == Credential::kPassword && !is_logged_in()) stranger_.check_begins();
  const auto ask = [&](auto done) { service_.questions().log_in(std::move(question), std::move(done)); };
  std::optional<LoginAnswer> got = co_await answer_to<LoginAnswer>(ask);
  if (!got) co_return false;
  if (got->user == nullptr) {
    // A peer that has not asked for a login stays a stranger, and may log in later.
    if (!got->refusal.empty()) fail(got->refusal);
    login_failed();
    co_return by != Credential::kPassword && got->refusal.empty();
  }
  // The directory may have changed since the I/O thread answered.
  UserRef user = service_.directory().current_of(*got->user);
  if (user == nullptr || !objection_to(by, *got->user, *user).empty()) {
    if (by == Credential::kPassword) fail(kChangedMeanwhile);
    login_failed();
    co_return by != Credential::kPassword;
  }
  set_user(std::move(user), std::move(got->place), by);
  co_return true;
}

void WorkerSession::login_failed() {
  if (!is_logged_in() && !is_dropped()) stranger_.enter(connection_.connected_at());
}

void WorkerSession::set_user(UserRef user, ConnectionPlace place, Credential by) {
  stranger_.leave();
  user_ = std::move(user);
  place_ = std::move(place);
  logged_in_by_ = by;
  input_.set_user(user_->name());
  // The number of a tenant never changes, so this thread may read it.
  wakeup().set_line(line_of_tenant(user_->tenant().number));
  reader_.set_limits(service_.directory().limits);
  service_.link().set_user(id_, user_->name());
  if (life().is_open()) life().go_to(Life::kServing);
}

// Only the I/O thread can look up the batch that RECLAIM names.
Coroutine<void> WorkerSession::reclaim() {
  kLinkThread.assert_held();
  const auto number = command_.arguments.size() > 1 ? proto::parse_uint64(command_.arguments[1])
                                                    : std::optional<std::uint64_t>();
  if (number) {
    const auto ask = [&](auto done) { service_.questions().find_batch(*number, std::move(done)); };
    auto batch = co_await answer_to<std::shared_ptr<Batch>>(ask);
    if (!batch) co_return;
    service_.set_found(*number, *std::move(batch));
  }
  service_.link().execute(id_, command_.arguments, boot_time());
  service_.set_found(0, nullptr);
}

}  // namespace locksley::daemon
