// Whose connection it is.
#include <algorithm>
#include <utility>

#include "daemon/server/server.h"
#include "daemon/server/session.h"

namespace locksley::daemon {

namespace {

// Of 127.0.0.1:7770 and [::1]:7770, what is before the port.
std::string address_of(const std::string& peer) {
  const std::size_t colon = peer.rfind(':');
  return peer.front() == '[' ? peer.substr(1, colon - 2) : peer.substr(0, colon);
}

}  // namespace

bool Session::log_in(const UserRef& user) {
  Tenant& tenant = user->tenant();
  const bool is_counted = user_ != nullptr && &user_->tenant() == &tenant;
  const std::uint64_t most = tenant.quotas.max_clients;
  if (!is_counted && most != 0 && tenant.connections >= most) return false;
  become(user);
  return true;
}

void Session::log_out() {
  const Users& users = server_.users();
  become(users.are_configured() ? nullptr : users.everybody());
  // A certificate stands for its user for as long as the connection lives.
  if (transport_.is_tls()) log_in_by_certificate(transport_.tls().peer_common_name());
}

bool Session::log_in_by_certificate(std::string_view common_name) {
  const UserRef user = server_.users().by_certificate(common_name);
  return user != nullptr && log_in(user);
}

Instant Session::login_deadline() const { return stranger_since_ + server_.config().limits.login_timeout; }

void Session::become(UserRef user) {
  if (user_ != nullptr) --user_->tenant().connections;
  if (user != nullptr) ++user->tenant().connections;
  if (user == nullptr && user_ != nullptr) stranger_since_ = std::chrono::steady_clock::now();
  user_ = std::move(user);
  groups_ = user_ == nullptr ? CommandGroups{0} : user_->groups();
  reader_.set_limits(user_ == nullptr ? proto::Limits::before_authentication() : server_.reader_limits());
  // Before it hears of others' batches.
  if (!may(proto::CommandGroup::kRead)) unsubscribe_all();
  if (user_ != nullptr)
    set_audience(user_->is_admin() ? Events::kEverything : std::string_view(user_->name()));
}

void Session::set_audience(std::string_view audience) {
  if (audience_ == audience) return;
  Events& events = server_.batches().events();
  for (const std::string& channel : channels) {
    events.unsubscribe(*this, audience_, channel);
    events.subscribe(*this, audience, channel);
  }
  // What it was offered before happened while it was its to hear of.
  if (!patterns.empty()) {
    events.offer_none(*this, audience_);
    events.offer_all(*this, audience);
  }
  audience_ = audience;
}

void Session::users_changed() {
  if (user_ == nullptr) {
    if (!server_.users().are_configured()) drop("it was asked who it is, and nobody is any more");
    return;
  }
  UserRef now = server_.users().as_it_is_now(*user_);
  if (now == nullptr) return drop("its user was removed");
  // It would wait for ever for what it asked for. As Redis does.
  if (is_subscribed() && !now->may(proto::CommandGroup::kRead)) return drop("its user may no longer read");
  become(std::move(now));
}

Coroutine<std::optional<Verdict>> Session::check_password(std::string_view user, std::string_view hash,
                                                          proto::ArgumentList& arguments,
                                                          std::size_t password) {
  // Shared by this coroutine, which may have gone by then, and the Authenticator.
  struct Question {
    Session* asks;
    std::optional<Verdict> verdict;
  };
  struct Asking {
    std::shared_ptr<Question> question;
    ~Asking() { question->asks = nullptr; }
  };
  const Asking asking{std::make_shared<Question>(this, std::nullopt)};
  const auto told = [question = asking.question](Verdict verdict) {
    question->verdict = verdict;
    if (question->asks != nullptr) question->asks->wakeup_.wake();
  };
  server_.authenticator().check(address_of(peer_), std::string(user), std::string(hash),
                                std::string(arguments[password]), told);
  arguments.wipe(password);
  dropped_ = dropped_ || !flush();
  while (!dropped_ && !asking.question->verdict) {
    if (!wakeup_.take()) co_await wakeup_.wait();
  }
  active_at_ = std::chrono::steady_clock::now();
  co_return dropped_ ? std::nullopt : asking.question->verdict;
}

}  // namespace locksley::daemon
