#include "daemon/server/state/password_login.h"

#include <cstddef>
#include <string_view>
#include <utility>

#include "daemon/auth/authenticator.h"
#include "daemon/auth/secret.h"
#include "daemon/base/log/log_line.h"
#include "proto/hello.h"
#include "proto/text.h"

namespace locksley::daemon {

namespace {

std::unexpected<std::string> wrong_password(ServerState& state, const std::string& user,
                                            const std::string& peer,
                                            std::string_view reply = proto::kWrongPass)
    LOCKSLEY_REQUIRES(kIoThread) {
  constexpr std::size_t kMostShown = 64;  // the longest name of a user
  state.stats().authentication_failures.add(1);
  state.warnings().warn(
      Warning::kWrongPassword, peer,
      LogLine("wrong password, or no such user").with("user", proto::printable(user, kMostShown)));
  return std::unexpected(std::string(reply));
}

}  // namespace

void log_in_by_password(ServerState& state, PasswordLogin login, LoggedIn done) {
  const Users& users = state.users();
  if (!users.are_configured()) {
    wipe(login.password);
    if (login.user == proto::kDefaultUser) return done(users.everybody());
    return done(wrong_password(state, login.user, login.peer, proto::kNoUsers));
  }
  const UserRef user = users.find(login.user);
  const std::string hash = user == nullptr ? std::string() : user->password_hash();
  std::string password = std::exchange(login.password, {});
  const std::string address = login.address;
  const std::string name = login.user;
  auto answer = [&state, hash, login = std::move(login), done = std::move(done)](Verdict verdict) {
    kIoThread.assert_held();
    if (verdict == Verdict::kBusy)
      return done(std::unexpected("ERR too many passwords wait to be checked: try again later"));
    // The configuration may have changed meanwhile.
    const UserRef now = state.users().find(login.user);
    if (verdict == Verdict::kRefused || now == nullptr || now->password_hash() != hash)
      return done(wrong_password(state, login.user, login.peer));
    done(now);
  };
  state.authenticator().check(address, name, hash, std::move(password), std::move(answer));
}

}  // namespace locksley::daemon
