#include "daemon/server/session/sessions.h"

#include <algorithm>
#include <asio/co_spawn.hpp>
#include <asio/detached.hpp>
#include <unordered_map>
#include <utility>
#include <vector>

#include "daemon/base/net/endpoint_text.h"
#include "daemon/base/net/listener.h"
#include "daemon/server/session/session.h"

namespace locksley::daemon {

namespace {

double client_burden_of(const Tenant& tenant) {
  return tenant.burden(tenant.account.used(Resource::kClientBytes));
}

}  // namespace

Sessions::Sessions(ServerState& state, const CommandExecutor& executor)
    : state_(state),
      executor_(executor),
      memory_(state.config(), state.batches().registry().tenants().account_of_all()),
      telling_authorities_(state.slices()),
      telling_users_(state.slices()),
      telling_limits_(state.slices()) {}

Sessions::~Sessions() = default;

void Sessions::use_tls(std::shared_ptr<const TlsContext> context) {
  const auto before = std::exchange(tls_, std::move(context));
  if (before == nullptr || before->has_authorities_of(tls_.get())) return;
  telling_authorities_.restart([this, next = std::uint64_t{0}](Instant until) mutable {
    kIoThread.assert_held();
    for (auto at = by_id_.lower_bound(next); at != by_id_.end(); ++at) {
      at->second->authorities_changed(tls_.get());
      next = at->first + 1;
      if (now() >= until) return false;
    }
    return true;
  });
}

void Sessions::accept(Socket socket) {
  asio::error_code error;
  const auto remote = socket.remote_endpoint(error);
  if (error) return;  // gone already
  const auto local = socket.local_endpoint(error);
  if (error) return;
  const std::string peer = to_text(remote);
  const config::Config& config = state_.config();
  ServerStats& stats = state_.stats();
  socket.non_blocking(true, error);
  const auto refuse = [&](Warning kind, std::string_view reply, std::string_view why) {
    kIoThread.assert_held();
    stats.connections_refused.add(1);
    state_.warnings().warn(kind, peer, why);
    // A TLS client would not understand plain text.
    if (!tls_) socket.write_some(asio::buffer(reply.data(), reply.size()), error);
  };
  if (config.users.empty() && !is_loopback(remote.address())) {
    return refuse(Warning::kDenied,
                  "-DENIED no users are configured, so only connections from this machine are served\r\n",
                  "a peer that is not on this machine was refused: no users are configured");
  }
  if (!make_room()) {
    return refuse(Warning::kMaxClients, "-ERR max number of clients reached\r\n",
                  "limits.max_clients reached");
  }
  socket.set_option(asio::ip::tcp::no_delay(true), error);
  socket.set_option(asio::socket_base::keep_alive(true), error);
  const std::uint64_t id = next_id_++;
  auto session =
      std::make_shared<Session>(*this, Transport(std::move(socket), tls_), id, peer, to_text(local));
  by_id_.emplace_hint(by_id_.end(), id, session);
  stats.connections_accepted.add(1);
  stats.connections.set(by_id_.size());
  asio::co_spawn(state_.executor(), Session::serve(std::move(session)), asio::detached);
}

bool Sessions::make_room() {
  const std::uint64_t most = state_.config().limits.max_clients;
  if (by_id_.size() < most) return true;
  if (by_id_.size() >= most + Strangers::kMostAbove) return false;
  const auto id = strangers_.first_to_go(now());
  Session* const stranger = id ? find(*id) : nullptr;
  if (stranger != nullptr) stranger->give_way();
  return stranger != nullptr;
}

Session* Sessions::find(std::uint64_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : found->second.get();
}

void Sessions::users_changed() {
  tell_all(telling_users_, [](Session& session) {
    kIoThread.assert_held();
    session.users_changed();
  });
}

void Sessions::limits_changed() {
  tell_all(telling_limits_, [](Session& session) {
    kIoThread.assert_held();
    session.limits_changed();
  });
}

void Sessions::tell_all(SlicedWork& telling, void (*tell_one)(Session&)) {
  // Informing a session takes a microsecond, and then it has a turn.
  auto tell = [this, tell_one, next = std::uint64_t{0}](Instant until) mutable {
    kIoThread.assert_held();
    constexpr int kBetweenLooks = 64;  // at the clock
    int told = 0;
    for (auto at = by_id_.lower_bound(next); at != by_id_.end(); ++at) {
      tell_one(*at->second);
      next = at->first + 1;
      if (++told % kBetweenLooks == 0 && now() >= until) return false;
    }
    return true;
  };
  constexpr std::size_t kFew = 64;
  if (by_id_.size() > kFew) return telling.restart(std::move(tell));
  telling.cancel();
  tell(Instant::max());
}

void Sessions::finish(std::function<void()> on_closed) {
  for (const auto& [id, session] : by_id_) session->finish();
  on_closed_ = std::move(on_closed);
  if (by_id_.empty()) std::exchange(on_closed_, nullptr)();
}

void Sessions::drop_all(std::string_view reason) {
  for (const auto& [id, session] : by_id_) session->drop(reason);
}

// The connections that hold something, by the account that is charged; of each account those that
// hold most come first.
class Sessions::Holders {
 public:
  explicit Holders(const ById& all) {
    for (const auto& [id, session] : all) {
      const std::uint64_t bytes = session->memory().output();
      if (bytes != 0) by_account_[&session->memory().account()].push_back({bytes, session.get()});
    }
    for (auto& [account, holders] : by_account_) std::ranges::make_heap(holders, {}, &Holder::bytes);
  }
  // Takes out the session of this account that holds most. Null: none holds anything.
  Session* take_largest(const Account& account) {
    const auto found = by_account_.find(&account);
    if (found == by_account_.end() || found->second.empty()) return nullptr;
    std::ranges::pop_heap(found->second, {}, &Holder::bytes);
    Session* const largest = found->second.back().session;
    found->second.pop_back();
    return largest;
  }

