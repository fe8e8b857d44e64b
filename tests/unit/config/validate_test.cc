// Length: tests of each check of values that must agree with each other.
#include "config/validate.h"

#include <gtest/gtest.h>

#include "tests/unit/config/shown.h"

namespace locksley::config {
namespace {

using namespace std::chrono_literals;

TEST(ValidateTest, DefaultsAreValid) { EXPECT_EQ(shown(check(Config{})), ""); }

// Built in code, so nothing has read it yet.
TEST(ValidateTest, BoundsHoldForAConfigBuiltInCode) {
  Config config;
  config.listen.address = "nowhere";
  config.pool.workers = 5000;
  config.scheduling.quantum = 0s;
  config.limits.max_payload = Bytes{0};
  config.handlers["a b"].plugin = "p";
  config.handlers["c"].command = {"p"};
  config.handlers["c"].rate = Rate{2'000'000, 1s};
  config.users["u"].password_hash = "my password";
  config.users["u"].handlers = {"a.b"};
  EXPECT_EQ(shown(check(config)),
            "listen.address: expected an IPv4 or IPv6 address such as 127.0.0.1, found \"nowhere\"\n"
            "pool.workers: expected a whole number from 0 to 1024, found \"5000\"\n"
            "scheduling.quantum: expected a duration from 10us to 1s, found \"0s\"\n"
            "limits.max_payload: expected a size from 1 to 1GiB, found \"0\"\n"
            "handlers.a b: expected a name of at most 64 letters, digits, - and _, found \"a b\"\n"
            "handlers.c.rate: expected a rate with a count from 0 to 1000000, found \"2000000/s\"\n"
            "users.u.password_hash: expected the argon2id hash that `locksley hash-password` prints, found "
            "another text\n"
            "users.u.handlers: expected a name of at most 64 letters, digits, - and _, found \"a.b\"\n");
}

TEST(ValidateTest, ContradictionsHoldForAConfigBuiltInCode) {
  Config config;
  config.pool.workers = 1;
  config.scheduling.reserved_workers = 1;
  config.limits.max_queued_jobs = 1;
  config.listen.tls.client_ca = "ca.pem";
  EXPECT_EQ(shown(check(config)),
            "listen.tls: expected certificate and key together with client_ca, found client_ca alone\n"
            "scheduling.reserved_workers: expected less than pool.workers (1), found \"1\"\n"
            "limits.max_batch_jobs: expected at most limits.max_queued_jobs (1), found \"10000000\"\n");
}

TEST(ValidateTest, AnUpstreamOnAnotherMachineNeedsTls) {
  const auto problems_of = [](const std::string& url, Insecure insecure = Insecure::kNo) {
    Config config;
    config.upstream.url = url;
    config.upstream.insecure = insecure;
    return shown(check(config));
  };
  for (const char* url : {"rediss://queue:7771", "rediss://renderer@queue", "redis://127.0.0.1:7771",
                          "redis://u@localhost", "redis://[::1]:7771",
                          "rediss://u@queue-1,queue-2:7772,[::2]", "redis://u@localhost,127.0.0.1:7772"}) {
    EXPECT_EQ(problems_of(url), "") << url;
  }
  EXPECT_EQ(problems_of("redis://queue:7771", Insecure::kYes), "");
  for (const char* url : {"redis://queue:7771", "redis://127.0.0.1.evil:7771", "redis://127.0.0.1@queue",
                          "redis://127.0.0.1,queue"}) {
    EXPECT_EQ(problems_of(url),
              "upstream.url: expected rediss:// for another machine, or insecure: true, because payloads and "
              "the password "
              "would not be encrypted, found \"" +
                  std::string(url) + "\"\n");
  }
}

TEST(ValidateTest, AnUpstreamsUrlNamesTheAddressThatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"rediss://u@a,,b", ""},     {"rediss://a,b:99999", "b:99999"},
      {"rediss://a,", ""},         {"rediss://a,rediss://b", "rediss:"},
      {"rediss://u@a,u@b", "u@b"}, {"rediss://a,::1", "::1"},
  };
  for (const auto& [url, wrong] : cases) {
    Config config;
    config.upstream.url = url;
    EXPECT_EQ(
        shown(check(config)),
        "upstream.url: expected addresses separated by commas, each HOST, HOST:PORT or [IPV6]:PORT, after "
        "one scheme and one user, found \"" +
            std::string(wrong) + "\"\n")
        << url;
  }
}

TEST(ValidateTest, AnUpstreamsUrlHasNoPassword) {
  for (const char* url :
       {"rediss://u:secret@queue", "queue:7771", "http://queue", "rediss://", "redis://u@"}) {
    Config config;
    config.upstream.url = url;
    EXPECT_EQ(shown(check(config)).substr(0, 84),
              "upstream.url: expected a URL such as rediss://user@host:7771, without a password, fo")
        << url;
  }
}

