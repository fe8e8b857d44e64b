#include "daemon/server/records/batch_charges.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/batch/handler.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/server/payloads/fixed_payloads.h"

namespace locksley::daemon {
namespace {

class BatchChargesTest : public ::testing::Test {
 protected:
  // A batch of alice's customer that is active. Its payloads are a range, and take no memory.
  std::shared_ptr<BatchRecord> begin(const std::string& customer = "c") LOCKSLEY_REQUIRES(kIoThread) {
    BatchOptions options;
    options.tenant = "alice";
    options.customer = customer;
    auto record = std::make_shared<BatchRecord>(std::move(options), handler_,
                                                std::make_unique<RangedPayloads>(RangeJobs{}), nullptr, lane_,
                                                BatchRecord::Origin::kSubmit, ++last_);
    charges_.begin(*record);
    return record;
  }
  std::uint64_t of_alice(Resource resource) { return tenants_.of("alice").account.used(resource); }
  static std::uint64_t of(const BatchRecord& record, Resource resource) LOCKSLEY_REQUIRES(kIoThread) {
    return record.charged.customer->account->used(resource);
  }

  static constexpr BatchCharges::Charge kCharge{
      .jobs = 10, .batches = 1, .payload_bytes = 200, .memory_bytes = 300, .record_bytes = 400};

  std::vector<std::string> names_ = {"echo"};
  ServerStats stats_{names_};
  Handler handler_{"echo", "", [](JobContext&, std::string_view) {}};
  Lane lane_{"cpu", FairRing::Options{}};
  Tenants tenants_;
  Customers customers_{tenants_};
  BatchCharges charges_{tenants_, customers_, stats_};
  std::uint64_t last_ = 0;
};

TEST_F(BatchChargesTest, ARefundUndoesACharge) {
  const ThreadRoleScope io_thread(kIoThread);
  Customer& customer = customers_.use(tenants_.of("alice"), "c");
  const std::uint64_t before = of_alice(Resource::kRecordBytes);
  charges_.charge(customer, kCharge);
  EXPECT_EQ(customer.account->used(Resource::kQueuedJobs), 10U);
  EXPECT_EQ(customer.account->used(Resource::kBatches), 1U);
  EXPECT_EQ(customer.account->used(Resource::kPayloadBytes), 200U);
  EXPECT_EQ(customer.account->used(Resource::kQueuedBytes), 0U) << "that of the user alone";
  EXPECT_EQ(of_alice(Resource::kQueuedJobs), 10U) << "what a customer is charged, its user is";
  EXPECT_EQ(of_alice(Resource::kQueuedBytes), 300U);
  EXPECT_EQ(of_alice(Resource::kRecordBytes), before + 400);
  charges_.refund(customer, kCharge);
  for (const Resource resource :
       {Resource::kQueuedJobs, Resource::kBatches, Resource::kPayloadBytes, Resource::kQueuedBytes})
    EXPECT_EQ(of_alice(resource), 0U);
  EXPECT_EQ(of_alice(Resource::kRecordBytes), before);
  customers_.drop(customer);
}

TEST_F(BatchChargesTest, TheBatchBearsAChargeUntilItIsOverWithTheMemoryThatItReallyTakes) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = begin();
  charges_.charge(*record->charged.customer, kCharge);
  charges_.assign(*record, kCharge);
  EXPECT_EQ(of(*record, Resource::kQueuedJobs), 10U);
  EXPECT_EQ(of_alice(Resource::kQueuedBytes), record->payloads().memory_bytes())
      << "in place of the estimate";
  EXPECT_EQ(record->charged.record_bytes, 400U);
  EXPECT_EQ(charges_.queued_jobs(), 10U);
  EXPECT_EQ(stats_.queued_jobs.get(), 10U);

  charges_.end(*record);
  EXPECT_EQ(record->charged.customer, nullptr);
  for (const Resource resource :
       {Resource::kQueuedJobs, Resource::kBatches, Resource::kPayloadBytes, Resource::kQueuedBytes})
    EXPECT_EQ(of_alice(resource), 0U);
  EXPECT_EQ(stats_.queued_jobs.get(), 0U);
  EXPECT_EQ(of_alice(Resource::kRecordBytes), 400U) << "for its record";
  charges_.count_record(*record, 0);
  EXPECT_EQ(of_alice(Resource::kRecordBytes), 0U);
}

TEST_F(BatchChargesTest, ABatchThatIsOverIsNotChargedForTheBatchesThatItWaitedFor) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = begin();
  const std::uint64_t plain = BatchCharges::record_bytes(record->options(), 0);
  const std::uint64_t before = of_alice(Resource::kRecordBytes);
  record->waits.all = {{.sequence = 1, .id = "a", .only_if_ok = false},
                       {.sequence = 2, .id = "b", .only_if_ok = true}};
  charges_.count_record(*record, BatchCharges::record_bytes(record->options(), 2));
  EXPECT_GT(of_alice(Resource::kRecordBytes), before + plain);
  charges_.end(*record);
  EXPECT_EQ(of_alice(Resource::kRecordBytes), plain);
  EXPECT_EQ(record->charged.record_bytes, plain);
  charges_.count_record(*record, 0);
}

TEST_F(BatchChargesTest, ARestoredBatchCountsOnceHoweverOftenItIsCounted) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto record = begin();
  charges_.add_jobs_set_memory(*record, 10, 100);
  charges_.add_jobs_set_memory(*record, 5, 150);
  charges_.count_payloads(*record, 90);
  EXPECT_EQ(of(*record, Resource::kBatches), 1U);
  EXPECT_EQ(of(*record, Resource::kQueuedJobs), 15U);
  EXPECT_EQ(of(*record, Resource::kPayloadBytes), 90U);
  EXPECT_EQ(of_alice(Resource::kQueuedBytes), 150U);
  charges_.set_jobs_and_memory(*record, 4, 50);
  EXPECT_EQ(of(*record, Resource::kQueuedJobs), 4U);
  EXPECT_EQ(of_alice(Resource::kQueuedBytes), 50U);
  charges_.end(*record);
}

TEST_F(BatchChargesTest, EachCustomerHasItsOwnJobs) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto one = begin("one");
  const auto two = begin("two");
  charges_.add_jobs_set_memory(*one, 10, 0);
  charges_.add_jobs_set_memory(*two, 3, 0);
  EXPECT_EQ(of(*one, Resource::kQueuedJobs), 10U);
  EXPECT_EQ(of(*two, Resource::kQueuedJobs), 3U);
  EXPECT_EQ(of_alice(Resource::kQueuedJobs), 13U);
  charges_.end(*one);
  EXPECT_EQ(of_alice(Resource::kQueuedJobs), 3U);
  charges_.end(*two);
}

TEST_F(BatchChargesTest, ARecordTakesMoreForItsTextsAndForEachBatchThatItWaitsFor) {
  BatchOptions options;
  const std::uint64_t plain = BatchCharges::record_bytes(options, 0);
  EXPECT_GT(plain, sizeof(BatchRecord));
  options.id = "0123456789";
  EXPECT_EQ(BatchCharges::record_bytes(options, 0), plain + 10);
  EXPECT_GT(BatchCharges::record_bytes(options, 1), plain + 10);
}

}  // namespace
}  // namespace locksley::daemon
