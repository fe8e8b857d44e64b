// Payloads that finished batches keep for a RETRY make room for others.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "daemon/base/loop/io_thread.h"
#include "daemon/server/batches/retention/retention.h"
#include "daemon/server/payloads/received_payloads.h"
#include "proto/argument_list.h"
#include "tests/support/registry_fixture.h"

namespace locksley::daemon {
namespace {

class KeptPayloadsTest : public RegistryFixture {
 protected:
  static proto::ArgumentList payload_of(std::size_t bytes) {
    const std::string text(bytes, 'x');
    const std::string_view view = text;
    return proto::ArgumentList::copy_of({&view, 1});
  }
  // A batch in memory alone with a payload of so many bytes.
  std::shared_ptr<BatchRecord> add_active(const std::string& id, std::size_t bytes,
                                          const std::string& owner = "default") LOCKSLEY_REQUIRES(kIoThread) {
    BatchOptions options;
    options.id = id;
    options.tenant = owner;
    auto record = std::make_shared<BatchRecord>(
        std::move(options), handler_, std::make_unique<ReceivedPayloads>(payload_of(bytes)), nullptr, lane_,
        BatchRecord::Origin::kSubmit, registry_.numbers().take());
    record->terms.id_is_chosen = true;
    registry_.add(record);
    registry_.charges().add_jobs_set_memory(*record, 0, record->payloads().memory_bytes());
    return record;
  }
  // It is over, and keeps its payload for a RETRY.
  void end_with_failures(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    end(record);
    const auto released = record.payloads().release(BatchPayloads::FailedJobs::kMayRunAgain,
                                                    BatchPayloads::Repetition::kPossible);
    registry_.charges().add_jobs_set_memory(record, 0, released.kept_bytes);
    retention_.add(record);
  }
  std::shared_ptr<BatchRecord> add_over(const std::string& id, std::size_t bytes,
                                        const std::string& owner = "default") LOCKSLEY_REQUIRES(kIoThread) {
    auto record = add_active(id, bytes, owner);
    end_with_failures(*record);
    return record;
  }
  Account& all() LOCKSLEY_REQUIRES(kIoThread) { return registry_.tenants().account_of_all(); }
  std::uint64_t used(const std::string& owner = "default") LOCKSLEY_REQUIRES(kIoThread) {
    return tenant(owner).account.used(Resource::kQueuedBytes);
  }
  bool has_room_for(std::uint64_t bytes, const std::string& owner = "default") LOCKSLEY_REQUIRES(kIoThread) {
    return retention_.first_without_room(tenant(owner), Resource::kQueuedBytes, bytes) == nullptr;
  }

  static constexpr std::size_t kEach = 100'000;
  Reader aside_;
  Retention retention_{registry_, stats_, nullptr, aside_};
};

TEST_F(KeptPayloadsTest, TheOldestGoFirstAndNoMoreThanMustAndTheBatchesStay) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto first = add_active("first", kEach);
  const auto second = add_over("second", kEach);
  const auto third = add_over("third", kEach);
  end_with_failures(*first);
  const std::uint64_t each = first->charged.memory_bytes;
  ASSERT_GE(each, kEach);
  all().set_limit(Resource::kQueuedBytes, 2 * each);
  retention_.limits_changed();
  EXPECT_TRUE(first->has_lost_payloads) << "it ended last, but was accepted first";
  EXPECT_FALSE(second->has_lost_payloads);
  EXPECT_FALSE(third->has_lost_payloads);
  EXPECT_EQ(used(), 2 * each);
  EXPECT_FALSE(first->payloads().in_memory(0).has_value());
  EXPECT_TRUE(second->payloads().in_memory(0).has_value());
  EXPECT_EQ(registry_.find(tenant(), "first").value(), first.get());
  EXPECT_TRUE(first->payloads().is_same(payload_of(kEach))) << "a repetition is still known";
  for (const auto& record : {first, second, third}) retention_.forget(*record, Urgency::kWithNext);
  EXPECT_EQ(used(), 0U);
}

TEST_F(KeptPayloadsTest, TheyTakeNoRoomFromNewPayloadsButThoseOfActiveBatchesDo) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto over = add_over("over", kEach);
  const auto active = add_active("active", kEach);
  const std::uint64_t each = over->charged.memory_bytes;
  all().set_limit(Resource::kQueuedBytes, 3 * each);
  EXPECT_TRUE(has_room_for(2 * each));
  EXPECT_FALSE(has_room_for(2 * each + 1));
  EXPECT_FALSE(over->has_lost_payloads) << "a look evicts nothing";
  retention_.go_on(*over, over->status());
  EXPECT_TRUE(has_room_for(each));
  EXPECT_FALSE(has_room_for(each + 1)) << "it runs again";
}

TEST_F(KeptPayloadsTest, TheHeaviestUserGivesThem) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto light = add_over("light", kEach, "light");
  const auto heavy = add_over("heavy", 4 * kEach, "heavy");
  all().set_limit(Resource::kQueuedBytes, all().used(Resource::kQueuedBytes));
  EXPECT_TRUE(has_room_for(kEach, "light"));
  const auto added = add_active("added", kEach, "light");
  retention_.evict_payloads(tenant("light"));
  EXPECT_TRUE(heavy->has_lost_payloads);
  EXPECT_FALSE(light->has_lost_payloads);
  EXPECT_EQ(used("heavy"), 0U);
}

// Payloads that are read back from the store may exceed the limit.
TEST_F(KeptPayloadsTest, BatchesThatNeedNoRoomForPayloadsTakeNone) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto over = add_over("over", kEach);
  all().set_limit(Resource::kQueuedBytes, 1);
  const auto next = add_over("next", 0);
  retention_.evict();
  retention_.evict(&tenant());
  EXPECT_FALSE(over->has_lost_payloads);
  retention_.evict_payloads(tenant());
  EXPECT_TRUE(over->has_lost_payloads);
}

TEST_F(KeptPayloadsTest, ABatchThatMustStayGivesThem) {
  const ThreadRoleScope io_thread(kIoThread);
  const auto pinned = add_over("pinned", kEach);
  retention_.pin_while([](std::uint64_t) { return true; });
  tenant().account.set_limit(Resource::kQueuedBytes, 1);
  retention_.limits_changed();
  EXPECT_TRUE(pinned->has_lost_payloads);
  EXPECT_EQ(used(), 0U);
  EXPECT_EQ(registry_.find(tenant(), "pinned").value(), pinned.get());
}

}  // namespace
}  // namespace locksley::daemon
