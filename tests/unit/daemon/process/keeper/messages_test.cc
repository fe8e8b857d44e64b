// The messages between the daemon and its keeper, and the requests made from a configuration.
#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <string>

#include "core/batch/handler.h"
#include "core/tasks/context.h"
#include "daemon/base/loop/processor_time.h"
#include "daemon/process/keeper/child.h"
#include "daemon/process/keeper/spawn_request.h"
#include "daemon/process/lane/program.h"
#include "daemon/process/runners/job_end.h"
#include "tests/support/seed.h"

namespace locksley::daemon {
namespace {

using Texts = std::vector<std::string>;
using namespace std::chrono_literals;

SpawnRequest full_request() {
  SpawnRequest request;
  request.arguments = {"program", "", std::string(100'000, 'x'), "\xff\n"};
  request.environment = {"A=1", "B="};
  request.path = "/bin:/usr/bin";
  request.directory = "/tmp";
  request.cpu_seconds = 1;
  request.memory_bytes = ~std::uint64_t{0};
  request.file_bytes = 3;
  request.files = 4;
  request.processes = 5;
  request.changes_user = true;
  request.user = 65534;
  request.group = 7;
  return request;
}

TEST(SpawnRequestTest, ComesBackAsItWas) {
  const SpawnRequest request = full_request();
  const auto back = decode_spawn_request(encode(request));
  ASSERT_TRUE(back);
  EXPECT_EQ(encode(*back), encode(request));
  EXPECT_EQ(back->arguments, request.arguments);
  EXPECT_EQ(back->environment, request.environment);
  EXPECT_EQ(back->path, request.path);
  EXPECT_EQ(back->directory, request.directory);
  EXPECT_EQ(back->memory_bytes, request.memory_bytes);
  EXPECT_EQ(back->processes, request.processes);
  EXPECT_TRUE(back->changes_user);
  EXPECT_EQ(back->user, request.user);
  EXPECT_EQ(back->group, request.group);
}

TEST(SpawnRequestTest, APartOfOneIsNone) {
  SpawnRequest request = full_request();
  request.arguments[2] = "x";
  const std::string bytes = encode(request);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_FALSE(decode_spawn_request(bytes.substr(0, size))) << size;
  }
  EXPECT_FALSE(decode_spawn_request(bytes + "x"));
  EXPECT_FALSE(decode_spawn_request(encode(SpawnRequest{}))) << "nothing to start";
}

TEST(SpawnRequestTest, ForeignBytesAreNeitherTrustedNorAllocatedFor) {
  auto random = testing::stress_random(1);
  const std::string good = encode(full_request());
  for (int i = 0; i < 20'000; ++i) {
    std::string bytes = i % 2 == 0 ? good.substr(0, random() % 300) : std::string(random() % 300, '\0');
    for (std::size_t flips = random() % 8 + 1; flips != 0 && !bytes.empty(); --flips) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (const auto request = decode_spawn_request(bytes)) {
      EXPECT_FALSE(request->arguments.empty());
    }
  }
}

config::Handler command(Texts words, config::Input input = config::Input::kArgument) {
  config::Handler settings;
  settings.command = std::move(words);
  settings.input = input;
  return settings;
}

TEST(ProgramTest, PutsThePayloadInPlaceOfBraces) {
  const auto program = Program::make("h", command({"a", "{}", "x{}y{}", "{", "}{", "{}{}"}));
  ASSERT_TRUE(program);
  EXPECT_EQ(program->request_for({}, "{}").arguments, (Texts{"a", "{}", "x{}y{}", "{", "}{", "{}{}"}));
  EXPECT_EQ(program->request_for({}, "").arguments, (Texts{"a", "", "xy", "{", "}{", ""}));
  EXPECT_EQ(program->request_for({}, "$1").arguments, (Texts{"a", "$1", "x$1y$1", "{", "}{", "$1$1"}));
}

TEST(ProgramTest, LeavesBracesAloneWhereThePayloadIsRead) {
  const auto program = Program::make("h", command({"a", "{}"}, config::Input::kStdin));
  ASSERT_TRUE(program);
  EXPECT_EQ(program->request_for({}, "payload").arguments, (Texts{"a", "{}"}));
}

TEST(ProgramTest, GivesNothingButWhatIsSaid) {
  ::setenv("LOCKSLEY_ODD", "x", 1);
  config::Handler settings = command({"a"}, config::Input::kStdin);
  settings.environment = {"A=1", "HOME=/here", "PATH=/only"};
  const auto program = Program::make("h", settings);
  ::unsetenv("LOCKSLEY_ODD");
  ASSERT_TRUE(program);
  EXPECT_EQ(program->request().environment, (Texts{"LOCKSLEY_HANDLER=h", "A=1", "HOME=/here", "PATH=/only"}));
  EXPECT_EQ(program->request().path, "/only");
  const JobVariables job{
      .batch = "b", .index = 7, .attempt = 2, .tenant = "t", .trace = "00-1", .lane = "l", .slot = "s"};
  Texts environment = program->request_for(job, "").environment;
  environment.erase(environment.begin(), environment.begin() + 4);
  EXPECT_EQ(environment, (Texts{"LOCKSLEY_LANE=l", "LOCKSLEY_SLOT=s", "LOCKSLEY_BATCH=b", "LOCKSLEY_INDEX=7",
                                "LOCKSLEY_ATTEMPT=2", "LOCKSLEY_TENANT=t", "TRACEPARENT=00-1"}));
}

TEST(ProgramTest, PutsTheNameOfTheSlotIntoItsOwnVariables) {
  config::Handler settings = command({"a"}, config::Input::kStdin);
  settings.environment = {"DEVICE=gpu{slot}/{slot}", "OTHER={}", "HOME=/h", "PATH=/p"};
  const auto program = Program::make("h", settings);
  ASSERT_TRUE(program);
  EXPECT_EQ(program->request_for_slot("l", "7").environment,
            (Texts{"LOCKSLEY_HANDLER=h", "DEVICE=gpu7/7", "OTHER={}", "HOME=/h", "PATH=/p", "LOCKSLEY_LANE=l",
                   "LOCKSLEY_SLOT=7"}));
}

TEST(ProgramTest, NamesTheKeyOfAUserThatIsNotThere) {
  config::Handler settings = command({"a"}, config::Input::kStdin);
  settings.user = "no-such-user";
  const auto program = Program::make("h", settings);
  ASSERT_FALSE(program);
  EXPECT_EQ(program.error(), "handlers.h.user: there is no user 'no-such-user' on this machine");
}

TEST(ProgramTest, TakesTheLimitsOver) {
  config::Handler settings = command({"a"}, config::Input::kStdin);
  settings.limits = {
      .cpu = 2s, .memory = config::mebibytes(3), .file_size = config::Bytes{4}, .files = 5, .processes = 6};
  const SpawnRequest request = Program::make("h", settings)->request();
  EXPECT_EQ(request.cpu_seconds, 2U);
  EXPECT_EQ(request.memory_bytes, 3U << 20);
  EXPECT_EQ(request.file_bytes, 4U);
  EXPECT_EQ(request.files, 5U);
  EXPECT_EQ(request.processes, 6U);
}

TEST(ProgramTest, LooksForItsFileAsItIsLookedForAtTheStart) {
  const auto sentence = [](const config::Handler& settings) {
    const auto found = Program::make("h", settings)->look_up_file("h");
    return found ? std::string("found") : found.error();
  };
  EXPECT_EQ(sentence(command({"sh"})), "found");
  EXPECT_EQ(sentence(command({"/bin/sh"})), "found");
  EXPECT_EQ(sentence(command({"{}"})), "found");
  EXPECT_EQ(sentence(command({"no-such-program"})),
            "handlers.h.command: the program 'no-such-program' cannot be started: No such file or directory; "
            "install it, or name the file that is there");
  EXPECT_EQ(sentence(command({"/tmp"})),
            "handlers.h.command: the program '/tmp' cannot be started: Permission denied; "
            "install it, or name the file that is there");
  config::Handler settings;
  settings.worker = {"./sh"};
  settings.directory = "/bin";
  EXPECT_EQ(sentence(settings), "found");
  settings.directory = "/";
  EXPECT_THAT(sentence(settings), ::testing::StartsWith("handlers.h.worker: "));
  settings = command({"sh"});
  settings.environment = {"PATH=/nowhere"};
  EXPECT_NE(sentence(settings), "found");
}

// The command of a payload of the handler `exec`, or the error of its job.
std::expected<SpawnRequest, std::string> command_of(std::string_view payload) {
  return Program::make("exec", command({"exec"}))->request_for_command({}, payload);
}

std::string refusal_of(std::string_view payload) {
  const auto request = command_of(payload);
  return request ? "none" : request.error();
}

std::string joined(const Texts& texts, std::string_view before, std::string_view after) {
  std::string all(before);
  for (const std::string& text : texts) all.append(text).append(1, '\0');
  return all.append(after);
}

using namespace std::string_literals;

TEST(ProgramTest, TakesTheLastValueOfEachVariableOfACommand) {
  const auto request = command_of("/\0B=1\0PATH=/a\0A=1\0B=2\0BB=\0PATH=/b=c\0\0x\0"s);
  ASSERT_TRUE(request);
  EXPECT_EQ(request->arguments, (Texts{"x", ""}));
  EXPECT_EQ(request->path, "/b=c");
  const Texts& all = request->environment;
  EXPECT_EQ(Texts(all.end() - 4, all.end()), (Texts{"A=1", "B=2", "BB=", "PATH=/b=c"}));
  EXPECT_EQ(std::ranges::count_if(all, [](const std::string& one) { return one.starts_with("PATH="); }), 1);
}

// The thread of the lanes makes it, and serves no process meanwhile.
TEST(ProgramTest, VariablesOfACommandTakeTimeByTheirNumber) {
  const auto time_for = [](int count) {
    Texts variables;
    for (int i = 0; i < count; ++i) variables.push_back("V" + std::to_string(i) + "=");
    const std::string payload = joined(variables, "/\0"s, "\0x"s);
    auto least = std::chrono::nanoseconds::max();
    for (int round = 0; round < 3; ++round) {
      const auto before = processor_time();
      EXPECT_TRUE(command_of(payload));
      least = std::min<std::chrono::nanoseconds>(least, processor_time() - before);
    }
    return least;
  };
  // 16 times as many would take 256 times as long if each were compared with all.
  EXPECT_LT(time_for(32'000), 64 * time_for(2'000));
}

TEST(ProgramTest, RefusesTextsOfACommandThatTheKernelDoesNotTake) {
  const std::size_t longest = 32 * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) - 1;
  const std::string most(longest, 'x');
  EXPECT_EQ(refusal_of("/\0\0prog\0"s + most), "none");
  EXPECT_EQ(refusal_of("/\0A="s + most.substr(2) + "\0\0prog\0x"s), "none");
  const std::string said = "its arguments are too long: an argument or a variable has " +
                           std::to_string(longest + 1) + " bytes, and the kernel takes " +
                           std::to_string(longest) + " at most";
  for (const std::string& payload :
       {"/\0\0prog\0x"s + most, "/\0\0prog\0x"s + most + "\0y"s, "/\0A="s + most.substr(1) + "\0\0prog"s}) {
    EXPECT_EQ(refusal_of(payload), said);
  }
  EXPECT_EQ(refusal_of("/\0\0"s + std::string(PATH_MAX - 1, '/') + "\0x"s), "none");
  EXPECT_EQ(
      refusal_of("/\0\0"s + std::string(PATH_MAX, '/') + "\0x"s),
      "its arguments are too long: the program's name has 4096 bytes, and the kernel takes 4095 at most");
}

TEST(ProgramTest, RefusesMoreTextsOfACommandThanTheKernelTakes) {
  EXPECT_EQ(refusal_of("/\0\0prog"s + std::string(1'000, '\0')), "none");
  // One byte each, and eight for the address. 6 MiB is the most that the kernel ever takes.
  EXPECT_THAT(
      refusal_of("/\0\0prog"s + std::string((std::size_t{6} << 20) / 9, '\0')),
      ::testing::MatchesRegex("its arguments are too long: with 8 bytes for each they have 62914.. bytes, "
                              "and the kernel takes [0-9]+ at most"));
  const Texts large(100, std::string(100'000, 'x'));
  EXPECT_THAT(refusal_of(joined(large, "/\0\0prog\0"s, "")),
              ::testing::StartsWith("its arguments are too long: with 8 bytes for each "));
}

Texts files_of(const std::string& name, const std::string& path) {
  SpawnRequest request;
  request.arguments = {name};
  request.path = path;
  ProgramFiles files(request);
  Texts all;
  while (const char* const file = files.next()) all.emplace_back(file);
  EXPECT_EQ(files.next(), nullptr) << "over is over";
  return all;
}

TEST(ProgramFilesTest, AreThoseOfEachFolder) {
  EXPECT_EQ(files_of("x", "/a:b::/c/:"), (Texts{"/a/x", "b/x", "/c//x"}));
  EXPECT_EQ(files_of("x", ""), Texts{});
  EXPECT_EQ(files_of("./x", "/a:/b"), Texts{"./x"});
  EXPECT_EQ(files_of("/x", ""), Texts{"/x"});
}

TEST(ProgramFilesTest, WhatIsTooLongForTheKernelIsLeftOut) {
  const std::string name(NAME_MAX, 'n');
  const std::string folder =
      "/" + std::string(PATH_MAX - NAME_MAX - 3, 'f');  // with a slash and a NUL, it has room
  EXPECT_EQ(files_of(name, folder + ":" + folder + "f:/a"), (Texts{folder + "/" + name, "/a/" + name}));
  EXPECT_EQ(files_of(name + "n", "/a:/b"), Texts{});
  EXPECT_EQ(files_of(std::string(PATH_MAX - 1, '/'), "/a").size(), 1U);
  EXPECT_EQ(files_of(std::string(PATH_MAX, '/'), "/a"), Texts{});
}

// Changes of settings that are read for each job do not end processes.
TEST(ProgramTest, KnowsWhatAProcessIsStartedWith) {
  const config::Handler before = command({"sh"});
  const auto starts_the_same = [&](const auto& change) {
    config::Handler after = before;
    change(after);
    return Program::make("h", after)->starts_the_same_process_as(*Program::make("h", before));
  };
  EXPECT_TRUE(starts_the_same([](config::Handler& h) {
    h.concurrency = 5;
    h.rate = config::Rate{1};
    h.timeout = 1s;
    h.retries = 1;
    h.grace = 1s;
    h.max_jobs = 1;
    h.max_memory = config::mebibytes(1);
    h.remote = config::Remote::kYes;
    h.max_running = 3;
  }));
  EXPECT_FALSE(starts_the_same([](config::Handler& h) { h.command = {"sh", "-c"}; }));
  EXPECT_FALSE(starts_the_same([](config::Handler& h) { h.environment = {"A=1"}; }));
  EXPECT_FALSE(starts_the_same([](config::Handler& h) { h.directory = "/"; }));
  EXPECT_FALSE(starts_the_same([](config::Handler& h) { h.limits.files = 9; }));
  EXPECT_FALSE(starts_the_same([](config::Handler& h) { h.confine.network = config::Network::kNo; }));
  // Both are fixed when the process begins: the answers' reader is made with the largest output.
  EXPECT_FALSE(starts_the_same([](config::Handler& h) { h.max_output = config::mebibytes(1); }));
  EXPECT_FALSE(starts_the_same([](config::Handler& h) { h.worker_protocol = 2; }));
}

TEST(JobEndTest, SaysWhatHappened) {
  EXPECT_EQ(killed_by(SIGSEGV), "killed by signal 11 (Segmentation fault)");
  EXPECT_EQ(killed_by(SIGXCPU),
            "killed by signal 24 (CPU time limit exceeded): more processor time than limits.cpu");
  EXPECT_EQ(killed_by(SIGXFSZ),
            "killed by signal 25 (File size limit exceeded): a larger file than limits.file_size");
  EXPECT_EQ(killed_by(40), "killed by signal 40 (unknown)");
  EXPECT_EQ(timed_out(1500ms, ""), "timed out after 1500ms");
  EXPECT_EQ(timed_out(2s, "at it"), "timed out after 2s: at it");
  EXPECT_EQ(with_errors("exit status 1", ""), "exit status 1");
  config::Handler settings;
  settings.max_output = config::mebibytes(2);
  EXPECT_EQ(too_much_output(settings), "its output is larger than max_output (2MiB)");
}

}  // namespace
}  // namespace locksley::daemon
