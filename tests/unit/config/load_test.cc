#include "config/load.h"
#include "tests/unit/config/shown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace locksley::config {
namespace {

using namespace std::chrono_literals;

TEST(LoadTextTest, AnEmptyFileMeansDefaults) {
  for (const char* text : {"", "\n", "# only a comment\n", "---\n", "---\n...\n", "{}", "\xEF\xBB\xBF"}) {
    const auto config = load_text(text, "f");
    ASSERT_TRUE(config.has_value()) << '"' << text << "\": " << shown(config.error());
    EXPECT_EQ(*config, Config{}) << '"' << text << '"';
  }
}

TEST(LoadTextTest, AnEmptySectionMeansDefaults) {
  const auto config = load_text("listen:\nhttp: {}\npool: ~\nstore:\nhandlers:\nusers: {}\n", "f");
  ASSERT_TRUE(config.has_value()) << shown(config.error());
  EXPECT_EQ(*config, Config{});
}

TEST(LoadTextTest, EveryAvailableKeyReachesItsPlace) {
  const auto config = load_text(R"(
listen:    {address: "::1", port: 0}
http:      {address: 0.0.0.0, port: 65535}
pool:      {workers: 8}
scheduling: {share: jobs, quantum: 250us, reserved_workers: 2}
limits:    {max_clients: 1, max_batch_jobs: 2, max_payload: 3, max_command: 4KiB, max_queued_jobs: 5, max_customers: 17,
            max_queued_bytes: 6MiB, max_result_bytes: 7MiB, max_record_bytes: auto, idle_timeout: 7s, login_timeout: 90s, open_timeout: 8m, output_buffer: 9GiB,
            client_memory: 10MiB, max_log_bytes: 12MiB}
store:     {path: "/var/lib/locksley", durability: async, retention: 10h, max_bytes: 11GiB}
metrics:   {deepest_batches: 0, tenants: 11}
log:       {level: trace, format: json, audit: false}
process:   {user: nobody, core_dumps: true}
shutdown:  {drain_timeout: 0s}
)",
                                "f");
  ASSERT_TRUE(config.has_value()) << shown(config.error());
  Config expected;
  expected.listen.address = "::1";
  expected.listen.port = 0;
  expected.http.address = "0.0.0.0";
  expected.http.port = 65535;
  expected.pool.workers = 8;
  expected.scheduling = {Share::kJobs, 250us, 2};
  expected.limits = {1,
                     2,
                     Bytes{3},
                     kibibytes(4),
                     5,
                     17,
                     fixed_limit(mebibytes(6)),
                     fixed_limit(mebibytes(7)),
                     Limits{}.max_record_bytes,
                     7s,
                     90s,
                     8min,
                     gibibytes(9),
                     fixed_limit(mebibytes(10)),
                     mebibytes(12)};
  expected.limits.max_record_bytes = auto_limit();
  expected.store = {"/var/lib/locksley", Durability::kAsync, 10h, fixed_limit(gibibytes(11))};
  expected.metrics = {0, 11};
  expected.log = {LogLevel::kTrace, LogFormat::kJson, AuditLines::kNo};
  expected.process = {"nobody", CoreDumps::kYes};
  expected.shutdown.drain_timeout = 0s;
  EXPECT_EQ(*config, expected);
}

