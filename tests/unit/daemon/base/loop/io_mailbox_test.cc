// Functions that other threads give to the thread of an io_context.
#include "daemon/base/loop/io_mailbox.h"

#include <gtest/gtest.h>

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <chrono>
#include <future>
#include <thread>
#include <vector>

#include "daemon/base/loop/io_loop.h"

namespace locksley::daemon {
namespace {

void run_loop(asio::io_context& io) {
  IoStretches stretches;
  run_io_loop(io, {.may_poll = [] { return false; }, .awaits_worker = [] { return false; }}, stretches);
}

// Whether the thread of the io_context calls a function within a minute.
bool is_called(IoMailbox& mailbox) {
  std::promise<void> called;
  mailbox.post([&called] { called.set_value(); });
  return called.get_future().wait_for(std::chrono::minutes(1)) == std::future_status::ready;
}

TEST(IoMailboxTest, EachPostWakesTheThread) {
  asio::io_context io(1);
  const auto work = asio::make_work_guard(io);
  IoMailbox& mailbox = IoMailbox::of(io);
  std::thread thread([&io] { run_loop(io); });
  // The loop does not poll, so that it sleeps, or is about to sleep, at almost each of them.
  int called = 0;
  while (called < 500 && is_called(mailbox)) ++called;
  EXPECT_EQ(called, 500);
  mailbox.post([&io] { io.stop(); });
  thread.join();
}

TEST(IoMailboxTest, FunctionsRunInTheOrderOfTheirPosts) {
  asio::io_context io(1);
  const auto work = asio::make_work_guard(io);
  IoMailbox& mailbox = IoMailbox::of(io);
  std::vector<int> called;
  std::thread thread([&io] { run_loop(io); });
  for (int i = 0; i < 1000; ++i) mailbox.post([&called, i] { called.push_back(i); });
  mailbox.post([&io] { io.stop(); });
  thread.join();
  ASSERT_EQ(called.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(called[static_cast<std::size_t>(i)], i);
}

TEST(IoMailboxTest, TheLoopEndsWhenAsioHasNoMoreWork) {
  asio::io_context io(1);
  IoMailbox& mailbox = IoMailbox::of(io);
  bool is_run = false;
  mailbox.post([&is_run] { is_run = true; });
  run_loop(io);
  EXPECT_TRUE(is_run);
}

TEST(IoMailboxTest, WithoutTheLoopFunctionsAreAsiosOwn) {
  asio::io_context io(1);
  IoMailbox& mailbox = IoMailbox::of(io);
  int calls = 0;
  mailbox.post([&calls] { ++calls; });
  EXPECT_EQ(calls, 0);
  io.run();
  EXPECT_EQ(calls, 1);
}

TEST(IoMailboxTest, WhatTheLoopLeavesIsAsiosOwn) {
  asio::io_context io(1);
  const auto work = asio::make_work_guard(io);
  IoMailbox& mailbox = IoMailbox::of(io);
  bool is_run = false;
  mailbox.post([&] {
    mailbox.post([&is_run] { is_run = true; });
    io.stop();
  });
  run_loop(io);
  EXPECT_FALSE(is_run);
  io.restart();
  io.poll();
  EXPECT_TRUE(is_run);
}

TEST(IoMailboxTest, WhatHasNotRunEndsWithTheIoContext) {
  const auto held = std::make_shared<int>(1);
  {
    asio::io_context io(1);
    IoMailbox::of(io).post([held] {});
    EXPECT_EQ(held.use_count(), 2);
  }
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace locksley::daemon
