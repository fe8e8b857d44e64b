#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/cli/context/event.h"
#include "daemon/cli/exec/command_check.h"
#include "daemon/cli/exec/command_template.h"
#include "daemon/cli/exec/exec_end.h"
#include "daemon/cli/exec/exec_files.h"
#include "daemon/cli/exec/exec_input.h"
#include "daemon/cli/exec/exec_job.h"
#include "daemon/cli/exec/exec_outputs.h"
#include "daemon/cli/exec/foreign_options.h"
#include "daemon/cli/exec/halt.h"
#include "daemon/cli/exec/shell_words.h"
#include "daemon/cli/text/output.h"
#include "tests/support/own_path.h"
#include "tests/support/seed.h"

// `locksley exec`: words, replacement strings, and what is made of results.

namespace locksley::cli {
namespace {

using Words = std::vector<std::string>;

Words replaced(const Words& command, const Words& arguments, std::uint64_t number = 1) {
  return CommandTemplate(command).words(arguments, number);
}

TEST(CommandTemplateTest, ReplacementStringsAreThoseOfGnuParallel) {
  const std::string name = "a/b.c/d.tar.gz";
  const std::pair<std::string, std::string> cases[] = {
      {"{}", name},      {"{.}", "a/b.c/d.tar"},   {"{/}", "d.tar.gz"},
      {"{//}", "a/b.c"}, {"{/.}", "d.tar"},        {"{#}", "7"},
      {"{1}", name},     {"{1/.}x{#}", "d.tarx7"}, {"<{}|{/}>", "<" + name + "|d.tar.gz>"},
      {"{2}{}", name},   {"{1//}", "a/b.c"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(replaced({text}, {name}, 7), Words{expected}) << text;
  EXPECT_EQ(replaced({"{//}", "{.}"}, {"/x"}), (Words{"/", "/x"}));
  EXPECT_EQ(replaced({"{//}", "{.}", "{/}"}, {"x"}), (Words{".", "x", "x"}));
  EXPECT_EQ(replaced({"{.}"}, {"a.b/c"}), Words{"a.b/c"});
}

TEST(CommandTemplateTest, WhatOnlyLooksLikeAReplacementStringIsText) {
  for (const std::string text :
       {"{", "}", "{ }", "{x}", "{0}", "{-1}", "{..}", "{///}", "{1#}", "{99999999999999999999}", "{{"})
    EXPECT_EQ(replaced({text}, {"a"}), (Words{text, "a"})) << text;
  EXPECT_EQ(replaced({"{{}}"}, {"a"}), Words{"{a}"});
}

TEST(CommandTemplateTest, ArgumentsAreNeverLookedAt) {
  for (const std::string argument : {"{}", "{#}", "$(x)", "'", "", " ", "-rf"})
    EXPECT_EQ(replaced({"p", "{}", "-{}-"}, {argument}), (Words{"p", argument, "-" + argument + "-"}));
}

TEST(CommandTemplateTest, AWordOfItsOwnIsOneWordForEachArgument) {
  EXPECT_EQ(replaced({"p"}, {"a", "b"}), (Words{"p", "a", "b"}));
  EXPECT_EQ(replaced({"p", "{/}", "x"}, {"q/a", "b"}), (Words{"p", "a", "b", "x"}));
  EXPECT_EQ(replaced({"p", "<{}>"}, {"a", "b"}), (Words{"p", "<a b>"}));
  EXPECT_EQ(replaced({"{2}", "{1}", "{3}"}, {"a", "b"}), (Words{"b", "a", ""}));
  EXPECT_EQ(replaced({"", "{}"}, {"a"}), (Words{"", "a"}));
}

TEST(ExecCommandTest, ReplacementStringsOfGnuParallelAloneAreRefused) {
  for (const std::string text : {"{%}", "x{%}y", "{= s/a/b/ =}", "{=1=}", "{2=uc=}", "{-1= uc =}", "{-1}",
                                 "{-12.}", "{-1//}", "{}{-2/.}"}) {
    const std::string problem = problem_with_exec_command(Words{"p", text}, "/");
    EXPECT_NE(problem.find(" is missing here"), std::string::npos) << text << ": " << problem;
  }
  for (const std::string text :
       {"{", "{}", "{-", "{-}", "{-x}", "{-1", "{=", "{=}", "{= =", "=}", "{%", "{1}", "{x=1=}"})
    EXPECT_EQ(problem_with_exec_command(Words{"p", text}, "/"), "") << text;
}

TEST(ExecCommandTest, ALineForAShellIsNoProgram) {
  const std::pair<std::string, std::string> cases[] = {
      {"gzip -k {} && ls {}.gz", "sh -c 'gzip -k \"$1\" && ls \"$1\".gz' _ {}"},
      {"cat {/.}>{2};echo {#}", "sh -c 'cat \"$1\">\"$2\";echo {#}' _ {/.} {2}"},
      {"echo $HOME", "sh -c 'echo $HOME \"$1\"' _ {}"},
      {"echo '{}'", "sh -c 'sort \"$1\" | uniq' _ {}"},
  };
  for (const auto& [program, instead] : cases) {
    const std::string problem = problem_with_exec_command(Words{program}, "/");
    EXPECT_TRUE(problem.ends_with(" needs a shell: locksley exec -- " + instead)) << problem;
  }
  const testing::OwnPath folder("exec command");
  std::filesystem::create_directories(folder.text() + "/a b");
  EXPECT_EQ(problem_with_exec_command(Words{"/opt/My Tools (new)/convert", "{}"}, "/"), "")
      << "the daemon's machine may have it";
  EXPECT_NE(problem_with_exec_command(Words{"/bin/sort {} | uniq"}, "/"), "");
  std::filesystem::create_directories(folder.text() + "/a $b");
  EXPECT_EQ(problem_with_exec_command(Words{folder.text() + "/a $b", "{}"}, "/"), "")
      << "there is such a file";
  EXPECT_EQ(problem_with_exec_command(Words{"./a b"}, folder.text()), "");
  EXPECT_NE(problem_with_exec_command(Words{"a b"}, folder.text()), "") << "it would be looked for in PATH";
  EXPECT_EQ(problem_with_exec_command(Words{"echo", "a && b", "$HOME"}, "/"), "") << "arguments are text";
}

TEST(ExecCommandTest, NoArgumentBecomesAPartOfAScript) {
  const std::pair<Words, std::string> cases[] = {
      {{"sh", "-c", "echo {}"}, "sh -c 'echo \"$1\"' _ {}"},
      {{"/bin/bash", "-euo", "pipefail", "-c", "cat {1.}|wc {2}"},
       "/bin/bash -c 'cat \"$1\"|wc \"$2\"' _ {1.} {2}"},
      {{"env", "A=1", "zsh", "-lc", "cat <{//}"}, "zsh -c 'cat <\"$1\"' _ {//}"},
      {{"timeout", "5", "dash", "-c", "--", "{}x", "_", "{}"}, "dash -c '\"$1\"x' _ {}"},
      {{"ksh", "-c", "echo '{}'"}, "ksh -c 'sort \"$1\" | uniq' _ {}"},
  };
  for (const auto& [words, instead] : cases) {
    const std::string problem = problem_with_exec_command(words, "/");
    EXPECT_TRUE(problem.contains(" is refused: the shell would execute what an argument contains."))
        << problem;
    EXPECT_TRUE(problem.ends_with(": locksley exec -- " + instead)) << problem;
  }
  const Words fine[] = {{"sh", "-c", "echo \"$1\" {#}", "_", "{}"},
                        {"sh", "-c", "{}"},
                        {"sh", "-c"},
                        {"sh", "file", "-c", "x{}"},
                        {"sh", "-o", "-c", "x{}"},
                        {"grep", "sh", "-c", "x{}"},
                        {"env", "A={}", "wc", "-c", "x{}"},
                        {"sh", "-x", "x{}"}};
  for (const Words& words : fine)
    EXPECT_EQ(problem_with_exec_command(words, "/"), "") << quoted_command(words);
}

std::vector<Words> all_of(const Words& words) {
  const auto parsed = ExecWords::parse(words);
  EXPECT_TRUE(parsed.has_value());
  ExecInput input(parsed->lists, {}, -1, -1);
  std::vector<Words> jobs;
  ExecJob job;
  while (input.next(job, std::chrono::milliseconds(0)).value() == ExecInput::Outcome::kRecord) {
    jobs.push_back(job.arguments);
    EXPECT_EQ(job.number, jobs.size());
  }
  EXPECT_EQ(input.next(job, std::chrono::milliseconds(0)).value(), ExecInput::Outcome::kEnd)
      << "it stays at its end";
  return jobs;
}

TEST(ExecInputTest, ListsAreCombinedTheLastTheFastest) {
  EXPECT_EQ(all_of({"p", ":::", "a", "b"}), (std::vector<Words>{{"a"}, {"b"}}));
  EXPECT_EQ(all_of({"p", ":::", "a", "b", ":::", "1", "2"}),
            (std::vector<Words>{{"a", "1"}, {"a", "2"}, {"b", "1"}, {"b", "2"}}));
  EXPECT_EQ(all_of({"p", ":::", "a", "b", "c", ":::+", "1", "2"}),
            (std::vector<Words>{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(all_of({"p", ":::", "a", ":::+", "1", "2"}), (std::vector<Words>{{"a", "1"}}));
  EXPECT_EQ(all_of({"p", ":::", "a", ":::", "1", "2", ":::+", "x", "y"}),
            (std::vector<Words>{{"a", "1", "x"}, {"a", "2", "y"}}));
  EXPECT_EQ(all_of({"p", ":::", "a", ":::"}), std::vector<Words>{});
  EXPECT_EQ(all_of({"p", ":::"}), std::vector<Words>{});
}

TEST(ExecInputTest, WordsThatMakeNoSenseAreRefused) {
  EXPECT_FALSE(ExecWords::parse(Words{"p", ":::+", "a"}));
  EXPECT_FALSE(ExecWords::parse(Words{"", "a"}));
  const auto odd = ExecWords::parse(Words{"p", "::", "-x", ":::", "--", ":::::"});
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->command, (Words{"p", "::", "-x"}));
  EXPECT_EQ(odd->lists.at(0).arguments, (Words{"--", ":::::"}));
  for (const std::string mark : {"::::", "::::+"}) {
    EXPECT_FALSE(ExecWords::parse(Words{"p", mark, "file"})) << "files of GNU parallel";
    EXPECT_FALSE(ExecWords::parse(Words{"p", ":::", "a", mark, "file"}));
  }
}

TEST(ForeignOptionsTest, JobsAtOnceAreThoseOfGnuParallel) {
  using Jobs = std::optional<std::uint32_t>;
  const std::pair<std::string, Jobs> cases[] = {
      {"4", 4},  {"0", {}},   {"100%", 6}, {"50%", 3}, {"1%", 1},  {"+1", 7},    {"-2", 4},
      {"-6", 1}, {"-100", 1}, {"+0", 6},   {"0%", 1},  {"004", 4}, {"200%", 12}, {"4294967295", 4294967295}};
  for (const auto& [text, expected] : cases) EXPECT_EQ(jobs_at_once(text, 6).value(), expected) << text;
  EXPECT_EQ(jobs_at_once("+1", 0).value(), 2U) << "the number of processors is not known";
  EXPECT_EQ(jobs_at_once("+4294967295", 6).value(), 4294967295U);
  for (const std::string text : {"", "x", "+", "-", "%", "+1%", "1.5", "0x1", "--1", "4294967296", "1 "})
    EXPECT_FALSE(jobs_at_once(text, 6)) << text;
}

TEST(ForeignOptionsTest, SayWhatToUseInstead) {
  for (const std::string word : {"-L", "-L1", "-a", "--tagstring", "--tagstring=x", "-u", "--line-buffer"})
    EXPECT_NE(instead_of_option(word), "") << word;
  for (const std::string word : {"--no-such", "-Z", "--workdir", "--", "-", ""})
    EXPECT_EQ(instead_of_option(word), "") << word;
}

TEST(ExecJobTest, IsTheSameAfterItsText) {
  for (const Words& arguments : {Words{}, Words{""}, Words{"", ""}, Words{"a", "", "b c"}}) {
    const ExecJob job = ExecJob::of(ExecJob{.number = 12, .arguments = arguments}.text());
    EXPECT_EQ(job.number, 12U);
    EXPECT_EQ(job.arguments, arguments);
  }
}

TEST(ShellWordsTest, EveryCommandIsReadAsItWasWritten) {
  std::mt19937_64 random = testing::stress_random(0);
  for (int round = 0; round < 2'000; ++round) {
    Words words(1 + random() % 4);
    for (std::string& word : words) {
      for (std::uint64_t length = random() % 6; length > 0; --length)
        word += static_cast<char>(1 + random() % 255);
    }
    const std::string line = quoted_command(words);
    EXPECT_EQ(line.find_first_of("\n\t"), std::string::npos) << "one line, one column";
    const auto read = split_command(line);
    ASSERT_TRUE(read) << line;
    EXPECT_EQ(*read, words) << line;
  }
}

TEST(ShellWordsTest, PlainWordsStayPlainAndOthersAreQuoted) {
  EXPECT_EQ(quoted_command(Words{"gzip", "-k", "a/b.txt"}), "gzip -k a/b.txt");
  EXPECT_EQ(quoted_command(Words{"", "a b", "it's", "$x"}), "'' 'a b' 'it'\\''s' '$x'");
  EXPECT_EQ(quoted_command(Words{"a\nb'"}), "$'a\\x0ab\\''");
  EXPECT_EQ(split_command("a\\ b \"c\\\"d\" e''f").value(), (Words{"a b", "c\"d", "ef"}));
}

TEST(ShellWordsTest, WhatNeedsAShellIsRefused) {
  for (const char* const line :
       {"a | b", "a; b",   "a &",    "$x",  "\"$x\"", "`x`",     "\"`x`\"", "a > b", "*",   "?",    "~",
        "'open", "\"open", "$'open", "a\\", "$'\\q'", "$'\\x1'", "#x",      "!x",    "(x)", "{a,b}"})
    EXPECT_FALSE(split_command(line)) << line;
}

TEST(HaltTest, CountsWhatItIsAskedToCount) {
  auto halt = Halt::parse("now,fail=2").value();
  EXPECT_EQ(halt.when(), Halt::When::kNow);
  EXPECT_EQ(halt.most_failed(false), 2U);
  for (const bool is_ok : {true, false, true}) halt.count(is_ok);
  EXPECT_FALSE(halt.is_reached({}));
  halt.count(false);
  EXPECT_TRUE(halt.is_reached({}));
  EXPECT_EQ(Halt::parse("soon,fail=2").value().most_failed(false), std::nullopt)
      << "it would end the jobs that run";
  EXPECT_EQ(Halt::parse("soon,fail=2").value().most_failed(true), 2U);
  EXPECT_EQ(Halt::parse("never").value().most_failed(true), std::nullopt);
  auto share = Halt::parse("soon,success=50%").value();
  EXPECT_EQ(share.most_failed(true), std::nullopt);
  EXPECT_FALSE(share.is_reached(0)) << "nothing has ended";
  share.count(true);
  EXPECT_TRUE(share.is_reached(2));
  EXPECT_FALSE(share.is_reached(3));
  share.count(false);
  EXPECT_FALSE(share.is_reached(4));
  EXPECT_FALSE(share.is_reached({})) << "of an unknown number";
  auto never = Halt::parse("never").value();
  never.count(false);
  EXPECT_FALSE(never.is_reached(1));
  // As GNU parallel abbreviates soon,fail=1 and now,fail=1.
  EXPECT_EQ(Halt::parse("0").value().when(), Halt::When::kNever);
  EXPECT_EQ(Halt::parse("1").value().when(), Halt::When::kSoon);
  EXPECT_EQ(Halt::parse("2").value().most_failed(false), 1U);
  for (const char* const text :
       {"", "now", "now,", "now,fail", "now,fail=", "now,fail=0", "now,fail=-1", "now,fail=x", "now,fail=1x",
        "now,fail=101%", "now,fail=1%%", "now=fail,1", "soon,bad=1", "3", "50%"})
    EXPECT_FALSE(Halt::parse(text)) << text;
}

// As GNU parallel 20221122 ends, by its manual.
TEST(HaltTest, TheExitStatusIsThatOfGnuParallel) {
  const auto reached = [](std::string_view text, int failed, int of_job) {
    auto halt = Halt::parse(text).value();
    for (int i = 0; i < failed; ++i) halt.count(false);
    return halt.status_when_reached(of_job, 5);
  };
  for (const char* const text : {"now,fail=1", "soon,fail=1", "soon,done=1"})
    EXPECT_EQ(reached(text, 1, 7), 7) << text;
  for (const char* const text : {"now,fail=2", "soon,fail=2", "now,done=2"})
    EXPECT_EQ(reached(text, 2, 9), 2) << text;
  for (const char* const text : {"now,fail=40%", "soon,done=40%"}) EXPECT_EQ(reached(text, 2, 9), 40) << text;
  for (const char* const text : {"now,success=1", "soon,success=2", "now,success=40%"})
    EXPECT_EQ(reached(text, 2, 9), 0) << text;
  EXPECT_EQ(reached("soon,fail=200", 200, 9), 101);
  const auto at_end = [](std::string_view text, std::uint64_t bad, std::uint64_t total) {
    return Halt::parse(text).value().status_at_end(bad, total);
  };
  for (const char* const text : {"never", "now,fail=10", "now,success=10"}) {
    EXPECT_EQ(at_end(text, 4, 5), 4) << text;
    EXPECT_EQ(at_end(text, 101, 200), 101) << text;
  }
  for (const char* const text : {"now,fail=100%", "soon,success=100%"}) {
    EXPECT_EQ(at_end(text, 4, 5), 80) << text;
    EXPECT_EQ(at_end(text, 1, 3), 34) << text << ": rounded up";
    EXPECT_EQ(at_end(text, 0, 0), 0) << text;
  }
}

TEST(ExecEndTest, ReadsHowAJobEnded) {
  const auto end = [](std::string_view status, std::string_view text) {
    return ExecEnd::of({0, status, text});
  };
  using namespace std::string_view_literals;
  EXPECT_EQ(end("ok", "exit status 3").exit_value, 0);
  EXPECT_EQ(end("ok", "a\0b"sv).output, "a\0b"sv);
  const ExecEnd failed = end("error", "exit status 3: said\0out\0put"sv);
  EXPECT_EQ(failed.exit_value, 3);
  EXPECT_EQ(failed.output, "out\0put"sv);
  EXPECT_EQ(failed.message("said"), "");
  EXPECT_EQ(failed.shell_status(), 3);
  const ExecEnd killed = end("crashed", "killed by signal 9 (Killed): said");
  EXPECT_EQ(killed.signal, 9);
  EXPECT_EQ(killed.message("first\nsaid\n"), "killed by signal 9 (Killed)");
  EXPECT_EQ(killed.message(""), "killed by signal 9 (Killed): said");
  EXPECT_EQ(killed.shell_status(), 137);
  EXPECT_EQ(end("timeout", "timed out after 1s").exit_value, -1);
  EXPECT_EQ(end("error", "the program 'x' cannot be started: No such file or directory").exit_value, 127);
  EXPECT_TRUE(end("cancelled", "cancelled").is_cancelled());
}

TEST(ExecFilesTest, NoArgumentLeavesTheFolder) {
  const std::pair<std::string, std::string> cases[] = {{"a", "a"},
                                                       {"a/b", "a+zb"},
                                                       {"+", "++"},
                                                       {".", "+d"},
                                                       {"..", "+d+d"},
                                                       {"...", "..."},
                                                       {"\\", "+b"},
                                                       {"\t", "+t"},
                                                       {"", "5"},
                                                       {std::string(300, 'x'), "5"},
                                                       {"../../x", "..+z..+zx"}};
  for (const auto& [argument, folder] : cases) EXPECT_EQ(ExecFiles::folder_of(argument, 5), folder);
}

// ExecOutputs to /dev/null, with the joblog's lines of the jobs that it has shown.
struct ShownJobs {
  explicit ShownJobs(ExecOutputs::Options options)
      : outputs(options, output, [] {}, [this](std::string_view line) { lines.emplace_back(line); }) {}
  ~ShownJobs() { ::close(null); }
  ShownJobs(const ShownJobs&) = delete;
  ShownJobs& operator=(const ShownJobs&) = delete;

  // Job `index` + 1, with its number as argument, output and line.
  void add(std::uint64_t index) {
    const std::string text = std::to_string(index + 1);
    outputs.add(index, {.number = index + 1, .arguments = {text}}, ExecEnd::of({index, "ok", text}), {},
                text);
  }

  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  Event stop;
  Output output{null, stop.fd()};
  Words lines;
  ExecOutputs outputs;
};

TEST(ExecOutputsTest, AJobThatIsHeldBackIsNotYetShown) {
  ShownJobs shown({.keeps_order = true});
  for (const std::uint64_t index : {2U, 0U, 3U}) shown.add(index);
  EXPECT_EQ(shown.lines, Words{"1"});
  shown.add(1);
  EXPECT_EQ(shown.lines, (Words{"1", "2", "3", "4"}));
  shown.add(5);
  EXPECT_EQ(shown.lines.size(), 4U);
  shown.outputs.finish();
  EXPECT_EQ(shown.lines.back(), "6");
}

TEST(ExecOutputsTest, NoJobIsShownAfterAFileThatCannotBeWritten) {
  const testing::OwnPath folder("exec_outputs");
  std::filesystem::create_directories(folder.text() + "/1/2/stdout");
  ExecFiles files(folder.text());
  ShownJobs shown({.files = &files});
  for (const std::uint64_t index : {0U, 1U, 2U}) shown.add(index);
  EXPECT_EQ(shown.lines, Words{"1"});
  EXPECT_NE(shown.outputs.problem().find("1/2/stdout"), std::string::npos) << shown.outputs.problem();
}

}  // namespace
}  // namespace locksley::cli
