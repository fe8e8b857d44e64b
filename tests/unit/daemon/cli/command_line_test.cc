#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <sstream>

#include "daemon/base/exit_codes.h"
#include "daemon/cli/command_line.h"
#include "daemon/cli/context/context.h"
#include "tests/support/own_path.h"

namespace locksley::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Integers = std::numeric_limits<std::int64_t>;

std::expected<CommandLine, CommandLineEnd> parse(const std::string& line) {
  std::istringstream in(line);
  return parse_command_line({std::istream_iterator<std::string>(in), {}});
}

template <class Command>
Command parsed(const std::string& line) {
  auto result = parse(line);
  EXPECT_TRUE(result) << result.error().text;
  return std::get<Command>(result.value().command);
}

TEST(CliOptionsTest, SubmitTakesTheOptionsOfTheWire) {
  const auto submit = parsed<SubmitArguments>(
      "submit echo --weight 3 --name n --id i --timeout 500ms --deadline 5m --keep failures --retain 3d "
      "--slots 4 --max-fails 9 --ephemeral --trace t --retries 0 --delay 3s --after x --afterok y a b");
  EXPECT_EQ(submit.handler, "echo");
  EXPECT_EQ(submit.batch.weight, 3U);
  EXPECT_EQ(submit.batch.name, "n");
  EXPECT_EQ(submit.batch.id, "i");
  EXPECT_EQ(submit.batch.timeout, std::chrono::milliseconds(500));
  EXPECT_EQ(submit.batch.deadline, std::chrono::minutes(5));
  EXPECT_EQ(submit.batch.keep, proto::Keep::kFailures);
  EXPECT_EQ(submit.batch.retain, std::chrono::hours(72));
  EXPECT_EQ(submit.batch.slots, 4U);
  EXPECT_EQ(submit.batch.max_fails, 9U);
  EXPECT_TRUE(submit.batch.ephemeral);
  EXPECT_EQ(submit.batch.trace, "t");
  EXPECT_EQ(submit.batch.retries, 0U);
  EXPECT_EQ(submit.batch.delay, std::chrono::seconds(3));
  EXPECT_EQ(submit.batch.after, (std::vector<proto::AfterBatch>{{"x", false}, {"y", true}}));
  EXPECT_THAT(submit.payloads.arguments, ElementsAre("a", "b"));
}

TEST(CliOptionsTest, NumbersWithLeadingZerosAreDecimal) {
  const auto submit =
      parsed<SubmitArguments>("submit echo --weight 010 --slots 0008 --retries 00 --range -010 010 {}");
  EXPECT_EQ(submit.batch.weight, 10U);
  EXPECT_EQ(submit.batch.slots, 8U);
  EXPECT_EQ(submit.batch.retries, 0U);
  EXPECT_EQ(submit.payloads.range, std::pair(std::int64_t{-10}, std::int64_t{10}));
  EXPECT_EQ(parsed<JobArguments>("job b 0100").index, 100U);
  EXPECT_EQ(parsed<BatchArguments>("retry b 010").indexes, std::vector<std::uint64_t>{10});
  EXPECT_FALSE(parse("submit echo --weight 01x a"));
}