TEST(ValidateTest, KeysOfAnUpstreamBelongTogether) {
  Config config;
  config.upstream.name = "host-7";
  EXPECT_EQ(shown(check(config)), "upstream: expected url with the other keys, found none\n");
  config.upstream.url = "rediss://queue";
  config.upstream.cert_file = "host-7.pem";
  EXPECT_EQ(shown(check(config)),
            "upstream: expected cert_file and key_file together, found cert_file alone\n");
  config.upstream.key_file = "host-7.key";
  EXPECT_EQ(shown(check(config)), "");
  config.upstream.url = "redis://127.0.0.1";
  EXPECT_EQ(shown(check(config)),
            "upstream.url: expected rediss:// if there is a ca_file or a cert_file, found "
            "\"redis://127.0.0.1\"\n");
  config.upstream = {};
  config.upstream.url = "rediss://queue";
  config.upstream.name = "host 7";
  EXPECT_EQ(shown(check(config)),
            "upstream.name: expected a name of at most 128 printable characters without spaces, found \"host "
            "7\"\n");
}

TEST(ValidateTest, ADatabaseHasAUrlAndADirectoryHasNone) {
  Config config;
  config.store.engine = StoreEngine::kPostgresql;
  EXPECT_EQ(shown(check(config)),
            "store.url: expected the URL of the database, with engine: postgresql, found none\n");
  config.store.replication = Replication::kProvider;
  for (const char* url : {"postgresql://locksley:secret@db1:5432,db2/locksley?sslmode=verify-full",
                          "postgres:///x", "postgresql://u:a%40b@[::1]:1/x"}) {
    config.store.url = url;
    EXPECT_EQ(shown(check(config)), "") << url;
  }
  config.store.engine = StoreEngine::kRocksdb;
  EXPECT_EQ(shown(check(config)),
            "store.url: expected engine: postgresql together with a URL, found engine: rocksdb, which is in "
            "a folder\n"
            "store.replication: expected engine: postgresql together with replication, found engine: "
            "rocksdb, which is in a "
            "folder\n");
}

TEST(ValidateTest, WhereClientsAreSentIsAHostAndAPort) {
  Config config;
  for (const char* fine : {"", "queue-1.example:7770", "10.0.0.1:1", "[2001:db8::1]:65535"}) {
    config.cluster.advertise = fine;
    EXPECT_EQ(shown(check(config)), "") << fine;
  }
  for (const char* wrong : {"queue", ":7770", "queue:", "queue:0", "queue:65536", "queue:7770x",
                            "queue: 7770", "a b:1", "2001:db8::1:1", "[x]:1", "redis://queue:7770"}) {
    config.cluster.advertise = wrong;
    EXPECT_EQ(shown(check(config)),
              std::string("cluster.advertise: expected host:port, such as queue-1.example:7770 or "
                          "[2001:db8::1]:7770, found \"") +
                  wrong + "\"\n");
  }
  config.cluster = {.advertise_workers = "queue"};
  EXPECT_EQ(shown(check(config)).substr(0, 54), "cluster.advertise_workers: expected host:port, such as");
}

TEST(ValidateTest, BackupsAreOfADirectoryAndNotOfADatabase) {
  Config config;
  config.store.backup_directory = "backups";
  EXPECT_EQ(shown(check(config)), "");
  config.store.engine = StoreEngine::kPostgresql;
  config.store.url = "postgresql://db";
  EXPECT_EQ(
      shown(check(config)),
      "store.backup_directory: expected engine: rocksdb together with a backup_directory, found engine: "
      "postgresql\n");
}

TEST(ValidateTest, BackupsAreNotAmongTheStoresOwnFiles) {
  Config config;
  config.store.path = "/srv/store";
  for (const char* beside : {"/srv", "/srv/store-backups", "/srv/backups/store", "/srv/store/../backups"}) {
    config.store.backup_directory = beside;
    EXPECT_EQ(shown(check(config)), "") << beside;
  }
  for (const char* inside :
       {"/srv/store", "/srv/store/", "/srv/./store", "/srv/store/backups", "/srv/x/../store/a/b"}) {
    config.store.backup_directory = inside;
    EXPECT_TRUE(
        shown(check(config)).starts_with("store.backup_directory: expected a folder outside of store.path"))
        << inside;
  }
  config.store.path = "store";
  config.store.backup_directory = "./store/backups";
  EXPECT_NE(shown(check(config)), "") << "relative to where the daemon was started";
  config.store.path = "";
  EXPECT_EQ(shown(check(config)), "") << "there is no store";
}

