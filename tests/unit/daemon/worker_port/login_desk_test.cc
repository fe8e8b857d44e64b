// Logins at the port for workers, and the users that its thread knows.
#include "daemon/worker_port/login_desk.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "daemon/server/state/password_login.h"
#include "daemon/worker_port/worker_directory.h"
#include "tests/support/server_fixture.h"

namespace locksley::daemon {
namespace {

class LoginDeskTest : public ServerFixture {
 protected:
  void start_with_alice() {
    start([](config::Config& config) {
      config.users["alice"].certificate = "alice's laptop";
      config.users["alice"].max_clients = config::Limit{1};
      config.users["bob"].certificate = "bob's laptop";
    });
  }
  // By the certificate of this name.
  LoginAnswer log_in(const std::string& certificate, const ConnectionPlace& place = {}) {
    return on_io_thread([&] {
      kIoThread.assert_held();
      LoginAnswer result;
      LoginDesk(server_->state())
          .ask({.by = Credential::kCertificate, .name = certificate, .place = place},
               [&result](LoginAnswer answer) { result = std::move(answer); });
      return result;
    });
  }
  std::uint64_t connections_of(const std::string& user) {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return server_->batches().registry().tenants().of(user).account.used(Resource::kConnections);
    });
  }
  std::shared_ptr<const WorkerDirectory> directory() {
    return on_io_thread([&] {
      kIoThread.assert_held();
      return WorkerDirectory::make(server_->state(), nullptr, "queue:7771");
    });
  }
  void reconfigure(const std::function<void(config::Config&)>& change) {
    on_io_thread([&] {
      kIoThread.assert_held();
      config::Config config = server_->config();
      change(config);
      server_->reconfigure(config, {.users = true});
      return true;
    });
  }
};

TEST_F(LoginDeskTest, APeerThatLogsInOnceMoreIsCountedOnce) {
  start_with_alice();
  LoginAnswer first = log_in("alice's laptop");
  ASSERT_NE(first.user, nullptr);
  EXPECT_EQ(log_in("alice's laptop").refusal, kTooManyConnections) << "another peer";
  LoginAnswer again = log_in("alice's laptop", first.place);
  ASSERT_NE(again.user, nullptr) << again.refusal;
  EXPECT_EQ(connections_of("alice"), 1u);
  const LoginAnswer as_another = log_in("bob's laptop", again.place);
  ASSERT_NE(as_another.user, nullptr);
  EXPECT_EQ(connections_of("bob"), 1u);
  first = again = {};
  EXPECT_EQ(connections_of("alice"), 0u);
}

TEST_F(LoginDeskTest, TheDirectoryHasEachUserAsItWasWhenItWasMade) {
  start_with_alice();
  const UserRef alice = log_in("alice's laptop").user;
  EXPECT_EQ(directory()->current_of(*alice), alice);
  reconfigure([](config::Config& config) { config.users["alice"].certificate = "alice's desktop"; });
  const UserRef changed = directory()->current_of(*alice);
  ASSERT_NE(changed, nullptr);
  EXPECT_EQ(changed->certificate(), "alice's desktop");
  reconfigure([](config::Config& config) { config.users.erase("alice"); });
  EXPECT_EQ(directory()->current_of(*alice), nullptr);
}

TEST_F(LoginDeskTest, WhoeverWasLoggedInWithoutUsersIsNobodyWhereThereAreSome) {
  start();
  const UserRef everybody = directory()->everybody;
  EXPECT_EQ(directory()->current_of(*everybody), everybody);
  // Of the same name.
  reconfigure([](config::Config& config) { config.users["default"].password_hash = "a hash"; });
  EXPECT_EQ(directory()->current_of(*everybody), nullptr);
}

}  // namespace
}  // namespace locksley::daemon