TEST(CliOptionsTest, WhatIsNoDecimalNumberWithinTheBoundsIsRefusedWithTheBounds) {
  const std::string wide = "-9223372036854775808 to 9223372036854775807";
  const std::string index = "0 to 9223372036854775807";
  const std::vector<std::pair<std::string, std::string>> options{
      {"submit echo --range {} 0", wide},
      {"submit echo --range -9223372036854775808 {}", wide},
      {"submit echo --weight {} a", "1 to 1000"},
      {"submit echo --retries {} a", "0 to 1000"},
      {"exec -n {} -- true", "1 to 1000000"},
      {"list --limit {}", index},
      {"customers --limit {}", index},
      {"customer set c --weight {}", "1 to 1000"},
      {"customer set c --slots {}", "0 to 4294967295"},
      {"customer set c --max-jobs {}", index},
      {"retry b 1 {}", index},
      {"job b {}", index},
      {"log b {}", index},
      {"weight b {}", "1 to 1000"},
      {"slots b {}", "0 to 4294967295"},
      {"top -b {}", "1 to 1099511627776"},
      {"bench --jobs {}", "1 to 1099511627776"},
      {"bench --payload {}", "0 to 67108864"},
      {"bench --batch {}", "1 to 10000000"},
      {"bench --connections {}", "1 to 1024"},
      {"work h --slots {} -- p", "1 to 4096"},
  };
  for (const auto& [line, bounds] : options) {
    // The last would be 1 where numbers of 64 bits begin again at 0.
    for (const std::string number : {"0x1", "+1", "1e3", "1.0", "99999999999999999999",
                                     "-99999999999999999999", "-18446744073709551615"}) {
      std::string given = line;
      given.replace(line.find("{}"), 2, number);
      const auto result = parse(given);
      ASSERT_FALSE(result) << given;
      EXPECT_THAT(result.error().text, HasSubstr("'" + number + "' is not a decimal number from " + bounds))
          << given;
    }
  }
  EXPECT_EQ(
      parsed<SubmitArguments>("submit echo --range -9223372036854775808 9223372036854775807").payloads.range,
      std::pair(Integers::min(), Integers::max()));
  EXPECT_FALSE(parse("top -d nan"));
}

TEST(CliOptionsTest, WorkTakesAProgramAndItsArguments) {
  const auto work = parsed<WorkArguments>("work run --slots 4 --name n --insecure -- prog --json -- x");
  EXPECT_EQ(work.handler, "run");
  EXPECT_THAT(work.program, ElementsAre("prog", "--json", "--", "x"));
  EXPECT_EQ(work.slots, 4U);
  EXPECT_EQ(work.name, "n");
  EXPECT_TRUE(work.insecure);
  EXPECT_THAT(parsed<WorkArguments>("work -- h p").program, ElementsAre("p"));
  EXPECT_FALSE(parse("work h"));
  EXPECT_EQ(choose_addresses(
                {.url = "redis://h"}, [](const char*) -> const char* { return nullptr; }, kWorkersPort)
                .value()
                .front()
                .port,
            7771);
}

TEST(CliOptionsTest, ARangeTakesATemplate) {
  const auto submit = parsed<SubmitArguments>("submit echo --range -5 10 x{}");
  EXPECT_EQ(submit.payloads.range, (std::pair<std::int64_t, std::int64_t>(-5, 10)));
  EXPECT_THAT(submit.payloads.arguments, ElementsAre("x{}"));
}

TEST(CliOptionsTest, AllWordsAfterTwoDashesArePayloads) {
  EXPECT_THAT(parsed<RunArguments>("run echo -- -5").submit.payloads.arguments, ElementsAre("-5"));
  const auto submit = parsed<SubmitArguments>("submit echo a --weight 3 -- --json -- status b");
  EXPECT_EQ(submit.handler, "echo");
  EXPECT_EQ(submit.batch.weight, 3U);
  EXPECT_THAT(submit.payloads.arguments, ElementsAre("a", "--json", "--", "status", "b"));
  EXPECT_EQ(parsed<RunArguments>("run -- echo x").submit.handler, "echo");
  EXPECT_THAT(parsed<RunArguments>("run -- echo x").submit.payloads.arguments, ElementsAre("x"));
  EXPECT_FALSE(parse("run --"));
}

TEST(CliOptionsTest, GlobalOptionsMayStandBehindTheCommand) {
  EXPECT_TRUE(parse("status abc --json").value().global.json);
  EXPECT_TRUE(parse("--json status abc").value().global.json);
  EXPECT_EQ(parse("ping --server h:1").value().global.server, "h:1");
}

TEST(CliOptionsTest, ProgressOfWaitTakesNoWordBehindIt) {
  const auto wait = parsed<WaitArguments>("wait --progress abc --timeout 10s");
  EXPECT_EQ(wait.id, "abc");
  EXPECT_TRUE(wait.progress);
  EXPECT_EQ(wait.timeout, std::chrono::seconds(10));
  EXPECT_EQ(parsed<RunArguments>("run echo --progress never").progress, WhenProgress::kNever);
}

