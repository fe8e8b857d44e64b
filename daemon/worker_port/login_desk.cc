#include "daemon/worker_port/login_desk.h"

#include <expected>
#include <utility>

#include "daemon/base/loop/io_mailbox.h"
#include "daemon/server/state/password_login.h"

namespace locksley::daemon {

namespace {
LoginAnswer refused(std::string reply) {
  return {.user = nullptr, .place = nullptr, .refusal = std::move(reply)};
}

}  // namespace

void LoginDesk::ask(LoginQuestion question, Done done) {
  const Users& users = state_.users();
  const bool asks_by_password = question.by == Credential::kPassword;
  if (!users.are_configured() && !asks_by_password)
    return done(admit(users.everybody(), std::move(question.place)));
  switch (question.by) {
    case Credential::kNone:
      return done({});
    case Credential::kCertificate: {
      const UserRef user = users.by_certificate(question.name);
      return done(user == nullptr ? LoginAnswer{} : admit(user, std::move(question.place)));
    }
    case Credential::kPassword:
      return log_in_by_password(state_,
                                {.user = std::move(question.name),
                                 .password = std::move(question.password),
                                 .address = question.address,
                                 .peer = question.address},
                                [this, place = std::move(question.place),
                                 done = std::move(done)](std::expected<UserRef, std::string> user) {
                                  kIoThread.assert_held();
                                  done(user ? admit(*user, place) : refused(std::move(user.error())));
                                });
  }
}

LoginAnswer LoginDesk::admit(const UserRef& user, ConnectionPlace place) {
  Account& account = user->tenant().account;
  // A peer that logs in again as the same user, by a password after a certificate, is counted
  // already.
  if (place.get() == &account) return {.user = user, .place = std::move(place), .refusal = {}};
  if (!account.has_room(Resource::kConnections, 1)) return refused(std::string(kTooManyConnections));
  account.charge(Resource::kConnections, 1);
  // The tenant is never removed.
  const auto give_back = [&mailbox = IoMailbox::of(state_.io()), &account](void*) {
    mailbox.post([&account] {
      kIoThread.assert_held();
      account.refund(Resource::kConnections, 1);
    });
  };
  return {.user = user, .place = ConnectionPlace(static_cast<void*>(&account), give_back), .refusal = {}};
}

}  // namespace locksley::daemon
