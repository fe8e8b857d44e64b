#include "daemon/worker_port/link_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

#include "daemon/server/records/batch_record.h"
#include "daemon/worker_port/link_life.h"
#include "daemon/worker_port/worker_session.h"

namespace locksley::daemon {

namespace {

// Without a store the numbers of batches begin anew in each process.
std::string store_name(const Store* store) {
  return store != nullptr ? store->id() : fmt::format("memory-{:016x}", random_life());
}

}  // namespace

LinkHost::LinkHost(Store* store, const InputBudget& input, std::shared_ptr<const WorkerDirectory> directory)
    : store_(store), store_name_(store_name(store)), input_(input), directory_(std::move(directory)) {}

bool LinkHost::may_work(std::string_view user) {
  kLinkThread.assert_held();
  const User* const found = directory_->user(user);
  return found != nullptr && found->may(proto::CommandGroup::kWork);
}

bool LinkHost::may_serve(std::string_view user, std::string_view handler) {
  kLinkThread.assert_held();
  const User* const found = directory_->user(user);
  return found != nullptr && found->may_use(handler);
}

HandlerPlace LinkHost::place_of(std::string_view handler) {
  kLinkThread.assert_held();
  const auto found = directory_->handlers.find(handler);
  return found == directory_->handlers.end() ? HandlerPlace{} : found->second;
}

std::vector<std::string> LinkHost::handlers_for(std::string_view user) {
  kLinkThread.assert_held();
  std::vector<std::string> names;
  for (const auto& [name, place] : directory_->handlers) {
    if (may_serve(user, name)) names.push_back(name);
  }
  return names;
}

std::vector<HandlerPlace> LinkHost::places() {
  kLinkThread.assert_held();
  std::vector<HandlerPlace> places;
  for (const auto& [name, place] : directory_->handlers) places.push_back(place);
  return places;
}

std::uint64_t LinkHost::number_of(const Batch& batch) {
  // Jobs that this daemon has leased from its own upstream have a batch without a record. RECLAIM
  // finds no batch 0.
  if (!batch.options().queue_tenant.empty()) return 0;
  return static_cast<const BatchRecord&>(batch).sequence;
}

std::shared_ptr<Batch> LinkHost::batch_of(std::uint64_t number) {
  kLinkThread.assert_held();
  auto [asked, batch] = std::exchange(found_, {});
  return asked == number ? std::move(batch) : nullptr;
}

bool LinkHost::has_room() { return store_ == nullptr || store_->has_room(); }

std::uint64_t LinkHost::last_write() {
  kLinkThread.assert_held();
  if (store_ == nullptr) return 0;
  // Results alone do not make the store write soon; a worker that waits for its reply does.
  if (const Ticket gathering = store_->gathering(); gathering > asked_for_)
    asked_for_ = store_->put(std::monostate{}, Urgency::kAwaited);
  return asked_for_;
}

std::optional<std::string> LinkHost::join_refusal() {
  kLinkThread.assert_held();
  const ClusterBoard* const cluster = directory_->cluster;
  if (cluster == nullptr) return std::nullopt;
  switch (cluster->role()) {
    case ClusterBoard::Role::kActive:
      return std::nullopt;
    case ClusterBoard::Role::kLoading:
      return std::string(kLoadingError);
    case ClusterBoard::Role::kUnconfirmed:
      return std::string(kUnconfirmedError);
    case ClusterBoard::Role::kStandby:
      break;
  }
  return "READONLY " + where_workers_connect(*cluster->get());
}

std::uint64_t LinkHost::longest_output() {
  kLinkThread.assert_held();
  const proto::Limits& limits = directory_->limits;
  const std::uint64_t most = std::min({input_.most_of_user_alone(), std::uint64_t{limits.max_command_bytes},
                                       std::uint64_t{limits.max_bulk_bytes}});
  // Room for the other words of SETTLE, and for the part of the next command that the same read
  // brings.
  constexpr std::uint64_t kBeside = 2 * WorkerSession::kMostRead;
  return most - std::min(most / 2, kBeside);
}

std::vector<std::string> LinkHost::addresses() {
  kLinkThread.assert_held();
  std::vector<std::string> addresses{directory_->address};
  if (directory_->cluster == nullptr) return addresses;
  const ClusterBoard::View view = directory_->cluster->get();
  for (const ClusterNode& node : view->nodes) {
    const bool is_known =
        node.workers.empty() || std::ranges::find(addresses, node.workers) != addresses.end();
    if (node.state != ClusterNode::State::kGone && !is_known) addresses.push_back(node.workers);
  }
  return addresses;
}

}  // namespace locksley::daemon