TEST(CliOptionsTest, ResultsTakeTheInputsOnceMore) {
  const auto plain = parsed<ResultsArguments>("results b --results out/{#} --follow -0");
  EXPECT_EQ(plain.results, "out/{#}");
  EXPECT_TRUE(plain.nul_separated);
  EXPECT_FALSE(plain.files);
  const auto named = parsed<ResultsArguments>("results --files b x.jpg --results out/{/.} -- -y --files");
  EXPECT_EQ(named.id, "b");
  EXPECT_TRUE(named.files);
  EXPECT_THAT(named.inputs, ElementsAre("x.jpg", "-y", "--files"));
  EXPECT_TRUE(parsed<ResultsArguments>("results b --files").inputs.empty());
  EXPECT_TRUE(parsed<ResultsArguments>("results b --failed --payloads -0").payloads);
}

TEST(CliOptionsTest, AJobIsABatchAndAnIndex) {
  const auto job = parsed<JobArguments>("job b 9223372036854775807 --payload");
  EXPECT_EQ(job.id, "b");
  EXPECT_EQ(job.index, UINT64_MAX / 2);
  EXPECT_EQ(job.part, JobArguments::Part::kPayload);
  EXPECT_EQ(parsed<JobArguments>("job b 0 --output").part, JobArguments::Part::kOutput);
  EXPECT_EQ(parsed<JobArguments>("job b 0").part, JobArguments::Part::kAll);
  EXPECT_TRUE(parsed<LogArguments>("log b 3 --follow").follow);
  EXPECT_EQ(parsed<RunningArguments>("running b").id, "b");
  EXPECT_EQ(parsed<RunningArguments>("running").id, "");
}

TEST(CliOptionsTest, WrongLinesAreUsageErrors) {
  for (const char* line : {"",
                           "nonsense",
                           "submit",
                           "status",
                           "submit echo --weight 0",
                           "submit echo --weight 1001",
                           "submit echo --slots 0",
                           "submit echo --max-fails 0",
                           "submit echo --retries 1001",
                           "submit echo --timeout 5",
                           "submit echo --timeout 5parsecs",
                           "submit echo --timeout 10us",
                           "submit echo --retain 1500ms",
                           "submit echo --keep some",
                           "submit echo --range 5 1",
                           "submit echo --range 1 5 a b",
                           "submit echo --range 1 5 --files",
                           "submit echo -0 a",
                           "run echo --ordered --results d",
                           "results b --ordered --results d",
                           "results b --failed --results d",
                           "results b --results d/{/}",
                           "results b --payloads",
                           "results b --failed --ordered --payloads",
                           "results b a.jpg",
                           "job b",
                           "job b x",
                           "job b -1",
                           "job b 1 --payload --output",
                           "log b",
                           "retry b -1",
                           "running a b",
                           "run echo --progress x",
                           "weight abc",
                           "weight abc 0",
                           "list --state odd",
                           "bench --payload 5 --text x",
                           "bench --connections 0",
                           "ping --server h --url redis://h",
                           "status a b"}) {
    const auto result = parse(line);
    ASSERT_FALSE(result) << line;
    EXPECT_EQ(result.error().exit_code, daemon::kExitUsage) << line;
    EXPECT_FALSE(result.error().text.empty()) << line;
  }
}

TEST(CliOptionsTest, AWordThatIsNoCommandIsNamed) {
  const auto told = [](const std::string& line) { return parse(line).error().text; };
  EXPECT_TRUE(told("nonsense b").starts_with("no command is named 'nonsense'\n")) << told("nonsense b");
  EXPECT_TRUE(told("--nonsense").starts_with("no option is named '--nonsense'\n")) << told("--nonsense");
  EXPECT_TRUE(told("customer show acme").starts_with("no command is named 'show'\n"))
      << told("customer show acme");
  EXPECT_TRUE(told("customer").starts_with("A subcommand is required\n")) << told("customer");
  EXPECT_TRUE(told("--json").starts_with("A subcommand is required\n")) << told("--json");
  EXPECT_TRUE(told("submit").starts_with("HANDLER is required\n")) << told("submit");
}

