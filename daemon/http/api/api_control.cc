// Changes of a batch.
#include <array>
#include <optional>
#include <utility>

#include "daemon/http/api/api.h"
#include "daemon/http/api/api_body.h"
#include "daemon/http/api/api_json.h"
#include "proto/submit_options.h"

namespace locksley::daemon {
namespace {

constexpr std::array<std::string_view, 1> kChangeParameters = {"tenant"};

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
    case Control::kSlots:
      return "slots";
    case Control::kWeight:
      break;
  }
  return "weight";
}

// Of the number in the body.
std::uint64_t most_of(Control control) {
  return control == Control::kWeight ? proto::BatchOptions::kMaxWeight : proto::BatchOptions::kMaxCount;
}

// Of `retry`: {"round": n, "indexes": [n, …]}, both optional.
std::optional<ControlArguments> retry_arguments_of(const Json& json) {
  ControlArguments arguments;
  for (const auto& [name, value] : json.items()) {
    if (name == "round" && value.is_number_unsigned()) {
      arguments.round = value.get<std::uint64_t>();
    } else if (name == "indexes" && value.is_array() && !value.empty() &&
               std::ranges::all_of(value, [](const Json& one) { return one.is_number_unsigned(); })) {
      arguments.indexes = value.get<std::vector<std::uint64_t>>();
    } else {
      return std::nullopt;
    }
  }
  return arguments;
}

// The parameters in the body; none if it is malformed.
std::optional<ControlArguments> arguments_of(Control control, const Json& json) {
  if (!json.is_object() || json.size() > 2) return std::nullopt;
  ControlArguments arguments;
  if (control == Control::kRetry) return retry_arguments_of(json);
  if (control != Control::kWeight && control != Control::kSlots) {
    return json.empty() ? std::optional(arguments) : std::nullopt;
  }
  const bool is_weight = control == Control::kWeight;
  const auto number = json.find(is_weight ? "weight" : "slots");
  if (json.size() != 1 || number == json.end() || !number->is_number_unsigned()) return std::nullopt;
  const auto value = number->get<std::uint64_t>();
  if (value < (is_weight ? 1 : 0) || value > most_of(control)) return std::nullopt;
  (is_weight ? arguments.weight : arguments.slots) = static_cast<std::uint32_t>(value);
  return arguments;
}

std::string expected_body(Control control) {
  if (control == Control::kWeight) {
    return "ERR the body must be {\"weight\": n}, n from 1 to " + std::to_string(most_of(control));
  }
  if (control == Control::kSlots) {
    return "ERR the body must be {\"slots\": n}, n from 0 to " + std::to_string(most_of(control));
  }
  return control == Control::kRetry ? "ERR the body must be {}, or have \"round\": n, or \"indexes\": [n, …]"
                                    : "ERR the body must be {}";
}

}  // namespace

HttpReply Api::change(const HttpRequest& request, const Target& target, Control control, const Place& place,
                      const ReadFailures* failures) {
  kIoThread.assert_held();
  const auto user = admitted(request, proto::CommandGroup::kControl, command_of(control));
  if (!user) return json_error(user.error());
  if (const auto query = Query::parse(request.query, kChangeParameters)) {
    const auto again = [this, target = Target{target.id, {}}, control, place](const HttpRequest& kept) {
      kIoThread.assert_held();
      return change(kept, target, control, place);
    };
    if (auto reply = after_load(request, **user, target.id, *query, again)) return *std::move(reply);
  }
  if (control == Control::kRetry) {
    if (auto reply = retry_later(request, **user, target, place, failures)) return *std::move(reply);
  }
  const auto entry = state_.audit().begin(**user, request.peer.to_string(), Audit::Kind::kOther);
  const auto done = make_change(request, **user, target, control, failures);
  if (entry != nullptr) {
    entry->command = "HTTP " + std::string(command_of(control));
    entry->batch = target.id;
    if (!done) entry->outcome = Audit::code_of(done.error());
    state_.audit().write(*entry);
  }
  if (!done) return json_error(done.error());

  Json body = {{"ok", true}};
  if (done->jobs) body["jobs"] = *done->jobs;
  const Made made{request.peer, *user, place};
  if (control == Control::kRetry) return when_retry_stored(made, done->record, json_reply(body));
  const Ticket ticket = state_.batches().changes().ticket(*done->record, (*user)->tenant().account);
  return when_stored(made, ticket, json_reply(body));
}

