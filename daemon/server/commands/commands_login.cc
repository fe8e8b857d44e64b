// AUTH and HELLO, as in Redis.
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/net/endpoint_text.h"
#include "daemon/server/accounts/credential.h"
#include "daemon/server/commands/commands.h"
#include "daemon/server/session/client_info.h"
#include "daemon/server/session/session.h"
#include "daemon/server/state/password_login.h"
#include "daemon/server/state/server_state.h"
#include "proto/hello.h"

namespace locksley::daemon {

namespace {

// Logs in the user whose password is the argument at that index, and wipes the argument. Commands
// after it wait until then. False after an error reply, or if the connection is to close.
Coroutine<bool> log_in(Session& session, std::string_view name, proto::ArgumentList& arguments,
                       std::size_t password) LOCKSLEY_REQUIRES(kIoThread) {
  using Result = std::expected<UserRef, std::string>;
  // Shared by this coroutine, which may have ended by then, and the check.
  struct Question {
    Session* session;  // null: the coroutine has ended
    std::optional<Result> result;
  };
  struct Asking {
    std::shared_ptr<Question> question;
    ~Asking() { question->session = nullptr; }
  };
  session.login().check_begins();
  const Asking asking{std::make_shared<Question>(&session, std::nullopt)};
  PasswordLogin login{.user = std::string(name),
                      .password = std::string(arguments[password]),
                      .address = address_in(session.peer()),
                      .peer = session.peer()};
  arguments.wipe(password);
  log_in_by_password(session.state(), std::move(login), [question = asking.question](Result result) {
    question->result = std::move(result);
    if (question->session != nullptr) question->session->wake();
  });
  const bool is_open =
      co_await session.waits().await([&asking] { return asking.question->result.has_value(); });
  if (!is_open) co_return false;
  const Result& result = *asking.question->result;
  if (!result) {
    session.login().check_failed();
    session.fail(result.error());
    co_return false;
  }
  // While no users are configured, the peer is logged in already.
  if ((*result)->is_everybody()) co_return true;
  if (!session.subscriptions().empty()) co_await session.subscription_moves().move_to(*result);
  // The configuration may have changed since the password was checked.
  const UserRef user = session.state().users().find(name);
  const bool is_current = user != nullptr && objection_to(Credential::kPassword, **result, *user).empty();
  if (is_current && session.login().log_in(user, Credential::kPassword)) co_return true;
  if (session.is_logged_in()) session.subscription_moves().follow();
  session.login().check_failed();
  session.fail(is_current ? kTooManyConnections : kChangedMeanwhile);
  co_return false;
}

}  // namespace

Coroutine<void> hello_command(Session& session, proto::Command& command) {
  const auto hello = proto::parse_hello(command.arguments, session.info().protocol);
  if (!hello) {
    session.fail(hello.error());
    co_return;
  }
  if (hello->user != 0) {
    const bool is_in =
        co_await log_in(session, command.arguments[hello->user], command.arguments, hello->user + 1);
    if (!is_in) co_return;
  } else if (!session.is_logged_in()) {
    session.fail(proto::kHelloNoAuth);
    co_return;
  }
  if (hello->name) session.info().name = *hello->name;
  session.info().protocol = hello->protocol;
  proto::write_hello(session.reply(), session.info().protocol, session.id());
  session.replies().messages_follow();
}

Coroutine<void> auth_command(Session& session, proto::Command& command) {
  const auto auth = proto::parse_auth(command.arguments, session.state().users().are_configured());
  if (!auth) {
    session.fail(auth.error());
    co_return;
  }
  if (co_await log_in(session, auth->user, command.arguments, auth->password)) session.reply().ok();
}

}  // namespace locksley::daemon
