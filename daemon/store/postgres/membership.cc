#include "daemon/store/postgres/membership.h"

#include <fmt/format.h>

#include <optional>
#include <thread>

#include "daemon/base/time.h"

namespace locksley::daemon {
namespace {

constexpr auto kJoinPatience = std::chrono::seconds(10);
// How long a fencing waits for a transaction of the daemon that it fences, before it ends that daemon's sessions.
constexpr auto kLockTimeout = "500ms";
constexpr int kAttempts = 20;

struct Node {
  std::int32_t number = 0;
  std::string name;
  std::int64_t beat = 0;
};

using Found = std::expected<std::optional<Node>, std::string>;

Found alive_node(Connection& connection) {
  const auto found =
      connection.run("select node, coalesce(name, ''), beat from locksley_node where alive order by node", {},
                     now() + kJoinPatience);
  if (!found) return std::unexpected(found.error().error.what);
  if (PQntuples(found->get()) == 0) return std::nullopt;
  return Node{.number = int4_of(**found, 0, 0),
              .name = std::string(bytes_of(**found, 0, 1)),
              .beat = int8_of(**found, 0, 2)};
}

// Whether it was silent for so long, watched by this connection. The error is that it is not.
std::expected<void, std::string> watch(Connection& connection, const Node& node,
                                       std::chrono::milliseconds lease) {
  const Instant end = now() + lease;
  const auto pause = lease / 20;
  for (;;) {
    const auto at = alive_node(connection);
    if (!at) return std::unexpected(at.error());
    if (!*at || (*at)->number != node.number) return {};
    if ((*at)->beat != node.beat) {
      return std::unexpected(
          fmt::format("is in use by another daemon ({}, node {}), which has just written to it: two cannot "
                      "share one. Stop that daemon, "
                      "or start this one when that one has been silent for {:g} s",
                      node.name, node.number, static_cast<double>(lease.count()) / 1000));
    }
    if (now() >= end) return {};
    std::this_thread::sleep_for(pause);
  }
}

// What one attempt came to.
struct Adoption {
  std::optional<std::int32_t> node;  // none: another daemon was quicker, or wrote again
  bool is_locked = false;            // none because a session of the former daemon holds its row
};

// In one transaction.
PgExpected<Adoption> adopt(Connection& connection, const NodeNames& names,
                           const std::optional<Node>& former) {
  const Instant deadline = now() + kJoinPatience;
  const auto run = [&](const std::string& sql, const Parameters& parameters = {}) {
    return connection.run(sql, parameters, deadline);
  };
  const auto give_up = [&](bool is_locked) -> PgExpected<Adoption> {
    if (const auto undone = run("rollback"); !undone) return std::unexpected(undone.error());
    return Adoption{.node = std::nullopt, .is_locked = is_locked};
  };
  if (const auto begun = run("begin"); !begun) return std::unexpected(begun.error());
  if (const auto set = run(fmt::format("set local lock_timeout = '{}'", kLockTimeout)); !set) {
    return std::unexpected(set.error());
  }
  // Of two that start at once, one waits here.
  if (const auto locked = run("select 1 from locksley_cluster for update"); !locked) {
    if (locked.error().is_lost()) return std::unexpected(locked.error());
    return give_up(false);
  }
  if (former) {
    const auto fenced = run("update locksley_node set alive = false where node = $1 and alive and beat = $2",
                            {Parameter::int4(former->number), Parameter::int8(former->beat)});
    if (!fenced && fenced.error().is_lost()) return std::unexpected(fenced.error());
    if (!fenced) return give_up(fenced.error().state == "55P03");
    if (rows_changed(**fenced) != 1) return give_up(false);
  }
  const auto others = run("select count(*) from locksley_node where alive");
  if (!others) return std::unexpected(others.error());
  if (int8_of(**others, 0, 0) != 0) return give_up(false);
  const auto made =
      run("insert into locksley_node (name, wire, alive, beat, committed) values ($1, $2, true, 0, 0) "
          "returning node",
          {Parameter::text(names.name), Parameter::text(names.wire)});
  if (!made) return std::unexpected(made.error());
  const std::int32_t node = int4_of(**made, 0, 0);
  if (const auto taken = run("update locksley_shard set owner = $1", {Parameter::int4(node)}); !taken) {
    return std::unexpected(taken.error());
  }
  connection.take_warning();
  const auto committed = run("commit");
  if (!committed) return std::unexpected(committed.error());
  if (const std::string warning = connection.take_warning(); !warning.empty()) {
    return std::unexpected(PgError{{EngineError::Kind::kFailed, warning}, ""});
  }
  return Adoption{.node = node};
}

}  // namespace

std::string session_name(const std::string& store, std::int32_t node) {
  return fmt::format("locksley {}/{}", store.substr(0, 8), node);
}

std::expected<std::int32_t, std::string> join(Connection& connection, const std::string& store,
                                              const NodeNames& names, std::chrono::milliseconds lease) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto former = alive_node(connection);
    if (!former) return std::unexpected(former.error());
    if (*former) {
      if (const auto silent = watch(connection, **former, lease); !silent)
        return std::unexpected(silent.error());
    }
    const auto adopted = adopt(connection, names, *former);
    if (!adopted) return std::unexpected("another daemon cannot be replaced: " + adopted.error().error.what);
    if (adopted->node) return *adopted->node;
    if (!adopted->is_locked) continue;
    // A daemon that is paused in a transaction holds its row.
    const auto ended = connection.run(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and "
        "application_name = $1",
        {Parameter::text(session_name(store, (*former)->number))}, now() + kJoinPatience);
    if (!ended) return std::unexpected(ended.error().error.what);
  }
  return std::unexpected("is in use by other daemons, which start at the same time");
}

PgExpected<void> leave(Connection& connection, std::int32_t node) {
  for (const char* sql : {"update locksley_shard set owner = null where owner = $1",
                          "update locksley_node set alive = false where node = $1"}) {
    const auto done = connection.run(sql, {Parameter::int4(node)}, now() + kJoinPatience);
    if (!done) return std::unexpected(done.error());
  }
  return {};
}

}  // namespace locksley::daemon
