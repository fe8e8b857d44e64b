#pragma once

#include <string>
#include <string_view>

#include "config/config.h"
#include "config/keys.h"
#include "config/rules.h"

// The only list of all keys: name, member of Config, rule of the value, and whether a change needs
// a restart. Reading, checking, writing and comparing configurations are visitors of this list. So
// a new key is one member in config.h, one line here and an explanation in deploy/locksley.yaml,
// which a test requires.
//
// A visitor has three members, called in the order of the file:
//   section(name, walk)                      calls walk() for the keys inside
//   key(Key, value, rule)                    a value
//   entries(Key, map, name_rule, walk)       calls walk(visitor, value) for each entry, whose names the user
//   chose

namespace locksley::config {

enum class Change {
  kLive,     // takes effect at once
  kFile,     // takes effect at once, but only the file may set it: programs, their users, and permissions
  kRestart,  // takes effect at the next start: for parts that are built once, or on which queued batches depend
};

struct Key {
  std::string_view name;
  Change change;
};

constexpr Duration kLongestTime = std::chrono::hours{24 * 365};
constexpr std::uint64_t kMostJobs = 1'000'000'000'000;  // guess: leaves index arithmetic far from 2^64
constexpr Bytes kMostMemory = gibibytes(16 * 1024);     // guess: more than a machine has
constexpr Bytes kMostDisk = gibibytes(1024 * 1024);     // likewise

constexpr Bounds<std::uint64_t> kSlotCount{1, 10'000};

constexpr Bounds<Bytes> kOutputs{Bytes{1}, gibibytes(1)};

// A rate of starts; a count of 0: no limit.
constexpr Bounds<Rate> kStarts{Rate{0}, Rate{1'000'000}};

template <class Visitor, class HandlerT>
void visit_handler(Visitor& v, HandlerT& handler) {
  v.key(Key{"command", Change::kFile}, handler.command, kArguments);
  v.key(Key{"worker", Change::kFile}, handler.worker, kArguments);
  v.key(Key{"plugin", Change::kFile}, handler.plugin, kFileName);
  v.key(Key{"input", Change::kLive}, handler.input, WordRule{});
  v.key(Key{"lane", Change::kLive}, handler.lane, kText);
  v.key(Key{"concurrency", Change::kLive}, handler.concurrency, kSlotCount);
  v.key(Key{"rate", Change::kLive}, handler.rate, kStarts);
  v.key(Key{"timeout", Change::kLive}, handler.timeout, Bounds<Duration>{Duration{0}, kLongestTime});
  v.key(Key{"retries", Change::kLive}, handler.retries, Bounds<std::uint64_t>{0, 1'000});
  v.key(Key{"directory", Change::kFile}, handler.directory, kFileName);
  v.key(Key{"environment", Change::kFile}, handler.environment, kVariables);
  v.key(Key{"user", Change::kFile}, handler.user, kText);
  v.key(Key{"max_output", Change::kLive}, handler.max_output, kOutputs);
  v.key(Key{"grace", Change::kLive}, handler.grace, Bounds<Duration>{Duration{0}, std::chrono::hours{1}});
  v.section("limits", [&] {
    v.key(Key{"cpu", Change::kFile}, handler.limits.cpu, Bounds<Duration>{Duration{0}, kLongestTime});
    v.key(Key{"memory", Change::kFile}, handler.limits.memory, Bounds<Bytes>{Bytes{0}, kMostMemory});
    v.key(Key{"file_size", Change::kFile}, handler.limits.file_size, Bounds<Bytes>{Bytes{0}, kMostMemory});
    v.key(Key{"files", Change::kFile}, handler.limits.files, Bounds<std::uint64_t>{0, 1'000'000});
    v.key(Key{"processes", Change::kFile}, handler.limits.processes, Bounds<std::uint64_t>{0, 1'000'000});
  });
  v.section("confine", [&] {
    v.key(Key{"read", Change::kFile}, handler.confine.read, kPaths);
    v.key(Key{"write", Change::kFile}, handler.confine.write, kPaths);
    v.key(Key{"network", Change::kFile}, handler.confine.network, WordRule{});
  });
  v.key(Key{"max_jobs", Change::kLive}, handler.max_jobs, Bounds<std::uint64_t>{0, kMostJobs});
  v.key(Key{"worker_protocol", Change::kLive}, handler.worker_protocol, Bounds<std::uint64_t>{1, 2});
  v.key(Key{"max_memory", Change::kLive}, handler.max_memory, Bounds<Bytes>{Bytes{0}, kMostMemory});
  v.key(Key{"isolate", Change::kFile}, handler.isolate, WordRule{});
  v.key(Key{"remote", Change::kFile}, handler.remote, WordRule{});
  v.key(Key{"max_running", Change::kLive}, handler.max_running, Bounds<std::uint64_t>{0, 1'000'000});
}

constexpr Bounds<std::uint64_t> kWeight{1, 1'000};
constexpr Bounds<std::uint64_t> kMostSlots{0, 4'294'967'295};

template <class Visitor, class CustomersT>
void visit_customers(Visitor& v, CustomersT& customers, Change change) {
  v.section("customers", [&] {
    v.key(Key{"weight", change}, customers.weight, kWeight);
    v.key(Key{"slots", change}, customers.slots, kMostSlots);
    v.key(Key{"rate", change}, customers.rate, kStarts);
    v.key(Key{"max_queued_jobs", change}, customers.max_queued_jobs, Bounds<std::uint64_t>{0, kMostJobs});
  });
}

template <class Visitor, class UserT>
void visit_user(Visitor& v, UserT& user) {
  using Count = Bounds<std::uint64_t>;
  v.key(Key{"password_hash", Change::kFile}, user.password_hash, HashRule{});
  v.key(Key{"certificate", Change::kFile}, user.certificate, kText);
  v.key(Key{"weight", Change::kFile}, user.weight, kWeight);
  v.key(Key{"handlers", Change::kFile}, user.handlers, kNames);
  v.key(Key{"commands", Change::kFile}, user.commands, WordRule{});
  const LimitRule<Bytes> memory{{Bytes{0}, kMostMemory}};
  v.key(Key{"max_queued_jobs", Change::kFile}, user.max_queued_jobs,
        LimitRule<std::uint64_t>{{0, kMostJobs}});
  v.key(Key{"max_queued_bytes", Change::kFile}, user.max_queued_bytes, memory);
  v.key(Key{"max_result_bytes", Change::kFile}, user.max_result_bytes, memory);
  v.key(Key{"max_record_bytes", Change::kFile}, user.max_record_bytes, memory);
  v.key(Key{"max_stored_bytes", Change::kFile}, user.max_stored_bytes,
        LimitRule<Bytes>{{Bytes{0}, kMostDisk}});
  v.key(Key{"client_memory", Change::kFile}, user.client_memory, memory);
  v.key(Key{"max_batches", Change::kFile}, user.max_batches, Count{0, kMostJobs});
  v.key(Key{"max_clients", Change::kFile}, user.max_clients, LimitRule<std::uint64_t>{{0, 1'000'000}});
  v.key(Key{"slots", Change::kFile}, user.slots, kMostSlots);
  v.key(Key{"rate", Change::kFile}, user.rate, kStarts);
  visit_customers(v, user.customers, Change::kFile);
}

template <class Visitor, class TlsT>
void visit_tls(Visitor& v, TlsT& tls) {
  v.section("tls", [&] {
    v.key(Key{"certificate", Change::kFile}, tls.certificate, kFileName);
    v.key(Key{"key", Change::kFile}, tls.key, kFileName);
    v.key(Key{"client_ca", Change::kFile}, tls.client_ca, kFileName);
    v.key(Key{"clients", Change::kFile}, tls.clients, WordRule{});
  });
}

// Base of most visitors: it knows the dotted key of the current position.
class PathVisitor {
 public:
  template <class Walk>
  void section(std::string_view name, const Walk& walk) {
    const std::string outer = path_;
    path_ = dotted(outer, name);
    walk();
    path_ = outer;
  }

 protected:
  std::string path_to(Key key) const { return dotted(path_, key.name); }

 private:
  std::string path_;
};

// ConfigT is Config, for visitors that fill it, or const Config, for visitors that only read.
template <class Visitor, class ConfigT>
void visit_keys(Visitor& v, ConfigT& config) {
  using Count = Bounds<std::uint64_t>;
  using Time = Bounds<Duration>;
  using Size = Bounds<Bytes>;
  using std::chrono::microseconds, std::chrono::milliseconds, std::chrono::seconds, std::chrono::hours;

  v.section("listen", [&] {
    v.key(Key{"address", Change::kRestart}, config.listen.address, kAddress);
    v.key(Key{"port", Change::kRestart}, config.listen.port, Count{0, 65'535});
    v.key(Key{"threads", Change::kRestart}, config.listen.threads, LimitRule<std::uint64_t>{{1, 64}});
    visit_tls(v, config.listen.tls);
  });
  v.section("http", [&] {
    v.key(Key{"address", Change::kRestart}, config.http.address, kAddress);
    v.key(Key{"port", Change::kRestart}, config.http.port, Count{0, 65'535});
    v.key(Key{"login", Change::kFile}, config.http.login, WordRule{});
    v.key(Key{"token_file", Change::kFile}, config.http.token_file, kFileName);
    v.key(Key{"hosts", Change::kFile}, config.http.hosts, kHosts);
    visit_tls(v, config.http.tls);
  });
  v.section("workers", [&] {
    v.key(Key{"address", Change::kRestart}, config.workers.address, kAddress);
    v.key(Key{"port", Change::kRestart}, config.workers.port, Count{0, 65'535});
    visit_tls(v, config.workers.tls);
    v.key(Key{"insecure", Change::kRestart}, config.workers.insecure, WordRule{});
    v.key(Key{"lease", Change::kRestart}, config.workers.lease, Time{seconds{1}, hours{24}});
    v.key(Key{"reclaim", Change::kRestart}, config.workers.reclaim, Time{Duration{0}, hours{1}});
    v.key(Key{"max_losses", Change::kRestart}, config.workers.max_losses, Count{1, 1'000});
    v.key(Key{"max_leased_bytes", Change::kRestart}, config.workers.max_leased_bytes,
          Size{kibibytes(1), kMostMemory});
  });
  v.section("pool", [&] { v.key(Key{"workers", Change::kLive}, config.pool.workers, Count{0, 1'024}); });
  v.section("scheduling", [&] {
    // Virtual times of the two kinds cannot be compared, so a change would be unfair to queued
    // batches.
    v.key(Key{"share", Change::kRestart}, config.scheduling.share, WordRule{});
    v.key(Key{"quantum", Change::kLive}, config.scheduling.quantum, Time{microseconds{10}, seconds{1}});
    v.key(Key{"reserved_workers", Change::kRestart}, config.scheduling.reserved_workers, Count{0, 1'023});
  });
  v.section("limits", [&] {
    v.key(Key{"max_clients", Change::kLive}, config.limits.max_clients, Count{1, 1'000'000});
    v.key(Key{"max_batch_jobs", Change::kLive}, config.limits.max_batch_jobs, Count{1, kMostJobs});
    v.key(Key{"max_payload", Change::kLive}, config.limits.max_payload, Size{Bytes{1}, gibibytes(1)});
    v.key(Key{"max_command", Change::kLive}, config.limits.max_command, Size{kibibytes(1), gibibytes(64)});
    v.key(Key{"max_queued_jobs", Change::kLive}, config.limits.max_queued_jobs, Count{1, kMostJobs});
    v.key(Key{"max_customers", Change::kLive}, config.limits.max_customers, Count{0, 100'000'000});
    v.key(Key{"max_queued_bytes", Change::kLive}, config.limits.max_queued_bytes,
          LimitRule<Bytes>{{kibibytes(1), kMostMemory}});
    v.key(Key{"max_result_bytes", Change::kLive}, config.limits.max_result_bytes,
          LimitRule<Bytes>{{kibibytes(1), kMostMemory}});
    v.key(Key{"max_record_bytes", Change::kLive}, config.limits.max_record_bytes,
          LimitRule<Bytes>{{kibibytes(1), kMostMemory}});
    v.key(Key{"idle_timeout", Change::kLive}, config.limits.idle_timeout, Time{Duration{0}, kLongestTime});
    v.key(Key{"login_timeout", Change::kLive}, config.limits.login_timeout,
          Time{milliseconds{1}, kLongestTime});
    v.key(Key{"open_timeout", Change::kLive}, config.limits.open_timeout,
          Time{milliseconds{1}, kLongestTime});
    v.key(Key{"output_buffer", Change::kLive}, config.limits.output_buffer,
          Size{kibibytes(1), gibibytes(64)});
    v.key(Key{"client_memory", Change::kLive}, config.limits.client_memory,
          LimitRule<Bytes>{{mebibytes(1), kMostMemory}});
    v.key(Key{"max_log_bytes", Change::kLive}, config.limits.max_log_bytes, Size{kibibytes(4), kMostMemory});
  });
  v.section("store", [&] {
    v.key(Key{"engine", Change::kRestart}, config.store.engine, WordRule{});
    v.key(Key{"url", Change::kRestart}, config.store.url, DatabaseRule{});
    v.key(Key{"replication", Change::kRestart}, config.store.replication, WordRule{});
    v.key(Key{"path", Change::kRestart}, config.store.path, kFileName);
    v.key(Key{"backup_directory", Change::kFile}, config.store.backup_directory, kFileName);
    v.key(Key{"durability", Change::kRestart}, config.store.durability, WordRule{});
    v.key(Key{"retention", Change::kLive}, config.store.retention, Time{Duration{0}, kLongestTime});
    v.key(Key{"max_bytes", Change::kLive}, config.store.max_bytes, LimitRule<Bytes>{{Bytes{0}, kMostDisk}});
  });
  v.section("cluster", [&] {
    v.key(Key{"name", Change::kRestart}, config.cluster.name, kWorkerName);
    v.key(Key{"advertise", Change::kRestart}, config.cluster.advertise, kAdvertised);
    v.key(Key{"advertise_workers", Change::kRestart}, config.cluster.advertise_workers, kAdvertised);
  });
  v.entries(Key{"lanes", Change::kFile}, config.lanes, kName, [](auto& inner, auto& lane) {
    inner.key(Key{"slots", Change::kLive}, lane.slots, SlotsRule{kSlotCount, kSlotName});
    inner.key(Key{"idle_timeout", Change::kLive}, lane.idle_timeout, Time{Duration{0}, kLongestTime});
  });
  v.entries(Key{"handlers", Change::kFile}, config.handlers, kName,
            [](auto& inner, auto& handler) { visit_handler(inner, handler); });
  visit_customers(v, config.customers, Change::kLive);
  v.key(Key{"exec", Change::kFile}, config.exec, ExecRule{kOutputs});
  v.entries(Key{"users", Change::kFile}, config.users, kName,
            [](auto& inner, auto& user) { visit_user(inner, user); });
  v.section("upstream", [&] {
    v.key(Key{"url", Change::kRestart}, config.upstream.url, kUrl);
    v.key(Key{"name", Change::kRestart}, config.upstream.name, kWorkerName);
    v.key(Key{"handlers", Change::kFile}, config.upstream.handlers, kNamesOrNone);
    v.key(Key{"password_file", Change::kRestart}, config.upstream.password_file, kFileName);
    v.key(Key{"ca_file", Change::kRestart}, config.upstream.ca_file, kFileName);
    v.key(Key{"cert_file", Change::kRestart}, config.upstream.cert_file, kFileName);
    v.key(Key{"key_file", Change::kRestart}, config.upstream.key_file, kFileName);
    v.key(Key{"max_leased_bytes", Change::kRestart}, config.upstream.max_leased_bytes,
          Size{mebibytes(1), kMostMemory});
    v.key(Key{"insecure", Change::kRestart}, config.upstream.insecure, WordRule{});
  });
  v.section("metrics", [&] {
    v.key(Key{"deepest_batches", Change::kLive}, config.metrics.deepest_batches, Count{0, 1'000});
    v.key(Key{"tenants", Change::kLive}, config.metrics.tenants, Count{0, 10'000});
  });
  v.section("log", [&] {
    v.key(Key{"level", Change::kLive}, config.log.level, WordRule{});
    v.key(Key{"format", Change::kLive}, config.log.format, WordRule{});
    v.key(Key{"audit", Change::kLive}, config.log.audit, WordRule{});
  });
  v.section("process", [&] {
    v.key(Key{"user", Change::kRestart}, config.process.user, kUser);
    v.key(Key{"core_dumps", Change::kRestart}, config.process.core_dumps, WordRule{});
  });
  v.section("shutdown", [&] {
    v.key(Key{"drain_timeout", Change::kLive}, config.shutdown.drain_timeout, Time{Duration{0}, hours{24}});
  });
}

}  // namespace locksley::config
