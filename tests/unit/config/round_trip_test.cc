#include <gtest/gtest.h>

#include "config/document.h"
#include "config/dump.h"
#include "config/keys.h"
#include "config/load.h"
#include "tests/unit/config/shown.h"

namespace locksley::config {
namespace {

using namespace std::chrono_literals;

TEST(DumpTest, DefaultsLoadBackToTheSame) {
  const auto config = load_text(dump(Config{}), "dump");
  ASSERT_TRUE(config.has_value()) << shown(config.error());
  EXPECT_EQ(*config, Config{});
}

TEST(DumpTest, EveryAvailableKeyLoadsBackToTheSame) {
  Config config;
  config.listen.address = "::1";
  config.listen.port = 0;
  config.http.address = "fe80::1";
  config.http.port = 1;
  config.pool.workers = 7;
  config.scheduling = {Share::kJobs, 1ms + 1us, 6};
  config.limits = {1,
                   2,
                   Bytes{3},
                   Bytes{4097},
                   5,
                   17,
                   fixed_limit(mebibytes(6)),
                   fixed_limit(mebibytes(7)),
                   auto_limit(),
                   7s,
                   90ms,
                   1ms,
                   kibibytes(9),
                   auto_limit()};
  config.store.max_bytes = gibibytes(3);
  config.store.retention = 0s;
  config.metrics = {1000, 0};
  config.log = {LogLevel::kError, LogFormat::kJson, AuditLines::kNo};
  config.process = {"nobody", CoreDumps::kYes};
  config.shutdown.drain_timeout = 24h;
  const auto loaded = load_text(dump(config), "dump");
  ASSERT_TRUE(loaded.has_value()) << shown(loaded.error());
  EXPECT_EQ(*loaded, config);
}

// What is set by limits that gave way is in the dump, so that the dump of a dump is the same.
TEST(DumpTest, LimitsThatGaveWayAreShownAsTheyAre) {
  const auto config = load_text("limits: {max_queued_jobs: 1000}", "f");
  ASSERT_TRUE(config.has_value());
  const std::string text = dump(*config);
  EXPECT_NE(text.find("max_batch_jobs: 1000\n"), std::string::npos) << text;
  EXPECT_EQ(load_text(text, "dump"), config);
}

// Texts that YAML would take for something else come back as they were.
TEST(DumpTest, AwkwardTextsAreQuoted) {
  for (const char* path :
       {"null", "~",  "a: b", "a #b", "- a", "[a",   "{a",  "\"a\"",     "it's", "a\\b", "tab\there", "*a",
        "&a",   "!a", "%a",   "@a",   "`a",  "a\nb", " a ", "h\xC3\xA9", "true", "017",  "\x01"}) {
    Config config;
    config.store.path = path;
    config.log.level = LogLevel::kWarn;
    const auto loaded = load_text(dump(config), "dump");
    ASSERT_TRUE(loaded.has_value()) << shown(loaded.error());
    EXPECT_EQ(loaded->store.path, path);
  }
  Config config;
  config.listen.address = "a\"b\\c\n\x01";
  const auto loaded = load_text(dump(config), "dump");
  ASSERT_FALSE(loaded.has_value());
  EXPECT_TRUE(loaded.error().front().message.ends_with("found " + in_quotes(config.listen.address)));
}

TEST(DumpTest, ThePasswordOfADatabaseIsShownNowhere) {
  for (const char* url :
       {"postgresql://u:secret@db1:5432,db2/x", "postgresql://db/x?user=u&password=secret",
        "postgresql://db/x?password=secret&sslpassword=secret&user=u", "postgres://u:secret@db"}) {
    Config config;
    config.store.engine = StoreEngine::kPostgresql;
    config.store.url = url;
    const std::string text = dump(without_password(config));
    EXPECT_EQ(text.find("secret"), std::string::npos) << text;
    EXPECT_NE(text.find("db"), std::string::npos);
    for (const auto& [key, value] : list_values(config))
      EXPECT_EQ(value.find("secret"), std::string::npos) << key;
    const auto loaded = load_text(dump(config), "dump");
    ASSERT_TRUE(loaded.has_value()) << shown(loaded.error());
    EXPECT_EQ(loaded->store.url, url) << "CONFIG SET reads it so";
  }
}

TEST(DumpTest, ShowsEveryKey) {
  const std::string text = dump(Config{});
  for (const std::string& key : all_keys()) {
    EXPECT_NE(text.find(key.substr(key.rfind('.') + 1) + ":"), std::string::npos) << key;
  }
}

TEST(DumpTest, HandlersAndUsersAreWrittenAsTheFileHasThem) {
  // Length: the text is compared as a whole.
  Config config;
  Handler& fetch = config.handlers["fetch"];
  fetch.command = {"curl", "-fsS", "{}"};
  fetch.input = Input::kArgument;
  fetch.rate = Rate{20, 1s};
  config.handlers["pricing"].plugin = "./libpricing.so";
  User& alice = config.users["alice"];
  alice.password_hash = "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA";
  alice.handlers = {"fetch"};
  alice.commands = {CommandGroup::kRead};
  const std::string text = dump(config);
  const std::string expected = R"(handlers:
  fetch:
    command: [curl, "-fsS", "{}"]
    input: argument
    concurrency: 1
    rate: 20/s
    timeout: 0s
    retries: 0
    max_output: 16MiB
    grace: 5s
    limits:
      cpu: 0s
      memory: 0
      file_size: 0
      files: 0
      processes: 0
    confine:
      network: true
    max_jobs: 0
    worker_protocol: 1
    max_memory: 0
    isolate: false
    remote: false
    max_running: 0
  pricing:
    plugin: "./libpricing.so"
    input: stdin
    concurrency: 1
    timeout: 0s
    retries: 0
    max_output: 16MiB
    grace: 5s
    limits:
      cpu: 0s
      memory: 0
      file_size: 0
      files: 0
      processes: 0
    confine:
      network: true
    max_jobs: 0
    worker_protocol: 1
    max_memory: 0
    isolate: false
    remote: false
    max_running: 0
customers:
  weight: 1
  slots: 0
  rate: 0/s
  max_queued_jobs: 0
exec: false
users:
  alice:
    password_hash: "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA"
    weight: 1
    handlers: [fetch]
    commands: [read]
    max_queued_jobs: auto
    max_queued_bytes: auto
    max_result_bytes: auto
    max_record_bytes: auto
    max_stored_bytes: auto
    client_memory: auto
    max_batches: 0
    max_clients: auto
    slots: 0
    rate: 0/s
)";
  EXPECT_NE(text.find(expected), std::string::npos) << text;
}

TEST(DumpTest, HandlersLoadBackToTheSame) {
  Config config;
  config.handlers["null"].command = {"wc", "-l", "", "null", "a b"};
  Handler& seven = config.handlers["7"];
  seven.worker = {"x"};
  seven.environment = {"A=", "B=a=b c"};
  seven.limits.cpu = 3s;
  seven.max_memory = mebibytes(7);
  config.handlers["p"].plugin = "x.so";
  const auto loaded = load_text(dump(config), "dump");
  ASSERT_TRUE(loaded.has_value()) << shown(loaded.error());
  EXPECT_EQ(*loaded, config);
}

TEST(DumpTest, AListThatMayBeEmptyIsWritten) {
  Config config;
  EXPECT_NE(dump(config).find("hosts: []\n"), std::string::npos);
  config.http.hosts = {"locksley.example", "null"};
  const auto loaded = load_text(dump(config), "dump");
  ASSERT_TRUE(loaded.has_value()) << shown(loaded.error());
  EXPECT_EQ(*loaded, config);
}

// Also those whose names look like other things.
TEST(DumpTest, UsersLoadBack) {
  Config config;
  config.users["True"].certificate = "null";
  config.users["True"].max_batches = 7;
  config.users["True"].rate = Rate{9, 1min};
  config.users["True"].customers = {.slots = 0, .rate = Rate{5, 1h}};
  config.customers = {.weight = 3, .slots = 2, .rate = Rate{1, 1s}, .max_queued_jobs = 4};
  const auto loaded = load_text(dump(config), "dump");
  ASSERT_TRUE(loaded.has_value()) << shown(loaded.error());
  EXPECT_EQ(*loaded, config);
}

}  // namespace
}  // namespace locksley::config