TEST(ValidateTest, APasswordOfADatabaseIsNotShown) {
  Config config;
  config.store.engine = StoreEngine::kPostgresql;
  for (const char* url :
       {"mysql://u:secret@db", "postgresql://u:secret@more@db", "secret", "postgresql://u:secret @db"}) {
    config.store.url = url;
    const std::string problems = shown(check(config));
    EXPECT_TRUE(problems.starts_with("store.url: expected a URL such as")) << problems;
    EXPECT_EQ(problems.find("secret"), std::string::npos) << problems;
  }
}

TEST(ValidateTest, ReservedWorkersAreFreeWhileTheNumberOfWorkersIs) {
  Config config;
  config.scheduling.reserved_workers = 8;
  EXPECT_EQ(shown(check(config)), "");
}

TEST(ValidateTest, AnyPortMayBeTheSame) {
  Config config;
  config.listen.port = 0;
  config.http.port = 0;
  EXPECT_EQ(shown(check(config)), "");
  config.listen.port = 7000;
  config.http.port = 7000;
  config.http.address = "127.0.0.2";
  EXPECT_EQ(shown(check(config)), "");
}

TEST(ValidateTest, ProblemsCarryTheOriginOfTheirKey) {
  Config config;
  config.pool.workers = 5000;
  const Origins origins{{"pool.workers", Origin{{7, 9}, "\"5000\"", true}}};
  const auto problems = check(config, origins);
  ASSERT_EQ(problems.size(), 1U);
  EXPECT_EQ(problems.front().line, 7U);
  EXPECT_EQ(problems.front().column, 9U);
}

// What is wrong with a handler h that the file gives these keys.
std::string faults_of(const Handler& handler, const std::vector<std::string>& keys = {}) {
  Config config;
  config.handlers["h"] = handler;
  Origins origins;
  for (const std::string& key : keys) origins["handlers.h." + key] = Origin{{1, 1}, "", true};
  return shown(check(config, origins));
}

Handler command_handler() {
  Handler handler;
  handler.command = {"program", "{}"};
  return handler;
}

Handler worker_handler() {
  Handler handler;
  handler.worker = {"program"};
  return handler;
}

TEST(ValidateTest, AHandlerIsOfOneKind) {
  EXPECT_EQ(faults_of({}), "handlers.h: expected exactly one of command, worker and plugin, found none\n");
  Handler both = command_handler();
  both.worker = {"other"};
  EXPECT_EQ(faults_of(both), "handlers.h: expected exactly one of command, worker and plugin, found 2\n");
}

Config remote_config() {
  Config config;
  config.handlers["h"].remote = Remote::kYes;
  return config;
}

TEST(ValidateTest, ARemoteHandlerNeedsNoProgram) {
  EXPECT_EQ(shown(check(remote_config())), "");
  EXPECT_TRUE(serves_remote_workers(remote_config()));
  EXPECT_FALSE(serves_remote_workers(Config{}));
  Handler here_and_there = command_handler();
  here_and_there.remote = Remote::kYes;
  here_and_there.max_running = 50;
  EXPECT_EQ(faults_of(here_and_there), "");
  Handler only_here = command_handler();
  only_here.max_running = 50;
  EXPECT_EQ(faults_of(only_here),
            "handlers.h.max_running: expected max_running with remote: true only, found it without\n");
}

TEST(ValidateTest, WorkersFromOtherMachinesNeedTls) {
  Config config = remote_config();
  config.workers.address = "0.0.0.0";
  EXPECT_EQ(shown(check(config)),
            "workers.tls: expected a certificate, because payloads and results pass the network; or "
            "insecure: true if no other machine can read them, found none with the address \"0.0.0.0\"\n");
  config.workers.insecure = Plain::kEverywhere;
  EXPECT_EQ(shown(check(config)), "");
  config.workers.insecure = Plain::kOnThisMachine;
  config.workers.tls = {.certificate = "c", .key = "k", .client_ca = "", .clients = {}};
  EXPECT_EQ(shown(check(config)), "");
  // The port is not opened.
  Config closed;
  closed.workers.address = "0.0.0.0";
  EXPECT_EQ(shown(check(closed)), "");
}

TEST(ValidateTest, ThePortForWorkersIsAnotherOne) {
  Config config = remote_config();
  config.workers.port = config.listen.port;
  EXPECT_EQ(shown(check(config)),
            "workers.port: expected another port than those of listen and http, on the same address, found "
            "\"7770\"\n");
}

TEST(ValidateTest, AHandlerNamesItsProgram) {
  Handler handler = command_handler();
  handler.command = {"", "x"};
  EXPECT_EQ(faults_of(handler), "handlers.h.command: expected the name of a program first, found \"\"\n");
}

