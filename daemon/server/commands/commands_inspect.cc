// Commands that show the scheduler.
#include <algorithm>
#include <chrono>
#include <memory>
#include <ranges>
#include <utility>
#include <vector>

#include "daemon/base/time.h"
#include "daemon/server/commands/commands.h"
#include "daemon/server/commands/members.h"
#include "daemon/server/commands/named_batch.h"
#include "daemon/server/session/session.h"
#include "daemon/server/state/inspection.h"
#include "daemon/server/state/server_state.h"

namespace locksley::daemon {

namespace {
constexpr std::uint64_t kMachineBytes = 512;  // about what a remote worker takes in a MachinesView
}  // namespace

void explain_command(Session& session, proto::Command& command) {
  BatchRecord* record = batch_of(session, command.arguments[1]);
  if (record == nullptr) return;
  const Explanation explanation = explain(session.state(), *record, record->status());
  proto::ReplyWriter reply = session.reply();
  reply.map(kExplanationMembers);
  visit_members(explanation, Members(reply));
}

void handlers_command(Session& session, proto::Command&) {
  const auto& entries = session.state().handlers().entries();
  const auto may_use = [&user = session.user()](const auto& item) { return user.may_use(item.first); };
  proto::ReplyWriter reply = session.reply();
  reply.array(static_cast<std::size_t>(std::ranges::count_if(entries, may_use)));
  for (const auto& [name, entry] : entries | std::views::filter(may_use)) {
    reply.map(kHandlerMembers);
    visit_members(session.state(), entry, Members(reply));
  }
}

void active_command(Session& session, proto::Command&) {
  const ClusterBoard* const cluster = session.state().cluster();
  const ClusterBoard::View view = cluster == nullptr ? nullptr : cluster->get();
  const ClusterNode* const active = view == nullptr ? nullptr : view->active();
  // A daemon that has not seen the database yet knows nothing, which is older than anything.
  auto age = std::chrono::milliseconds(0);
  if (view != nullptr && view->seen_at) {
    age = std::chrono::duration_cast<std::chrono::milliseconds>(now() - *view->seen_at);
  } else if (cluster != nullptr && active == nullptr) {
    age = std::chrono::milliseconds::max();
  }
  proto::ReplyWriter reply = session.reply();
  reply.array(2);
  reply.integer(active == nullptr ? 0 : active->number);
  reply.integer(age.count());
}

void nodes_command(Session& session, proto::Command&) {
  const ClusterBoard* const cluster = session.state().cluster();
  proto::ReplyWriter reply = session.reply();
  if (cluster == nullptr) return reply.array(0);
  const ClusterBoard::View view = cluster->get();
  reply.array(view->nodes.size());
  for (const ClusterNode& node : view->nodes) {
    reply.map(kNodeMembers);
    visit_members(node, Members(reply));
  }
}

// For an admin, ten thousand tenants take some 30 ms: in slices, as in CLIENT LIST.
Coroutine<void> tenants_command(Session& session, proto::Command&) {
  constexpr std::size_t kAtOnce = 16;  // some 20 us
  Slices::Spending time(session.state().slices());
  TenantPages pages(session.state(), session.login().user_ref(), OwnTenant::kAlways);
  while (!pages.read_some()) {
    if (!time.is_used_up()) continue;
    if (!co_await session.waits().let_others(time, pages.memory_bytes())) co_return;
  }
  const std::size_t bytes = pages.memory_bytes();
  const TenantViews tenants = pages.take();
  proto::OutputBuffer rows;
  proto::ReplyWriter reply(rows, session.info().protocol);
  reply.array(tenants.size());
  std::size_t count = 0;
  for (const auto& [name, view] : tenants) {
    reply.map(kTenantMembers);
    visit_members(view, Members(reply));
    if (++count % kAtOnce != 0 || !time.is_used_up()) continue;
    if (!co_await session.waits().let_others(time, bytes + rows.memory_bytes())) co_return;
  }
  session.reply().buffer().append(std::move(rows));
}

// Ten thousand remote workers take some 10 ms: in slices, as in CLIENT LIST.
Coroutine<void> workers_command(Session& session, proto::Command&) {
  constexpr std::size_t kAtOnce = 16;  // some 20 us
  const std::vector<WorkerSnapshot> workers = session.state().pool().snapshot();
  MachinesBoard::View remote = session.state().machines().get();
  proto::OutputBuffer rows;
  proto::ReplyWriter reply(rows, session.info().protocol);
  reply.array(workers.size() + remote->machines.size());
  for (const WorkerSnapshot& worker : workers) {
    reply.map(kWorkerMembers);
    visit_members(worker, Members(reply));
  }
  Slices::Spending time(session.state().slices());
  for (std::size_t i = 0; i < remote->machines.size(); ++i) {
    const MachineView& machine = remote->machines[i];
    reply.map(kMachineMembers + 1);
    visit_members(machine, Members(reply));
    reply.bulk("handlers");
    reply.array(machine.handlers.size());
    for (const std::string& handler : machine.handlers) reply.bulk(handler);
    if (i % kAtOnce != 0 || !time.is_used_up()) continue;
    if (!co_await session.waits().let_others(time, rows.memory_bytes())) break;
  }
  if (!session.is_dropped()) session.reply().buffer().append(std::move(rows));
  // The link thread may have dropped the view, so that this reference is the last.
  const std::uint64_t bytes = remote->machines.size() * kMachineBytes;
  session.state().batches().free_dropped(std::const_pointer_cast<MachinesView>(std::move(remote)), bytes);
}

}  // namespace locksley::daemon