 private:
  struct Holder {
    std::uint64_t bytes;
    Session* session;
  };
  std::unordered_map<const Account*, std::vector<Holder>> by_account_;
};

void Sessions::enforce_memory_limit(const Account& own) {
  const bool is_exceeded =
      own.exceeds_limit(Resource::kClientBytes) || memory_.all().exceeds_limit(Resource::kClientBytes);
  if (!is_exceeded || shedding_.contains(&own) || shed(own)) return;
  shedding_.insert(&own);
  state_.slices().add([this, &own](Instant until) {
    kIoThread.assert_held();
    while (!shed(own)) {
      if (now() >= until) return false;
    }
    shedding_.erase(&own);
    return true;
  });
}

bool Sessions::shed(const Account& own) {
  // Walking over ten thousand connections takes some 400 us, and dropping one some 2 us. If all
  // users together hold too much, all tenants are walked over once.
  constexpr int kAtOnce = 64;
  Holders holders(by_id_);
  const auto drop_one_of = [this, &holders](const Account& account) {
    kIoThread.assert_held();
    Session* const largest = holders.take_largest(account);
    if (largest == nullptr) return false;
    const Account& full = account.exceeds_limit(Resource::kClientBytes) ? account : memory_.all();
    largest->evict(full.key(Resource::kClientBytes));
    return true;
  };
  int left = kAtOnce;
  while (own.exceeds_limit(Resource::kClientBytes) && drop_one_of(own)) {
    if (--left == 0) return false;
  }
  const Account& all = memory_.all();
  if (!all.exceeds_limit(Resource::kClientBytes)) return true;
  HeaviestFirst<const Tenant> tenants = tenants_by_burden();
  while (all.exceeds_limit(Resource::kClientBytes)) {
    const auto of_strangers = static_cast<double>(memory_.strangers().used(Resource::kClientBytes));
    if (tenants.empty() || tenants.burden() <= of_strangers) {
      if (!drop_one_of(memory_.strangers())) return true;
    } else {
      const Tenant& heaviest = tenants.heaviest();
      if (!drop_one_of(heaviest.account)) return true;
      tenants.change_heaviest(client_burden_of(heaviest));
    }
    if (--left == 0) return false;
  }
  return true;
}

HeaviestFirst<const Tenant> Sessions::tenants_by_burden() const {
  HeaviestFirst<const Tenant> tenants;
  for (const Tenant& tenant : state_.batches().registry().tenants().all()) {
    if (tenant.account.used(Resource::kClientBytes) != 0) tenants.add(tenant, client_burden_of(tenant));
  }
  tenants.complete();
  return tenants;
}

void Sessions::ended(Session& session) {
  state_.batches().connection_ended(session.id(), session.line());
  by_id_.erase(session.id());
  state_.stats().connections.set(by_id_.size());
  if (on_closed_ && by_id_.empty()) std::exchange(on_closed_, nullptr)();
}

}  // namespace locksley::daemon
