// Changes of a batch.
#include <array>
#include <optional>
#include <utility>

#include "daemon/http/api/api.h"
#include "daemon/http/api/api_json.h"
#include "proto/submit_options.h"

namespace locksley::daemon {
namespace {

std::string_view command_of(Control control) {
  switch (control) {
    case Control::kPause:
      return "pause";
    case Control::kResume:
      return "resume";
    case Control::kCancel:
      return "cancel";
    case Control::kRetry:
      return "retry";
    case Control::kWeight:
      break;
  }
  return "weight";
}

// The parameters in the body; none if it is malformed.
std::optional<std::uint32_t> weight_of(Control control, std::string_view body) {
  const Json json = body.empty() ? Json::object() : Json::parse(body, nullptr, false);
  if (!json.is_object()) return std::nullopt;
  if (control != Control::kWeight) return json.empty() ? std::optional<std::uint32_t>(0) : std::nullopt;
  if (json.size() != 1 || !json.contains("weight") || !json["weight"].is_number_unsigned())
    return std::nullopt;
  const auto weight = json["weight"].get<std::uint64_t>();
  if (weight < 1 || weight > proto::BatchOptions::kMaxWeight) return std::nullopt;
  return static_cast<std::uint32_t>(weight);
}

}  // namespace

HttpReply Api::change(const HttpRequest& request, const Target& target, Control control) {
  kIoThread.assert_held();
  const auto user = admitted(request, proto::CommandGroup::kControl, command_of(control));
  if (!user) return json_error(user.error());
  const auto entry = state_.audit().begin(**user, request.peer.to_string(), Audit::Kind::kOther);
  const auto done = make_change(request, **user, target, control);
  if (entry != nullptr) {
    entry->command = "HTTP " + std::string(command_of(control));
    entry->batch = target.id;
    if (!done) entry->outcome = Audit::code_of(done.error());
    state_.audit().write(*entry);
  }
  if (!done) return json_error(done.error());

  Json body = {{"ok", true}};
  if (done->jobs) body["jobs"] = *done->jobs;
  const auto later = [this, user = *user, peer = request.peer, ticket = done->ticket,
                      reply = json_reply(body)](const HttpReply::Answer& answer) {
    kIoThread.assert_held();
    state_.when_stored(ticket, [this, user, peer, answer, reply](const std::string& error) {
      if (!error.empty()) state_.audit().refused_by_store(user.get(), peer.to_string(), 1);
      answer(error.empty() ? reply : json_error(error));
    });
  };
  return {.later = later};
}

Api::Result<Api::Changed> Api::make_change(const HttpRequest& request, const User& user, const Target& target,
                                           Control control) {
  static constexpr std::array<std::string_view, 1> kParameters = {"tenant"};
  const auto query = Query::parse(request.query, kParameters);
  if (!query) return std::unexpected("ERR " + query.error());
  const auto weight = weight_of(control, request.body);
  if (!weight) {
    return std::unexpected(control == Control::kWeight
                               ? "ERR the body must be {\"weight\": n}, n from 1 to " +
                                     std::to_string(proto::BatchOptions::kMaxWeight)
                               : "ERR the body must be {}");
  }
  const auto record = find(user, target.id, *query);
  if (!record) return std::unexpected(record.error());
  const auto count = locksley::daemon::control(state_.batches(), user, **record, control, *weight);
  if (!count) return std::unexpected(count.error());
  const bool counts = control == Control::kCancel || control == Control::kRetry;
  return Changed{.ticket = (*record)->stored.ticket, .jobs = counts ? std::optional(*count) : std::nullopt};
}

}  // namespace locksley::daemon
