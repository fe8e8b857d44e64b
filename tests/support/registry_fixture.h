// A registry of batches without a server: the fixture for tests of the parts that work on it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/batch/handler.h"
#include "core/lane/lane.h"
#include "daemon/base/loop/io_thread.h"
#include "daemon/metrics/server_stats.h"
#include "daemon/server/accounts/tenants.h"
#include "daemon/server/payloads/fixed_payloads.h"
#include "daemon/server/records/registry.h"

namespace locksley::daemon {

// The test's thread plays the I/O thread. No job runs; the test says when a batch is over.
class RegistryFixture : public ::testing::Test {
 protected:
  std::shared_ptr<BatchRecord> add(const std::string& id, const std::string& tenant = "default",
                                   std::unique_ptr<BatchJournal> journal = nullptr)
      LOCKSLEY_REQUIRES(kIoThread) {
    BatchOptions options;
    options.id = id;
    options.tenant = tenant;
    auto record = std::make_shared<BatchRecord>(
        std::move(options), handler_, std::make_unique<RangedPayloads>(RangeJobs{}), nullptr, lane_,
        BatchRecord::Origin::kSubmit, registry_.numbers().take(), std::move(journal));
    registry_.add(record);
    return record;
  }
  // Ends the batch's record, and tells the registry.
  void end(BatchRecord& record) LOCKSLEY_REQUIRES(kIoThread) {
    record.close();
    EXPECT_TRUE(registry_.update(record, record.status(), now_));
  }

  Tenant& tenant(const std::string& name = "default") LOCKSLEY_REQUIRES(kIoThread) {
    return registry_.tenants().of(name);
  }

  Instant now_{std::chrono::seconds(1000)};
  std::vector<std::string> names_ = {"echo"};
  ServerStats stats_{names_};
  Handler handler_{"echo", "", [](JobContext&, std::string_view) {}};
  Lane lane_{"cpu", FairRing::Options{}};
  Tenants tenants_;
  Registry registry_{tenants_, stats_};
};

}  // namespace locksley::daemon