TEST(CliOptionsTest, HelpIsAlsoAWord) {
  for (const auto& [word, option] : std::map<std::string, std::string>{
           {"help", "--help"}, {"help run", "run --help"}, {"help customer set", "customer set --help"}}) {
    EXPECT_EQ(parse(word).error().text, parse(option).error().text);
    EXPECT_EQ(parse(word).error().exit_code, daemon::kExitOk);
  }
  EXPECT_EQ(parse("help nosuch").error().exit_code, daemon::kExitUsage);
  EXPECT_EQ(parsed<SubmitArguments>("submit help").handler, "help");
}

TEST(CliOptionsTest, SubmitAndRunHaveEachOptionOfABatch) {
  for (const char* command : {"submit --help", "run --help"}) {
    const std::string help = parse(command).error().text;
    for (const proto::BatchOption& option : proto::kBatchOptions) {
      EXPECT_THAT(help, HasSubstr("    --" + std::string(option.flag) + " ")) << command;
      EXPECT_THAT(help, HasSubstr(option.help)) << command;
    }
  }
}

TEST(CliOptionsTest, EveryCommandHasHelpWithAnExample) {
  for (const char* command :
       {"",       "submit",   "run",     "results", "wait",  "status", "explain", "list",
        "cancel", "retry",    "forget",  "weight",  "pause", "resume", "job",     "running",
        "log",    "handlers", "tenants", "workers", "ping",  "info",   "bench"}) {
    const auto result = parse(std::string(command) + " --help");
    ASSERT_FALSE(result) << command;
    EXPECT_EQ(result.error().exit_code, daemon::kExitOk) << command;
    EXPECT_THAT(result.error().text, HasSubstr("Example:\n  ")) << command;
  }
}

std::string problem_of(const std::string& line) {
  const auto result = parse(line);
  if (result) return "none";
  EXPECT_EQ(result.error().exit_code, daemon::kExitUsage) << line;
  return result.error().text.substr(0, result.error().text.find('\n'));
}

TEST(CliOptionsTest, ATypingErrorInACommandOrAnOptionHasAGuess) {
  EXPECT_EQ(problem_of("lsit"), "no command is named 'lsit'; did you mean 'list'?");
  EXPECT_EQ(problem_of("customer st x"), "no command is named 'st'; did you mean 'set'?");
  EXPECT_EQ(problem_of("dance"), "no command is named 'dance'");
  EXPECT_EQ(problem_of("--jsno list"), "no option is named '--jsno'; did you mean '--json'?");
  EXPECT_EQ(problem_of("submit echo --weihgt 3 a"),
            "no option is named '--weihgt'; did you mean '--weight'?");
  EXPECT_EQ(problem_of("list --limt=3"), "no option is named '--limt=3'; did you mean '--limit'?");
  EXPECT_EQ(problem_of("list --sevrer h:1"), "no option is named '--sevrer'; did you mean '--server'?");
  EXPECT_EQ(problem_of("customer set acme --wieght 3"),
            "no option is named '--wieght'; did you mean '--weight'?");
  EXPECT_EQ(problem_of("list --quite-another"), "no option is named '--quite-another'");
  EXPECT_EQ(problem_of("list -q"), "no option is named '-q'");
  EXPECT_THAT(problem_of("wait a b"), HasSubstr("was not expected"));
}

TEST(CliOptionsTest, TopPrintsSoManyScreensAsTextOrTextWithoutEnd) {
  EXPECT_EQ(parsed<TopArguments>("top").frames, std::nullopt);
  EXPECT_EQ(parsed<TopArguments>("top -b 010").frames, 10U);
  EXPECT_EQ(parsed<TopArguments>("top -b3 --sort jobs").frames, 3U);
  EXPECT_EQ(parsed<TopArguments>("top --once").frames, 1U);
  for (const char* const endless : {"top -b", "top --batch", "top -b -d 0.5", "top --batch --sort jobs"})
    EXPECT_GT(parsed<TopArguments>(endless).frames.value_or(0), 1'000'000'000U) << endless;
  EXPECT_EQ(parsed<TopArguments>("top -b -d 0.5").interval, std::chrono::milliseconds(500));
  for (const char* const wrong : {"top -b 0", "top -b x", "top -b --once"})
    EXPECT_FALSE(parse(wrong)) << wrong;
}

}  // namespace
}  // namespace locksley::cli
