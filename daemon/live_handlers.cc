#include "daemon/live_handlers.h"

#include <spdlog/logger.h>

#include <chrono>
#include <utility>
#include <vector>

#include "config/lanes.h"
#include "daemon/base/log/log_line.h"
#include "daemon/server/server.h"

namespace locksley::daemon {

namespace {
// How often it looks for a standstill. Guess: how long a change of the configuration may take.
constexpr auto kLookPeriod = std::chrono::milliseconds(10);
}  // namespace

LiveHandlers::LiveHandlers(const Parts& parts) : parts_(parts), timer_(parts.io) {
  publish_lanes();
  for (const auto& [name, entry] : parts_.handlers.directory().entries()) publish(name);
}

void LiveHandlers::apply(HandlerChanges changes) {
  publish_lanes();
  for (auto& [name, change] : changes.changes) begin(name, std::move(change));
  if (!waiting_.empty()) finish_waiting();
  // Slots of lanes may have changed without a change of a handler.
  changed_();
}

void LiveHandlers::begin(const std::string& name, HandlerChanges::Change change) {
  Batches& batches = parts_.server.batches();
  HandlerDirectory& directory = parts_.handlers.directory();
  auto waits = waiting_.find(name);
  const bool is_only_remote = change.settings && config::is_only_remote(*change.settings);
  if (waits != waiting_.end() && change.settings && !change.process && change.plugin == nullptr &&
      !is_only_remote) {
    // Only the settings of new batches have changed; how its jobs run is what still waits.
    waits->second.settings = std::move(change.settings);
    return;
  }
  if (waits == waiting_.end() && !parts_.handlers.needs_standstill(name, change)) {
    return finish(name, std::move(change));
  }
  if (change.settings) {
    // The handler exists from now on, in the lane where its batches are.
    const HandlerDirectory::Entry now = *directory.find_any(name);
    directory.add({.handler = now.handler,
                   .lane = now.lane,
                   .gate = now.gate,
                   .kind = change.process   ? change.process->kind
                           : is_only_remote ? HandlerKind::kRemote
                                            : HandlerKind::kPlugin,
                   .timeout = std::chrono::ceil<std::chrono::milliseconds>(change.settings->timeout),
                   .retries = change.settings->retries});
    parts_.server.add_handler(name);
  } else {
    directory.remove(name);
  }
  batches.handlers().hold(name);
  parts_.use.hold(directory.handler_of(name));
  changed_();
  waiting_.insert_or_assign(name, std::move(change));
}

void LiveHandlers::finish_waiting() {
  Batches& batches = parts_.server.batches();
  for (auto waits = waiting_.begin(); waits != waiting_.end();) {
    const Handler& handler = parts_.handlers.directory().handler_of(waits->first);
    if (batches.handlers().has_running(waits->first) || !parts_.use.is_at_rest(handler)) {
      ++waits;
      continue;
    }
    auto node = waiting_.extract(waits++);
    finish(node.key(), std::move(node.mapped()));
  }
  if (waiting_.empty()) return;
  timer_.expires_after(kLookPeriod);
  timer_.async_wait([this](const asio::error_code& error) {
    kIoThread.assert_held();
    if (!error) finish_waiting();
  });
}

void LiveHandlers::finish(const std::string& name, HandlerChanges::Change change) {
  Batches& batches = parts_.server.batches();
  const bool is_there = change.settings.has_value();
  parts_.handlers.make(name, std::move(change));
  parts_.use.release(parts_.handlers.directory().handler_of(name));
  publish(name);
  changed_();
  if (!is_there) {
    batches.handlers().hold(name);
    LogLine("handler gone").with("handler", name).write(*parts_.log, spdlog::level::info);
    return;
  }
  const HandlerDirectory::Entry& entry = *parts_.handlers.directory().find(name);
  batches.handlers().release(name);
  LogLine("handler in force")
      .with("handler", name)
      .with("kind", to_string(entry.kind))
      .with("lane", entry.lane.name())
      .with("concurrency", entry.concurrency)
      .write(*parts_.log, spdlog::level::info);
}

void LiveHandlers::publish(const std::string& name) {
  if (parts_.handlers.directory().find(name) != nullptr) parts_.server.add_handler(name);
}

void LiveHandlers::publish_lanes() {
  for (Lane* const lane : parts_.handlers.lanes()) parts_.server.add_lane(*lane);
}

}  // namespace locksley::daemon
