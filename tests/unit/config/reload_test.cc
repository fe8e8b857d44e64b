#include "config/reload.h"

#include <gtest/gtest.h>

#include "config/keys.h"

namespace locksley::config {
namespace {

using namespace std::chrono_literals;
using Keys = std::vector<std::string>;

// A configuration that differs from the defaults in every key.
Config all_changed() {
  Config config;
  config.listen = {"::1", 1, Limit{2}, {"a", "b", "c", ClientCertificates::kOptional}};
  config.http = {"::1", 2, HttpLogin::kUsers, "t", {"g"}, {"d", "e", "f", ClientCertificates::kOptional}};
  config.workers = {.address = "::1",
                    .port = 3,
                    .tls = {"h", "i", "j", ClientCertificates::kOptional},
                    .insecure = Plain::kEverywhere,
                    .lease = 1min,
                    .reclaim = 1s,
                    .max_losses = 1,
                    .max_leased_bytes = Bytes{1}};
  config.pool = {3};
  config.scheduling = {Share::kJobs, 2ms, 1};
  config.limits = {1,         2,  Bytes{3}, Bytes{4}, 5,         17,        Limit{6}, Limit{12},
                   Limit{13}, 7s, 8s,       9s,       Bytes{10}, Limit{11}, Bytes{14}};
  config.store = {
      "p", Durability::kAsync, 1h, Limit{1}, StoreEngine::kPostgresql, "postgresql://db", Replication::kNone,
      "b"};
  config.cluster = {.name = "n", .advertise = "h:1", .advertise_workers = "h:2"};
  config.lanes["l"].slots = {.count = 1, .names = {}};
  config.handlers["h"].plugin = "p";
  config.customers = {.weight = 2, .slots = 1, .rate = Rate{1}, .max_queued_jobs = 1};
  config.exec.is_on = true;
  config.users["u"].password_hash = "x";
  config.upstream = {.url = "rediss://queue",
                     .name = "n",
                     .handlers = {"h"},
                     .password_file = "p",
                     .ca_file = "a",
                     .cert_file = "c",
                     .key_file = "k",
                     .max_leased_bytes = mebibytes(2),
                     .insecure = Insecure::kYes};
  config.metrics = {1, 2};
  config.log = {LogLevel::kDebug, LogFormat::kJson, AuditLines::kNo};
  config.process = {"nobody", CoreDumps::kYes};
  config.shutdown = {1s};
  return config;
}

TEST(ReloadTest, NothingChangedIsNothing) {
  const Reload reload = diff_reloadable(all_changed(), all_changed());
  EXPECT_EQ(reload.live, Keys{});
  EXPECT_EQ(reload.restart, Keys{});
  EXPECT_EQ(reload.effective, all_changed());
}

TEST(ReloadTest, TheseKeysAreLive) {
  const Reload reload = diff_reloadable(Config{}, all_changed());
  EXPECT_EQ(reload.live, (Keys{"listen.tls.certificate",
                               "listen.tls.key",
                               "listen.tls.client_ca",
                               "listen.tls.clients",
                               "http.login",
                               "http.token_file",
                               "http.hosts",
                               "http.tls.certificate",
                               "http.tls.key",
                               "http.tls.client_ca",
                               "http.tls.clients",
                               "workers.tls.certificate",
                               "workers.tls.key",
                               "workers.tls.client_ca",
                               "workers.tls.clients",
                               "pool.workers",
                               "scheduling.quantum",
                               "limits.max_clients",
                               "limits.max_batch_jobs",
                               "limits.max_payload",
                               "limits.max_command",
                               "limits.max_queued_jobs",
                               "limits.max_customers",
                               "limits.max_queued_bytes",
                               "limits.max_result_bytes",
                               "limits.max_record_bytes",
                               "limits.idle_timeout",
                               "limits.login_timeout",
                               "limits.open_timeout",
                               "limits.output_buffer",
                               "limits.client_memory",
                               "limits.max_log_bytes",
                               "store.backup_directory",
                               "store.retention",
                               "store.max_bytes",
                               "lanes.l",
                               "handlers.h",
                               "customers.weight",
                               "customers.slots",
                               "customers.rate",
                               "customers.max_queued_jobs",
                               "exec",
                               "users.u",
                               "upstream.handlers",
                               "metrics.deepest_batches",
                               "metrics.tenants",
                               "log.level",
                               "log.format",
                               "log.audit",
                               "shutdown.drain_timeout"}));
}

TEST(ReloadTest, AllOtherKeysWaitForARestart) {
  const Reload reload = diff_reloadable(Config{}, all_changed());
  EXPECT_EQ(reload.restart, (Keys{"listen.address",
                                  "listen.port",
                                  "listen.threads",
                                  "http.address",
                                  "http.port",
                                  "workers.address",
                                  "workers.port",
                                  "workers.insecure",
                                  "workers.lease",
                                  "workers.reclaim",
                                  "workers.max_losses",
                                  "workers.max_leased_bytes",
                                  "scheduling.share",
                                  "scheduling.reserved_workers",
                                  "store.engine",
                                  "store.url",
                                  "store.replication",
                                  "store.path",
                                  "store.durability",
                                  "cluster.name",
                                  "cluster.advertise",
                                  "cluster.advertise_workers",
                                  "upstream.url",
                                  "upstream.name",
                                  "upstream.password_file",
                                  "upstream.ca_file",
                                  "upstream.cert_file",
                                  "upstream.key_file",
                                  "upstream.max_leased_bytes",
                                  "upstream.insecure",
                                  "process.user",
                                  "process.core_dumps"}));
  EXPECT_EQ(reload.live.size() + reload.restart.size(), all_keys().size());
}

TEST(ReloadTest, EffectiveHasTheNewLiveValuesAndTheOldOthers) {
  const Config old_config;
  const Config new_config = all_changed();
  Config expected = old_config;
  expected.listen.tls = new_config.listen.tls;
  expected.http = new_config.http;
  expected.http.address = old_config.http.address;
  expected.http.port = old_config.http.port;
  expected.lanes = new_config.lanes;
  expected.workers.tls = new_config.workers.tls;
  expected.handlers = new_config.handlers;
  expected.customers = new_config.customers;
  expected.exec = new_config.exec;
  expected.users = new_config.users;
  expected.upstream.handlers = new_config.upstream.handlers;
  expected.pool = new_config.pool;
  expected.scheduling.quantum = new_config.scheduling.quantum;
  expected.limits = new_config.limits;
  expected.store.retention = new_config.store.retention;
  expected.store.backup_directory = new_config.store.backup_directory;
  expected.store.max_bytes = new_config.store.max_bytes;
  expected.metrics = new_config.metrics;
  expected.log = new_config.log;
  expected.shutdown = new_config.shutdown;
  EXPECT_EQ(diff_reloadable(old_config, new_config).effective, expected);
}

TEST(ReloadTest, OnlyThePartsThatDifferAreNamed) {
  const auto after = [](auto change) {
    Config config;
    change(config);
    return changed_parts(Config{}, config);
  };
  const ChangedParts none = after([](Config& config) { config.limits.max_clients += 1; });
  EXPECT_FALSE(none.users || none.customers);
  const ChangedParts users = after([](Config& config) { config.users["a"].weight = 2; });
  EXPECT_TRUE(users.users && !users.customers);
  const ChangedParts customers = after([](Config& config) { config.customers.weight = 2; });
  EXPECT_TRUE(!customers.users && customers.customers);
}

TEST(ReloadTest, EachHandlerThatCameWentOrChangedIsAKey) {
  Config before;
  before.handlers["goes"].command = {"a"};
  before.handlers["stays"].command = {"b"};
  before.handlers["tuned"].command = {"c"};
  before.handlers["altered"].command = {"d"};
  Config after = before;
  after.handlers.erase("goes");
  after.handlers["comes"].command = {"e"};
  after.handlers["tuned"].concurrency = 3;
  after.handlers["altered"].limits.cpu = 1s;
  after.handlers["altered"].rate = Rate{2, 1s};
  const Reload reload = diff_reloadable(before, after);
  EXPECT_EQ(reload.live, (Keys{"handlers.altered", "handlers.comes", "handlers.goes", "handlers.tuned"}));
  EXPECT_EQ(reload.restart, Keys{});
  EXPECT_EQ(reload.effective, after);
}

// Which programs run, as whom, with what reach, and who may do what.
TEST(ReloadTest, WhatTheFileAloneMaySayIsNamedKeyByKey) {
  Config before;
  before.handlers["h"].command = {"a"};
  before.handlers["goes"].command = {"b"};
  before.users["u"].password_hash = "x";
  Config after = before;
  after.limits.max_clients = 1;
  after.handlers["h"].concurrency = 3;
  after.handlers["h"].grace = 1s;
  after.handlers["h"].environment = {"A=b"};
  after.handlers["h"].confine.write = {"/tmp"};
  after.handlers.erase("goes");
  after.users["u"].weight = 2;
  after.http.login = HttpLogin::kUsers;
  EXPECT_EQ(diff_reloadable(before, after).file,
            (Keys{"http.login", "handlers.goes", "handlers.h.environment", "handlers.h.confine.write",
                  "users.u.weight"}));
}

// A second SIGHUP with the same file must say again what still waits.
TEST(ReloadTest, WhatWaitsIsSaidAgain) {
  const Reload first = diff_reloadable(Config{}, all_changed());
  const Reload second = diff_reloadable(first.effective, all_changed());
  EXPECT_EQ(second.live, Keys{});
  EXPECT_EQ(second.restart, first.restart);
}

}  // namespace
}  // namespace locksley::config
