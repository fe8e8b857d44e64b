#include "daemon/workers/state/served_handlers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/lane/lane.h"
#include "core/lane/lane_gates.h"
#include "proto/text.h"

namespace locksley::daemon {

bool ServedHandlers::can_serve(const std::string& user, std::string_view handler) const {
  return host_.may_serve(user, handler) && host_.place_of(handler).lane != nullptr;
}

std::string ServedHandlers::why_not_served(const std::string& user, std::string_view handler) const {
  const std::string shown = proto::printable(handler);
  if (!host_.may_serve(user, handler))
    return fmt::format("NOPERM User {} has no permissions to use the handler '{}'", user, shown);
  constexpr std::size_t kMostNames = 20;  // guess: still one readable line
  const std::vector<std::string> names = host_.handlers_for(user);
  std::string text = "NOHANDLER no handler '" + shown +
                     "' for remote workers: in the daemon's configuration it needs `remote: true`";
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i)
    text += (i == 0 ? "; these have it: " : ", ") + names[i];
  return text + (names.size() > kMostNames ? ", …" : "");
}

void ServedHandlers::join(RemoteWorker& worker, std::span<const std::string_view> names) {
  serve(worker, choose(worker, names));
  worker.handlers_changes = changes_;
}

std::vector<ServedHandler> ServedHandlers::choose(RemoteWorker& worker,
                                                  std::span<const std::string_view> names) const {
  std::vector<ServedHandler> served;
  std::vector<std::string> not_served;
  for (const std::string_view name : names) {
    if (can_serve(worker.user, name)) {
      served.push_back({std::string(name), host_.place_of(name)});
    } else {
      not_served.emplace_back(name);
    }
  }
  worker.not_served = std::move(not_served);
  return served;
}

std::optional<std::vector<ServedHandler>> ServedHandlers::follow(RemoteWorker& worker) const {
  if (std::exchange(worker.handlers_changes, changes_) == changes_) return std::nullopt;
  std::vector<std::string_view> names;
  for (const ServedHandler& handler : worker.handlers) names.push_back(handler.name);
  names.insert(names.end(), worker.not_served.begin(), worker.not_served.end());
  std::vector<ServedHandler> handlers = choose(worker, names);
  const auto is_same = [](const ServedHandler& a, const ServedHandler& b) {
    return a.name == b.name && a.place.lane == b.place.lane && a.place.gate == b.place.gate;
  };
  if (std::ranges::equal(handlers, worker.handlers, is_same)) return std::nullopt;
  return handlers;
}

void ServedHandlers::serve(RemoteWorker& worker, std::vector<ServedHandler> handlers) {
  const auto each_lane = [this](const RemoteWorker& of, auto visit) {
    for (const ServedLane& served : of.lanes) visit(*served.lane, lanes_[served.lane]);
  };
  for (const ServedHandler& handler : worker.handlers) {
    const auto gate = lanes_[handler.place.lane].gates.find(handler.place.gate);
    if (--gate->second != 0) continue;
    lanes_[handler.place.lane].gates.erase(gate);
    handler.place.lane->gates().set_remote(handler.place.gate, false);
  }
  each_lane(worker, [&](Lane& lane, RemoteService& service) {
    lane.set_remote_parallelism(service.slots -= worker.slots.size());
  });
  worker.handlers = std::move(handlers);
  worker.lanes = lanes_of(worker.handlers);
  each_lane(worker, [&](Lane& lane, RemoteService& service) {
    lane.set_remote_parallelism(service.slots += worker.slots.size());
  });
  for (const ServedHandler& handler : worker.handlers) {
    if (++lanes_[handler.place.lane].gates[handler.place.gate] == 1)
      handler.place.lane->gates().set_remote(handler.place.gate, true);
  }
}

}  // namespace locksley::daemon
