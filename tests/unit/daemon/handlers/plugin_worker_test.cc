// Plugins in a process of their own: jobs without a pool, and the worker's protocol.
#include "daemon/handlers/plugin_worker.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "daemon/base/exit_codes.h"
#include "daemon/handlers/plugin_lone_host.h"
#include "proto/command_writer.h"
#include "proto/output_buffer.h"

namespace locksley::daemon {
namespace {

PluginFile open_plugin(const std::string& name) {
  auto file = PluginFile::open(std::string(LOCKSLEY_TEST_PLUGINS) + "/" + name + ".so", "h");
  if (!file) throw std::runtime_error(file.error());
  return std::move(*file);
}

// Returns "ok: " or "error: " and the text.
std::string run(const PluginFile& plugin, const std::string& payload) {
  const LoneResult result =
      run_plugin_job_alone(plugin.plugin(), plugin.state(), {.index = 7, .batch_id = "b1"}, payload);
  return (result.is_ok ? "ok: " : "error: ") + result.text;
}

TEST(PluginLoneJobTest, InC) {
  const PluginFile plugin = open_plugin("in_c");
  EXPECT_EQ(run(plugin, "echo "), "ok: ");
  EXPECT_EQ(run(plugin, "describe"), "ok: h 7 1 b1  ");
  EXPECT_EQ(run(plugin, "fail"), "error: as asked");
  EXPECT_EQ(run(plugin, "silent"), "error: the plugin failed without giving a reason");
  EXPECT_EQ(run(plugin, "give up"), "error: the plugin gave up although it was not asked to stop");
  EXPECT_EQ(run(plugin, "fib 20"), "ok: 6765");
  EXPECT_EQ(run(plugin, "task fails"), "error: from below");
  EXPECT_EQ(run(plugin, "task is silent"), "error: the plugin failed without giving a reason");
  EXPECT_EQ(run(plugin, "task is forgiven"), "ok: from below");
  EXPECT_EQ(run(plugin, "task writes"), "error: only the job itself can write: this is a sub-job or a loop");
  EXPECT_EQ(run(plugin, "large argument"),
            "error: a sub-job's argument is larger than LOCKSLEY_MOST_ARGUMENT");
  EXPECT_EQ(run(plugin, "loop 100000"), "ok: 100000");
  EXPECT_EQ(run(plugin, "seven"), "error: seven");
}

TEST(PluginLoneJobTest, InCxx) {
  const PluginFile plugin = open_plugin("in_cxx");
  const std::string bytes("\0\r\n\xff", 4);
  EXPECT_EQ(run(plugin, bytes), "ok: " + bytes);
  EXPECT_EQ(run(plugin, "throw"), "error: thrown as asked");
  EXPECT_EQ(run(plugin, "fail"), "error: failed as asked");
  EXPECT_EQ(run(plugin, "fib"), "ok: 6765");
  EXPECT_EQ(run(plugin, "closures"), "ok: 5060 1");
  EXPECT_EQ(run(plugin, "flood"), "ok: flood 7 after 100, then 101");
  EXPECT_EQ(run(plugin, "flood of a job"), "error: the water rises");
  EXPECT_EQ(run(plugin, "loops"), "ok: 1000 500");
  EXPECT_EQ(run(plugin, "give up"), "ok: went on");
}

// The guarantees for a plugin, checked by the plugin itself: order, bursts, two groups at once.
struct Seen {
  std::string order;
};

struct Letter {
  Seen* seen;
  char letter;
};

std::int32_t note(locksley_context*, void* argument) {
  const auto& letter = *static_cast<const Letter*>(argument);
  letter.seen->order += letter.letter;
  return LOCKSLEY_OK;
}

std::int32_t note_piece(locksley_context*, void* argument, std::uint64_t low, std::uint64_t high) {
  static_cast<Seen*>(argument)->order += std::to_string(low) + "-" + std::to_string(high) + " ";
  return LOCKSLEY_OK;
}

// The result of a job that runs this function.
LoneResult run_body(std::int32_t (*body)(void*, locksley_context*, locksley_text), Seen& seen) {
  locksley_plugin plugin{};
  plugin.run = body;
  return run_plugin_job_alone(plugin, &seen, {}, "");
}

TEST(PluginLoneJobTest, SubJobsWaitForWaitAndTheLastIsFirst) {
  Seen seen;
  const auto body = [](void* state, locksley_context* context, locksley_text) -> std::int32_t {
    auto* const own = static_cast<Seen*>(state);
    const locksley_host& host = *context->host;
    locksley_group first;
    locksley_group second;
    host.group_begin(context, &first);
    host.group_begin(context, &second);
    for (const char letter : {'a', 'b'}) {
      const Letter argument{own, letter};
      if (host.spawn(&first, note, &argument, sizeof argument) != LOCKSLEY_OK) return LOCKSLEY_FAILED;
    }
    const Letter argument{own, 'c'};
    if (host.spawn(&second, note, &argument, sizeof argument) != LOCKSLEY_OK) return LOCKSLEY_FAILED;
    own->order += "spawned ";
    if (host.wait(&second) != LOCKSLEY_OK) return LOCKSLEY_FAILED;
    own->order += " waited ";
    host.group_end(&second);
    host.group_end(&first);
    return LOCKSLEY_OK;
  };
  EXPECT_TRUE(run_body(body, seen).is_ok);
  EXPECT_EQ(seen.order, "spawned c waited ba");
}

TEST(PluginLoneJobTest, PiecesAreAsLongAsTheGrainUpToTheLastIndexThereIs) {
  Seen seen;
  const auto body = [](void* state, locksley_context* context, locksley_text) -> std::int32_t {
    const locksley_host& host = *context->host;
    (void)host.parallel_for(context, 0, 5, 2, note_piece, state);
    (void)host.parallel_for(context, 0, 5, 0, note_piece, state);
    (void)host.parallel_for(context, 5, 5, 0, note_piece, state);
    (void)host.parallel_for(context, ~std::uint64_t{0} - 3, ~std::uint64_t{0}, 2, note_piece, state);
    return LOCKSLEY_OK;
  };
  EXPECT_TRUE(run_body(body, seen).is_ok);
  EXPECT_EQ(seen.order,
            "0-2 2-4 4-5 0-5 18446744073709551612-18446744073709551614 "
            "18446744073709551614-18446744073709551615 ");
}

struct Pipe {
  Pipe() {
    if (::pipe(ends.data()) != 0) throw std::runtime_error("no pipe");
  }
  ~Pipe() {
    close_write();
    ::close(ends[0]);
  }
  void close_write() {
    if (ends[1] >= 0) ::close(ends[1]);
    ends[1] = -1;
  }
  std::array<int, 2> ends{};
};

// The worker's answers to these bytes, and its exit code.
struct Served {
  int exit_code;
  std::string answers;
};

Served serve(const std::string& requests) {
  const PluginFile plugin = open_plugin("in_c");
  Pipe in;
  Pipe out;
  std::thread writer([&] {
    for (std::size_t at = 0; at < requests.size();) {
      const ssize_t wrote = ::write(in.ends[1], requests.data() + at, requests.size() - at);
      if (wrote <= 0) break;
      at += static_cast<std::size_t>(wrote);
    }
    in.close_write();
  });
  std::string answers;
  std::thread reader([&] {
    std::array<char, 4096> bytes;
    for (ssize_t got = 0; (got = ::read(out.ends[0], bytes.data(), bytes.size())) > 0;) {
      answers.append(bytes.data(), static_cast<std::size_t>(got));
    }
  });
  sigset_t before;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &before);
  const int exit_code = serve_plugin(plugin, in.ends[0], out.ends[1]);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  out.close_write();
  writer.join();
  reader.join();
  return {exit_code, answers};
}

std::string request(std::string_view payload, std::uint64_t index) {
  proto::OutputBuffer buffer;
  proto::CommandWriter writer(buffer);
  writer.begin(3);
  writer.argument(payload);
  writer.argument(index);
  writer.argument(std::string_view("b2"));
  return buffer.to_string();
}

TEST(PluginWorkerTest, AnswersInOrderWithBytesOfAnyKind) {
  const Served served = serve(request("echo \r\n", 0) + request("fail", 1) + request("describe", 2));
  EXPECT_EQ(served.exit_code, kExitOk);
  EXPECT_EQ(served.answers, "$2\r\n\r\n\r\n!8\r\nas asked\r\n$10\r\nh 2 1 b2  \r\n");
}

TEST(PluginWorkerTest, PayloadsAndAnswersAreLargerThanAPipe) {
  const std::string large(3'000'000, 'x');
  const Served served = serve(request("echo " + large, 0) + request("echo y", 1));
  EXPECT_EQ(served.exit_code, kExitOk);
  EXPECT_TRUE(served.answers == "$3000000\r\n" + large + "\r\n$1\r\ny\r\n") << served.answers.size();
}

TEST(PluginWorkerTest, WhatIsNoJobEndsItWithAProtocolError) {
  EXPECT_EQ(serve("*2\r\n$1\r\nx\r\n$1\r\n0\r\n").exit_code, kExitProtocol);
  EXPECT_EQ(serve("*3\r\n$1\r\nx\r\n$1\r\nx\r\n$1\r\nb\r\n").exit_code, kExitProtocol);
  EXPECT_EQ(serve("*3\r\n:1\r\n").exit_code, kExitProtocol);
  EXPECT_EQ(serve("").exit_code, kExitOk);
}

// The daemon takes the first job without an answer for the one that runs.
TEST(PluginWorkerTest, AnAnswerIsWrittenBeforeTheNextJobBegins) {
  const PluginFile plugin = open_plugin("in_c");
  Pipe in;
  Pipe out;
  const std::string both = request("echo first", 0) + request("exit 3", 1);
  ASSERT_EQ(::write(in.ends[1], both.data(), both.size()), static_cast<ssize_t>(both.size()));
  EXPECT_EXIT(serve_plugin(plugin, in.ends[0], out.ends[1]), ::testing::ExitedWithCode(3), "");
  out.close_write();
  std::array<char, 64> bytes;
  const ssize_t got = ::read(out.ends[0], bytes.data(), bytes.size());
  EXPECT_EQ(std::string(bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0))),
            "$5\r\nfirst\r\n");
}

