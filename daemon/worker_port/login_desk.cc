#include "daemon/worker_port/login_desk.h"

#include <asio/post.hpp>
#include <utility>

#include "daemon/auth/authenticator.h"
#include "daemon/base/log_line.h"
#include "proto/hello.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {
constexpr std::string_view kDefault = "default";

LoginAnswer refused(std::string reply) {
  return {.user = nullptr, .place = nullptr, .refusal = std::move(reply)};
}

}  // namespace

void LoginDesk::ask(LoginQuestion question, Done done) {
  const Users& users = state_.users();
  const bool asks_by_password = question.by == LoginQuestion::By::kPassword;
  if (!users.are_configured() && !asks_by_password) return done(admit(users.everybody()));
  switch (question.by) {
    case LoginQuestion::By::kConnection:
      return done({});
    case LoginQuestion::By::kCertificate: {
      const UserRef user = users.by_certificate(question.name);
      return done(user == nullptr ? LoginAnswer{} : admit(user));
    }
    case LoginQuestion::By::kPassword:
      return check_password(std::move(question), std::move(done));
  }
}

void LoginDesk::check_password(LoginQuestion question, Done done) {
  const Users& users = state_.users();
  if (!users.are_configured()) {
    // Every peer is `default`, whatever the password, as on the client port.
    return done(question.name == kDefault ? admit(users.everybody()) : refuse(question));
  }
  const UserRef user = users.find(question.name);
  const std::string hash = user == nullptr ? std::string() : user->password_hash();
  std::string password = std::exchange(question.password, {});
  auto answer = [this, hash, question, done = std::move(done)](Verdict verdict) {
    kIoThread.assert_held();
    if (verdict == Verdict::kBusy)
      return done(refused("ERR too many passwords wait to be checked: try again later"));
    // The configuration may have changed meanwhile.
    const UserRef now = state_.users().find(question.name);
    if (verdict == Verdict::kRefused || now == nullptr || now->password_hash() != hash)
      return done(refuse(question));
    done(admit(now));
  };
  state_.authenticator().check(question.address, question.name, hash, std::move(password), std::move(answer));
}

LoginAnswer LoginDesk::admit(const UserRef& user) {
  Account& account = user->tenant().account;
  if (!account.has_room(Resource::kConnections, 1)) return refused("ERR max number of clients reached");
  account.charge(Resource::kConnections, 1);
  // The tenant is never removed.
  const auto give_back = [&io = state_.io(), &account](void*) {
    asio::post(io, [&account] {
      kIoThread.assert_held();
      account.refund(Resource::kConnections, 1);
    });
  };
  return {.user = user, .place = ConnectionPlace(static_cast<void*>(&account), give_back), .refusal = {}};
}

LoginAnswer LoginDesk::refuse(const LoginQuestion& question) {
  constexpr std::size_t kMostShown = 64;  // the longest name of a user
  state_.stats().authentication_failures.add(1);
  state_.warnings().warn(
      Warning::kWrongPassword, question.address,
      LogLine("wrong password, or no such user").with("user", proto::printable(question.name, kMostShown)));
  return refused(std::string(proto::kWrongPass));
}

}  // namespace locksley::daemon
