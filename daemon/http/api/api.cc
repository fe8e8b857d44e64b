#include "daemon/http/api/api.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "daemon/base/net/listener.h"
#include "daemon/http/api/api_json.h"
#include "daemon/http/same_origin.h"
#include "daemon/server/records/lookup.h"
#include "daemon/server/records/refusals.h"

namespace locksley::daemon {
namespace {

constexpr std::string_view kRoot = "/api/";
constexpr std::string_view kBatches = "/api/batches/";
constexpr std::string_view kHandlers = "/api/handlers/";
constexpr std::string_view kCustomers = "/api/customers/";

HttpReply not_found() { return json_error("ERR there is nothing here: see API.md", HttpStatus::kNotFound); }

HttpReply too_many_changes() {
  HttpReply reply = json_error("STORE very many changes wait for the disk: nothing was changed; retry later");
  reply.fields = {"Retry-After: 1"};
  return reply;
}

UserRef sees_everything(Tenant& tenant) {
  config::User user;
  user.commands = {config::CommandGroup::kRead, config::CommandGroup::kAdmin};
  return std::make_shared<const User>(tenant, user);
}

std::optional<Control> control_of(std::string_view name) {
  if (name == "pause") return Control::kPause;
  if (name == "resume") return Control::kResume;
  if (name == "cancel") return Control::kCancel;
  if (name == "retry") return Control::kRetry;
  if (name == "weight") return Control::kWeight;
  if (name == "slots") return Control::kSlots;
  return std::nullopt;
}

}  // namespace

Api::Api(ServerState& state, const Health& health)
    : state_(state), health_(health), token_(sees_everything(state.users().everybody()->tenant())) {}

void Api::add_to(Router& router) {
  router.get_below(std::string(kRoot), Access::kUsers, [this](const HttpRequest& request) {
    kIoThread.assert_held();
    return get(request);
  });
  router.post_below(kRoot, [this](const HttpRequest& request) {
    kIoThread.assert_held();
    return post(request);
  });
}

UserRef Api::user_of(const HttpCaller& caller) const {
  switch (caller.kind) {
    case HttpCaller::Kind::kUser:
      return state_.users().find(caller.user);
    case HttpCaller::Kind::kToken:
      return token_;
    case HttpCaller::Kind::kAnybody:
      break;
  }
  return state_.users().are_configured() ? nullptr : state_.users().everybody();
}

Api::Result<UserRef> Api::admitted(const HttpRequest& request, proto::CommandGroup group,
                                   std::string_view command) const {
  UserRef user = user_of(request.caller);
  if (user == nullptr) {
    return std::unexpected(
        "NOAUTH users are configured, and http.login is none, so no client can log in here: set http.login: "
        "users");
  }
  if (request.caller.kind == HttpCaller::Kind::kAnybody) {
    if (!is_loopback(request.peer)) {
      return std::unexpected(
          "DENIED no users are configured, so only connections from this machine are served");
    }
  }
  // The token has the group `admin` to see all users' batches.
  if (user->may(group) && (user != token_ || group == proto::CommandGroup::kRead)) return user;
  if (user == token_) return std::unexpected("NOPERM the token sees everything and changes nothing");
  return std::unexpected(no_permission_error(*user, command));
}

Api::Result<Api::Target> Api::target_of(std::string_view path, std::string_view root) {
  const std::string_view rest = path.substr(root.size());
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  std::string_view name = rest.substr(0, slash);
  // Browsers resolve "." and ".." before they send a path.
  if (name == ".;" || name == "..;") name.remove_suffix(1);
  auto id = percent_decoded(name);
  if (!id || id->empty()) {
    return std::unexpected(
        "ERR the batch's id, or the name of the handler or the customer, is empty, or has a broken %");
  }
  return Target{*std::move(id), rest.substr(std::min(slash + 1, rest.size()))};
}

Api::Result<BatchRecord*> Api::find(const User& user, const std::string& id, const Query& query) const {
  Batches& batches = state_.batches();
  const std::string* const tenant = query.find("tenant");
  Batches::Found found = nullptr;
  if (tenant == nullptr) {
    found = batches.find(user, id);
    if (!found) return std::unexpected(found.error());
  } else if (user.is_admin() || *tenant == user.name()) {
    if (const Tenant* of = batches.registry().tenants().find(*tenant)) {
      found = batches.registry().find(*of, id);
      if (!found) return std::unexpected("STORE a batch cannot be read: " + found.error());
    }
  }
  if (*found == nullptr) return std::unexpected(no_such_batch(id));
  return *found;
}

std::optional<HttpReply> Api::after_load(const HttpRequest& request, const User& user, const std::string& id,
                                         const Query& query, const Serve& serve) const {
  const Batches& batches = state_.batches();
  const std::string* const tenant = query.find("tenant");
  std::uint64_t sequence = 0;
  if (tenant == nullptr) {
    sequence = batches.first_to_load(user, id);
  } else if (batches.loads_aside() && (user.is_admin() || *tenant == user.name())) {
    const Tenant* const of = batches.registry().tenants().find(*tenant);
    if (of != nullptr) sequence = batches.registry().find_known(*of, id).to_load;
  }
  if (sequence == 0) return std::nullopt;
  // The connection may end meanwhile, and the request with it.
  struct Copy {
    std::string path;
    std::string query;
    std::string body;
    HttpCaller caller;
    asio::ip::address peer;
  };
  auto copy = std::make_shared<const Copy>(std::string(request.path), std::string(request.query),
                                           std::string(request.body), request.caller, request.peer);
  const auto later = [this, sequence, serve, copy = std::move(copy)](const HttpReply::Answer& answer) {
    kIoThread.assert_held();
    const auto on_load = [serve, copy, answer](const BatchLoads::Outcome& outcome) {
      if (!outcome) return answer(json_error(cannot_look_up(outcome.error())));
      const HttpReply reply = serve({.path = copy->path,
                                     .query = copy->query,
                                     .body = copy->body,
                                     .caller = copy->caller,
                                     .peer = copy->peer});
      reply.later ? reply.later(answer) : answer(reply);
    };
    state_.batches().load(sequence, on_load);
  };
  return HttpReply{.later = later};
}

HttpReply Api::get(const HttpRequest& request) {
  if (request.path == "/api/session") return session(request);
  if (request.path == "/api/overview") return overview(request);
  if (request.path == "/api/batches") return batches(request);
  if (request.path == "/api/running") return running(request);
  if (request.path == "/api/customers") return customers(request);
  if (request.path.starts_with(kCustomers)) {
    const auto target = target_of(request.path, kCustomers);
    if (!target) return json_error(target.error());
    return target->what.empty() && !request.path.ends_with('/') ? customer(request, target->id) : not_found();
  }
  if (!request.path.starts_with(kBatches)) return not_found();
  const auto target = target_of(request.path, kBatches);
  if (!target) return json_error(target.error());
  if (target->what.empty() && !request.path.ends_with('/')) return batch(request, target->id);
  if (target->what == "failures") return failures(request, target->id);
  constexpr std::string_view kJobs = "jobs/";
  if (target->what.starts_with(kJobs)) return job(request, target->id, target->what.substr(kJobs.size()));
  return not_found();
}

HttpReply Api::post(const HttpRequest& request) {
  if (const auto refused = refuse_foreign(request)) return json_error(refused->error, refused->status);
  const bool is_handler = request.path.starts_with(kHandlers);
  const bool is_customer = request.path.starts_with(kCustomers);
  if (!is_handler && !is_customer && !request.path.starts_with(kBatches)) return not_found();
  const auto target = target_of(request.path, is_handler ? kHandlers : is_customer ? kCustomers : kBatches);
  if (!target) return json_error(target.error());
  if (is_handler) return target->what == "restart" ? restart(request, target->id) : not_found();
  // A caller without a user has no place, and is refused below.
  const UserRef user = user_of(request.caller);
  const Place place = user == nullptr ? nullptr : pending_.take(user->tenant().number);
  if (user != nullptr && place == nullptr) return too_many_changes();
  if (is_customer) {
    const bool is_known = target->what == "set" || target->what == "del";
    return is_known ? change_customer(request, *target, place) : not_found();
  }
  const auto control = control_of(target->what);
  return control ? change(request, *target, *control, place) : not_found();
}

}  // namespace locksley::daemon
