// What is charged for a command that is admitted, and refunded when it is refused later.
#include "daemon/server/batches/intake/admission.h"
#include "daemon/base/loop/io_thread.h"

#include <gmock/gmock.h>

#include <string>

#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

using ::testing::StartsWith;

class AdmissionTest : public ServerFixture {
 protected:
  // What the one user, and the daemon, are charged.
  struct Charged {
    std::uint64_t jobs, payload_bytes, batches, all_jobs, memory_bytes;
    bool operator==(const Charged&) const = default;
  };
  Charged charged() {
    return on_io_thread([&] {
      kIoThread.assert_held();
      Registry& registry = server_->batches().registry();
      const Tenant& tenant = registry.tenants().of("default");
      const Account& all = registry.tenants().account_of_all();
      return Charged{.jobs = tenant.account.used(Resource::kQueuedJobs),
                     .payload_bytes = tenant.account.used(Resource::kPayloadBytes),
                     .batches = tenant.account.used(Resource::kBatches),
                     .all_jobs = registry.charges().queued_jobs(),
                     .memory_bytes = all.used(Resource::kQueuedBytes)};
    });
  }
  static constexpr Charged kNothing{};
};

TEST_F(AdmissionTest, ACommandThatIsRefusedAfterItsAdmissionIsRefunded) {
  start();
  Client client(port_);
  for (const std::string command :
       {"SUBMIT echo AFTER unknown JOBS x yy", "SUBMIT echo AFTEROK unknown RANGE 0 9",
        "RUN echo AFTER unknown JOBS x", "OPEN echo AFTER unknown"}) {
    EXPECT_THAT(client.ask(command), StartsWith("-NOBATCH")) << command;
    EXPECT_EQ(charged(), kNothing) << command;
  }
}

TEST_F(AdmissionTest, ARangeWithoutJobsHasNoPayloadThatIsTooLong) {
  start([](config::Config& config) { config.limits.max_payload = config::Bytes{3}; });
  Client client(port_);
  EXPECT_THAT(client.ask("SUBMIT echo RANGE 5 6 abcd{}"), StartsWith("-TOOBIG bytes of a payload: 5"));
  client.send("SUBMIT echo ID a RANGE 5 5 abcd{}\r\n");
  EXPECT_EQ(client.bulk(), "a");
  client.send("SUBMIT echo ID b RANGE -9223372036854775808 -9223372036854775808 abcd{}\r\n");
  EXPECT_EQ(client.bulk(), "b");
}

// They need no room; what has no store must not look for them there.
TEST_F(AdmissionTest, EmptyPayloadsOfABatchInMemoryAloneFitAboveTheLimit) {
  start();
  constexpr std::uint64_t kTooMuch = 1ULL << 60;
  on_io_thread([&] {
    kIoThread.assert_held();
    server_->batches().registry().tenants().of("default").account.charge(Resource::kQueuedBytes, kTooMuch);
    return true;
  });
  Client client(port_);
  EXPECT_THAT(client.ask("SUBMIT echo JOBS x"), StartsWith("-QUEUEFULL"));
  client.send("SUBMIT echo ID submitted JOBS '' ''\r\n");
  EXPECT_EQ(client.bulk(), "submitted");
  client.send("OPEN echo ID open\r\n");
  EXPECT_EQ(client.bulk(), "open");
  EXPECT_EQ(client.ask("ADD open '' ''"), ":2");
  EXPECT_EQ(client.ask("CLOSE open"), ":2");
  client.send("WAIT submitted\r\n");
  EXPECT_THAT(client.line(), StartsWith("*"));
  Client other(port_);
  other.send("WAIT open\r\n");
  EXPECT_THAT(other.line(), StartsWith("*"));
  on_io_thread([&] {
    kIoThread.assert_held();
    server_->batches().registry().tenants().of("default").account.refund(Resource::kQueuedBytes, kTooMuch);
    return true;
  });
}

TEST_F(AdmissionTest, ABatchBearsTheChargeUntilItsEnd) {
  start();
  Client client(port_);
  client.send("SUBMIT hold ID b JOBS x yy zzz\r\n");
  EXPECT_EQ(client.bulk(), "b");
  const Charged during = charged();
  EXPECT_EQ(during.jobs, 3u);
  EXPECT_EQ(during.payload_bytes, 6u);
  EXPECT_EQ(during.batches, 1u);
  EXPECT_EQ(during.all_jobs, 3u);
  EXPECT_GE(during.memory_bytes, 6u);
  client.ask("CANCEL b");
  EXPECT_THAT(client.ask("WAIT b"), StartsWith("*"));
  EXPECT_EQ(charged(), kNothing);
}

}  // namespace
}  // namespace locksley::daemon