TEST(LoadTextTest, CustomersOfAllAndOfAUser) {
  const auto config = load_text(R"(
customers: {weight: 2, slots: 3, rate: 5/m, max_queued_jobs: 7}
users:
  shop: {certificate: shop, slots: 32, rate: 100/s, customers: {slots: 0, rate: 10/s}}
  mill: {certificate: mill}
)",
                                "f");
  ASSERT_TRUE(config.has_value()) << shown(config.error());
  EXPECT_EQ(config->customers,
            (Customers{.weight = 2, .slots = 3, .rate = Rate{5, 1min}, .max_queued_jobs = 7}));
  const User& shop = config->users.at("shop");
  EXPECT_EQ(shop.slots, 32U);
  EXPECT_EQ(shop.rate, (Rate{100, 1s}));
  EXPECT_EQ(shop.customers, (UserCustomers{.slots = 0, .rate = Rate{10, 1s}}));
  EXPECT_EQ(config->users.at("mill").customers, UserCustomers{});
  EXPECT_EQ(config->users.at("mill").rate, Rate{0});
  // Wrong ones are named, and keep no half.
  const auto wrong =
      load_text("users: {shop: {certificate: c, customers: {weight: 0, slots: x, rate: 1}}}", "f");
  ASSERT_FALSE(wrong.has_value());
  ASSERT_EQ(wrong.error().size(), 3U) << shown(wrong.error());
  for (const Problem& problem : wrong.error())
    EXPECT_TRUE(problem.key.starts_with("users.shop.customers.")) << problem.key;
}

TEST(LoadTextTest, ProgramsWithoutAUserRunAsTheDaemonDoes) {
  const auto config = load_text(R"(
process: {user: daemon}
handlers:
  command: {command: [true]}
  worker: {worker: [true], user: nobody}
  isolated: {plugin: p, isolate: true}
  plugin: {plugin: p}
)",
                                "f");
  ASSERT_TRUE(config.has_value()) << shown(config.error());
  EXPECT_EQ(config->handlers.at("command").user, "daemon");
  EXPECT_EQ(config->handlers.at("worker").user, "nobody");
  EXPECT_EQ(config->handlers.at("isolated").user, "daemon");
  EXPECT_EQ(config->handlers.at("plugin").user, "");
}

TEST(LoadTextTest, QuotesAndBlocksAreTextsLikeOthers) {
  const auto config =
      load_text("log:\n  \"level\": 'warn'\n  format: |-\n    json\nlimits: {open_timeout: \"5m\"}\n", "f");
  ASSERT_TRUE(config.has_value()) << shown(config.error());
  EXPECT_EQ(config->log, (Log{LogLevel::kWarn, LogFormat::kJson, AuditLines::kYes}));
  EXPECT_EQ(config->limits.open_timeout, 5min);
}

TEST(LoadTextTest, ALimitThatIsNotSetGivesWay) {
  const auto small = load_text("limits: {max_command: 1MiB, max_queued_jobs: 1000}", "f");
  ASSERT_TRUE(small.has_value()) << shown(small.error());
  EXPECT_EQ(small->limits.max_payload, mebibytes(1));
  EXPECT_EQ(small->limits.max_batch_jobs, 1000U);
  const auto large = load_text("limits: {max_payload: 1GiB, max_batch_jobs: 1000000000}", "f");
  ASSERT_TRUE(large.has_value()) << shown(large.error());
  EXPECT_EQ(large->limits.max_command, gibibytes(1));
  EXPECT_EQ(large->limits.max_queued_jobs, 1'000'000'000U);
}

TEST(LoadTextTest, AliasesOfAliasesCostNothing) {
  std::string laughs = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha, ha]\n";
  for (int i = 1; i < 40; ++i) {
    const std::string outer = std::to_string(i);
    const std::string inner = "*a" + std::to_string(i - 1);
    laughs += "a" + outer + ": &a" + outer + " [" + inner;
    for (int j = 0; j < 9; ++j) laughs += ", " + inner;
    laughs += "]\n";
  }
  const auto config = load_text(laughs, "f");
  ASSERT_FALSE(config.has_value());
  // An unknown key and an anchor a line, and ten aliases on each but the first.
  EXPECT_EQ(config.error().size(), 2U * 40U + 39U * 10U);
}

