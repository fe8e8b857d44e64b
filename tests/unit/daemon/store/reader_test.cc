#include "daemon/store/reader.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace locksley::daemon {
namespace {

TEST(ReaderTest, TasksRunInTheirOrderOnOneThread) {
  Reader reader;
  std::vector<int> order;  // used by the reader's thread only, until it has ended
  std::vector<std::thread::id> threads;
  std::promise<void> done;
  for (int i = 0; i < 100; ++i) {
    reader.post([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
      if (i == 99) done.set_value();
    });
  }
  done.get_future().get();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(threads[static_cast<std::size_t>(i)], threads.front());
  }
  EXPECT_NE(threads.front(), std::this_thread::get_id());
}

TEST(ReaderTest, AUserWhoAsksForMuchDelaysAnotherByOneTaskOnly) {
  Reader reader;
  std::promise<void> posted;
  std::promise<void> done;
  std::string order;  // used by the reader's thread only, until it has ended
  constexpr Reader::User kGreedy = 1;
  constexpr Reader::User kModest = 2;
  reader.post([&] { posted.get_future().get(); }, kGreedy);
  for (int i = 0; i < 5; ++i) reader.post([&] { order += 'g'; }, kGreedy);
  for (int i = 0; i < 2; ++i) reader.post([&] { order += 'm'; }, kModest);
  reader.post([&] { done.set_value(); }, kGreedy);
  posted.set_value();
  done.get_future().get();
  EXPECT_TRUE(order == "gmgmggg" || order == "mgmgggg") << order;
}

TEST(ReaderTest, StopWaitsForTheTaskThatRunsAndDropsTheOthers) {
  Reader reader;
  std::promise<void> begun;
  std::promise<void> release;
  bool ended = false;
  const auto dropped = std::make_shared<int>(0);
  reader.post([&] {
    begun.set_value();
    release.get_future().get();
    ended = true;
  });
  reader.post([dropped] { ++*dropped; });
  begun.get_future().get();
  std::thread stopper([&] { reader.stop(); });
  // Until stop() has destroyed it.
  while (dropped.use_count() != 1) std::this_thread::yield();
  release.set_value();
  stopper.join();
  EXPECT_TRUE(ended);
  EXPECT_EQ(*dropped, 0);
  reader.post([dropped] { ++*dropped; });
  EXPECT_EQ(*dropped, 0);
  EXPECT_EQ(dropped.use_count(), 1);
}

TEST(ReaderTest, SeveralThreadsRunAsManyTasksAtATime) {
  Reader reader(2);
  std::promise<void> first, second;
  // Each waits for the other.
  reader.post([&] {
    first.set_value();
    second.get_future().get();
  });
  std::promise<void> done;
  reader.post([&] {
    first.get_future().get();
    second.set_value();
    done.set_value();
  });
  done.get_future().get();
  reader.stop();
}

TEST(ReaderTest, EndsWithoutEverHavingRead) {
  Reader reader;
  reader.stop();
}

}  // namespace
}  // namespace locksley::daemon