HttpReply Api::when_retry_stored(const Made& change, const std::shared_ptr<BatchRecord>& record,
                                 const HttpReply& reply) {
  const auto later = [this, change, record, reply](const HttpReply::Answer& answer) {
    kIoThread.assert_held();
    state_.batches().intake().after_requeue(*record, [this, change, record, reply, answer] {
      kIoThread.assert_held();
      const Ticket ticket = state_.batches().changes().ticket(*record, change.user->tenant().account);
      when_stored(change, ticket, reply).later(answer);
    });
  };
  return {.later = later};
}

HttpReply Api::when_stored(const Made& change, Ticket ticket, const HttpReply& reply) {
  const auto later = [this, change, ticket, reply](const HttpReply::Answer& answer) {
    kIoThread.assert_held();
    state_.when_stored(ticket, [this, made = Made(change), answer, reply](const std::string& error) mutable {
      kIoThread.assert_held();
      made.place.reset();  // the queue keeps this function for a while
      if (!error.empty()) state_.audit().refused_by_store(made.user.get(), made.peer.to_string(), 1);
      answer(error.empty() ? reply : json_error(error));
    });
  };
  return {.later = later};
}

std::optional<HttpReply> Api::retry_later(const HttpRequest& request, const User& user, const Target& target,
                                          const Place& place, const ReadFailures* failures) {
  const auto query = Query::parse(request.query, kChangeParameters);
  const auto found = query ? find(user, target.id, *query) : Result<BatchRecord*>(nullptr);
  if (!found || *found == nullptr) return std::nullopt;
  const bool is_requeueing = (*found)->is_requeueing();
  if (!is_requeueing && !Intake::must_read_failures(**found, failures)) return std::nullopt;
  // The connection may end meanwhile, and the request with it.
  struct Copy {
    std::string query;
    std::string body;
    HttpCaller caller;
    asio::ip::address peer;
    Target target;
    Place place;
  };
  auto copy = std::make_shared<const Copy>(std::string(request.query), std::string(request.body),
                                           request.caller, request.peer, Target{target.id, {}}, place);
  const auto try_again = [this, copy = std::move(copy)](const ReadFailures* read,
                                                        const HttpReply::Answer& answer) {
    kIoThread.assert_held();
    const HttpRequest again{
        .query = copy->query, .body = copy->body, .caller = copy->caller, .peer = copy->peer};
    const HttpReply reply = change(again, copy->target, Control::kRetry, copy->place, read);
    reply.later ? reply.later(answer) : answer(reply);
  };
  const auto later = [this, try_again, is_requeueing,
                      record = (*found)->shared()](const HttpReply::Answer& answer) {
    kIoThread.assert_held();
    if (is_requeueing) {
      state_.batches().intake().after_requeue(*record, [try_again, answer] { try_again(nullptr, answer); });
    } else {
      state_.batches().reads().read_failures(
          record, [try_again, answer](const ReadFailures& read) { try_again(&read, answer); });
    }
  };
  return HttpReply{.later = later};
}

Api::Result<Api::Changed> Api::make_change(const HttpRequest& request, const User& user, const Target& target,
                                           Control control, const ReadFailures* failures) {
  const auto query = Query::parse(request.query, kChangeParameters);
  if (!query) return std::unexpected("ERR " + query.error());
  const auto body = json_of_body(request.body.empty() ? "{}" : request.body);
  if (!body) return std::unexpected(body.error());
  auto arguments = arguments_of(control, *body);
  if (arguments) arguments->failures = failures;
  if (!arguments) return std::unexpected(expected_body(control));
  const auto record = find(user, target.id, *query);
  if (!record) return std::unexpected(record.error());
  const auto count = locksley::daemon::control(state_.batches(), user, **record, control, *arguments);
  if (!count) return std::unexpected(count.error());
  const bool counts = control == Control::kCancel || control == Control::kRetry;
  return Changed{.record = (*record)->shared(), .jobs = counts ? std::optional(*count) : std::nullopt};
}

}  // namespace locksley::daemon
