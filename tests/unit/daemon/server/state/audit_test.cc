// How many lines of the audit a user can cause.
#include "daemon/server/state/audit.h"

#include <gtest/gtest.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "daemon/base/log/log_line.h"
#include "daemon/base/time.h"
#include "daemon/server/accounts/users.h"

namespace locksley::daemon {
namespace {

class LinesSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  std::vector<std::string> lines;

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    lines.emplace_back(message.payload.data(), message.payload.size());
  }
  void flush_() override {}
};

std::string field_of(const std::string& line, std::string_view wanted) {
  const LogParts parts = take_apart(line);
  for (const auto& [name, value, is_number] : parts.fields) {
    if (name == wanted) return std::string(value);
  }
  return "none";
}

TEST(AuditTest, ItsLinesAreWrittenWhateverTheLevelOfTheLogIs) {
  const ThreadRoleScope io_thread(kIoThread);
  Tenants tenants;
  const User everybody(tenants.of("default"));
  const auto sink = std::make_shared<LinesSink>();
  spdlog::logger log("test", sink);
  log.set_level(spdlog::level::err);
  Audit audit(log);
  log.set_level(spdlog::level::off);
  const auto entry = audit.begin(everybody, "peer", Audit::Kind::kOther);
  ASSERT_NE(entry, nullptr);
  entry->command = "FORGET";
  audit.write(*entry);
  audit.refused_by_store(nullptr, "peer", 3);
  ASSERT_EQ(sink->lines.size(), 2U);
  EXPECT_EQ(field_of(sink->lines.front(), "command"), "FORGET");
  audit.set_on(false);
  EXPECT_EQ(audit.begin(everybody, "peer", Audit::Kind::kOther), nullptr);
}

TEST(AuditTest, RefusalsOfTheStoreHaveALimitForEachUser) {
  const ThreadRoleScope io_thread(kIoThread);
  Tenants tenants;
  Users users{tenants};
  config::User user;
  user.password_hash = "hash";
  users.replace({{"alice", user}, {"bob", user}});
  const auto sink = std::make_shared<LinesSink>();
  Audit audit(spdlog::logger("test", sink));
  constexpr std::uint64_t kMany = 1000;

  const Instant began = now();
  for (std::uint64_t i = 0; i < kMany; ++i) audit.refused_by_store(users.find("alice").get(), "peer", 3);
  const auto whole_seconds = static_cast<std::uint64_t>((now() - began) / std::chrono::seconds(1));
  const std::uint64_t of_alice = sink->lines.size();
  EXPECT_GE(of_alice, Audit::kMostRefusals);
  EXPECT_LE(of_alice, Audit::kMostRefusals * (whole_seconds + 2)) << "so many each second that began";
  EXPECT_EQ(field_of(sink->lines.front(), "user"), "alice");
  EXPECT_EQ(field_of(sink->lines.front(), "commands"), "3");
  EXPECT_EQ(field_of(sink->lines.front(), "unlogged"), "0");

  // Neither another user's line is left out for that, nor that of a connection whose user is
  // removed.
  audit.refused_by_store(users.find("bob").get(), "peer", 1);
  audit.refused_by_store(nullptr, "peer", 1);
  ASSERT_EQ(sink->lines.size(), of_alice + 2);
  EXPECT_EQ(field_of(sink->lines[of_alice], "user"), "bob");
  // Nor a line of a command.
  EXPECT_NE(audit.begin(*users.find("alice"), "peer", Audit::Kind::kOther), nullptr);
}

}  // namespace
}  // namespace locksley::daemon
