// Customers: pages of them, single ones, and their settings.
#include <array>
#include <expected>
#include <optional>
#include <string>
#include <utility>

#include "daemon/base/log/log_line.h"
#include "daemon/http/api/api.h"
#include "daemon/http/api/api_body.h"
#include "daemon/http/api/api_json.h"
#include "daemon/server/state/customer_view.h"
#include "proto/batch_options.h"
#include "proto/glob.h"

namespace locksley::daemon {
namespace {

constexpr std::array<std::string_view, 1> kTenantParameter = {"tenant"};

Json json_of(const CustomerSeen& customer) {
  Json object = Json::object();
  visit_members(customer, JsonMembers(object));
  return object;
}

// The customer as the wire would name it. None: the user may not name it.
std::optional<std::string> text_of(const User& user, const std::string& name, const Query& query) {
  const std::string* const tenant = query.find("tenant");
  if (tenant == nullptr) return name;
  if (user.is_admin() && !user.is_everybody()) return *tenant + "/" + name;
  return *tenant == user.name() ? std::optional(name) : std::nullopt;
}

HttpReply no_such_user() {
  return json_error("ERR there is no such user, or its customers are not yours", HttpStatus::kNotFound);
}

// The settings in the body; none if it is malformed.
std::optional<proto::CustomerSettings> settings_of(const Json& json) {
  if (!json.is_object() || json.empty()) return std::nullopt;
  proto::CustomerSettings settings;
  const auto number = [](const Json& value, std::uint64_t least, std::uint64_t most) {
    if (!value.is_number_unsigned()) return std::optional<std::uint64_t>();
    const auto found = value.get<std::uint64_t>();
    return found < least || found > most ? std::nullopt : std::optional(found);
  };
  for (const auto& [name, value] : json.items()) {
    if (name == "weight") {
      const auto weight = number(value, 1, proto::BatchOptions::kMaxWeight);
      if (!weight) return std::nullopt;
      settings.weight = static_cast<std::uint32_t>(*weight);
    } else if (name == "slots") {
      const auto slots = number(value, 0, proto::BatchOptions::kMaxCount);
      if (!slots) return std::nullopt;
      settings.slots = static_cast<std::uint32_t>(*slots);
    } else if (name == "max_jobs") {
      settings.max_jobs = number(value, 0, proto::CustomerSettings::kMaxJobs);
      if (!settings.max_jobs) return std::nullopt;
    } else if (name == "rate" && value.is_string()) {
      settings.rate = proto::parse_customer_rate(value.get<std::string>());
      if (!settings.rate) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  return settings;
}

}  // namespace

HttpReply Api::customers(const HttpRequest& request) const {
  const auto user = admitted(request, proto::CommandGroup::kRead, "customer|list");
  if (!user) return json_error(user.error());
  static constexpr std::array<std::string_view, 4> kParameters = {"tenant", "match", "cursor", "count"};
  const auto query = Query::parse(request.query, kParameters);
  if (!query) return json_error("ERR " + query.error());
  const auto cursor = query->cursor();
  if (!cursor) return json_error("ERR " + cursor.error());
  const auto count = query->number("count", {1, 1000, 50});
  if (!count) return json_error("ERR " + count.error());
  CustomerDemand demand{.tenant = customers_of(**user), .match = {}, .cursor = *cursor, .count = *count};
  if (const std::string* match = query->find("match")) {
    if (match->size() > proto::kMaxGlobBytes) return json_error("ERR match is too long");
    demand.match = *match;
  }
  Json page = {{"cursor", nullptr}, {"customers", Json::array()}};
  if (const std::string* tenant = query->find("tenant")) {
    const Tenant* const wanted = state_.batches().registry().tenants().find(*tenant);
    const bool is_seen = wanted != nullptr && (demand.tenant == nullptr || demand.tenant == wanted);
    if (!is_seen) return json_reply(page);
    demand.tenant = wanted;
  }
  const CustomerPage listed = customers_seen(state_, demand);
  for (const CustomerSeen& customer : listed.customers) page["customers"].push_back(json_of(customer));
  if (listed.next != 0) page["cursor"] = std::to_string(listed.next);
  return json_reply(page);
}

HttpReply Api::customer(const HttpRequest& request, const std::string& name) const {
  const auto user = admitted(request, proto::CommandGroup::kRead, "customer|get");
  if (!user) return json_error(user.error());
  const auto query = Query::parse(request.query, kTenantParameter);
  if (!query) return json_error("ERR " + query.error());
  const auto text = text_of(**user, name, *query);
  if (!text) return no_such_user();
  const auto seen = customer_seen(state_, **user, *text);
  return seen ? json_reply(json_of(*seen)) : json_error(seen.error());
}

HttpReply Api::change_customer(const HttpRequest& request, const Target& target, const Place& place) {
  const bool is_set = target.what == "set";
  const auto user =
      admitted(request, proto::CommandGroup::kControl, is_set ? "customer|set" : "customer|del");
  if (!user) return json_error(user.error());
  const auto query = Query::parse(request.query, kTenantParameter);
  if (!query) return json_error("ERR " + query.error());
  const auto text = text_of(**user, target.id, *query);
  if (!text) return no_such_user();
  const auto sent = json_of_body(is_set ? request.body : "{}");
  if (!sent) return json_error(sent.error());
  const auto settings = is_set ? settings_of(*sent) : std::nullopt;
  if (is_set && !settings) {
    return json_error(
        "ERR the body must have one or more of \"weight\": n, \"slots\": n, \"rate\": \"20/s\", "
        "\"max_jobs\": n");
  }
  const auto entry = state_.audit().begin(**user, request.peer.to_string(), Audit::Kind::kOther);
  Json body = {{"ok", true}};
  std::expected<Ticket, std::string> ticket;
  if (is_set) {
    ticket = set_customer(state_, **user, *text, *settings);
  } else if (const auto removed = delete_customer(state_, **user, *text)) {
    ticket = removed->ticket;
    body["deleted"] = removed->had_settings;
  } else {
    ticket = std::unexpected(removed.error());
  }
  if (entry != nullptr) {
    entry->command = is_set ? "HTTP customer set" : "HTTP customer del";
    entry->customer = text->substr(0, LogLine::kMostValueBytes);
    if (!ticket) entry->outcome = Audit::code_of(ticket.error());
    state_.audit().write(*entry);
  }
  if (!ticket) return json_error(ticket.error());
  return when_stored({request.peer, *user, place}, *ticket, json_reply(body));
}

}  // namespace locksley::daemon
