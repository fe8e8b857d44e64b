// What the I/O thread leaves to another thread to free.
#include "daemon/server/batches/retention/free_aside.h"

#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/batch/batch_results.h"
#include "core/batch/handler.h"
#include "tests/support/registry_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;

constexpr std::uint64_t kLarge = 2U << 20;
constexpr Reader::User kAlice = 1, kBob = 2;

class FreeAsideTest : public RegistryFixture {
 protected:
  FreeAsideTest() {
    aside_.start();
    aside_.post([held = gate_.get_future()]() mutable { held.get(); });
  }
  // Runs the tasks that have been posted, and those that they post.
  void run() {
    gate_.set_value();
    // Tasks that post others do so before they end; so each round of the lines is over.
    for (int i = 0; i < 10; ++i) {
      std::promise<void> done;
      aside_.post([&done] { done.set_value(); }, 99);
      done.get_future().get();
    }
  }
  // An object that notes its end.
  std::shared_ptr<std::string> object(const std::string& name) {
    return {new std::string(name), [this](const std::string* ended) {
              order_.push_back(*ended);
              delete ended;
            }};
  }

  std::vector<std::string> order_;
  std::promise<void> gate_;
  Reader aside_;  // last: its thread uses the others
};

TEST_F(FreeAsideTest, UsersHaveTheirTurns) {
  for (const char* name : {"a1", "a2", "a3"}) free_aside(aside_, object(name), kLarge, kAlice);
  free_aside(aside_, object("b1"), kLarge, kBob);
  run();
  EXPECT_THAT(order_, ElementsAre("a1", "b1", "a2", "a3"));
}

TEST_F(FreeAsideTest, WhatIsSmallIsFreedAtOnce) {
  free_aside(aside_, object("small"), 100, kAlice);
  EXPECT_THAT(order_, ElementsAre("small"));
  run();
}

TEST_F(FreeAsideTest, DiscardedRowsAreFreedInTasksBetweenWhichOthersHaveTheirTurns) {
  const ThreadRoleScope io_thread(kIoThread);
  constexpr std::uint64_t kRows = 2000;
  const auto record = add("a");
  record->jobs_added(kRows);
  for (std::uint64_t i = 0; i < kRows; ++i) {
    EndedJobs ended;
    ++ended.by_status[static_cast<std::size_t>(JobStatus::kOk)];
    std::vector<std::byte> bytes;
    append_row(bytes, i, JobStatus::kOk, std::string(4096, 'x'));  // it has a chunk of its own
    static_cast<void>(record->publish({.ended = ended, .rows = {bytes, 1}, .indexes = {{i, i + 1}}}));
  }
  record->discard_rows_before(kRows, *record->results().place_of(kRows));
  drop_rows_aside(aside_, kAlice, record, kRows, std::chrono::nanoseconds(0));
  bool was_done = true;
  aside_.post([&] { was_done = record->results().place_of(kRows - 1) == std::nullopt; }, kBob);
  run();
  EXPECT_FALSE(was_done);
  EXPECT_EQ(record->results().place_of(kRows - 1), std::nullopt);
}

}  // namespace
}  // namespace locksley::daemon
