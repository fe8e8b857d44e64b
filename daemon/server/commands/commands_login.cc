// AUTH and HELLO, as in Redis.
#include <fmt/format.h>

#include <expected>
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
#include "proto/number.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

using proto::equals_ignoring_case;

constexpr std::string_view kWrongPass = "WRONGPASS invalid username-password pair or user is disabled.";
constexpr std::string_view kLoginFirst =
    "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH "
    "<user> "
    "<pass> option can be used to authenticate the client and select the RESP protocol version at the same "
    "time";
constexpr std::string_view kDefault = "default";

struct Hello {
  proto::Protocol protocol;
  std::size_t user = 0;  // the index of the argument; the next one is the password. 0: none
  std::optional<std::string_view> name;
};

std::expected<Hello, std::string> parse_hello(const proto::ArgumentList& arguments, proto::Protocol current) {
  Hello hello{.protocol = current, .user = 0, .name = {}};
  if (arguments.size() == 1) return hello;
  const auto version = proto::parse_int64(arguments[1]);
  if (!version) return std::unexpected("ERR Protocol version is not an integer or out of range");
  if (*version != 2 && *version != 3) return std::unexpected("NOPROTO unsupported protocol version");
  hello.protocol = *version == 3 ? proto::Protocol::kResp3 : proto::Protocol::kResp2;
  for (std::size_t i = 2; i < arguments.size(); ++i) {
    const std::size_t left = arguments.size() - i - 1;
    if (equals_ignoring_case(arguments[i], "AUTH") && left >= 2) {
      hello.user = i + 1;
      i += 2;
    } else if (equals_ignoring_case(arguments[i], "SETNAME") && left >= 1) {
      hello.name = arguments[++i];
      if (!is_client_name(*hello.name)) return std::unexpected(std::string(kBadClientName));
    } else {
      return std::unexpected(
          fmt::format("ERR Syntax error in HELLO option '{}'", proto::printable(arguments[i])));
    }
  }
  return hello;
}

void refuse(Session& session, std::string_view user) {
  constexpr std::size_t kMostShown = 64;  // the longest name of a user
  ServerState& state = session.state();
  state.stats().authentication_failures.add(1);
  state.warnings().warn(
      Warning::kWrongPassword, session.peer(),
      LogLine("wrong password, or no such user").with("user", proto::printable(user, kMostShown)));
  session.fail(kWrongPass);
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
  const auto hello = parse_hello(command.arguments, session.info().protocol);
  if (!hello) {
    session.fail(hello.error());
    co_return;
  }
  if (hello->user != 0) {
    const bool is_in =
        co_await log_in(session, command.arguments[hello->user], command.arguments, hello->user + 1);
    if (!is_in) co_return;
  } else if (!session.is_logged_in()) {
    session.fail(kLoginFirst);
    co_return;
  }
  if (hello->name) session.info().name = *hello->name;
  session.info().protocol = hello->protocol;
  proto::ReplyWriter reply = session.reply();
  reply.map(7);
  reply.bulk("server");
  reply.bulk("locksley");
  reply.bulk("version");
  reply.bulk(kRedisVersion);
  reply.bulk("proto");
  reply.integer(static_cast<std::int64_t>(session.info().protocol));
  reply.bulk("id");
  reply.integer(static_cast<std::int64_t>(session.id()));
  reply.bulk("mode");
  reply.bulk("standalone");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
}

Coroutine<void> auth_command(Session& session, proto::Command command) {
  const bool names_user = command.arguments.size() == 3;
  if (!names_user && !session.state().users().are_configured()) {
    session.fail(
        "ERR AUTH <password> called without any password configured for the default user. Are you sure your "
        "configuration is correct?");
    co_return;
  }
  const std::string_view name = names_user ? command.arguments[1] : kDefault;
  const bool is_in = co_await log_in(session, name, command.arguments, names_user ? 2 : 1);
  if (is_in) session.reply().ok();
}

}  // namespace locksley::daemon
