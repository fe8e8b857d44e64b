// AUTH and HELLO, as in Redis.
#include <fmt/format.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/auth/authenticator.h"
#include "daemon/base/log_line.h"
#include "daemon/server/commands/commands.h"
#include "daemon/server/commands/info.h"
#include "daemon/server/session/client_info.h"
#include "daemon/server/session/session.h"
#include "daemon/server/state/server_state.h"
#include "proto/hello.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

constexpr std::string_view kDefault = "default";

void refuse(Session& session, std::string_view user) {
  constexpr std::size_t kMostShown = 64;  // the longest name of a user
  ServerState& state = session.state();
  state.stats().authentication_failures.add(1);
  state.warnings().warn(
      Warning::kWrongPassword, session.peer(),
      LogLine("wrong password, or no such user").with("user", proto::printable(user, kMostShown)));
  session.fail(proto::kWrongPass);
}

// The part of 127.0.0.1:7770 or [::1]:7770 before the port.
std::string address_of(const std::string& peer) {
  const std::size_t colon = peer.rfind(':');
  return peer.front() == '[' ? peer.substr(1, colon - 2) : peer.substr(0, colon);
}

// Asks the Authenticator about the password that the argument is, and wipes the argument. The commands after
// it wait until then. None if the connection is to close.
Coroutine<std::optional<Verdict>> check_password(Session& session, std::string_view user,
                                                 std::string_view hash, proto::ArgumentList& arguments,
                                                 std::size_t password) {
  // Shared by this coroutine, which may have ended by then, and the Authenticator.
  struct Question {
    Session* session;  // null: the coroutine has ended
    std::optional<Verdict> verdict;
  };
  struct Asking {
    std::shared_ptr<Question> question;
    ~Asking() { question->session = nullptr; }
  };
  const Asking asking{std::make_shared<Question>(&session, std::nullopt)};
  const auto answer = [question = asking.question](Verdict verdict) {
    question->verdict = verdict;
    if (question->session != nullptr) question->session->wake();
  };
  session.state().authenticator().check(address_of(session.peer()), std::string(user), std::string(hash),
                                        std::string(arguments[password]), answer);
  arguments.wipe(password);
  const bool is_open = co_await session.await([&asking] { return asking.question->verdict.has_value(); });
  co_return is_open ? asking.question->verdict : std::nullopt;
}

// Logs in the user whose password is the argument at that index. False after an error reply, or if the
// connection is to close.
Coroutine<bool> log_in(Session& session, std::string_view name, proto::ArgumentList& arguments,
                       std::size_t password) LOCKSLEY_REQUIRES(kIoThread) {
  const Users& users = session.state().users();
  if (!users.are_configured()) {
    // Every peer is `default`, whatever the password, as in Redis if that user has none.
    arguments.wipe(password);
    if (name == kDefault) co_return true;
    refuse(session, name);
    co_return false;
  }
  UserRef user = users.find(name);
  const std::string hash = user == nullptr ? std::string() : user->password_hash();
  const auto verdict = co_await check_password(session, name, hash, arguments, password);
  if (!verdict) co_return false;
  if (*verdict == Verdict::kBusy) {
    session.fail("ERR too many passwords wait to be checked: try again later");
    co_return false;
  }
  // The configuration may have changed meanwhile.
  user = users.find(name);
  if (*verdict == Verdict::kRefused || user == nullptr || user->password_hash() != hash) {
    refuse(session, name);
    co_return false;
  }
  if (!session.log_in(user, Credential::kPassword)) {
    session.fail("ERR max number of clients reached");
    co_return false;
  }
  co_return true;
}

}  // namespace

Coroutine<void> hello_command(Session& session, proto::Command command) {
  const auto hello = proto::parse_hello(command.arguments, session.info().protocol);
  if (!hello) {
    session.fail(hello.error());
    co_return;
  }
  if (hello->name && !proto::is_client_name(*hello->name)) {
    session.fail(proto::kBadClientName);
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
}

Coroutine<void> auth_command(Session& session, proto::Command command) {
  const bool names_user = command.arguments.size() == 3;
  if (!names_user && !session.state().users().are_configured()) {
    session.fail(proto::kAuthWithoutUsers);
    co_return;
  }
  const std::string_view name = names_user ? command.arguments[1] : kDefault;
  const bool is_in = co_await log_in(session, name, command.arguments, names_user ? 2 : 1);
  if (is_in) session.reply().ok();
}

}  // namespace locksley::daemon