TEST(ValidateTest, InputThatTakesThePlaceOfBracesNeedsThem) {
  for (const Input input : {Input::kArgument, Input::kFile}) {
    Handler handler = command_handler();
    handler.input = input;
    EXPECT_EQ(faults_of(handler), "");
    handler.command = {"program"};
    EXPECT_EQ(faults_of(handler), "handlers.h.command: expected {} in an argument, because input is " +
                                      std::string(input == Input::kFile ? "file" : "argument") +
                                      ", found none\n");
    handler = worker_handler();
    handler.input = input;
    EXPECT_NE(faults_of(handler).find("handlers.h.input: expected input with a command only"),
              std::string::npos);
  }
}

TEST(ValidateTest, KeysOfProcessesAreHeldToTheirBounds) {
  Handler handler = worker_handler();
  handler.max_output = Bytes{0};
  handler.grace = 2h;
  handler.concurrency = 0;
  handler.environment = {"A=1", "1A=x", "=x", "A B=x", "A", std::string("A=\0", 3)};
  handler.limits.cpu = 1500ms;
  handler.limits.files = 2'000'000;
  const std::string faults = faults_of(handler);
  for (const std::string_view fault :
       {"handlers.h.concurrency: expected a whole number from 1 to 10000, found \"0\"\n",
        "handlers.h.environment: expected a variable such as LANG=C.UTF-8, found \"1A=x\"\n",
        "handlers.h.environment: expected a variable such as LANG=C.UTF-8, found \"=x\"\n",
        "handlers.h.environment: expected a variable such as LANG=C.UTF-8, found \"A B=x\"\n",
        "handlers.h.environment: expected a variable such as LANG=C.UTF-8, found \"A\"\n",
        "handlers.h.max_output: expected a size from 1 to 1GiB, found \"0\"\n", "handlers.h.grace: expected",
        "handlers.h.limits.files: expected a whole number from 0 to 1000000, found \"2000000\"\n",
        "handlers.h.limits.cpu: expected whole seconds, found \"1500ms\"\n"}) {
    EXPECT_NE(faults.find(fault), std::string::npos) << fault << "in:\n" << faults;
  }
}

TEST(ValidateTest, KeysWithoutEffectAreRefused) {
  const auto with = [](Handler handler, const auto& change) {
    change(handler);
    return handler;
  };
  const auto max_jobs = [](Handler& handler) { handler.max_jobs = 5; };
  EXPECT_EQ(faults_of(with(worker_handler(), max_jobs)), "");
  EXPECT_EQ(faults_of(with(command_handler(), max_jobs)),
            "handlers.h.max_jobs: expected max_jobs with a worker or an isolated plugin only, found it with "
            "a command\n");
  const auto version_2 = [](Handler& handler) { handler.worker_protocol = 2; };
  EXPECT_EQ(faults_of(with(worker_handler(), version_2)), "");
  EXPECT_NE(faults_of(with(command_handler(), version_2)).find("expected worker_protocol with a worker only"),
            std::string::npos);
  const auto isolate = [](Handler& handler) { handler.isolate = Isolate::kYes; };
  EXPECT_NE(faults_of(with(worker_handler(), isolate)).find("expected isolate with a plugin only"),
            std::string::npos);
  Handler plugin;
  plugin.plugin = "./plugin.so";
  const std::map<std::string, void (*)(Handler&)> of_processes{
      {"concurrency", [](Handler& h) { h.concurrency = 2; }},
      {"rate", [](Handler& h) { h.rate = Rate{5, 1s}; }},
      {"directory", [](Handler& h) { h.directory = "/"; }},
      {"environment", [](Handler& h) { h.environment = {"A=1"}; }},
      {"user", [](Handler& h) { h.user = "nobody"; }},
      {"max_output", [](Handler& h) { h.max_output = Bytes{1}; }},
      {"grace", [](Handler& h) { h.grace = 1s; }},
      {"limits", [](Handler& h) { h.limits.files = 3; }},
      {"confine", [](Handler& h) { h.confine.network = Network::kNo; }},
      {"max_jobs", max_jobs},
      {"max_memory", [](Handler& h) { h.max_memory = Bytes{1}; }}};
  for (const auto& [key, change] : of_processes) {
    EXPECT_NE(faults_of(with(plugin, change)).find("handlers.h." + key + ": expected " + key),
              std::string::npos)
        << key;
    EXPECT_EQ(faults_of(with(with(plugin, isolate), change)), "") << key;
  }
}

TEST(SettleLimitsTest, WhatTheFileSetsStays) {
  const Origins both{{"limits.max_payload", {}}, {"limits.max_command", {}}, {"limits.max_queued_bytes", {}}};
  Limits limits;
  limits.max_payload = mebibytes(2);
  limits.max_command = mebibytes(1);
  const Limits before = limits;
  settle_limits(limits, both);
  EXPECT_EQ(limits, before);
}

TEST(SettleLimitsTest, DefaultsNeedNoSettling) {
  Limits limits;
  settle_limits(limits, {});
  EXPECT_EQ(limits, Limits{});
}

}  // namespace
}  // namespace locksley::config
