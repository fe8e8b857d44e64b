// When a batch is forgotten that is not kept after its end.
#include "daemon/server/batches/news/batch_news.h"
#include "daemon/server/accounts/tenants.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>

#include <asio/io_context.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "core/lane/lane.h"
#include "core/pool/worker_stats.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/base/loop/slices.h"
#include "daemon/base/loop/turns.h"
#include "daemon/base/loop/wakeup.h"
#include "daemon/server/batches/batches.h"
#include "daemon/server/session/waiter_place.h"

namespace locksley::daemon {
namespace {

// The test's thread plays the I/O thread. No job runs.
class BatchNewsTest : public ::testing::Test {
 protected:
  BatchNewsTest() { handlers_.add({.handler = handler_, .lane = lane_, .kind = HandlerKind::kBuiltin}); }
  ~BatchNewsTest() override { lane_.detach_all(); }

  // A batch that ends now, with RETAIN 0.
  std::shared_ptr<BatchRecord> submit() LOCKSLEY_REQUIRES(kIoThread) {
    proto::SubmitCommand command{.handler = "echo", .options = {}, .source = proto::RangeSource{0, 1, {}}};
    command.options.retain = std::chrono::seconds(0);
    return batches_.intake().submit(user_, command, {}, BatchRecord::Origin::kSubmit).value();
  }
  void end(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    batches_.changes().cancel(record, user_.tenant().account, "the test has seen enough");
    while (record.is_active) ASSERT_EQ(io_.poll_one(), 1u);
  }
  bool is_known(const BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    return batches_.registry().by_sequence(record.sequence) != nullptr;
  }

  config::Config config_;
  std::vector<std::string> names_ = {"echo"};
  ServerStats stats_{names_};
  Handler handler_{"echo", "", [](JobContext&, std::string_view) {}};
  Lane lane_{"cpu", FairRing::Options{}};
  HandlerDirectory handlers_;
  Tenants tenants_;
  asio::io_context io_{1};
  OwnedCounter polls_, blocked_;
  Turns turns_{io_.get_executor(), polls_};
  Slices slices_{io_.get_executor()};
  Batches batches_{{.io = io_,
                    .slices = slices_,
                    .config = config_,
                    .handlers = handlers_,
                    .tenants = tenants_,
                    .stats = stats_,
                    .store = nullptr,
                    .log = std::make_shared<spdlog::logger>("test")}};
  User user_{batches_.registry().tenants().of("default")};
};

TEST_F(BatchNewsTest, ABatchThatIsNotKeptAndThatNobodyWaitsForIsForgottenWithTheNewsOfItsEnd) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = submit();
  EXPECT_TRUE(is_known(*record));
  end(*record);
  EXPECT_FALSE(is_known(*record));
}

TEST_F(BatchNewsTest, OneThatAConnectionWaitsForIsThereUntilTheConnectionHadItsTurn) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = submit();
  Wakeup wakeup(turns_);
  const WaiterPlace place(wakeup, blocked_, *record, BatchRecord::kItsEnd);
  end(*record);
  EXPECT_TRUE(wakeup.take());
  EXPECT_TRUE(is_known(*record));
  io_.poll();
  EXPECT_FALSE(is_known(*record));
}

TEST_F(BatchNewsTest, NoneIsForgottenInTheMiddleOfACommandThatLooksForRoom) {
  const ThreadRoleScope io_thread(kIoThread);
  batches_.registry().tenants().of("default").account.set_limit(Resource::kQueuedJobs, 1);
  const auto record = submit();
  batches_.changes().cancel(*record, user_.tenant().account, "the test has seen enough");
  ASSERT_TRUE(record->is_active) << "the news of its end is in the queue";
  const auto next = submit();  // for which there is room once the news has been applied
  EXPECT_FALSE(record->is_active);
  EXPECT_TRUE(is_known(*record)) << "as a command might use the record";
  io_.poll();
  EXPECT_FALSE(is_known(*record));
}

}  // namespace
}  // namespace locksley::daemon
