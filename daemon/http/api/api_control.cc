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
  const auto user = admitted(request, proto::CommandGroup::kControl, command_of(control));
  if (!user) return json_error(user.error());
  static constexpr std::array<std::string_view, 1> kParameters = {"tenant"};
  const auto query = Query::parse(request.query, kParameters);
  if (!query) return json_error("ERR " + query.error());
  const auto weight = weight_of(control, request.body);
  if (!weight) {
    return json_error(control == Control::kWeight ? "ERR the body must be {\"weight\": n}, n from 1 to " +
                                                        std::to_string(proto::BatchOptions::kMaxWeight)
                                                  : "ERR the body must be {}");
  }
  const auto record = find(**user, target.id, *query);
  if (!record) return json_error(record.error());
  const auto count = locksley::daemon::control(state_.batches(), **user, **record, control, *weight);
  if (!count) return json_error(count.error());

  Json done = {{"ok", true}};
  if (control == Control::kCancel || control == Control::kRetry) done["jobs"] = *count;
  const auto later = [this, ticket = (*record)->stored.ticket,
                      reply = json_reply(done)](const HttpReply::Answer& answer) {
    kIoThread.assert_held();
    state_.when_stored(ticket, [answer, reply](const std::string& error) {
      answer(error.empty() ? reply : json_error(error));
    });
  };
  return {.later = later};
}

}  // namespace locksley::daemon