// The exit of a worker that gets SIGTERM in the middle of its answer, and then the end of its
// input.
[[noreturn]] void serve_until_ended_behind_a_job(const PluginFile& plugin) {
  Pipe in;
  Pipe out;
  sigset_t termination;
  ::sigemptyset(&termination);
  ::sigaddset(&termination, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &termination, nullptr);
  std::thread asking([&] {
    const std::string job = request("echo " + std::string(1'000'000, 'x'), 0);  // more than a pipe can hold
    for (std::size_t at = 0; at < job.size();) {
      const ssize_t wrote = ::write(in.ends[1], job.data() + at, job.size() - at);
      if (wrote <= 0) ::_exit(99);
      at += static_cast<std::size_t>(wrote);
    }
    char byte = 0;
    if (::read(out.ends[0], &byte, 1) != 1) ::_exit(99);
    ::kill(::getpid(), SIGTERM);
    in.close_write();
    std::array<char, 65'536> bytes;
    while (::read(out.ends[0], bytes.data(), bytes.size()) > 0) {
    }
  });
  const int exit_code = serve_plugin(plugin, in.ends[0], out.ends[1]);
  out.close_write();
  asking.join();
  ::_exit(exit_code);
}

// If the signal ended the process, the plugin would not be torn down; and the daemon may send one
// after the answer.
TEST(PluginWorkerTest, TerminationBehindAJobWaitsForTheEndOfTheInput) {
  const PluginFile plugin = open_plugin("in_c");
  EXPECT_EXIT(serve_until_ended_behind_a_job(plugin), ::testing::ExitedWithCode(kExitOk), "");
}

}  // namespace
}  // namespace locksley::daemon
