#include "core/sync/mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace locksley {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Whether another thread could have the mutex now.
bool is_free(Mutex& mutex) {
  bool free = false;
  std::thread([&] {
    if (mutex.try_lock()) {
      free = true;
      mutex.unlock();
    }
  }).join();
  return free;
}

TEST(MutexTest, ALockHoldsTheMutexForItsLifeButForTheTimeInWhichItIsReleased) {
  Mutex mutex;
  EXPECT_TRUE(is_free(mutex));
  {
    MutexLock lock(mutex);
    EXPECT_FALSE(is_free(mutex));
    lock.unlock();
    EXPECT_TRUE(is_free(mutex));
    lock.lock();
    EXPECT_FALSE(is_free(mutex));
  }
  EXPECT_TRUE(is_free(mutex));
}

// Counts, so that a second unlock() is seen.
class LOCKSLEY_CAPABILITY("mutex") CountingMutex {
 public:
  void lock() LOCKSLEY_ACQUIRE() { ++held; }
  void unlock() LOCKSLEY_RELEASE() { --held; }
  int held = 0;
};

TEST(MutexTest, ALockThatWasReleasedIsNotReleasedAgainAtItsEnd) {
  CountingMutex mutex;
  {
    MutexLock<CountingMutex> lock(mutex);
    EXPECT_EQ(mutex.held, 1);
    lock.unlock();
    EXPECT_EQ(mutex.held, 0);
  }
  EXPECT_EQ(mutex.held, 0);
  {
    MutexLock<CountingMutex> lock(mutex);
    lock.unlock();
    lock.lock();
    EXPECT_EQ(mutex.held, 1);
  }
  EXPECT_EQ(mutex.held, 0);
}

TEST(CondVarTest, AWaitThatIsNotNotifiedEndsAtItsDeadlineWithTheMutexHeld) {
  Mutex mutex;
  CondVar condition;
  const auto deadline = steady_clock::now() + milliseconds(2);
  MutexLock lock(mutex);
  while (condition.wait_until(mutex, deadline) != std::cv_status::timeout) {
  }
  EXPECT_GE(steady_clock::now(), deadline);
  EXPECT_FALSE(is_free(mutex));
}

TEST(CondVarTest, AWaitReleasesTheMutexUntilItIsNotified) {
  Mutex mutex;
  CondVar condition;
  int turn = 0;
  std::jthread other([&] {
    MutexLock lock(mutex);
    while (turn != 1) condition.wait(mutex);
    turn = 2;
    condition.notify_one();
  });
  MutexLock lock(mutex);
  turn = 1;
  condition.notify_all();
  while (turn != 2) condition.wait(mutex);
  EXPECT_FALSE(is_free(mutex)) << "a wait ends with the mutex held";
}

TEST(SharedMutexTest, ReadersDoNotKeepEachOtherOut) {
  SharedMutex mutex;
  const ReaderLock lock(mutex);
  std::atomic<bool> entered{false};
  std::thread([&] {
    const ReaderLock second(mutex);
    entered = true;
  }).join();  // would wait for ever
  EXPECT_TRUE(entered);
}

// Whether another thread gets in, as a writer or as a reader, while this one holds the mutex as
// `Lock` does.
template <class Lock, class Other>
void expect_kept_out() {
  SharedMutex mutex;
  std::atomic<bool> has_left{false};
  bool came_too_early = false;
  std::thread other;
  {
    const Lock lock(mutex);
    other = std::thread([&] {
      const Other second(mutex);
      came_too_early = !has_left;
    });
    std::this_thread::sleep_for(milliseconds(5));  // so that one who is not kept out comes too early
    has_left = true;
  }
  other.join();  // would wait for ever if the lock had not been released
  EXPECT_FALSE(came_too_early);
  const WriterLock last(mutex);  // likewise
}

TEST(SharedMutexTest, AWriterKeepsOutReadersAndWriters) {
  expect_kept_out<WriterLock, ReaderLock>();
  expect_kept_out<WriterLock, WriterLock>();
}

TEST(SharedMutexTest, AReaderKeepsOutWriters) { expect_kept_out<ReaderLock, WriterLock>(); }

}  // namespace
}  // namespace locksley
