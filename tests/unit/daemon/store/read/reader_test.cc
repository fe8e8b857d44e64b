#include "daemon/store/read/reader.h"

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
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

TEST(ReaderTest, ATaskThatIsFirstGoesBeforeTheOthersOfItsUserAlone) {
  Reader reader;
  std::promise<void> posted;
  std::promise<void> done;
  std::string order;  // used by the reader's thread only, until it has ended
  constexpr Reader::User kFirst = 1;
  constexpr Reader::User kSecond = 2;
  const std::function<void(int)> go_on = [&](int left) {
    order += 'F';
    if (left != 0) reader.post([&, left] { go_on(left - 1); }, kFirst, Reader::Place::kFirst);
  };
  reader.post([&] { posted.get_future().get(); }, kSecond);
  reader.post([&] { go_on(2); }, kFirst);
  reader.post(
      [&] {
        order += 'f';
        done.set_value();
      },
      kFirst);
  for (int i = 0; i < 3; ++i) reader.post([&] { order += 's'; }, kSecond);
  posted.set_value();
  done.get_future().get();
  EXPECT_EQ(order, "FsFsFsf");
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

TEST(ReaderTest, OneTaskOfAUserIsAtWorkAndThoseOfOthersRunBesideIt) {
  Reader reader(2, Reader::OfUser::kOne);
  constexpr Reader::User kSlow = 1;
  constexpr Reader::User kOther = 2;
  std::promise<void> begun, release;
  bool is_released = false;  // used by tasks of the slow user only, which run one after the other
  std::promise<bool> was_released;
  reader.post(
      [&] {
        begun.set_value();
        release.get_future().get();
        is_released = true;
      },
      kSlow);
  for (int i = 0; i < 3; ++i) reader.post([] {}, kSlow);
  reader.post([&] { was_released.set_value(is_released); }, kSlow);
  begun.get_future().get();
  std::promise<void> done;
  reader.post([&] { done.set_value(); }, kOther);
  done.get_future().get();  // though tasks of the slow user wait that were posted before
  release.set_value();
  EXPECT_TRUE(was_released.get_future().get());
  reader.stop();
}

[[noreturn]] void throw_no_thread() {
  throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
}

// Starts `most` threads, and then fails, as if the system had no more.
Reader::StartThread at_most(int most) {
  return [left = most](std::move_only_function<void()> function) mutable {
    if (left == 0) throw_no_thread();
    --left;
    return std::thread(std::move(function));
  };
}

TEST(ReaderTest, TheFirstThreadRunsAllTasksIfNoOtherCanBeStarted) {
  std::promise<void> posted, done;
  int ran = 0;  // used by the reader's thread only, until stop()
  Reader reader(2, at_most(1));
  reader.start();
  reader.post([&] {
    posted.get_future().get();
    ++ran;
  });
  // Finds no thread free.
  EXPECT_NO_THROW(reader.post([&] {
    ++ran;
    done.set_value();
  }));
  posted.set_value();
  done.get_future().get();
  reader.stop();
  EXPECT_EQ(ran, 2);
}

TEST(ReaderTest, StartThrowsIfThereIsNoThread) {
  Reader reader(1, at_most(0));
  EXPECT_THROW(reader.start(), std::system_error);
}

TEST(ReaderTest, ATaskForWhichNoThreadStartsWaitsForALaterPost) {
  std::promise<void> done;
  bool ran = false;  // used by the reader's thread only, until stop()
  Reader reader(1, [attempts = 0](std::move_only_function<void()> function) mutable {
    if (attempts++ == 0) throw_no_thread();
    return std::thread(std::move(function));
  });
  EXPECT_NO_THROW(reader.post([&] { ran = true; }));
  reader.post([&] { done.set_value(); });
  done.get_future().get();
  reader.stop();
  EXPECT_TRUE(ran);
}

TEST(ReaderTest, EndsWithoutEverHavingRead) {
  Reader reader;
  reader.stop();
}

}  // namespace
}  // namespace locksley::daemon