TEST(LoadTextTest, NestingWithoutEndIsRefused) {
  for (const char* opening : {"[", "{a: ", "- "}) {
    std::string text;
    for (int i = 0; i < 20'000; ++i) text += opening;
    const auto config = load_text(text, "f");
    ASSERT_FALSE(config.has_value()) << opening;
    EXPECT_EQ(config.error().front().message,
              "expected sections with keys in them, found too many levels of nesting");
  }
}

TEST(LoadTextTest, AFileThatIsTooLargeIsRefused) {
  const auto config = load_text("#" + std::string(kMaxFileBytes, 'x'), "f");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(shown(config.error()), "f: expected a file of at most 4MiB, found a larger one\n");
}

class LoadFileTest : public testing::Test {
 protected:
  LoadFileTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "locksley-config-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
    directory_ = pattern;
  }
  ~LoadFileTest() override { std::filesystem::remove_all(directory_); }

  std::filesystem::path write(const std::string& text) const {
    const std::filesystem::path path = directory_ / "locksley.yaml";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }

  std::filesystem::path directory_;
};

TEST_F(LoadFileTest, AGoodFileLoads) {
  const auto config = load_file(write("listen: {port: 1234}\n"));
  ASSERT_TRUE(config.has_value()) << shown(config.error());
  EXPECT_EQ(config->listen.port, 1234);
}

TEST_F(LoadFileTest, AnEmptyFileMeansDefaults) {
  const auto config = load_file(write(""));
  ASSERT_TRUE(config.has_value()) << shown(config.error());
  EXPECT_EQ(*config, Config{});
}

TEST_F(LoadFileTest, ProblemsNameTheFileAsItWasNamed) {
  const auto path = write("listen: {port: x}\n");
  const auto config = load_file(path);
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(config.error().front().file, path.string());
  EXPECT_EQ(config.error().front().line, 1U);
  EXPECT_EQ(config.error().front().column, 16U);
  EXPECT_EQ(config.error().front().key, "listen.port");
}

TEST_F(LoadFileTest, AMissingFileIsNamed) {
  const auto path = directory_ / "none.yaml";
  const auto config = load_file(path);
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(shown(config.error()), path.string() + ": cannot be opened: No such file or directory\n");
}

TEST_F(LoadFileTest, ADirectoryIsNoFile) {
  const auto config = load_file(directory_);
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(shown(config.error()),
            directory_.string() + ": expected a configuration file, found a directory\n");
}

TEST_F(LoadFileTest, AFileThatMayNotBeOpenedIsNamed) {
  // A link to itself: unlike missing permissions, it stops root too.
  const auto path = directory_ / "loop.yaml";
  std::filesystem::create_symlink(path, path);
  const auto config = load_file(path);
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(shown(config.error()), path.string() + ": cannot be opened: Too many levels of symbolic links\n");
}

TEST_F(LoadFileTest, AReadErrorIsNotAnEmptyFile) {
  // Nothing is mapped at address 0, so this file opens and cannot be read.
  const auto config = load_file("/proc/self/mem");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(shown(config.error()), "/proc/self/mem: cannot be read: Input/output error\n");
}

TEST_F(LoadFileTest, AFileThatIsTooLargeIsRefused) {
  const auto path = write(std::string(kMaxFileBytes + 1, '\n'));
  const auto config = load_file(path);
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(shown(config.error()), path.string() + ": expected a file of at most 4MiB, found a larger one\n");
}

TEST_F(LoadFileTest, AnEndlessFileIsRefused) {
  const auto config = load_file("/dev/zero");
  ASSERT_FALSE(config.has_value());
  EXPECT_EQ(shown(config.error()), "/dev/zero: expected a file of at most 4MiB, found a larger one\n");
}

TEST_F(LoadFileTest, AProblemThatIsFoundLaterHasThePositionOfItsKey) {
  const auto path = write("handlers:\n  lines:\n    command: [wc]\nhttp: {port: 1}\n");
  const std::string at = path.string();
  const std::vector<std::string> said{"handlers.lines.command: none: such",  // the key
                                      "handlers.lines.user: none",           // of which the section is there
                                      "http: in use", "listen: in use", "none"};
  EXPECT_THAT(with_positions(path, said),
              testing::ElementsAre(at + ":3:5: " + said[0], at + ":2:3: " + said[1], at + ":4:1: " + said[2],
                                   said[3], said[4]));
  EXPECT_EQ(with_positions(directory_ / "none.yaml", said), said);
}

}  // namespace
}  // namespace locksley::config
