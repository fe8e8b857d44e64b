// A store on the files of the system.
#include "daemon/store/embedded/embedded_engine.h"

#include <gmock/gmock.h>

#include "tests/support/store_fixture.h"
#include "tests/support/store_model.h"

namespace locksley::daemon {
namespace {

using testing::accept_batch;
using testing::add_jobs;
using testing::is_same;
using testing::open_batch;
using testing::Outcomes;
using testing::StoreModel;

TEST(EmbeddedEngineTest, WorksOnTheSystemsOwnFiles) {
  const testing::TemporaryFolder folder;
  StoreModel model;
  for (std::uint64_t sequence = 1; sequence < 4; ++sequence) {
    auto store =
        Store::open({.path = (folder.path() / "made" / "on demand").string(), .engine = embedded_engine()},
                    testing::silent_log());
    ASSERT_TRUE(store.has_value()) << store.error();
    const auto picture = testing::picture_of(**store);
    ASSERT_TRUE(picture.has_value()) << picture.error();
    EXPECT_TRUE(is_same(*picture, model.picture()));
    Outcomes outcomes;
    (*store)->start(outcomes.listener());
    const StoreWrite write = accept_batch(sequence, 100);
    model.apply(write);
    EXPECT_EQ(outcomes.await((*store)->put(StoreWrite(write), Urgency::kAwaited)).error, "");
    EXPECT_EQ((*store)->stats().errors, 0U);
    (*store)->stop();
  }
}

TEST(EmbeddedEngineTest, AfterABurstOfWritesItShowsTheBytesThatItsFilesHave) {
  const testing::TemporaryFolder folder;
  auto store =
      Store::open({.path = folder.path().string(), .engine = embedded_engine()}, testing::silent_log());
  ASSERT_TRUE(store.has_value()) << store.error();
  ASSERT_TRUE(testing::picture_of(**store).has_value());
  Outcomes outcomes;
  (*store)->start(outcomes.listener());
  constexpr std::size_t kBytes = 100'000;
  constexpr std::uint64_t kBatches = 20;
  ASSERT_LT((*store)->stats().disk_bytes, kBatches * kBytes / 2);
  for (std::uint64_t sequence = 1; sequence <= kBatches; ++sequence) {
    (*store)->put(open_batch(sequence), Urgency::kAwaited);
    const StoreWrite write = add_jobs(sequence, 0, {std::string(kBytes, 'x')});
    EXPECT_EQ(outcomes.await((*store)->put(StoreWrite(write), Urgency::kAwaited)).error, "");
  }
  EXPECT_TRUE(testing::wait_until_true([&] { return (*store)->stats().disk_bytes >= kBatches * kBytes; }));
  (*store)->stop();
}

}  // namespace
}  // namespace locksley::daemon
